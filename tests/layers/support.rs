//! Policies and exchanges made by hand.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use holdpoint::guard::{Guard, Parts};
use holdpoint::item::{
    Arguments, Exchange, Item, Leg, Located, Origin, Place, RouteKind, ToolCall, ToolOutput,
};
use holdpoint::layers::egress::Entry;
use holdpoint::names::{RouteName, ToolName, UpstreamName};
use holdpoint::policy::{List, Lookup, Modes, Policy, PolicyHash, Selector, ToolMatcher, ToolRule};
use holdpoint::principal::{Principal, Session};
use holdpoint::source::Problems;
use holdpoint::store::Stores;
use holdpoint::store::sql::sqlite;
use holdpoint::verdict::{LayerId, Mode, Verdict};
use holdpoint::wire::json::{BODY_DEPTH, Document};
use serde_json::Value;

/// The data for developers, where it is.
pub fn data(path: &str) -> Option<PathBuf> {
    let Some(root) = std::env::var_os("HOLDPOINT_TEST_DATA") else {
        eprintln!("skipped: HOLDPOINT_TEST_DATA is not set, so there is no {path}");
        return None;
    };
    let path = PathBuf::from(root).join(path);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: there is no {}", path.display());
    None
}

pub fn at(selectors: &[&str]) -> Vec<Selector> {
    selectors
        .iter()
        .map(|selector| Selector::parse(selector).unwrap())
        .collect()
}

/// A policy without rules.
pub fn policy() -> Policy {
    let mut policy = Policy::new("test", PolicyHash("0".repeat(64).into()));
    policy.injection.default.redact = Some(0.6);
    policy
}

pub fn tool(id: &str, matcher: ToolMatcher) -> ToolRule {
    ToolRule::new(id, matcher)
}

pub fn lookup(sql: &str) -> Lookup {
    Lookup::sql("shop", sql)
}

pub fn hosts(hosts: &[&str], suffixes: &[&str]) -> List {
    let below = suffixes.iter().map(|domain| format!("*.{domain}"));
    let exact = hosts.iter().map(ToString::to_string);
    List {
        hosts: exact
            .chain(below)
            .map(|text| Entry::read(&text).unwrap())
            .collect(),
        ..List::default()
    }
}

/// A shop database, open as a store.
pub fn shop() -> (tempfile::TempDir, Stores) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch(
            "CREATE TABLE orders (id TEXT, number INTEGER, tenant TEXT, owner TEXT);
             INSERT INTO orders VALUES ('o-1', 1, 'acme', 'ann'), ('o-2', 2, 'acme', 'bob'), ('o-3', 3, 'acme', NULL),
               ('o-4', 4, 'acme', 'ann'), ('o-4', 4, 'acme', 'bob'), ('o-5', 5, 'other', 'ann');
             CREATE TABLE users (subject TEXT, email TEXT, account TEXT);
             INSERT INTO users VALUES ('ann', 'Ann@Home.example', 'GB82 WEST 1234 5698 7654 32'),
               ('bob', 'bob@home.example', NULL);",
        )
        .unwrap();
    let mut stores = Stores::default();
    stores
        .sql
        .insert("shop".into(), sqlite::open(&path).unwrap());
    (folder, stores)
}

/// A guard with one layer enforced.
pub fn guard(policy: Policy, layer: LayerId, stores: Stores) -> Result<Guard, Problems> {
    let modes = Modes::none().with(layer, Mode::Enforce);
    let parts = Parts {
        stores,
        ..Parts::default()
    };
    Guard::new(Arc::new(policy), &modes, parts)
}

pub fn arguments(raw: &str) -> Arguments {
    let document = Document::read(Bytes::copy_from_slice(raw.as_bytes()), BODY_DEPTH).unwrap();
    let (value, exact) = document.value(document.root()).unwrap();
    Arguments {
        raw: document.bytes().clone(),
        value,
        exact,
    }
}

pub fn exchange(item: Item, subject: &str) -> Exchange {
    Exchange {
        leg: Leg::ToUpstream,
        route: RouteName::from("agents"),
        kind: RouteKind::Http,
        upstream: UpstreamName::from("tools"),
        session: Arc::new(Session {
            key: None,
            principal: Arc::new(Principal {
                tenant: "acme".into(),
                issuer: "config".into(),
                subject: subject.into(),
                agent: "agent".into(),
                actors: Vec::new(),
                scopes: std::collections::BTreeSet::default(),
            }),
            grant: None,
        }),
        items: vec![Located {
            place: Place::default(),
            item,
        }],
        evidence: None,
        headers: None,
    }
}

/// What one call comes to: the verdict, and whether the layer was reached.
pub async fn call_verdict(guard: &Guard, tool: &str, args: &str, subject: &str) -> (Verdict, bool) {
    let item = Item::ToolCall(ToolCall::new(ToolName::from(tool), arguments(args)));
    verdict(guard, item, subject).await
}

pub async fn output_verdict(guard: &Guard, tool: &str, text: &str) -> Verdict {
    let item = Item::ToolOutput(ToolOutput {
        tool: Some(ToolName::from(tool)),
        call_id: None,
        origin: Origin::Tool,
        text: text.into(),
    });
    verdict(guard, item, "ann").await.0
}

pub async fn verdict(guard: &Guard, item: Item, subject: &str) -> (Verdict, bool) {
    verdict_in(guard, &exchange(item, subject)).await
}

/// What the first item of an exchange comes to.
pub async fn verdict_in(guard: &Guard, exchange: &Exchange) -> (Verdict, bool) {
    let mut decision = guard.decide(exchange).await.unwrap();
    let ruling = decision.rulings.remove(0);
    // Held calls are settled into a denial, since nobody can approve: the layer's own word is its opinion.
    match ruling.opinions.into_iter().next() {
        Some(opinion) => (opinion.verdict, true),
        None => (ruling.verdict, false),
    }
}

/// `allow`, or the label and the reason.
pub fn outcome(verdict: &Verdict) -> String {
    match verdict.finding() {
        None => "allow".to_owned(),
        Some(finding) => format!("{} {}", verdict.label(), finding.reason),
    }
}

pub fn argument(verdict: &Verdict) -> &str {
    verdict
        .finding()
        .and_then(|finding| finding.argument.as_deref())
        .unwrap_or_default()
}

/// The one problem of a guard that cannot start.
pub fn problem(guard: Result<Guard, Problems>) -> (String, String) {
    let Err(Problems(mut problems)) = guard else {
        panic!("the guard started")
    };
    assert_eq!(problems.len(), 1, "{problems:?}");
    let problem = problems.remove(0);
    (problem.message, problem.help.unwrap_or_default())
}

/// Every value of a JSON-lines file, packed or not.
pub fn json_lines(path: &std::path::Path) -> Vec<Value> {
    use std::io::Read as _;
    let bytes = std::fs::read(path).unwrap();
    let mut text = String::new();
    if path.extension().is_some_and(|end| end == "gz") {
        flate2::read::MultiGzDecoder::new(&bytes[..])
            .read_to_string(&mut text)
            .unwrap();
    } else {
        text = String::from_utf8(bytes).unwrap();
    }
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The text after the verdict's edits.
pub fn redacted(text: &str, verdict: &Verdict) -> String {
    let Verdict::Rewrite(rewrite) = verdict else {
        return text.to_owned();
    };
    let mut edited = String::new();
    let mut at = 0;
    for (range, with) in &rewrite.edits {
        edited.push_str(text.get(at..range.start).unwrap());
        edited.push_str(with.as_str());
        at = range.end;
    }
    edited.push_str(text.get(at..).unwrap());
    edited
}
