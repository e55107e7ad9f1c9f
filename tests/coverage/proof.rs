//! The proof itself.

use holdpoint::coverage;
use holdpoint::item::Leg;
use holdpoint::protocols::canary::Fate;

use super::shared::rig;

const ROUTES: &str = "upstreams: {up: {url: \"http://127.0.0.1:1\"}}
principal: {fixed: {subject: ann}}
routes:
  - {name: chat, prefix: /chat, upstream: up, protocol: openai_chat}
  - name: shop
    prefix: /shop
    upstream: up
    protocol: http_tools
    tools:
      - {tool: get_order, method: GET, path: \"/orders/{order_id}\"}
      - {method: POST, path: \"/tools/{tool}\"}
";

#[test]
fn every_cell_of_every_route_is_proved() {
    let folder = tempfile::tempdir().unwrap();
    let (settings, _) = rig::load(folder.path(), ROUTES, rig::OFF);
    let cells = coverage::prove(&settings).unwrap_or_else(|problems| panic!("{problems}"));
    for route in &settings.routes {
        for leg in [Leg::ToUpstream, Leg::ToAgent] {
            let judged = cells.iter().any(|cell| {
                cell.route == route.name && cell.leg == leg && matches!(cell.fate, Fate::Judged(_))
            });
            assert!(judged, "{}: nothing is judged {leg:?}", route.name);
        }
    }
}
