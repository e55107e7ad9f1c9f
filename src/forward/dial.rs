//! From a name to a connection: looked up once, every answer checked, and nothing else dialled.
//!
//! Any fetch that follows a name of others goes this way: the forward proxy's, and those of look-ups over HTTP.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::net::{TcpStream, UdpSocket, lookup_host};
use tokio::time::{Instant, timeout, timeout_at};

use crate::layers::egress::Host;

/// Most addresses of one name that are tried, one after another.
const MOST_TRIED: usize = 8;

/// Who says which addresses a name has.
pub trait Resolver: Send + Sync {
    /// Every address of the name, in the order in which to try them. The name is in lower case, as A-labels, without a
    /// trailing dot.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The system's resolver (`getaddrinfo`), with its hosts file and its own cache.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// Who opens a connection.
pub trait Connect: Send + Sync {
    /// A connection to this address, and to no other.
    fn connect(&self, to: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>>;
}

/// TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tcp;

impl Connect for Tcp {
    fn connect(&self, to: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>> {
        Box::pin(TcpStream::connect(to))
    }
}

/// The network that a dialler uses.
#[derive(Clone)]
pub struct Network {
    /// Names to addresses.
    pub resolver: Arc<dyn Resolver>,
    /// Addresses to connections.
    pub connect: Arc<dyn Connect>,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            resolver: Arc::new(SystemResolver),
            connect: Arc::new(Tcp),
        }
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").finish_non_exhaustive()
    }
}

/// Addresses that have passed their check. Only a [`Dialler`] makes one, and it dials nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked(Vec<SocketAddr>);

impl Checked {
    /// The addresses, in the order in which they are tried.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.0
    }
}

/// Why a host cannot be dialled.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError<E> {
    /// The name has no address, or none was found in time.
    #[error("no address: {0}")]
    Unresolved(String),
    /// The check refused an address.
    #[error("{0}")]
    Refused(E),
    /// An address leads to one of this process's own listeners.
    #[error("the address is one of this process's own listeners")]
    Own,
}

/// Looks names up and dials what was checked.
#[derive(Clone, Debug)]
pub struct Dialler {
    network: Network,
    own: Arc<[SocketAddr]>,
    limit: Duration,
}

impl Dialler {
    /// `own`: listeners of this process, which are never dialled. `limit`: for a look-up, and again for all attempts to
    /// connect.
    pub fn new(network: Network, own: impl Into<Arc<[SocketAddr]>>, limit: Duration) -> Self {
        Self {
            network,
            own: own.into(),
            limit,
        }
    }

    /// Looks the host up, once, and has `check` look at every answer: it gives back those that may be dialled, or refuses.
    /// An IP address is its own answer.
    ///
    /// # Errors
    /// No answer, an answer that `check` refuses, or one that leads to this process.
    pub async fn check<E>(
        &self,
        host: &Host,
        port: u16,
        check: impl FnOnce(&[IpAddr]) -> Result<Vec<IpAddr>, E>,
    ) -> Result<Checked, CheckError<E>> {
        let answers = match host {
            Host::Ip(address) => vec![*address],
            Host::Domain(name) => {
                let asked = timeout(self.limit, self.network.resolver.resolve(name)).await;
                let unresolved =
                    |error: &dyn fmt::Display| CheckError::Unresolved(error.to_string());
                let mut answers = asked
                    .map_err(|_| unresolved(&"the look-up took too long"))?
                    .map_err(|error| unresolved(&error))?;
                let mut seen = HashSet::new();
                answers.retain(|address| seen.insert(*address));
                if answers.is_empty() {
                    return Err(unresolved(&"the look-up gave none"));
                }
                answers
            }
        };
        let passed = check(&answers).map_err(CheckError::Refused)?;
        let mut addresses = Vec::new();
        // What the check gives back and was no answer is not dialled.
        for address in passed.into_iter().filter(|one| answers.contains(one)) {
            let address = SocketAddr::new(address, port);
            if self.is_own(address).await {
                return Err(CheckError::Own);
            }
            addresses.push(address);
        }
        if addresses.is_empty() {
            return Err(CheckError::Unresolved(
                "no address may be dialled".to_owned(),
            ));
        }
        addresses.truncate(MOST_TRIED);
        Ok(Checked(addresses))
    }

    async fn is_own(&self, address: SocketAddr) -> bool {
        for own in self.own.iter().filter(|own| own.port() == address.port()) {
            let same = own.ip().to_canonical() == address.ip().to_canonical();
            // A listener on every address has all that this machine has, and on loopback every one leads to it.
            let everywhere = own.ip().is_unspecified() && is_local(address.ip()).await;
            if same || everywhere || address.ip().is_unspecified() {
                return true;
            }
        }
        false
    }

