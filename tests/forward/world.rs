//! A network in which every name and address leads to this machine, and that keeps what was asked for and dialled.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use holdpoint::forward::{Connect, Network, Resolver};
use holdpoint::serve::{self, Extras, Running};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::support::client::{self, Answer, Client, request};
use crate::support::rig::{config, load};

/// A public address, as names of these tests have.
pub const PUBLIC: &str = "93.184.216.34";
/// Another one.
pub const OTHER: &str = "93.184.216.35";

pub const POLICY: &str = "version: 1
name: forward
layers: {catalog: off, identity: off, egress: enforce, recipients: off, ownership: off, injection: off, tickets: off}
lists:
  web: {hosts: [pay.shop.test, plain.shop.test, \"*.img.shop.test\"]}
forward: {allow: [web], schemes: [https, http]}
tools: [{tool: '*', effect: read}]
";

/// What names lead to and where addresses are. What happened.
#[derive(Default)]
pub struct World {
    /// Answers of a name in the order of queries; the last one stays.
    answers: Mutex<HashMap<String, VecDeque<Vec<IpAddr>>>>,
    /// Where an address really is; others refuse connections.
    places: Mutex<HashMap<SocketAddr, SocketAddr>>,
    asked: Mutex<Vec<String>>,
    dialled: Mutex<Vec<String>>,
}

impl World {
    pub fn name(&self, name: &str, answers: &[&[&str]]) {
        let answers = answers
            .iter()
            .map(|answer| answer.iter().map(|ip| ip.parse().unwrap()).collect());
        let answers = answers.collect();
        self.answers
            .lock()
            .unwrap()
            .insert(name.to_owned(), answers);
    }

    pub fn place(&self, address: &str, at: SocketAddr) {
        let mut places = self.places.lock().unwrap();
        places.insert(address.parse().unwrap(), at);
    }

    /// Names that were looked up.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// Addresses that were dialled.
    pub fn dialled(&self) -> Vec<String> {
        self.dialled.lock().unwrap().clone()
    }
}

/// The world as the proxy's network.
pub struct Wires(pub Arc<World>);

impl Resolver for Wires {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        self.0.asked.lock().unwrap().push(name.to_owned());
        let mut answers = self.0.answers.lock().unwrap();
        let found = answers.get_mut(name).map(|answers| {
            if answers.len() > 1 {
                answers.pop_front().unwrap()
            } else {
                answers.front().cloned().unwrap_or_default()
            }
        });
        let found = found.ok_or_else(|| io::Error::other("no such name"));
        Box::pin(std::future::ready(found))
    }
}

impl Connect for Wires {
    fn connect(&self, to: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>> {
        self.0.dialled.lock().unwrap().push(to.to_string());
        let place = self.0.places.lock().unwrap().get(&to).copied();
        Box::pin(async move {
            match place {
                Some(place) => TcpStream::connect(place).await,
                None => Err(io::ErrorKind::ConnectionRefused.into()),
            }
        })
    }
}

/// A server with a forward proxy in such a world.
pub struct Rig {
    pub world: Arc<World>,
    running: Option<Running>,
    _folder: TempDir,
}

impl Rig {
    pub async fn start(policy: &str, more: &str) -> Self {
        Self::among(policy, more)
            .await
            .unwrap_or_else(|problems| panic!("{problems}"))
    }

    /// As [`Rig::start`], or what is wrong.
    pub async fn among(policy: &str, more: &str) -> Result<Self, String> {
        let more = format!("listen: {{forward: \"127.0.0.1:0\"}}\n{more}");
        Self::of(policy, &config("http://127.0.0.1:1", &more)).await
    }

    /// The same with a whole config.
    pub async fn of(policy: &str, config: &str) -> Result<Self, String> {
        let folder = tempfile::tempdir().unwrap();
        let (settings, policy) = load(folder.path(), config, policy);
        let stores = serve::open_stores(&settings).unwrap();
        let world = Arc::new(World::default());
        world.name("pay.shop.test", &[&[PUBLIC]]);
        world.name("plain.shop.test", &[&[PUBLIC]]);
        let extras = Extras {
            network: Network {
                resolver: Arc::new(Wires(Arc::clone(&world))),
                connect: Arc::new(Wires(Arc::clone(&world))),
            },
            ..Extras::default()
        };
        let started = serve::start_with(Arc::new(settings), Arc::new(policy), stores, extras).await;
        let running = started.map_err(|problems| problems.to_string())?;
        Ok(Self {
            world,
            running: Some(running),
            _folder: folder,
        })
    }

    pub fn running(&self) -> &Running {
        self.running.as_ref().unwrap()
    }

    pub fn take(&mut self) -> Running {
        self.running.take().unwrap()
    }

    pub fn forward(&self) -> SocketAddr {
        self.running().addresses().forward.unwrap()
    }

    /// One request to the forward proxy, on a connection of its own.
    pub async fn ask(&self, request: impl AsRef<[u8]>) -> Answer {
        client::ask(self.forward(), request).await
    }

    /// `GET` of a whole URL with the `Host` that belongs to it.
    pub async fn get(&self, url: &str) -> Answer {
        let host = url.split('/').nth(2).unwrap();
        self.ask(format!("GET {url} HTTP/1.1\r\nhost: {host}\r\n\r\n"))
            .await
    }

    /// What a scrape shows.
    pub async fn scrape(&self) -> String {
        let request = request("GET", "/metrics", &[], "");
        let operations = self.running().addresses().operations;
        client::ask(operations, request).await.text().to_owned()
    }

    /// The value of a series of the forward listener.
    pub async fn count(&self, series: &str) -> u64 {
        let scrape = self.scrape().await;
        let line = scrape.lines().find(|line| line.starts_with(series));
        let value = line.and_then(|line| line.rsplit(' ').next());
        value
            .unwrap_or_else(|| panic!("{series}: {scrape}"))
            .parse()
            .unwrap()
    }

    pub async fn refusals(&self, code: &str) -> u64 {
        let series = format!("holdpoint_refusals_total{{code=\"{code}\",route=\"forward\"}}");
        self.count(&series).await
    }

    /// Waits until a code has been counted: a tunnel is refused after its head has been answered.
    pub async fn refused(&self, code: &str) {
        while self.refusals(code).await == 0 {
            tokio::task::yield_now().await;
        }
    }

    /// Asks for a tunnel: the head of the answer, and the connection behind it.
    pub async fn connect(&self, authority: &str) -> (String, TcpStream) {
        let head = format!("CONNECT {authority} HTTP/1.1\r\nhost: {authority}\r\n\r\n");
        self.connect_with(&head).await
    }

    pub async fn connect_with(&self, head: &str) -> (String, TcpStream) {
        let mut stream = TcpStream::connect(self.forward()).await.unwrap();
        stream.set_nodelay(true).unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(stream.read_u8().await.unwrap());
        }
        (String::from_utf8(answer).unwrap(), stream)
    }

    /// A tunnel that is open.
    pub async fn tunnel(&self, authority: &str) -> TcpStream {
        let (head, stream) = self.connect(authority).await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        stream
    }

    /// The status and code of a refused `CONNECT`.
    pub async fn refusal(&self, authority: &str) -> (u16, String) {
        let head = format!("CONNECT {authority} HTTP/1.1\r\nhost: {authority}\r\n\r\n");
        let mut client = Client::connect(self.forward()).await;
        client.send(head).await;
        let answer = client.answer().await;
        assert!(client.ended().await, "the connection goes on: {answer:?}");
        (answer.status, answer.code())
    }
}

/// A server in TLS that answers each connection with what it read, and says how many came.
pub struct Echo {
    pub address: SocketAddr,
    folder: TempDir,
    task: JoinHandle<()>,
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Echo {
    pub async fn start(name: &str) -> Self {
        let folder = certificates(name);
        let path = |file: &str| folder.path().join(file);
        let chain = CertificateDer::pem_file_iter(path("server.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(path("server.key")).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain.map(Result::unwrap).collect(), key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let acceptor = acceptor.clone();
                connections.spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let (mut reads, mut writes) = tokio::io::split(stream);
                    let _ = tokio::io::copy(&mut reads, &mut writes).await;
                    let _ = writes.shutdown().await;
                });
            }
        });
        Self {
            address,
            folder,
            task,
        }
    }

    /// The authority that has signed its certificate, in PEM.
    pub fn authority(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// A handshake with it under a name, over a tunnel.
    pub async fn speak(&self, stream: TcpStream, name: &str) -> io::Result<TlsStream<TcpStream>> {
        let config = self.client(|_| {});
        let name = ServerName::try_from(name.to_owned()).unwrap();
        TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
    }

    pub fn client(&self, change: impl FnOnce(&mut ClientConfig)) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(self.authority()).unwrap())
            .unwrap();
        let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        change(&mut config);
        config
    }
}

