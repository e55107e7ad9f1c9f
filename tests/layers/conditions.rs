//! Conditions on calls: what holds, and what is counted when.

use std::sync::Arc;

use holdpoint::clock::Clock;
use holdpoint::guard::{Decision, Guard, Parts};
use holdpoint::item::{Exchange, Item, RouteKind, ToolCall};
use holdpoint::names::{SessionKey, ToolName};
use holdpoint::policy::{self, Modes, Policy};
use holdpoint::principal::{Principal, Session};
use holdpoint::store::Stores;
use holdpoint::verdict::{LayerId, Mode, Verdict};
use jiff::Timestamp;
use proptest::prelude::*;

use crate::support::{argument, arguments, exchange, outcome, shop};

/// Stands still.
struct At(Timestamp);

impl Clock for At {
    fn now(&self) -> Timestamp {
        self.0
    }
}

fn stores(now: &str) -> Stores {
    Stores {
        clock: Arc::new(At(now.parse().unwrap())),
        ..Stores::default()
    }
}

fn policy(when: &str) -> Policy {
    let text = format!(
        "version: 1\nname: c\nlayers: {{catalog: enforce, identity: off, egress: off, recipients: off, ownership: off, injection: off, tickets: off}}\n\
         lookups: {{own: {{store: shop, sql: \"SELECT id FROM orders WHERE owner = :principal\"}}}}\n\
         tools:\n  - {{tool: pay, when: [{when}]}}\n  - {{tool: \"*\"}}\n"
    );
    policy::parse("p.yaml", text).unwrap_or_else(|problems| panic!("{problems}"))
}

fn guard_at(when: &str, stores: Stores, mode: Mode) -> Guard {
    let parts = Parts {
        stores,
        ..Parts::default()
    };
    let modes = Modes::none().with(LayerId::Catalog, mode);
    Guard::new(Arc::new(policy(when)), &modes, parts).unwrap()
}

fn guard(when: &str) -> Guard {
    guard_at(when, stores("2026-11-30T12:00:00Z"), Mode::Enforce)
}

fn call(args: &str) -> Exchange {
    let item = Item::ToolCall(ToolCall::new(ToolName::from("pay"), arguments(args)));
    exchange(item, "ann")
}

fn within(mut exchange: Exchange, session: &str, subject: &str) -> Exchange {
    let principal = Principal {
        subject: subject.into(),
        actors: Vec::new(),
        scopes: ["orders:read".into(), "refunds:write".into()].into(),
        ..(*exchange.session.principal).clone()
    };
    exchange.session = Arc::new(Session {
        key: Some(SessionKey::from(session)),
        principal: Arc::new(principal),
        grant: None,
    });
    exchange
}

fn verdict(decision: &Decision) -> Verdict {
    decision.rulings.first().unwrap().verdict.clone()
}

async fn said(guard: &Guard, exchange: &Exchange) -> String {
    outcome(&verdict(&guard.decide(exchange).await.unwrap()))
}

const FAILED: &str = "deny condition_failed";