    /// Tries the addresses in their order: each gets its share of the time that is left.
    ///
    /// # Errors
    /// The last address's error, or that the time ran out.
    pub async fn dial(&self, checked: &Checked) -> io::Result<TcpStream> {
        let end = Instant::now() + self.limit;
        let mut left = u32::try_from(checked.0.len()).unwrap_or(u32::MAX).max(1);
        let mut last = io::Error::new(io::ErrorKind::TimedOut, "no connection in time");
        for address in &checked.0 {
            let share = end.saturating_duration_since(Instant::now()) / left;
            left = left.saturating_sub(1).max(1);
            let connecting = self.network.connect.connect(*address);
            match timeout_at(Instant::now() + share, connecting).await {
                Ok(Ok(stream)) => {
                    // What passes is small and awaited.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => last = error,
                Err(_) => {}
            }
        }
        Err(last)
    }
}

/// Whether the address is one of this machine's: only then can a socket be bound to it.
async fn is_local(address: IpAddr) -> bool {
    address.is_loopback() || UdpSocket::bind((address, 0)).await.is_ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::net::TcpListener;

    use super::*;

    /// Answers from a list, and says how often it was asked.
    struct Listed(Vec<IpAddr>, Mutex<usize>);

    impl Resolver for Listed {
        fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
            *self.1.lock().unwrap() += 1;
            let found = self.0.clone();
            Box::pin(async move { Ok(found) })
        }
    }

    /// Leads every address but the dead one to a listener, and keeps what was dialled.
    struct Led {
        to: SocketAddr,
        dead: IpAddr,
        dialled: Mutex<Vec<SocketAddr>>,
    }

    impl Connect for Led {
        fn connect(&self, to: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>> {
            self.dialled.lock().unwrap().push(to);
            if to.ip() == self.dead {
                return Box::pin(std::future::pending());
            }
            Box::pin(TcpStream::connect(self.to))
        }
    }

    fn ips(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[expect(
        clippy::unnecessary_wraps,
        reason = "it stands where a check may refuse"
    )]
    fn all(answers: &[IpAddr]) -> Result<Vec<IpAddr>, String> {
        Ok(answers.to_vec())
    }

    #[tokio::test]
    async fn a_silent_address_leaves_time_for_the_next() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let resolver = Arc::new(Listed(
            ips(&["192.0.2.1", "192.0.2.2", "192.0.2.1"]),
            Mutex::default(),
        ));
        let connect = Arc::new(Led {
            to: listener.local_addr().unwrap(),
            dead: ips(&["192.0.2.1"])[0],
            dialled: Mutex::default(),
        });
        let network = Network {
            resolver: Arc::clone(&resolver) as _,
            connect: Arc::clone(&connect) as _,
        };
        let dialler = Dialler::new(network, [], Duration::from_millis(200));
        let host = Host::Domain("a.example".to_owned());
        let checked = dialler.check(&host, 443, all).await.unwrap();
        dialler.dial(&checked).await.unwrap();
        let attempts: Vec<_> = connect
            .dialled
            .lock()
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(attempts, ["192.0.2.1:443", "192.0.2.2:443"]);
        assert_eq!(*resolver.1.lock().unwrap(), 1);
    }

    #[tokio::test]
    async fn own_listeners_are_never_dialled() {
        let own: [SocketAddr; 3] = [
            "127.0.0.1:9090".parse().unwrap(),
            "0.0.0.0:8080".parse().unwrap(),
            "[::]:8081".parse().unwrap(),
        ];
        let dialler = Dialler::new(Network::default(), own, Duration::from_secs(1));
        for (address, port, expected) in [
            ("127.0.0.1", 9090, true),
            ("::ffff:127.0.0.1", 9090, true),
            ("127.0.0.1", 9091, false),
            ("127.0.0.7", 8080, true),
            ("0.0.0.0", 9090, true),
            ("::1", 8081, true),
            ("192.0.2.1", 8080, false),
        ] {
            let host = Host::Ip(address.parse().unwrap());
            let checked = dialler.check(&host, port, all).await;
            assert_eq!(
                checked == Err(CheckError::Own),
                expected,
                "{address}:{port}"
            );
        }
    }

    #[tokio::test]
    async fn what_is_no_answer_is_not_dialled() {
        let resolver = Arc::new(Listed(ips(&["192.0.2.1"]), Mutex::default()));
        let network = Network {
            resolver,
            ..Network::default()
        };
        let dialler = Dialler::new(network, [], Duration::from_secs(1));
        let host = Host::Domain("a.example".to_owned());
        let other = |_: &[IpAddr]| Ok::<_, String>(ips(&["192.0.2.9"]));
        assert!(dialler.check(&host, 443, other).await.is_err());
        let refused = dialler.check(&host, 443, |_| Err("no")).await;
        assert_eq!(refused, Err(CheckError::Refused("no")));
    }
}
