//! URLs in arguments.

use holdpoint::item::{Item, RouteKind, ToolCall};
use holdpoint::names::ToolName;
use holdpoint::policy::{Allowed, EgressRule, Otherwise, Policy, Selector, ToolMatcher};
use holdpoint::store::Stores;
use holdpoint::verdict::LayerId;

use crate::support::{
    argument, arguments, at, call_verdict, exchange, guard, hosts, outcome, policy, problem, tool,
    verdict_in,
};

fn rule(id: &str, selectors: &[&str]) -> EgressRule {
    EgressRule::new(id, at(selectors), vec![Allowed::List("ours".into())])
}

fn with(rules: Vec<EgressRule>) -> Policy {
    let mut policy = policy();
    policy.lists.insert(
        "ours".into(),
        hosts(&["api.shop.example"], &["cdn.shop.example"]),
    );
    let mut post = tool("tools[0]", ToolMatcher::Exact("post".into()));
    post.egress = rules;
    policy.tools.push(post);
    policy
}

#[tokio::test]
async fn every_url_at_the_place_must_lead_to_a_listed_host() {
    let rule = rule("tools[0].egress[0]", &["/body"]);
    let guard = guard(with(vec![rule]), LayerId::Egress, Stores::default()).unwrap();
    for (args, expected, place) in [
        (r#"{"body": "no link"}"#, "allow", ""),
        (
            r#"{"body": "see https://api.shop.example/x."}"#,
            "allow",
            "",
        ),
        (
            r#"{"body": "![i](https://a.cdn.shop.example/i.png)"}"#,
            "allow",
            "",
        ),
        (r#"{"other": "https://evil.example/"}"#, "allow", ""),
        ("{}", "allow", ""),
        (
            r#"{"Body": "https://evil.example"}"#,
            "deny host_not_allowed",
            "/Body",
        ),
        (
            r#"{"body": "see https://api.shop.example and https://evil.example"}"#,
            "deny host_not_allowed",
            "/body",
        ),
        (
            r#"{"body": {"parts": ["x", "https://evil.example"]}}"#,
            "deny host_not_allowed",
            "/body/parts/1",
        ),
        (
            r#"{"body": {"https://evil.example": 1}}"#,
            "deny host_not_allowed",
            "/body",
        ),
        (
            r#"{"body": "{\"to\": [\"https:\\/\\/evil.example\"]}"}"#,
            "deny host_not_allowed",
            "/body",
        ),
        (
            r#"{"body": "{\"a\": \"{\\\"b\\\": \\\"\\\\u0068ttps://evil.example\\\"}\"}"}"#,
            "deny host_not_allowed",
            "/body",
        ),
        (
            r#"{"body": "{'lax': 'https:\\/\\/evil.example',}"}"#,
            "deny url_unreadable",
            "/body",
        ),
        (
            r#"{"body": "{\"to\": \"https:\\/\\/api.shop.example\\/x\"}"}"#,
            "allow",
            "",
        ),
        (
            r#"{"body": "https://api.shop.example@evil.example/"}"#,
            "deny url_unreadable",
            "/body",
        ),
        (
            r#"{"body": "https://api.shop.example:8443/"}"#,
            "deny host_not_allowed",
            "/body",
        ),
        (
            r#"{"body": "file:///etc/passwd"}"#,
            "deny host_not_allowed",
            "/body",
        ),
    ] {
        let (verdict, reached) = call_verdict(&guard, "post", args, "ann").await;
        assert_eq!(outcome(&verdict), expected, "{args}");
        assert_eq!(argument(&verdict), place, "{args}");
        assert!(reached);
    }
}

#[tokio::test]
async fn a_tool_with_rules_of_its_own_does_not_fall_under_the_default() {
    let mut policy = with(vec![rule("tools[0].egress[0]", &["/body"])]);
    policy.egress = Some(EgressRule {
        at: vec![Selector::everything()],
        ..rule("egress", &[])
    });
    let guard = guard(policy, LayerId::Egress, Stores::default()).unwrap();
    let args = r#"{"other": "https://evil.example/"}"#;
    let (own, _) = call_verdict(&guard, "post", args, "ann").await;
    assert_eq!(outcome(&own), "allow");
    let (default, _) = call_verdict(&guard, "undescribed", args, "ann").await;
    assert_eq!(outcome(&default), "deny host_not_allowed");
    assert_eq!(default.finding().unwrap().rule.as_str(), "egress");
}

/// By default: method or tool, arguments, what comes of it on an MCP route.
const RESOURCES: &[(&str, &str, &str)] = &[
    ("resources/read", r#"{"uri": "note://a"}"#, "allow"),
    (
        "resources/read",
        r#"{"uri": "file:///home/x/a.txt"}"#,
        "allow",
    ),
    ("resources/subscribe", r#"{"uri": "x-acme:a/b"}"#, "allow"),
    ("resources/unsubscribe", r#"{"uri": "note://a"}"#, "allow"),
    (
        "completion/complete",
        r#"{"ref": {"type": "ref/resource", "uri": "file:///{path}"}, "argument": {"name": "path", "value": "a"}}"#,
        "allow",
    ),
    (
        "subscriptions/listen",
        r#"{"notifications": {"resourceSubscriptions": ["note://a", "file:///b"]}}"#,
        "allow",
    ),
    (
        "resources/read",
        r#"{"uri": "https://api.shop.example/x"}"#,
        "allow",
    ),
    // What reaches a host, or may.
    (
        "resources/read",
        r#"{"uri": "https://evil.example/"}"#,
        "deny host_not_allowed",
    ),
    (
        "resources/read",
        r#"{"uri": "ftp://evil.example/"}"#,
        "deny host_not_allowed",
    ),
    (
        "resources/read",
        r#"{"uri": "sftp://evil.example/"}"#,
        "deny host_not_allowed",
    ),
    (
        "resources/read",
        r#"{"uri": "s3://evil/x"}"#,
        "deny host_not_allowed",
    ),
    (
        "resources/read",
        r#"{"uri": "git+https://evil.example/"}"#,
        "deny host_not_allowed",
    ),
    (
        "resources/read",
        r#"{"uri": "file://evil.example/share"}"#,
        "deny host_not_allowed",
    ),
    (
        "resources/read",
        r#"{"uri": "file:////evil.example/share"}"#,
        "deny host_not_allowed",
    ),
    (
        "resources/read",
        r#"{"uri": "javascript:fetch(1)"}"#,
        "deny host_not_allowed",
    ),
    (
        "resources/read",
        r#"{"uri": "note://a?from=https://evil.example/"}"#,
        "deny host_not_allowed",
    ),
    (
        "resources/read",
        r#"{"uri": "jar:https://evil.example/a!/b"}"#,
        "deny host_not_allowed",
    ),
    (
        "resources/read",
        r#"{"uri": "note://a/https:\\/\\/evil.example"}"#,
        "deny host_not_allowed",
    ),
    // Another place, another method, a tool.
    (
        "resources/read",
        r#"{"uri": "note://a", "URI": "note://b"}"#,
        "deny host_not_allowed",
    ),
    (
        "resources/read",
        r#"{"uri": {"uri": "note://a"}}"#,
        "deny host_not_allowed",
    ),
    (
        "completion/complete",
        r#"{"uri": "note://a"}"#,
        "deny host_not_allowed",
    ),
    (
        "prompts/get",
        r#"{"uri": "note://a"}"#,
        "deny host_not_allowed",
    ),
    ("fetch", r#"{"uri": "note://a"}"#, "deny host_not_allowed"),
    (
        "fetch",
        r#"{"uri": "file:///home/x/a.txt"}"#,
        "deny host_not_allowed",
    ),
];

#[tokio::test]
async fn by_default_the_name_of_a_servers_own_resource_is_no_url() {
    let started = |own: bool| {
        let mut policy = with(vec![rule("tools[0].egress[0]", &["/uri"])]);
        policy.egress = Some(EgressRule {
            at: vec![Selector::everything()],
            ..rule("egress", &[])
        });
        let mut method = tool("tools[0]", ToolMatcher::Exact("resources/read".into()));
        method.egress = policy.tools.remove(0).egress;
        if own {
            policy.tools.push(method);
        }
        guard(policy, LayerId::Egress, Stores::default()).unwrap()
    };
    let (default, own) = (started(false), started(true));
    let judged = async |guard, kind, tool: &str, args: &str| {
        let call = Item::ToolCall(ToolCall {
            tool: ToolName::from(tool),
            args: arguments(args),
            call_id: None,
            again: false,
        });
        let mut exchange = exchange(call, "ann");
        exchange.kind = kind;
        outcome(&verdict_in(guard, &exchange).await.0)
    };
    for (tool, args, expected) in RESOURCES {
        let said = judged(&default, RouteKind::Mcp, tool, args).await;
        assert_eq!(&said, expected, "{tool} {args}");
    }
    // On another route it is a tool of that name; and a rule of its own means what it says.
    let args = r#"{"uri": "note://a"}"#;
    for (guard, kind) in [
        (&default, RouteKind::Http),
        (&default, RouteKind::Model),
        (&own, RouteKind::Mcp),
    ] {
        let said = judged(guard, kind, "resources/read", args).await;
        assert_eq!(said, "deny host_not_allowed", "{kind:?}");
    }
}

#[tokio::test]
async fn a_rule_may_hold_an_unlisted_host_but_never_an_unreadable_url() {
    let hold = EgressRule {
        otherwise: Otherwise::Hold,
        ..rule("tools[0].egress[0]", &["/body"])
    };
    let guard = guard(with(vec![hold]), LayerId::Egress, Stores::default()).unwrap();
    for (body, expected) in [
        ("https://evil.example", "hold host_not_allowed"),
        (
            "https://evil.example https:/x.example",
            "deny url_unreadable",
        ),
    ] {
        let args = serde_json::json!({"body": body}).to_string();
        let (verdict, _) = call_verdict(&guard, "post", &args, "ann").await;
        assert_eq!(outcome(&verdict), expected, "{body}");
    }
}

#[tokio::test]
async fn without_a_rule_the_layer_is_not_reached() {
    let guard = guard(with(Vec::new()), LayerId::Egress, Stores::default()).unwrap();
    let args = r#"{"body": "https://evil.example"}"#;
    let (verdict, reached) = call_verdict(&guard, "post", args, "ann").await;
    assert_eq!(outcome(&verdict), "allow");
    assert!(!reached);
}

#[test]
fn a_list_that_is_not_there_is_a_problem_at_start() {
    let mut policy = with(vec![rule("tools[0].egress[0]", &["/body"])]);
    policy.lists.clear();
    let (message, help) = problem(guard(policy, LayerId::Egress, Stores::default()));
    assert!(message.contains("tools[0].egress[0]"), "{message}");
    assert!(message.contains("`ours`"), "{message}");
    assert!(help.contains("lists"), "{help}");
}
