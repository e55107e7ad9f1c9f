//! How many connections agents may have: in all, and from one address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::metrics::{ConnectionLimit, Metrics};
use crate::settings::Limits;

/// The connections that are open.
#[derive(Clone, Debug)]
pub(super) struct Places(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    most: usize,
    most_of_one: usize,
    metrics: Arc<Metrics>,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// An address without connections has no entry.
    by_address: HashMap<IpAddr, usize>,
}

/// The place of one connection. Dropped, it is free again.
#[derive(Debug)]
pub(super) struct Place {
    places: Places,
    address: IpAddr,
}

impl Places {
    pub(super) fn new(limits: &Limits, metrics: Arc<Metrics>) -> Self {
        Self(Arc::new(Shared {
            most: limits.connections,
            most_of_one: limits.connections_per_address,
            metrics,
            taken: Mutex::default(),
        }))
    }

    /// A place for a connection from this address; counted as refused where there is none.
    pub(super) fn take(&self, address: IpAddr) -> Option<Place> {
        let address = holder(address);
        let mut taken = self.taken();
        let own = taken.by_address.get(&address).copied().unwrap_or(0);
        let over = if taken.all >= self.0.most {
            Some(ConnectionLimit::All)
        } else if own >= self.0.most_of_one {
            Some(ConnectionLimit::Address)
        } else {
            None
        };
        if let Some(limit) = over {
            self.0.metrics.connection_refused(limit);
            return None;
        }
        taken.all += 1;
        taken.by_address.insert(address, own + 1);
        drop(taken);
        self.0.metrics.connected();
        Some(Place {
            places: self.clone(),
            address,
        })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.all -= 1;
        if let Some(own) = taken.by_address.get_mut(&self.address) {
            *own -= 1;
            if *own == 0 {
                taken.by_address.remove(&self.address);
            }
        }
        drop(taken);
        self.places.0.metrics.disconnected();
    }
}

/// Whom an address stands for: one host has all of an IPv6 network of 64 bits (RFC 4291 section 2.5.4).
fn holder(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) => {
            let network = u128::from(six) & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from(network))
        }
        four @ IpAddr::V4(_) => four,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(most: usize, most_of_one: usize) -> (Places, Arc<Metrics>) {
        let metrics = Metrics::new();
        let limits = Limits {
            connections: most,
            connections_per_address: most_of_one,
            ..Limits::default()
        };
        (Places::new(&limits, Arc::clone(&metrics)), metrics)
    }

    fn at(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_place_is_free_again_when_its_connection_ends() {
        let (places, metrics) = places(3, 2);
        let one = places.take(at("10.0.0.1")).unwrap();
        let two = places.take(at("::ffff:10.0.0.1")).unwrap();
        assert!(places.take(at("10.0.0.1")).is_none());
        let three = places.take(at("10.0.0.2")).unwrap();
        assert!(places.take(at("10.0.0.3")).is_none());
        let rendered = metrics.render();
        for line in [
            "holdpoint_connections 3\n",
            "holdpoint_connections_refused_total{limit=\"connections\"} 1\n",
            "holdpoint_connections_refused_total{limit=\"connections_per_address\"} 1\n",
        ] {
            assert!(rendered.contains(line), "{rendered}");
        }
        drop(one);
        assert!(places.take(at("10.0.0.1")).is_some());
        drop((two, three));
        assert!(places.taken().by_address.is_empty());
        assert!(metrics.render().contains("holdpoint_connections 0\n"));
    }

    #[test]
    fn a_host_with_many_addresses_of_ipv6_is_one() {
        let (places, _) = places(9, 1);
        let _one = places.take(at("2001:db8:0:1::1")).unwrap();
        assert!(places.take(at("2001:db8:0:1:ffff::2")).is_none());
        assert!(places.take(at("2001:db8:0:2::1")).is_some());
    }
}
