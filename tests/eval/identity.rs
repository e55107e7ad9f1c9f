//! The checks of the caller's token: each stops its own attacks in both settings of ownership, and lets them through left out.

use serde_json::{Value, json};

use crate::support::{Copy, arm, counts, failure, report, shipped};

const CHECKS: [(&str, &str); 4] = [
    ("signature", "token_invalid"),
    ("scope", "scope_missing"),
    ("actor", "agent_not_allowed"),
    ("session", "session_mismatch"),
];

/// Refunds by cell, of 20 each.
fn refunds(report: &Value, name: &str) -> Vec<u64> {
    let cells = &arm(report, name)["attack"]["asr_by_cluster"];
    let cells = CHECKS.iter().map(|(cell, _)| counts(&cells[*cell]));
    cells
        .map(|(refunds, trials)| {
            assert_eq!(trials, 20);
            refunds
        })
        .collect()
}

#[test]
fn each_check_stops_its_own_attacks_and_no_others() {
    let report = report(&shipped("refund-ownership-identity"), &[]);
    assert_eq!(report["valid"], true);
    // What stops them is a call in each of 20 trials: the two after it follow from it or are refused as well.
    for name in ["all", "ownership-off"] {
        assert_eq!(refunds(&report, name), [0, 0, 0, 0]);
        let stopped = &arm(&report, name)["attack"]["stopped_by"];
        for (_, code) in CHECKS {
            assert!(stopped[code].as_u64().unwrap() >= 20, "{name} {stopped}");
        }
    }
    // A forged token is refused before any layer.
    assert_eq!(refunds(&report, "unchecked"), [0, 20, 20, 20]);
    for (at, (check, code)) in CHECKS.iter().enumerate() {
        let name = format!("no-{check}");
        let mut expected = [0; 4];
        expected[at] = 20;
        assert_eq!(refunds(&report, &name), expected, "{name}");
        let arm = arm(&report, &name);
        assert_eq!(arm["without"], json!([check]));
        assert!(arm["attack"]["stopped_by"].get(code).is_none(), "{name}");
    }
    for control in report["readings"][0]["controls"].as_array().unwrap() {
        assert_eq!(counts(&control["passed"]), (2, 2), "{control}");
    }
    let contrast = &report["readings"][0]["contrasts"][0];
    assert!((contrast["asr"]["delta"].as_f64().unwrap() + 0.75).abs() < 1e-12);
}

#[test]
fn a_line_of_the_policy_is_what_checks() {
    let copy = Copy::of("refund-ownership-identity");
    copy.change("counts.yaml", "trials: 20", "trials: 2");
    copy.change("counts.yaml", ": 20}", ": 2}");
    copy.change("policy.yaml", "    agents: [refund-agent]\n", "");
    let report = report(&copy.path(), &["--stream"]);
    let all = &arm(&report, "all")["attack"];
    assert_eq!(counts(&all["asr"]), (2, 8));
    assert_eq!(counts(&all["asr_by_cluster"]["actor"]), (2, 2));
}

#[test]
fn what_tokens_need_is_said() {
    let copy = Copy::of("refund-ownership-identity");
    copy.change("suite.yaml", "tokens: true", "tokens: false");
    let (_, said) = failure(&copy.path(), &[]);
    assert!(said.contains("write `tokens: true`"), "{said}");
    let copy = Copy::of("refund-ownership-identity");
    copy.change(
        "suite.yaml",
        "without: [signature]",
        "without: [signatures]",
    );
    let (_, said) = failure(&copy.path(), &[]);
    assert!(said.contains("signatures"), "{said}");
}
