//! TLS on both sides: who is let in, whom the proxy trusts, which HTTP is spoken.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use holdpoint::serve;
use http::{Request, Response, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::http2::{get, speak};
use crate::support::client::request;
use crate::support::rig::{OFF, Rig, config, load};
use crate::support::upstream::{Upstream, json};

/// An authority and what it has signed, as files.
pub struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
        Self {
            folder,
            issuer: Issuer::new(params, key),
        }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes `NAME.pem` and `NAME.key` for a host.
    pub fn sign(&self, name: &str, host: &str) {
        self.sign_as(
            name,
            &CertificateParams::new(vec![host.to_owned()]).unwrap(),
        );
    }

    /// The same with these names.
    pub fn sign_as(&self, name: &str, params: &CertificateParams) {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(self.file(&format!("{name}.pem")), certificate.pem()).unwrap();
        std::fs::write(self.file(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }

    pub fn listen(&self, more: &str) -> String {
        let (certificate, key) = (self.file("proxy.pem"), self.file("proxy.key"));
        format!(
            "listen: {{tls: {{certificate: \"{}\", key: \"{}\"{more}}}}}",
            certificate.display(),
            key.display()
        )
    }
}

fn chain(path: &Path) -> Vec<CertificateDer<'static>> {
    let chain = CertificateDer::pem_file_iter(path).unwrap();
    chain.map(Result::unwrap).collect()
}

fn key(path: &Path) -> PrivateKeyDer<'static> {
    PrivateKeyDer::from_pem_file(path).unwrap()
}

/// A client that trusts the authority; `shows` a certificate of it.
pub async fn connect(
    rig: &Rig,
    authority: &Authority,
    shows: Option<&str>,
    alpn: &[&str],
) -> std::io::Result<TlsStream<TcpStream>> {
    dial(rig.agents(), authority, shows, alpn).await
}

async fn dial(
    address: SocketAddr,
    authority: &Authority,
    shows: Option<&str>,
    alpn: &[&str],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots
        .add(chain(&authority.file("ca.pem")).remove(0))
        .unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match shows {
        None => builder.with_no_client_auth(),
        Some(name) => builder
            .with_client_auth_cert(
                chain(&authority.file(&format!("{name}.pem"))),
                key(&authority.file(&format!("{name}.key"))),
            )
            .unwrap(),
    };
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
}

/// One request over HTTP/1.1; what comes back, until the connection ends.
pub async fn ask(mut stream: TlsStream<TcpStream>) -> std::io::Result<String> {
    let headers = [("connection", "close")];
    stream
        .write_all(&request("GET", "/shop/orders/1", &headers, ""))
        .await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn agents_speak_either_http_in_tls() {
    let upstream = Upstream::start(|_| json("{\"order\":1}")).await;
    let authority = Authority::new();
    authority.sign("proxy", "localhost");
    let rig = Rig::before(&upstream.url(), &authority.listen("")).await;
    for alpn in [&[][..], &["http/1.1"], &["http/1.1", "h2"]] {
        let stream = connect(&rig, &authority, None, alpn).await.unwrap();
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            continue;
        }
        let answer = ask(stream).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.ends_with("{\"order\":1}"), "{answer}");
    }
    let stream = connect(&rig, &authority, None, &["h2"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let mut sender = speak(stream).await;
    let answer = sender
        .send_request(get("https://localhost/shop/orders/1"))
        .await
        .unwrap();
    assert_eq!(
        (answer.status().as_u16(), answer.version()),
        (200, Version::HTTP_2)
    );
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(&body[..], b"{\"order\":1}");
    let received = upstream.received();
    assert!(
        received.last().unwrap().header("via")[0].starts_with("2.0 holdpoint-"),
        "{received:?}"
    );
}

#[tokio::test]
async fn approvers_have_a_certificate_of_their_own() {
    let upstream = Upstream::start(|_| json("{}")).await;
    let authority = Authority::new();
    authority.sign("proxy", "localhost");
    let (certificate, key) = (authority.file("proxy.pem"), authority.file("proxy.key"));
    let more = format!(
        "listen: {{approvers: {{address: \"127.0.0.1:1\", tls: {{certificate: \"{}\", key: \"{}\"}}}}}}
tickets: {{store: t.db}}
approvers: [{{subject: carol, key_env: APPROVER_KEY}}]",
        certificate.display(),
        key.display()
    );
    let rig = Rig::before(&upstream.url(), &more).await;
    let address = rig.running().addresses().approvers.unwrap();
    // One that says nothing holds up nobody.
    let _silent = TcpStream::connect(address).await.unwrap();
    for alpn in [&[][..], &["http/1.1", "h2"]] {
        let mut stream = dial(address, &authority, None, alpn).await.unwrap();
        let key = ("authorization", "Bearer an-approver-key-of-some-length");
        let asked = request("GET", "/v1/tickets", &[key, ("connection", "close")], "");
        stream.write_all(&asked).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("\"tickets\":[]"), "{answer}");
    }
    let mut plain = TcpStream::connect(address).await.unwrap();
    plain
        .write_all(&request("GET", "/v1/tickets", &[], ""))
        .await
        .unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}