/// `server.pem` and `server.key` for a name, and the authority `ca.pem` that has signed it.
pub fn certificates(name: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // Two names: a certificate that is called as its issuer passes for one of its own.
    params
        .distinguished_name
        .push(DnType::CommonName, "authority");
    let key = KeyPair::generate().unwrap();
    let authority = params.self_signed(&key).unwrap();
    let issuer = Issuer::new(params, key);
    let own = KeyPair::generate().unwrap();
    let mut signed = CertificateParams::new(vec![name.to_owned()]).unwrap();
    signed.distinguished_name.push(DnType::CommonName, name);
    let signed = signed.signed_by(&own, &issuer).unwrap();
    for (file, text) in [
        ("ca.pem", authority.pem()),
        ("server.pem", signed.pem()),
        ("server.key", own.serialize_pem()),
    ] {
        std::fs::write(folder.path().join(file), text).unwrap();
    }
    folder
}

/// A peer that keeps every byte it gets and says nothing.
pub struct Keeper {
    pub address: SocketAddr,
    got: Arc<Mutex<Vec<u8>>>,
    task: JoinHandle<()>,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Keeper {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let got = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&got);
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let kept = Arc::clone(&kept);
                connections.spawn(async move {
                    let mut buffer = [0; 4096];
                    while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                        kept.lock().unwrap().extend_from_slice(&buffer[..length]);
                    }
                });
            }
        });
        Self { address, got, task }
    }

    /// How many bytes it has.
    pub fn count(&self) -> usize {
        self.got.lock().unwrap().len()
    }

    /// Waits for as many bytes as these: they must be these.
    pub async fn gets(&self, bytes: &[u8]) {
        while self.got.lock().unwrap().len() < bytes.len() {
            tokio::task::yield_now().await;
        }
        assert_eq!(*self.got.lock().unwrap(), bytes);
    }
}
