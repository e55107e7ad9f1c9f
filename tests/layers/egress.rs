//! URLs in arguments.

use holdpoint::policy::{EgressRule, Otherwise, Policy, Selector, ToolMatcher};
use holdpoint::store::Stores;
use holdpoint::verdict::LayerId;

use crate::support::{argument, at, call_verdict, guard, hosts, outcome, policy, problem, tool};

fn rule(id: &str, selectors: &[&str]) -> EgressRule {
    EgressRule {
        id: id.into(),
        at: at(selectors),
        allow: vec!["ours".into()],
        otherwise: Otherwise::Deny,
    }
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