#[tokio::test]
async fn what_is_no_tls_or_no_http_is_not_served() {
    let upstream = Upstream::start(|_| json("{}")).await;
    let authority = Authority::new();
    authority.sign("proxy", "localhost");
    let rig = Rig::before(&upstream.url(), &authority.listen("")).await;
    let mut plain = TcpStream::connect(rig.agents()).await.unwrap();
    plain
        .write_all(&request("GET", "/shop/orders/1", &[], ""))
        .await
        .unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    assert!(connect(&rig, &authority, None, &["h3"]).await.is_err());
    assert!(upstream.received().is_empty());
}

#[tokio::test]
async fn with_authorities_every_client_shows_a_certificate_of_theirs() {
    let upstream = Upstream::start(|_| json("{}")).await;
    let (ours, theirs) = (Authority::new(), Authority::new());
    ours.sign("proxy", "localhost");
    ours.sign("agent", "agent");
    theirs.sign("stranger", "agent");
    for file in ["stranger.pem", "stranger.key"] {
        std::fs::copy(theirs.file(file), ours.file(file)).unwrap();
    }
    let listen = ours.listen(&format!(
        ", client_ca: \"{}\"",
        ours.file("ca.pem").display()
    ));
    let rig = Rig::before(&upstream.url(), &listen).await;
    for shows in [None, Some("stranger")] {
        // With TLS 1.3 the client learns of it with the first bytes that it reads.
        let refused = match connect(&rig, &ours, shows, &[]).await {
            Ok(stream) => ask(stream).await.is_err(),
            Err(_) => true,
        };
        assert!(refused, "{shows:?}");
    }
    assert!(upstream.received().is_empty());
    let stream = connect(&rig, &ours, Some("agent"), &[]).await.unwrap();
    assert!(ask(stream).await.unwrap().starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn files_that_cannot_serve_are_named_at_start() {
    let authority = Authority::new();
    authority.sign("proxy", "localhost");
    authority.sign("other", "localhost");
    std::fs::write(authority.file("empty.pem"), "").unwrap();
    let file = |name: &str| format!("\"{}\"", authority.file(name).display());
    for (certificate, key, client_ca, expected) in [
        (
            "none.pem",
            "proxy.key",
            "ca.pem",
            vec!["`listen.tls.certificate`", "none.pem", "cannot be read"],
        ),
        (
            "proxy.pem",
            "none.key",
            "ca.pem",
            vec!["`listen.tls.key`", "none.key", "cannot be read"],
        ),
        (
            "proxy.pem",
            "other.key",
            "ca.pem",
            vec![
                "`listen.tls.certificate`",
                "private key of the first certificate",
            ],
        ),
        (
            "proxy.key",
            "proxy.key",
            "ca.pem",
            vec!["proxy.key", "holds no certificate"],
        ),
        (
            "proxy.pem",
            "proxy.pem",
            "ca.pem",
            vec!["proxy.pem", "holds no private key"],
        ),
        (
            "proxy.pem",
            "proxy.key",
            "empty.pem",
            vec![
                "`listen.tls.client_ca`",
                "empty.pem",
                "holds no certificate",
            ],
        ),
    ] {
        let (certificate, key, client_ca) = (file(certificate), file(key), file(client_ca));
        let listen = format!(
            "listen: {{tls: {{certificate: {certificate}, key: {key}, client_ca: {client_ca}}}}}"
        );
        let folder = tempfile::tempdir().unwrap();
        let (settings, policy) = load(folder.path(), &config("http://127.0.0.1:1", &listen), OFF);
        let stores = serve::open_stores(&settings).unwrap();
        let started = serve::start(Arc::new(settings), Arc::new(policy), stores).await;
        let problems = started.err().unwrap().to_string();
        for part in expected {
            assert!(problems.contains(part), "{part}: {problems}");
        }
        assert!(!problems.contains("BEGIN"), "{problems}");
    }
}

/// What a server in TLS saw of a request.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    version: Version,
    authority: String,
    server_name: Option<String>,
}

/// A server in TLS on `localhost`. `answers`: else each request is dropped unanswered.
async fn backend(
    authority: &Authority,
    alpn: &[&str],
    answers: bool,
) -> (String, Arc<Mutex<Vec<Seen>>>) {
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            chain(&authority.file("backend.pem")),
            key(&authority.file("backend.key")),
        )
        .unwrap();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!(
        "https://localhost:{}",
        listener.local_addr().unwrap().port()
    );
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(stream) = acceptor.accept(stream).await else {
                continue;
            };
            let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            let server_name = stream.get_ref().1.server_name().map(str::to_owned);
            let kept = Arc::clone(&kept);
            let service = service_fn(move |request: Request<Incoming>| {
                let (kept, server_name) = (Arc::clone(&kept), server_name.clone());
                async move {
                    let host = request
                        .headers()
                        .get("host")
                        .map(|host| host.to_str().unwrap());
                    let named = request.uri().authority().map(http::uri::Authority::as_str);
                    kept.lock().unwrap().push(Seen {
                        version: request.version(),
                        authority: named.or(host).unwrap().to_owned(),
                        server_name,
                    });
                    let body = Full::new(Bytes::from_static(b"{}"));
                    answers.then(|| Response::new(body)).ok_or("no answer")
                }
            });
            let io = TokioIo::new(stream);
            tokio::spawn(async move {
                if http2 {
                    let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    let _ = builder.serve_connection(io, service).await;
                } else {
                    let builder = hyper::server::conn::http1::Builder::new();
                    let _ = builder.serve_connection(io, service).await;
                }
            });
        }
    });
    (url, seen)
}

