//! TLS between agent and proxy: the proxy's own certificate, and the client's where it must show one.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::support::rig::config;
use crate::support::upstream::{Upstream, json};
use crate::world::{Echo, POLICY, PUBLIC, Rig, certificates};

fn listening(folder: &Path, more: &str) -> String {
    let file = |name: &str| folder.join(name).display().to_string();
    format!(
        "listen: {{forward: \"127.0.0.1:0\", forward_tls: {{certificate: \"{}\", key: \"{}\"{more}}}}}",
        file("server.pem"),
        file("server.key")
    )
}

/// A connection to the listener itself.
async fn spoken(
    rig: &Rig,
    trust: &Path,
    own: Option<&Path>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(trust.join("ca.pem")).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some(folder) => {
            let chain = CertificateDer::pem_file_iter(folder.join("server.pem")).unwrap();
            let key = PrivateKeyDer::from_pem_file(folder.join("server.key")).unwrap();
            builder
                .with_client_auth_cert(chain.map(Result::unwrap).collect(), key)
                .unwrap()
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let stream = TcpStream::connect(rig.forward()).await.unwrap();
    let name = ServerName::try_from("proxy.shop.test").unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
}

/// The head of the answer.
async fn asked<S: AsyncReadExt + AsyncWriteExt + Unpin>(stream: &mut S, head: &str) -> String {
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(answer).unwrap()
}

const GET: &str = "GET http://plain.shop.test/ HTTP/1.1\r\nhost: plain.shop.test\r\n\r\n";
const CONNECT: &str = "CONNECT pay.shop.test:443 HTTP/1.1\r\nhost: pay.shop.test:443\r\n\r\n";

#[tokio::test]
async fn the_listener_speaks_tls_and_nothing_else() {
    let own = certificates("proxy.shop.test");
    let rig = Rig::of(
        POLICY,
        &config("http://127.0.0.1:1", &listening(own.path(), "")),
    )
    .await
    .unwrap();
    let upstream = Upstream::start(|_| json("{}")).await;
    rig.world.place(&format!("{PUBLIC}:80"), upstream.address);
    let mut stream = spoken(&rig, own.path(), None).await.unwrap();
    // HTTP/2 is not offered here.
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    assert!(asked(&mut stream, GET).await.starts_with("HTTP/1.1 200 "));
    let mut plain = TcpStream::connect(rig.forward()).await.unwrap();
    plain.write_all(GET.as_bytes()).await.unwrap();
    let mut rest = Vec::new();
    let _ = plain.read_to_end(&mut rest).await;
    assert!(!rest.starts_with(b"HTTP/"), "{rest:?}");
    assert_eq!(upstream.received().len(), 1);
}

#[tokio::test]
async fn a_tunnel_runs_inside_it() {
    let own = certificates("proxy.shop.test");
    let rig = Rig::of(
        POLICY,
        &config("http://127.0.0.1:1", &listening(own.path(), "")),
    )
    .await
    .unwrap();
    let echo = Echo::start("pay.shop.test").await;
    rig.world.place(&format!("{PUBLIC}:443"), echo.address);
    let mut outer = spoken(&rig, own.path(), None).await.unwrap();
    assert!(
        asked(&mut outer, CONNECT)
            .await
            .starts_with("HTTP/1.1 200 ")
    );
    let config = Arc::new(echo.client(|_| {}));
    let name = ServerName::try_from("pay.shop.test").unwrap();
    let mut inner = TlsConnector::from(config)
        .connect(name, outer)
        .await
        .unwrap();
    let said = vec![b'x'; 100_000];
    let (mut reads, mut writes) = tokio::io::split(&mut inner);
    let writing = async {
        writes.write_all(&said).await.unwrap();
        writes.shutdown().await.unwrap();
    };
    let mut heard = Vec::new();
    let (read, ()) = tokio::join!(reads.read_to_end(&mut heard), writing);
    read.unwrap();
    assert_eq!(heard.len(), said.len());
}

#[tokio::test]
async fn a_client_is_known_by_its_certificate() {
    let (own, agents) = (
        certificates("proxy.shop.test"),
        certificates("desk.agents.test"),
    );
    let authority = agents.path().join("ca.pem").display().to_string();
    let listen = listening(own.path(), &format!(", client_ca: \"{authority}\""));
    let principal = "principal: {mtls: {names: [{dns: desk.agents.test, subject: ann}]}}";
    let config = format!("{listen}\n{principal}\n");
    let policy = POLICY.replace("tools: [{tool: '*', effect: read}]\n", "");
    let rig = Rig::of(&policy, &config).await.unwrap();
    let upstream = Upstream::start(|_| json("{}")).await;
    rig.world.place(&format!("{PUBLIC}:80"), upstream.address);
    let mut stream = spoken(&rig, own.path(), Some(agents.path())).await.unwrap();
    assert!(asked(&mut stream, GET).await.starts_with("HTTP/1.1 200 "));
    // Of TLS 1.3 a client learns with its first read that it was not let in.
    let mut heard = Vec::new();
    if let Ok(mut stream) = spoken(&rig, own.path(), None).await {
        let _ = stream.write_all(GET.as_bytes()).await;
        let _ = stream.read_to_end(&mut heard).await;
    }
    assert!(heard.is_empty());
    assert_eq!(upstream.received().len(), 1);
}
