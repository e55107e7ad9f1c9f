//! Secrets in calls, through the layer `egress` and the policy's own words.

use std::sync::Arc;

use holdpoint::item::{EgressTarget, Exchange, Item, Leg, RouteKind};
use holdpoint::layers::egress::{Register, Registered};
use holdpoint::policy;
use holdpoint::provenance::{Evidence, Said, Speaker};
use holdpoint::store::Stores;
use holdpoint::verdict::LayerId;

use crate::support::{argument, call_verdict, exchange, guard, outcome, verdict_in};

const LAYERS: &str = "version: 1\nname: t\nlayers: {catalog: off, identity: off, egress: enforce, recipients: off, ownership: off, injection: off, tickets: off}\n";

/// Made here, so that it stands nowhere whole.
fn key() -> String {
    ["sk_li", "ve_4eC39HqLyjWDarjtT1zdp7dc"].concat()
}

fn compiled(rest: &str) -> policy::Policy {
    policy::parse("p.yaml", format!("{LAYERS}{rest}"))
        .unwrap_or_else(|problems| panic!("{problems}"))
}

async fn said(rest: &str, tool: &str, args: &str) -> (String, String) {
    let guard = guard(compiled(rest), LayerId::Egress, Stores::default()).unwrap();
    let (verdict, _) = call_verdict(&guard, tool, args, "ann").await;
    let detail = verdict.finding().map(|finding| finding.detail.to_string());
    let told = format!("{verdict:?}");
    let key = key();
    assert!(!told.contains(key.split_at(8).1), "the secret is told");
    (
        outcome(&verdict),
        format!("{} {}", argument(&verdict), detail.unwrap_or_default()),
    )
}

#[tokio::test]
async fn writes_carry_no_credentials_unless_the_rule_allows_it() {
    let args = format!(
        r#"{{"to": "a@b.example", "body": {{"text": "the key is {}"}}}}"#,
        key()
    );
    let (said_, at) = said("", "send", &args).await;
    assert_eq!(said_, "deny secret_detected");
    assert_eq!(at, "/body/text stripe_key");
    assert_eq!(said("secrets: off\n", "send", &args).await.0, "allow");
    assert_eq!(
        said("secrets: {otherwise: hold}\n", "send", &args).await.0,
        "hold secret_detected"
    );
    assert_eq!(
        said("secrets: {kinds: [registered]}\n", "send", &args)
            .await
            .0,
        "allow"
    );
    let allow = "tools:\n  - {tool: send, secrets: allow}\n  - {tool: post, secrets: {allow_at: /body}}\n  - {tool: put, secrets: {allow_at: [/to]}}\n  - {tool: \"*\"}\n";
    for (tool, expected) in [
        ("send", "allow"),
        ("post", "allow"),
        ("put", "deny secret_detected"),
        ("other", "deny secret_detected"),
    ] {
        assert_eq!(said(allow, tool, &args).await.0, expected, "{tool}");
    }
    assert_eq!(
        said(
            "",
            "send",
            r#"{"id": "123e4567-e89b-12d3-a456-426614174000"}"#
        )
        .await
        .0,
        "allow"
    );
}