#[tokio::test]
async fn arguments_pass_every_test_or_the_call_does_not() {
    for (when, args, expected) in [
        ("{at: /a, at_most: \"50.00\"}", r#"{"a": 50}"#, "allow"),
        ("{at: /a, at_most: \"50.00\"}", r#"{"a": 50.00}"#, "allow"),
        ("{at: /a, at_most: \"50.00\"}", r#"{"a": "50.00"}"#, "allow"),
        ("{at: /a, at_most: \"50.00\"}", r#"{"a": 50.01}"#, FAILED),
        (
            "{at: /a, at_most: \"50.00\"}",
            r#"{"a": 50.0000000000000001}"#,
            FAILED,
        ),
        (
            "{at: /a, at_most: 0.3}",
            r#"{"a": 0.30000000000000004}"#,
            FAILED,
        ),
        ("{at: /a, at_most: 0.3}", r#"{"a": 0.1}"#, "allow"),
        ("{at: /a, at_most: 50}", r#"{"a": 5e1}"#, FAILED),
        ("{at: /a, at_most: 50}", r#"{"a": "5e1"}"#, FAILED),
        ("{at: /a, at_most: 50}", r#"{"a": "0x1"}"#, FAILED),
        ("{at: /a, at_most: 50}", r#"{"a": " 5"}"#, FAILED),
        ("{at: /a, at_most: 50}", r#"{"a": "5,00"}"#, FAILED),
        ("{at: /a, at_most: 50}", r#"{"a": [1]}"#, FAILED),
        ("{at: /a, at_most: 50}", r#"{"a": null}"#, FAILED),
        ("{at: /a, at_most: 50}", "{}", FAILED),
        ("{at: /a, at_most: 50, optional: true}", "{}", "allow"),
        (
            "{at: /a, at_most: 50, optional: true}",
            r#"{"a": 51}"#,
            FAILED,
        ),
        ("{at: /a, at_most: 50}", r#"{"A": 51}"#, FAILED),
        ("{at: /a, at_most: 50}", r#"{"a": 1, "A": 51}"#, FAILED),
        ("{at: /a, at_least: 1, at_most: 50}", r#"{"a": -1}"#, FAILED),
        ("{at: /a, at_least: 1, at_most: 50}", r#"{"a": 1}"#, "allow"),
        (
            "{at: \"/x/*/a\", at_most: 5}",
            r#"{"x": [{"a": 1}, {"a": 6}]}"#,
            FAILED,
        ),
        (
            "{at: \"/x/*/a\", at_most: 5}",
            r#"{"x": [{"a": 1}, {}]}"#,
            FAILED,
        ),
        (
            "{at: \"/x/*/a\", at_most: 5}",
            r#"{"x": [{"a": 1}, {"a": 5}]}"#,
            "allow",
        ),
        ("{at: /c, one_of: [EUR, USD]}", r#"{"c": "EUR"}"#, "allow"),
        ("{at: /c, one_of: [EUR, USD]}", r#"{"c": "eur"}"#, FAILED),
        ("{at: /c, one_of: [EUR, USD]}", r#"{"c": ["EUR"]}"#, FAILED),
        ("{at: /c, one_of: [1, true]}", r#"{"c": 1.0}"#, "allow"),
        ("{at: /c, one_of: [1, true]}", r#"{"c": true}"#, "allow"),
        ("{at: /c, one_of: [1, true]}", r#"{"c": "1"}"#, FAILED),
        (
            "{at: /id, matches: \"A-[0-9]+\"}",
            r#"{"id": "A-12"}"#,
            "allow",
        ),
        (
            "{at: /id, matches: \"A-[0-9]+\"}",
            r#"{"id": "xA-12"}"#,
            FAILED,
        ),
        (
            "{at: /id, matches: \"A-[0-9]+\"}",
            r#"{"id": "A-12\n"}"#,
            FAILED,
        ),
        ("{at: /id, matches: \"a|b\"}", r#"{"id": "bx"}"#, FAILED),
        ("{at: /id, matches: \"[0-9]+\"}", r#"{"id": 12}"#, "allow"),
        ("{at: /id, matches: \"[0-9]+\"}", r#"{"id": 1.5}"#, FAILED),
        (
            "{at: /ip, in_cidr: [10.0.0.0/8, \"2001:db8::/32\"]}",
            r#"{"ip": "10.2.3.4"}"#,
            "allow",
        ),
        (
            "{at: /ip, in_cidr: [10.0.0.0/8, \"2001:db8::/32\"]}",
            r#"{"ip": "2001:db8::1"}"#,
            "allow",
        ),
        (
            "{at: /ip, in_cidr: [10.0.0.0/8]}",
            r#"{"ip": "11.0.0.1"}"#,
            FAILED,
        ),
        (
            "{at: /ip, in_cidr: [10.0.0.0/8]}",
            r#"{"ip": "::ffff:10.0.0.1"}"#,
            FAILED,
        ),
        (
            "{at: /ip, in_cidr: [10.0.0.0/8]}",
            r#"{"ip": "10.1"}"#,
            FAILED,
        ),
        (
            "{at: /ip, in_cidr: [10.0.0.0/8]}",
            r#"{"ip": "012.0.0.1"}"#,
            FAILED,
        ),
        (
            "{at: /ip, in_cidr: [10.0.0.0/8]}",
            r#"{"ip": "10.0.0.1:80"}"#,
            FAILED,
        ),
        (
            "{at: /ip, in_cidr: [10.0.0.0/8]}",
            r#"{"ip": 167772161}"#,
            FAILED,
        ),
    ] {
        assert_eq!(
            said(&guard(when), &call(args)).await,
            expected,
            "{when} {args}"
        );
    }
    let decision = guard("{at: /a, at_most: 5}")
        .decide(&call(r#"{"a": 6}"#))
        .await
        .unwrap();
    let verdict = verdict(&decision);
    assert_eq!(argument(&verdict), "/a");
    assert_eq!(verdict.finding().unwrap().rule.as_str(), "tools[0].when[0]");
}

#[tokio::test]
async fn all_conditions_must_hold_and_a_look_up_may_vouch() {
    let both = guard("{at: /a, at_most: 5}, {at: /c, one_of: [EUR]}");
    assert_eq!(said(&both, &call(r#"{"a": 5, "c": "EUR"}"#)).await, "allow");
    assert_eq!(said(&both, &call(r#"{"a": 5, "c": "JPY"}"#)).await, FAILED);
    let (_folder, stores) = shop();
    let own = guard_at(
        "{at: /order, allow: [{lookup: own}]}",
        stores,
        Mode::Enforce,
    );
    assert_eq!(said(&own, &call(r#"{"order": "o-1"}"#)).await, "allow");
    assert_eq!(said(&own, &call(r#"{"order": "o-2"}"#)).await, FAILED);
    assert_eq!(said(&own, &call("{}")).await, FAILED);
}

#[tokio::test]
async fn the_principal_is_one_of_those_that_may() {
    let ann = within(call("{}"), "s", "ann");
    for (when, expected) in [
        ("{principal: tenant, one_of: [acme]}", "allow"),
        ("{principal: tenant, one_of: [other]}", FAILED),
        ("{principal: subject, matches: \"a.*\"}", "allow"),
        ("{principal: subject, matches: a}", FAILED),
        ("{principal: agent, one_of: [agent]}", "allow"),
        ("{principal: issuer, one_of: [config]}", "allow"),
        (
            "{principal: scopes, one_of: [\"refunds:write\", admin]}",
            "allow",
        ),
        ("{principal: scopes, one_of: [admin]}", FAILED),
        ("{principal: scopes, matches: refunds}", FAILED),
    ] {
        assert_eq!(said(&guard(when), &ann).await, expected, "{when}");
    }
}

#[tokio::test]
async fn hours_are_those_of_the_zone_and_go_past_midnight() {
    let day = "{between: {from: \"08:00\", to: \"18:00\", zone: Europe/Berlin, days: [mon, tue]}}";
    let night = "{between: {from: \"22:00\", to: \"06:00\", zone: UTC, days: [fri]}}";
    for (when, now, expected) in [
        (day, "2026-11-30T07:00:00Z", "allow"),
        (day, "2026-11-30T06:59:59Z", FAILED),
        (day, "2026-11-30T16:59:59Z", "allow"),
        (day, "2026-11-30T17:00:00Z", FAILED),
        (day, "2026-12-02T12:00:00Z", FAILED),
        // Summer time.
        (day, "2026-06-01T06:00:00Z", "allow"),
        (night, "2026-12-04T22:00:00Z", "allow"),
        (night, "2026-12-05T05:59:00Z", "allow"),
        (night, "2026-12-05T22:00:00Z", FAILED),
        (night, "2026-12-04T05:00:00Z", FAILED),
    ] {
        let guard = guard_at(when, stores(now), Mode::Enforce);
        assert_eq!(said(&guard, &call("{}")).await, expected, "{now} {when}");
    }
}

#[tokio::test]
async fn a_call_is_counted_where_it_is_carried_out_and_only_there() {
    let guard = guard("{count: {per: session, at_most: 2}}");
    let carried_out = within(call("{}"), "one", "ann");
    let mut proposed = carried_out.clone();
    proposed.kind = RouteKind::Model;
    // What the agent runs itself is carried out when it is released: here another route does it.
    let venues =
        holdpoint::guard::Venues(std::iter::once(("pay".into(), "tools".into())).collect());
    let proposals = Guard::new(
        Arc::new(policy("{count: {per: session, at_most: 1}}")),
        &Modes::none().with(LayerId::Catalog, Mode::Enforce),
        Parts {
            venues,
            ..Parts::default()
        },
    )
    .unwrap();
    for _ in 0..3 {
        assert_eq!(said(&proposals, &proposed).await, "allow");
    }
    assert_eq!(said(&proposals, &carried_out).await, "allow");
    assert_eq!(said(&proposals, &proposed).await, FAILED);

    for expected in ["allow", "allow", FAILED, FAILED] {
        assert_eq!(said(&guard, &carried_out).await, expected);
    }
    // Another session has a count of its own; a call without any cannot be counted.
    assert_eq!(
        said(&guard, &within(call("{}"), "two", "ann")).await,
        "allow"
    );
    assert_eq!(said(&guard, &call("{}")).await, FAILED);
}

#[tokio::test]
async fn sums_are_exact_per_user_and_never_shrink() {
    let guard = guard("{sum: {at: /a, per: principal, window: 24h, at_most: \"0.30\"}}");
    let pay = |amount: &str, who: &str| within(call(&format!("{{\"a\": {amount}}}")), amount, who);
    for (amount, who, expected) in [
        ("0.1", "ann", "allow"),
        ("-0.1", "ann", FAILED),
        ("0.2", "ann", "allow"),
        ("0.01", "ann", FAILED),
        ("0", "ann", "allow"),
        ("0.3", "bob", "allow"),
        ("1e-9", "cid", FAILED),
        ("\"0.30\"", "cid", "allow"),
        ("null", "dan", FAILED),
    ] {
        assert_eq!(
            said(&guard, &pay(amount, who)).await,
            expected,
            "{amount} {who}"
        );
    }
    assert_eq!(said(&guard, &within(call("{}"), "s", "dan")).await, FAILED);
}

#[tokio::test]
async fn what_is_refused_counts_nothing_and_shadow_counts_for_itself_alone() {
    let limit = "{count: {per: session, at_most: 1}}";
    let both = guard(&format!("{limit}, {{at: /a, at_most: 5}}"));
    let with = |args: &str| within(call(args), "s", "ann");
    for _ in 0..3 {
        assert_eq!(said(&both, &with(r#"{"a": 6}"#)).await, FAILED);
    }
    assert_eq!(said(&both, &with(r#"{"a": 5}"#)).await, "allow");
    assert_eq!(said(&both, &with(r#"{"a": 5}"#)).await, FAILED);

    // It says what it would have said, and nothing of it counts where the layer is enforced.
    let shared = stores("2026-11-30T12:00:00Z");
    let shadow = guard_at(limit, shared.clone(), Mode::Shadow);
    for expected in ["allow", FAILED, FAILED] {
        let decision = shadow.decide(&with("{}")).await.unwrap();
        assert_eq!(decision.rulings[0].verdict, Verdict::Allow);
        assert_eq!(outcome(&decision.rulings[0].opinions[0].verdict), expected);
    }
    // Not sent after all: it would not have counted either.
    let shadow = guard_at(limit, shared.clone(), Mode::Shadow);
    for _ in 0..3 {
        let decision = shadow.decide(&with("{}")).await.unwrap();
        assert_eq!(outcome(&decision.rulings[0].opinions[0].verdict), "allow");
        decision.charges.give_back().await;
    }
    let enforced = guard_at(limit, shared, Mode::Enforce);
    assert_eq!(said(&enforced, &with("{}")).await, "allow");
    assert_eq!(said(&enforced, &with("{}")).await, FAILED);
}

#[tokio::test]
async fn calls_that_stand_or_fall_together_are_counted_together_or_not() {
    let guard = guard("{count: {per: session, at_most: 2}}");
    let mut three = within(call("{}"), "s", "ann");
    let one = three.items[0].clone();
    three.items = vec![one.clone(), one.clone(), one];
    let refused = decide_as_one(&guard, &three).await;
    assert!(
        refused
            .rulings
            .iter()
            .all(|ruling| ruling.verdict != Verdict::Allow)
    );
    let mut two = three;
    two.items.pop();
    let passed = decide_as_one(&guard, &two).await;
    assert!(
        passed
            .rulings
            .iter()
            .all(|ruling| ruling.verdict == Verdict::Allow)
    );
    // Not sent after all: the next two pass.
    passed.charges.give_back().await;
    let passed = guard.decide(&two).await.unwrap();
    assert!(
        passed
            .rulings
            .iter()
            .all(|ruling| ruling.verdict == Verdict::Allow)
    );
    let third = guard.decide(&two).await.unwrap();
    assert!(
        third
            .rulings
            .iter()
            .all(|ruling| ruling.verdict != Verdict::Allow)
    );
}

async fn decide_as_one(guard: &Guard, exchange: &Exchange) -> Decision {
    let all = 0..exchange.items.len();
    guard.decide_together(exchange, &[all]).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_calls_at_once_only_so_many_pass() {
    let guard = Arc::new(guard("{sum: {at: /a, per: principal, at_most: 5}}"));
    let calls = (0..40).map(|n| {
        let guard = Arc::clone(&guard);
        let call = within(call(r#"{"a": 1}"#), &n.to_string(), "ann");
        tokio::spawn(async move { said(&guard, &call).await })
    });
    let mut passed = 0;
    for said in calls.collect::<Vec<_>>() {
        passed += usize::from(said.await.unwrap() == "allow");
    }
    assert_eq!(passed, 5);
}

#[test]
fn what_can_never_hold_or_never_fail_is_told_at_load() {
    let load = |when: &str| {
        let text = format!(
            "version: 1\nname: c\nlayers: {{catalog: enforce, identity: off, egress: off, recipients: off, ownership: off, injection: off, tickets: enforce}}\n\
             tools:\n  - {{tool: pay, when: [{when}]}}\n  - {{tool: \"*\", ticket: {{gate: confirm, ttl: 1h}}}}\n"
        );
        let tree = holdpoint::source::parse("p.yaml", text).unwrap_or_else(|e| panic!("{e}"));
        match policy::check(tree) {
            Ok(checked) => checked.warnings.to_string(),
            Err(problems) => problems.to_string(),
        }
    };
    for (when, words) in [
        ("{at: /a}", "asks for nothing"),
        ("{at_most: 5}", "says neither of `at`"),
        (
            "{at: /a, principal: tenant, one_of: [x]}",
            "exclude each other",
        ),
        ("{at: /a, at_most: five}", "not an exact number"),
        ("{at: /a, at_most: 1e3}", "not an exact number"),
        ("{at: /a, at_least: 6, at_most: 5}", "can never hold"),
        ("{at: /a, one_of: [EUR], at_most: 5}", "can never hold"),
        ("{at: /a, one_of: [b], matches: a}", "can never hold"),
        (
            "{at: /a, at_most: 5, in_cidr: [10.0.0.0/8]}",
            "can never hold",
        ),
        ("{at: /a, one_of: []}", "must not be empty"),
        ("{at: /a, one_of: [x, x]}", "stands here twice"),
        ("{at: /a, matches: \"(\"}", "is not a pattern"),
        ("{at: /a, matches: \"a)|(b\"}", "is not a pattern"),
        ("{at: /a, matches: \"(a{1000}){1000}\"}", "too large"),
        ("{at: /a, matches: \"(?s).*\"}", "can never fail"),
        ("{at: /a, in_cidr: [10.0.0.1/8]}", "write `10.0.0.0/8`"),
        ("{at: /a, in_cidr: [ten]}", "is not a network"),
        ("{at: /a, in_cidr: [0.0.0.0/0]}", "holds every address"),
        ("{at: /a, allow: [some]}", "no list `some`"),
        (
            "{principal: tenant, at_most: 5}",
            "no meaning for the principal",
        ),
        ("{principal: user, one_of: [x]}", "cannot be"),
        (
            "{between: {from: \"08:00\", to: \"08:00\", zone: UTC}}",
            "can never hold",
        ),
        (
            "{between: {from: \"00:00\", to: \"24:00\", zone: UTC}}",
            "can never fail",
        ),
        (
            "{between: {from: \"8:00\", to: \"24:00\", zone: UTC}}",
            "not a time of the day",
        ),
        (
            "{between: {from: \"08:00\", to: \"24:01\", zone: UTC}}",
            "not a time of the day",
        ),
        (
            "{between: {from: \"08:00\", to: \"18:00\", zone: Mars/Base}}",
            "no time zone `Mars/Base`",
        ),
        ("{count: {per: session, at_most: 0}}", "can never hold"),
        ("{count: {per: session, at_most: 1.5}}", "a whole number"),
        ("{count: {per: user, at_most: 1}}", "cannot be"),
        ("{sum: {per: session, at_most: 1}}", "lacks the key `at`"),
        (
            "{sum: {at: /a, per: session, at_most: -1}}",
            "can never hold",
        ),
        (
            "{count: {per: session, at_most: 1, window: 0s}}",
            "must be from 1s",
        ),
        ("{at: /a, at_most: 5, else: ask}", "cannot be `ask`"),
    ] {
        let said = load(when);
        assert!(
            said.contains(words) && said.contains("help: "),
            "{when}: no `{words}` in\n{said}"
        );
    }
    assert_eq!(load("{at: /a, at_most: 5, else: hold}"), "");
}

proptest! {
    #[test]
    fn no_argument_makes_a_condition_panic(args in "\\{\"a\": (\\PC{0,20}|[-0-9.eE]{1,30})\\}") {
        let readable = holdpoint::item::Arguments::read(bytes::Bytes::from(args.clone())).is_ok();
        if readable {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            let guard = guard("{at: /a, at_most: 5, one_of: [1, 2], matches: \"[0-9]\"}, {sum: {at: /a, per: principal, at_most: 3}}");
            let _ = runtime.block_on(said(&guard, &call(&args)));
        }
    }
}
