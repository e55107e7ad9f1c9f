//! URLs in arguments.

use holdpoint::item::{EgressTarget, Item, Leg, ModelText, RouteKind, ToolCall};
use holdpoint::layers::egress::Code;
use holdpoint::names::ToolName;
use holdpoint::policy::{
    Allowed, EgressRule, ForwardRule, Otherwise, Policy, Reach, RenderedRule, Selector, ToolMatcher,
};
use holdpoint::store::Stores;
use holdpoint::verdict::LayerId;

use crate::support::{
    argument, arguments, at, call_verdict, exchange, guard, hosts, lookup, outcome, policy,
    problem, redacted, shop, tool, verdict, verdict_in,
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
        let call = Item::ToolCall(ToolCall::new(ToolName::from(tool), arguments(args)));
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
        otherwise: Otherwise::Hold.into(),
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

#[tokio::test]
async fn other_schemes_pass_only_where_the_rule_has_them() {
    let judged = async |schemes: &[&str], body: &str| {
        let mut rule = rule("tools[0].egress[0]", &["/body"]);
        if !schemes.is_empty() {
            rule.reach.schemes = schemes.iter().map(ToString::to_string).collect();
        }
        let guard = guard(with(vec![rule]), LayerId::Egress, Stores::default()).unwrap();
        let args = serde_json::json!({"body": body}).to_string();
        let (verdict, _) = call_verdict(&guard, "post", &args, "ann").await;
        let detail = verdict.finding().map(|finding| finding.detail.to_string());
        detail.map_or_else(
            || "allow".to_owned(),
            |detail| detail.split(':').next().unwrap().to_owned(),
        )
    };
    let plain = "http://api.shop.example/x";
    assert_eq!(judged(&[], plain).await, "scheme_not_allowed");
    assert_eq!(judged(&["http"], plain).await, "allow");
    let secure = "wss://api.shop.example/x";
    assert_eq!(judged(&[], secure).await, "allow");
    assert_eq!(judged(&["https"], secure).await, "scheme_not_allowed");
    // What has no scheme takes one of the rule's.
    for schemes in [&[][..], &["http"], &["ftp"]] {
        assert_eq!(
            judged(schemes, "www.shop.example").await,
            "host_not_allowed"
        );
        assert_eq!(judged(schemes, "//api.shop.example/x").await, "allow");
    }
}

#[tokio::test]
async fn hosts_and_encoded_urls_are_read_too() {
    let rule = rule("tools[0].egress[0]", &["/**"]);
    let guard = guard(with(vec![rule]), LayerId::Egress, Stores::default()).unwrap();
    for (args, expected) in [
        (r#"{"host": "api.shop.example"}"#, "allow"),
        (
            r#"{"host": "front desk", "domain": "mathematics"}"#,
            "allow",
        ),
        (r#"{"endpoint": "/v1/orders"}"#, "allow"),
        (r#"{"host": "evil.example"}"#, "deny host_not_allowed"),
        (r#"{"host": "evil.example:8443"}"#, "deny host_not_allowed"),
        (
            r#"{"smtpHost": "169.254.169.254"}"#,
            "deny host_not_allowed",
        ),
        (r#"{"domain": "localhost"}"#, "deny host_not_allowed"),
        (r#"{"endpoint": "2130706433/x.y"}"#, "deny url_unreadable"),
        (
            r#"{"note": "https%3A%2F%2Fevil.example"}"#,
            "deny host_not_allowed",
        ),
        (
            r#"{"note": "u=https%253A%252F%252Fevil.example%252Fx"}"#,
            "deny host_not_allowed",
        ),
        (r#"{"note": "https%3A%2F%2Fapi.shop.example%2Fx"}"#, "allow"),
        (r#"{"note": "100%25 of 3%3A4"}"#, "allow"),
        (
            r#"{"url": "https%3A%2F%2Fevil.example"}"#,
            "deny host_not_allowed",
        ),
    ] {
        let (verdict, _) = call_verdict(&guard, "post", args, "ann").await;
        assert_eq!(outcome(&verdict), expected, "{args}");
    }
}

#[tokio::test]
async fn a_look_up_vouches_for_whole_public_urls_and_nothing_for_the_rest() {
    let (_folder, stores) = shop();
    let mut rule = rule("tools[0].egress[0]", &["/url"]);
    rule.allow.push(Allowed::Lookup("links".into()));
    rule.otherwise = Otherwise::Hold.into();
    let mut policy = with(vec![rule]);
    let sql = "SELECT 'HTTPS://Docs.example:443/a?b#c' WHERE :principal = 'ann' UNION SELECT 'https://10.0.0.1/' UNION SELECT 'http://docs.example/'";
    policy.lookups.insert("links".into(), lookup(sql));
    let guard = guard(policy, LayerId::Egress, stores).unwrap();
    for (subject, url, expected) in [
        ("ann", "https://docs.example/a?b", "allow"),
        ("ann", "https://api.shop.example/", "allow"),
        ("bob", "https://docs.example/a?b", "hold host_not_allowed"),
        ("ann", "https://docs.example/a", "hold host_not_allowed"),
        (
            "ann",
            "https://docs.example:8443/a?b",
            "hold host_not_allowed",
        ),
        // Whatever vouches.
        ("ann", "https://10.0.0.1/", "deny host_not_allowed"),
        ("ann", "http://docs.example/", "deny host_not_allowed"),
        (
            "ann",
            "https://docs.example@evil.example/",
            "deny url_unreadable",
        ),
        ("ann", "https://printer.local/", "deny host_not_allowed"),
    ] {
        let args = serde_json::json!({"url": url}).to_string();
        let (verdict, _) = call_verdict(&guard, "post", &args, subject).await;
        assert_eq!(outcome(&verdict), expected, "{subject} {url}");
    }
}

#[tokio::test]
async fn the_forward_proxys_destinations_are_judged_by_its_section() {
    let forward = ForwardRule {
        id: "forward".into(),
        allow: vec!["ours".into()],
        reach: Reach {
            schemes: vec!["http".to_owned()],
            ..Reach::default()
        },
        methods: vec!["GET".to_owned()],
        budget: None,
        require_sni: true,
    };
    let mut policy = with(Vec::new());
    policy.forward = Some(forward);
    policy.egress = Some(rule("egress", &["/**"]));
    let guard = guard(policy, LayerId::Egress, Stores::default()).unwrap();
    let judged = async |kind, leg, method: &str, url: Option<&str>, authority: &str| {
        let item = Item::Egress(EgressTarget {
            authority: authority.into(),
            url: url.map(Into::into),
            method: method.into(),
            body: None,
        });
        let mut exchange = exchange(item, "ann");
        (exchange.kind, exchange.leg) = (kind, leg);
        outcome(&verdict_in(&guard, &exchange).await.0)
    };
    let (forward, sent) = (RouteKind::Forward, Leg::ToUpstream);
    for (method, url, authority, expected) in [
        ("CONNECT", None, "api.shop.example:443", "allow"),
        (
            "CONNECT",
            None,
            "api.shop.example:22",
            "deny host_not_allowed",
        ),
        ("CONNECT", None, "evil.example:443", "deny host_not_allowed"),
        (
            "CONNECT",
            None,
            "u@api.shop.example:443",
            "deny url_unreadable",
        ),
        (
            "GET",
            Some("http://api.shop.example/x"),
            "api.shop.example",
            "allow",
        ),
        (
            "POST",
            Some("http://api.shop.example/x"),
            "api.shop.example",
            "deny host_not_allowed",
        ),
        (
            "GET",
            Some("http://169.254.169.254/"),
            "169.254.169.254",
            "deny host_not_allowed",
        ),
    ] {
        let said = judged(forward, sent, method, url, authority).await;
        assert_eq!(said, expected, "{method} {url:?} {authority}");
    }
    // Where a redirect leads; on another route the policy's default is asked.
    let to = Some("https://api.shop.example/");
    let said = judged(RouteKind::Http, Leg::ToAgent, "GET", to, "api.shop.example").await;
    assert_eq!(said, "allow");
    let to = Some("https://evil.example/");
    let said = judged(RouteKind::Http, Leg::ToAgent, "GET", to, "evil.example").await;
    assert_eq!(said, "deny host_not_allowed");
}

#[tokio::test]
async fn rendered_text_loses_what_leads_elsewhere() {
    let mut policy = with(Vec::new());
    policy.rendered = Some(RenderedRule {
        id: "rendered".into(),
        images: Vec::new(),
        links: vec!["ours".into()],
        reach: Reach::default(),
    });
    let guard = guard(policy, LayerId::Egress, Stores::default()).unwrap();
    let text = "See [it](https://api.shop.example/) ![x](https://evil.example/?secret) `https://evil.example`";
    let item = Item::ModelText(ModelText::whole(text));
    let (verdict, reached) = verdict(&guard, item, "ann").await;
    assert!(reached);
    assert_eq!(
        redacted(text, &verdict),
        "See [it](https://api.shop.example/) (image withheld) `https://evil.example`"
    );
    let finding = verdict.finding().unwrap();
    assert_eq!(finding.rule.as_str(), "rendered");
    assert!(finding.detail.starts_with("host_not_allowed"));
}

#[test]
fn every_fine_code_is_explained() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/egress.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows: Vec<_> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    assert_eq!(rows.len(), Code::ALL.len());
    for code in Code::ALL {
        let row = format!("| `{code}` | `{}` |", code.reason());
        assert!(rows.iter().any(|line| line.starts_with(&row)), "{row}");
    }
}
