//! Vectors for egress and recipients: no wrong allow at all, no wrong deny among the benign.

#[path = "../../examples/vectors/destinations.rs"]
mod destinations;
#[path = "../../examples/vectors/file.rs"]
mod file;
#[path = "../../examples/vectors/people.rs"]
mod people;

use holdpoint::layers::egress::Entry;
use holdpoint::policy::{Allowed, EgressRule, List, Policy, Selector};
use holdpoint::store::Stores;
use holdpoint::verdict::{LayerId, Verdict};
use serde_json::{Value, json};

use crate::support::{call_verdict, data, guard, policy};

fn dev() -> Option<(file::File, Value)> {
    let path = data("egress/vectors_dev.json")?;
    let text = std::fs::read_to_string(path).unwrap();
    let value = serde_json::from_str(&text).unwrap();
    Some((file::File::read(&text).unwrap(), value))
}

#[test]
fn the_public_matchers_decide_every_vector() {
    let Some((file, value)) = dev() else {
        return;
    };
    let mut wrong = Vec::new();
    let (mut right, mut preferred) = (0, 0);
    let given = value["vectors"].as_array().unwrap();
    for (vector, given) in file.vectors.iter().zip(given) {
        let expected = &given["expected"];
        let said = file.decide(vector).unwrap();
        let verdict = if said.is_ok() { "allow" } else { "deny" };
        let reason = said.err().unwrap_or("ok");
        if expected["verdict"] == verdict {
            right += 1;
            preferred += usize::from(expected["reason"] == reason);
        } else {
            wrong.push(format!("{}: {verdict} {reason}", vector.id));
        }
    }
    println!("vectors: {right} right, {preferred} of them with the preferred reason");
    assert_eq!(wrong, [] as [String; 0]);
    assert!(right >= 60, "only {right} vectors");
}

/// Vectors of our own, in the same form: each verdict is a person's judgement by the same semantics.
#[test]
fn the_public_matchers_decide_our_own_vectors() {
    let text = include_str!("vectors_own.json");
    let file = file::File::read(text).unwrap();
    let value: Value = serde_json::from_str(text).unwrap();
    let given = value["vectors"].as_array().unwrap();
    let mut wrong = Vec::new();
    let mut kinds = std::collections::BTreeMap::<&str, [usize; 2]>::new();
    for (vector, given) in file.vectors.iter().zip(given) {
        let expected = given["expected"]["verdict"].as_str().unwrap();
        let said = file.decide(vector).unwrap();
        let verdict = if said.is_ok() { "allow" } else { "deny" };
        if expected != verdict {
            wrong.push(format!("{}: {verdict}, {said:?}", vector.id));
        }
        kinds.entry(&vector.kind).or_default()[usize::from(expected == "allow")] += 1;
    }
    assert_eq!(wrong, [] as [String; 0]);
    assert_eq!(kinds.len(), 14, "{kinds:?}");
    let few = |[hostile, benign]: &[usize; 2]| *hostile < 10 || *benign < 5;
    assert!(!kinds.values().any(few), "{kinds:?}");
}

/// The policy of a vector, as far as it is one of hosts, schemes and ports.
fn layer_policy(given: &Value) -> Policy {
    let texts = |key: &str| file::texts(given, key).unwrap();
    let ports = given["ports"].as_array().unwrap().iter();
    let mut rule = EgressRule::new(
        "egress",
        vec![Selector::everything()],
        vec![Allowed::List("allowed".into())],
    );
    rule.reach.schemes = texts("schemes");
    rule.reach.ports = ports
        .map(|port| u16::try_from(port.as_u64().unwrap()).unwrap())
        .collect();
    let mut policy = policy();
    policy.egress = Some(rule);
    let hosts = texts("hosts");
    let list = List {
        hosts: hosts
            .iter()
            .map(|host| Entry::read(host).unwrap())
            .collect(),
        ..List::default()
    };
    policy.lists.insert("allowed".into(), list);
    policy
}

/// A URL in a field of its own, and as a text that is searched.
#[tokio::test]
async fn the_layer_decides_urls_alike() {
    let Some((file, value)) = dev() else {
        return;
    };
    let mut judged = 0;
    let given = value["vectors"].as_array().unwrap();
    for (vector, given) in file.vectors.iter().zip(given) {
        if vector.kind != "url" {
            continue;
        }
        let of = &value["policies"][given["policy"].as_str().unwrap()];
        let guard = guard(layer_policy(of), LayerId::Egress, Stores::default()).unwrap();
        for args in [
            json!({"url": given["input"]}),
            json!({"note": given["input"]}),
        ] {
            let (verdict, _) = call_verdict(&guard, "any", &args.to_string(), "ann").await;
            let said = if verdict == Verdict::Allow {
                "allow"
            } else {
                "deny"
            };
            assert_eq!(given["expected"]["verdict"], said, "{} {args}", vector.id);
            judged += 1;
        }
    }
    assert!(judged >= 40, "only {judged} judged");
}
