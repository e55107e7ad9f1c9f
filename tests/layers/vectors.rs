//! Vectors for egress and recipients: no wrong allow at all, no wrong deny among the benign.
//!
//! Judged are the kinds `url`, `args`, `email` and `iban`. Kinds that need a resolver, the forward proxy, rendered output,
//! raw messages, telephone numbers, chat ids, calendars or shares belong to later work, as do the policy keys `schemes`,
//! `hosts: ["*"]`, `paths`, `ips`, `max_query_bytes`, `subdomains_of` and `plus: fold`: a case that turns on one of these is
//! counted as skipped.

use holdpoint::guard::Guard;
use holdpoint::policy::{
    Allowed, EgressRule, List, Otherwise, Policy, RecipientKind, RecipientRule, Selector,
    ToolMatcher,
};
use holdpoint::store::Stores;
use holdpoint::verdict::{LayerId, Verdict};
use serde_json::{Value, json};

use crate::support::{call_verdict, data, guard, policy, tool};

fn texts(value: &Value) -> Vec<String> {
    let elements = value.as_array().map(Vec::as_slice).unwrap_or_default();
    elements
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// `$.links[*]` as a selector.
fn selector(path: &str) -> Selector {
    let path = path.trim_start_matches("$.").replace("[*]", ".*");
    Selector::parse(&format!("/{}", path.replace('.', "/"))).unwrap()
}

fn egress_policy(given: &Value) -> Policy {
    let (suffixes, hosts): (Vec<_>, Vec<_>) = texts(&given["hosts"])
        .into_iter()
        .partition(|host| host.starts_with("*."));
    let mut at: Vec<_> = texts(&given["url_paths"])
        .iter()
        .map(|p| selector(p))
        .collect();
    if given["scan_all_strings_for_urls"] == true || at.is_empty() {
        at = vec![Selector::everything()];
    }
    let mut policy = policy();
    policy.lists.insert(
        "allowed".into(),
        List {
            hosts: hosts.into_iter().collect(),
            host_suffixes: suffixes
                .iter()
                .map(|host| host.trim_start_matches("*.").to_owned())
                .collect(),
            ..List::default()
        },
    );
    policy.egress = Some(EgressRule {
        id: "egress".into(),
        at,
        allow: vec![Allowed::List("allowed".into())],
        otherwise: Otherwise::Deny,
    });
    policy
}

fn recipient_policy(given: &Value, kind: RecipientKind) -> Policy {
    let mut policy = policy();
    policy.lists.insert(
        "allowed".into(),
        List {
            emails: texts(&given["addresses"]).into_iter().collect(),
            email_domains: texts(&given["domains"]).into_iter().collect(),
            accounts: texts(&given["ibans"]).into_iter().collect(),
            ..List::default()
        },
    );
    let mut send = tool("tools[0]", ToolMatcher::Any);
    let fields = texts(&given["fields"]);
    let at = fields.iter().map(|field| selector(field)).collect();
    send.recipients = vec![RecipientRule {
        allow: vec![Allowed::List("allowed".into())],
        ..RecipientRule::new("tools[0].recipients[0]", at, kind)
    }];
    policy.tools.push(send);
    policy
}

/// What this build cannot express, if the case needs it.
fn beyond(kind: &str, given: &Value, expected: &Value) -> Option<&'static str> {
    let reason = expected["reason"].as_str().unwrap_or_default();
    if !matches!(kind, "url" | "args" | "email" | "iban") {
        return Some("kind");
    }
    if reason == "scheme_not_allowed" {
        return Some("schemes");
    }
    if matches!(
        reason,
        "path_not_allowed" | "ambiguous_path" | "query_too_long"
    ) {
        return Some("paths and queries");
    }
    if reason == "no_recipient" {
        return Some("at least one recipient");
    }
    let allow = expected["verdict"] == "allow";
    let any_host = texts(&given["hosts"]).iter().any(|host| host == "*");
    if allow && (any_host || given.get("ips").is_some()) {
        return Some("hosts: \"*\" and ips");
    }
    if allow && (given["plus"] == "fold" || given.get("subdomains_of").is_some()) {
        return Some("plus and subdomains");
    }
    None
}

fn guard_for(kind: &str, given: &Value) -> Guard {
    let (policy, layer) = match kind {
        "url" | "args" => (egress_policy(given), LayerId::Egress),
        "email" => (
            recipient_policy(given, RecipientKind::Email),
            LayerId::Recipients,
        ),
        _ => (
            recipient_policy(given, RecipientKind::Iban),
            LayerId::Recipients,
        ),
    };
    guard(policy, layer, Stores::default()).unwrap()
}

#[tokio::test]
async fn no_wrong_allow_and_no_wrong_deny() {
    let Some(path) = data("egress/vectors_dev.json") else {
        return;
    };
    let file: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let mut wrong = Vec::new();
    let (mut judged, mut skipped) = (0, 0);
    for vector in file["vectors"].as_array().unwrap() {
        let kind = vector["kind"].as_str().unwrap();
        let given = &file["policies"][vector["policy"].as_str().unwrap()];
        if beyond(kind, given, &vector["expected"]).is_some() {
            skipped += 1;
            continue;
        }
        // A URL is judged in a field of its own and as a text that is searched.
        let cases = if kind == "url" {
            vec![
                json!({"url": vector["input"]}),
                json!({"note": vector["input"]}),
            ]
        } else {
            vec![vector["input"].clone()]
        };
        let guard = guard_for(kind, given);
        for args in cases {
            let (verdict, _) = call_verdict(&guard, "any", &args.to_string(), "ann").await;
            let said = if verdict == Verdict::Allow {
                "allow"
            } else {
                "deny"
            };
            judged += 1;
            if vector["expected"]["verdict"] != said {
                wrong.push(format!("{} {args}: {said}", vector["id"]));
            }
        }
    }
    println!(
        "egress vectors: {judged} judged, {skipped} beyond this build, {} wrong",
        wrong.len()
    );
    assert_eq!(wrong, [] as [String; 0]);
    assert!(judged >= 20, "only {judged} judged");
}