fn trusting(url: &str, authority: Option<&Authority>) -> String {
    let trusted = authority.map_or(String::new(), |authority| {
        format!(", tls: {{ca: \"{}\"}}", authority.file("ca.pem").display())
    });
    config(url, "").replace(
        &format!("shop: {{url: \"{url}\"}}"),
        &format!("shop: {{url: \"{url}\"{trusted}}}"),
    )
}

#[tokio::test]
async fn an_upstream_of_a_private_authority_is_spoken_to_as_it_offers() {
    for (alpn, version) in [
        (&["h2", "http/1.1"][..], Version::HTTP_2),
        (&["http/1.1"], Version::HTTP_11),
        (&[], Version::HTTP_11),
    ] {
        let authority = Authority::new();
        authority.sign("backend", "localhost");
        let (url, seen) = backend(&authority, alpn, true).await;
        let rig = Rig::start(&trusting(&url, Some(&authority)), OFF).await;
        for _ in 0..3 {
            let answer = rig.ask(request("POST", "/shop/send", &[], "{}")).await;
            assert_eq!((answer.status, answer.text()), (200, "{}"), "{alpn:?}");
        }
        let one = Seen {
            version,
            authority: url.trim_start_matches("https://").to_owned(),
            server_name: Some("localhost".to_owned()),
        };
        assert_eq!(*seen.lock().unwrap(), vec![one; 3]);
    }
}

#[tokio::test]
async fn an_upstream_that_is_not_trusted_gets_nothing() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    for (signer, trusted, host) in [
        (&theirs, Some(&ours), "localhost"),
        (&theirs, None, "localhost"),
        (&ours, Some(&ours), "other.example"),
    ] {
        signer.sign("backend", host);
        let (url, seen) = backend(signer, &["h2"], true).await;
        let rig = Rig::start(&trusting(&url, trusted), OFF).await;
        let refused = rig.ask(request("POST", "/shop/send", &[], "{}")).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (502, "upstream_unreachable"),
            "{host}"
        );
        assert!(seen.lock().unwrap().is_empty());
    }
}

#[tokio::test]
async fn over_http_2_too_a_request_is_sent_once() {
    let authority = Authority::new();
    authority.sign("backend", "localhost");
    let (url, seen) = backend(&authority, &["h2"], false).await;
    let rig = Rig::start(&trusting(&url, Some(&authority)), OFF).await;
    for count in 1..=3 {
        let refused = rig.ask(request("POST", "/shop/send", &[], "{}")).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (502, "upstream_broken")
        );
        assert_eq!(refused.header("x-should-retry"), Some("false"));
        assert_eq!(seen.lock().unwrap().len(), count);
    }
}

#[tokio::test]
async fn settings_of_tls_for_a_plain_upstream_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("holdpoint.yaml");
    let text = "policy: p.yaml
principal: {fixed: {subject: ann}}
upstreams: {shop: {url: \"http://shop\", tls: {ca: ca.pem}}}
routes: [{name: m, prefix: /, upstream: shop, protocol: openai_chat}]
";
    std::fs::write(&path, text).unwrap();
    let problems = holdpoint::settings::load(&path, &holdpoint::settings::Overrides::default());
    let shown = problems.unwrap_err().to_string();
    assert!(
        shown.contains("a URL without it") && shown.contains(":3:"),
        "{shown}"
    );

    let authority = Authority::new();
    std::fs::write(authority.file("ca.pem"), "nothing").unwrap();
    let (settings, _) = load(
        folder.path(),
        &trusting("https://localhost:1", Some(&authority)),
        OFF,
    );
    let shown = serve::open_stores(&settings).err().unwrap().to_string();
    assert!(shown.contains("`upstreams.shop.tls.ca`"), "{shown}");
}
