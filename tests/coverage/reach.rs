//! What the doctor says of layers is what the guard asks.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use holdpoint::coverage::looks;
use holdpoint::guard::{Guard, Parts};
use holdpoint::item::{
    Arguments, Exchange, Item, Leg, Located, ModelText, Origin, Place, ProviderTool, RouteKind,
    ToolCall, ToolDefinition, ToolOutput,
};
use holdpoint::policy::{self, Policy};
use holdpoint::principal::{Principal, Session};
use holdpoint::protocols::canary::ItemKind;
use holdpoint::source;
use holdpoint::verdict::LayerId;

const POLICY: &str = "version: 1
name: all
layers: {catalog: enforce, identity: shadow, egress: enforce, recipients: shadow, ownership: off, injection: enforce, tickets: shadow}
lists: {hosts: {hosts: [shop.example]}, staff: {email_domains: [shop.example]}}
tools:
  - {tool: gone, deny: true}
  - {tool: read, scopes: [files:read]}
  - {tool: fetch, egress: [{at: /url, allow: [hosts]}]}
  - {tool: mail, recipients: [{at: /to, kind: email, allow: [staff]}], ticket: {gate: approve, ttl: 15m}}
  - {tool: \"*\"}
injection: {redact: 0.6}
rendered: {images: [], links: [hosts]}
";

fn call(tool: &str) -> Item {
    Item::ToolCall(ToolCall::new(
        tool.into(),
        Arguments::read(Bytes::from_static(b"{}")).unwrap(),
    ))
}

/// The layers that the guard asks about any of these items.
async fn asked(policy: &Arc<Policy>, items: Vec<Item>) -> BTreeSet<LayerId> {
    let guard = Guard::new(Arc::clone(policy), &policy.modes, Parts::default()).unwrap();
    let located = |item| Located {
        place: Place::default(),
        item,
    };
    let exchange = Exchange {
        leg: Leg::ToUpstream,
        route: "shop".into(),
        kind: RouteKind::Http,
        upstream: "up".into(),
        session: Arc::new(Session {
            key: None,
            principal: Arc::new(Principal {
                tenant: "t".into(),
                issuer: "config".into(),
                subject: "ann".into(),
                agent: "bot".into(),
                actors: Vec::new(),
                scopes: BTreeSet::new(),
            }),
            grant: None,
        }),
        items: items.into_iter().map(located).collect(),
        evidence: None,
        headers: None,
    };
    let decision = guard.decide(&exchange).await.unwrap();
    let opinions = decision.rulings.iter().flat_map(|ruling| &ruling.opinions);
    opinions.map(|opinion| opinion.layer).collect()
}

#[tokio::test]
async fn the_layers_named_for_a_kind_are_those_that_judge_it() {
    let tree = source::parse("p.yaml", POLICY.to_owned()).unwrap();
    let checked = policy::check(tree).unwrap_or_else(|problems| panic!("{problems}"));
    let policy = Arc::new(checked.policy);
    let definition = |tool: &str| Item::Definition(ToolDefinition::new(tool, "runs"));
    let output = Item::ToolOutput(ToolOutput {
        tool: None,
        call_id: None,
        origin: Origin::Tool,
        text: "done".into(),
    });
    let provider = Item::ProviderTool(ProviderTool {
        kind: "web_search".into(),
        server: None,
    });
    let shown = Item::ModelText(ModelText::whole("![x](y.png)"));
    let calls = ["gone", "read", "fetch", "mail", "other"]
        .map(call)
        .to_vec();
    for (kind, items) in [
        (ItemKind::ToolCall, calls),
        (
            ItemKind::Definition,
            vec![definition("gone"), definition("read"), definition("mail")],
        ),
        (ItemKind::ToolOutput, vec![output]),
        (ItemKind::ProviderTool, vec![provider]),
        (ItemKind::ModelText, vec![shown]),
    ] {
        let said = looks(&policy, RouteKind::Http, kind);
        let named: BTreeSet<_> = said.iter().map(|look| look.layer).collect();
        assert_eq!(asked(&policy, items).await, named, "{kind:?}");
        assert!(!named.is_empty());
        for look in said {
            assert_eq!(look.mode, policy.modes.of(look.layer));
        }
    }
    // What holds for every item is asked about one that no rule names.
    let everywhere = looks(&policy, RouteKind::Http, ItemKind::ToolCall);
    assert!(everywhere.iter().all(|look| look.some));
}
