//! The stores, counted, with what the settings alone tell them: where upstreams are, what documents describe, whose signatures count, and who may
//! approve now.

use std::sync::Arc;

use super::counted::Counted;
use crate::approvals::People;
use crate::layers::injection::MarkerKey;
use crate::metrics::Metrics;
use crate::settings::{RouteProtocol, Settings};
use crate::store::Stores;
use crate::store::definitions::Definitions;
use crate::store::tickets::Directory;

/// The stores with all of it.
pub(super) fn furnished(
    settings: &Settings,
    (people, metrics): (&Arc<People>, &Arc<Metrics>),
    mut stores: Stores,
) -> Stores {
    let clock = &stores.clock;
    stores.tickets = stores
        .tickets
        .map(|store| Counted::over(store, metrics, clock));
    let origins = settings.upstreams.iter().filter_map(|(name, upstream)| {
        let scheme = upstream.url.scheme_str()?;
        let authority = upstream.url.authority()?;
        let host = authority.host().to_ascii_lowercase();
        let usual = if scheme == "https" { 443 } else { 80 };
        let port = authority.port_u16().unwrap_or(usual);
        Some((name.clone(), format!("{scheme}://{host}:{port}")))
    });
    stores.origins = Arc::new(origins.collect());
    if let Some(key) = &settings.spotlight_key {
        stores.marker_key = MarkerKey::new(&key.0);
    }
    let described = settings.routes.iter().flat_map(|route| {
        let tools = match &route.protocol {
            RouteProtocol::HttpTools(http) => &http.tools[..],
            _ => &[],
        };
        tools.iter().filter_map(|tool| {
            let hash = Arc::clone(tool.definition.as_ref()?);
            Some((route.name.clone(), tool.tool.clone()?, hash))
        })
    });
    stores.definitions = Arc::new(Definitions::described(described));
    if let Some(tickets) = &settings.tickets {
        stores.issuers = tickets.issuers.clone().into();
    }
    stores.directory = Arc::clone(people) as Arc<dyn Directory>;
    stores
}