#[tokio::test]
async fn a_read_is_checked_where_it_leaves() {
    let rules = |more: &str| {
        format!(
            "lists: {{ours: {{hosts: [a.example]}}}}\ntools:\n  - {{tool: find, effect: read{more}}}\n  - {{tool: \"*\"}}\n"
        )
    };
    let args = format!(r#"{{"url": "https://a.example/?q={}"}}"#, key());
    let on = async |kind: RouteKind, rest: &str| {
        let guard = guard(compiled(rest), LayerId::Egress, Stores::default()).unwrap();
        let item = Item::ToolCall(holdpoint::item::ToolCall::new(
            "find".into(),
            crate::support::arguments(&args),
        ));
        let mut exchange = exchange(item, "ann");
        exchange.kind = kind;
        outcome(&verdict_in(&guard, &exchange).await.0)
    };
    assert_eq!(on(RouteKind::Model, &rules("")).await, "allow");
    assert_eq!(on(RouteKind::Mcp, &rules("")).await, "allow");
    assert_eq!(
        on(RouteKind::Http, &rules("")).await,
        "deny secret_detected"
    );
    assert_eq!(
        on(RouteKind::Mcp, &rules(", secrets: check")).await,
        "deny secret_detected"
    );
    let egress = rules(", egress: [{at: /url, allow: [ours]}]");
    assert_eq!(on(RouteKind::Model, &egress).await, "deny secret_detected");
    let all = format!("secrets: {{reads: check}}\n{}", rules(""));
    assert_eq!(on(RouteKind::Model, &all).await, "deny secret_detected");
}

#[tokio::test]
async fn a_registered_secret_does_not_leave_and_is_not_told() {
    let secret = "Tr0ub4dor&3-and-more/than=that";
    let register = Register::new([Registered::new(secret).unwrap()]).unwrap();
    let stores = Stores {
        register: Arc::new(register),
        ..Stores::default()
    };
    let guard = guard(compiled(""), LayerId::Egress, stores).unwrap();
    for args in [
        format!(r#"{{"x": "a {secret} b"}}"#),
        format!(r#"{{"x": "password={secret}&y"}}"#),
        r#"{"x": ["Tr0ub4dor&3-and", "-more/than=that"]}"#.to_owned(),
        format!(
            r#"{{"x": "{}"}}"#,
            data_encoding::BASE64.encode(secret.as_bytes())
        ),
    ] {
        let (verdict, reached) = call_verdict(&guard, "send", &args, "ann").await;
        assert_eq!(outcome(&verdict), "deny secret_detected", "{args}");
        assert!(reached);
        assert!(!format!("{verdict:?}").contains(secret));
    }
    let (verdict, reached) = call_verdict(&guard, "send", r#"{"x": "Tr0ub4dor"}"#, "ann").await;
    assert_eq!((outcome(&verdict).as_str(), reached), ("allow", false));
}

#[tokio::test]
async fn a_plain_url_of_the_forward_proxy_carries_none() {
    let rest = "lists: {ours: {hosts: [a.example]}}\nforward: {allow: [ours], schemes: [http]}\n";
    let guard = guard(compiled(rest), LayerId::Egress, Stores::default()).unwrap();
    let asked = |url: String| Exchange {
        kind: RouteKind::Forward,
        leg: Leg::ToUpstream,
        ..exchange(
            Item::Egress(EgressTarget {
                authority: "a.example:80".into(),
                url: Some(url.into()),
                method: "GET".into(),
                body: None,
            }),
            "ann",
        )
    };
    let (clean, _) = verdict_in(&guard, &asked("http://a.example/x?y=z".to_owned())).await;
    assert_eq!(outcome(&clean), "allow");
    let (dirty, _) = verdict_in(&guard, &asked(format!("http://a.example/x?y={}", key()))).await;
    assert_eq!(outcome(&dirty), "deny secret_detected");
}

#[tokio::test]
async fn what_a_tool_gave_for_the_session_goes_to_no_other_tool() {
    let rest = "private:\n  - {tool: get_customer, fields: [ssn, /card/number], to: verify_customer}\n  - {tool: read_note, fields: /**, otherwise: hold}\n";
    let said = |tool: &str, text: &str| Said {
        by: Speaker::Tool {
            tool: Some(tool.into()),
            call: None,
            at: Some(String::new()),
        },
        text: text.into(),
    };
    let evidence = Evidence::of([
        said(
            "get_customer",
            r#"{"name": "Ann", "ssn": "123-45-6789", "card": {"number": 4111111111111111}, "city": "Bristol"}"#,
        ),
        said("get_order", r#"{"ssn": "987-65-4321"}"#),
        said("read_note", r#"{"text": "the plan is called Bluebird"}"#),
    ]);
    let evidence = Arc::new(evidence);
    let guard = guard(compiled(rest), LayerId::Egress, Stores::default()).unwrap();
    for (tool, args, expected) in [
        (
            "send",
            r#"{"text": "his number is 123 45 6789."}"#,
            "deny private_value",
        ),
        (
            "send",
            r#"{"text": "MTIzLTQ1LTY3ODkgaXMgaXQ="}"#,
            "deny private_value",
        ),
        ("send", r#"{"n": 4111111111111111}"#, "deny private_value"),
        (
            "send",
            r#"{"text": "The plan is  called bluebird!"}"#,
            "hold private_value",
        ),
        ("send", r#"{"text": "987-65-4321 of Bristol"}"#, "allow"),
        ("send", r#"{"text": "1123-45-67890"}"#, "allow"),
        ("verify_customer", r#"{"ssn": "123-45-6789"}"#, "allow"),
        ("get_customer", r#"{"ssn": "123-45-6789"}"#, "allow"),
    ] {
        let item = Item::ToolCall(holdpoint::item::ToolCall::new(
            tool.into(),
            crate::support::arguments(args),
        ));
        let known = Exchange {
            evidence: Some(Arc::clone(&evidence)),
            ..exchange(item, "ann")
        };
        let (verdict, _) = verdict_in(&guard, &known).await;
        assert_eq!(outcome(&verdict), expected, "{tool} {args}");
        assert!(!format!("{verdict:?}").contains("6789"));
        let unknown = Exchange {
            evidence: None,
            ..known
        };
        assert_eq!(outcome(&verdict_in(&guard, &unknown).await.0), "allow");
    }
    assert!(compiled(rest).traces());
}

#[tokio::test]
async fn header_fields_that_leave_with_a_call_are_read_too() {
    let guard = guard(compiled(""), LayerId::Egress, Stores::default()).unwrap();
    for (name, expected) in [
        ("x-note", "deny secret_detected"),
        ("authorization", "allow"),
        ("x-api-key", "allow"),
    ] {
        let item = Item::ToolCall(holdpoint::item::ToolCall::new(
            "send".into(),
            crate::support::arguments("{}"),
        ));
        let mut headers = http::HeaderMap::new();
        headers.insert(name, key().parse().unwrap());
        let leaving = Exchange {
            headers: Some(Arc::new(headers)),
            ..exchange(item, "ann")
        };
        let (verdict, _) = verdict_in(&guard, &leaving).await;
        assert_eq!(outcome(&verdict), expected, "{name}");
        if expected != "allow" {
            assert_eq!(argument(&verdict), "header x-note");
        }
    }
}

#[tokio::test]
async fn a_session_sends_no_more_to_a_host_than_its_budget() {
    let rest = "lists: {ours: {hosts: [a.example, b.example]}}\ntools:\n  - tool: post\n    egress: [{at: /url, allow: [ours], budget: {bytes: 340B, window: 1h}}]\n  - tool: tell\n    egress: [{at: /url, allow: [ours], budget: {entropy: 100B}}]\n";
    let guard = guard(compiled(rest), LayerId::Egress, Stores::default()).unwrap();
    let say = async |tool: &str, host: &str, text: &str| {
        let args = format!(r#"{{"url": "https://{host}/", "text": "{text}"}}"#);
        outcome(&call_verdict(&guard, tool, &args, "ann").await.0)
    };
    let text = "a".repeat(100);
    assert_eq!(say("post", "a.example", &text).await, "allow");
    assert_eq!(say("post", "a.example", &text).await, "allow");
    assert_eq!(
        say("post", "a.example", &text).await,
        "deny budget_exceeded"
    );
    assert_eq!(say("post", "a.example", "").await, "allow");
    assert_eq!(say("post", "b.example", &text).await, "allow");
    // What repeats itself tells little.
    assert_eq!(say("tell", "a.example", &"a".repeat(120)).await, "allow");
    let many = "q8Zr1Lk0PwXv5Tn2".repeat(8);
    assert_eq!(
        say("tell", "a.example", &many).await,
        "deny budget_exceeded"
    );
    let (args, other) = (r#"{"url": "https://a.example/", "text": ""}"#, "bob");
    assert_eq!(
        outcome(&call_verdict(&guard, "post", args, other).await.0),
        "allow"
    );
}
