//! Mandates: up to their sum, for the calls that they were given for, and as long as whoever gave them may.

use holdpoint::store::tickets::MandateFilter;

use serde_json::{Value, json};

use super::desk::{
    ANN, Call, Desk, POLICY, Shelf, config, done, mcp, refund, signing_key, ticket, told,
};
use super::floods::server;
use super::today::signed_mandate;
use crate::support::upstream::{Received, answer, send};

/// The usual rules, and a refund's offers a mandate.
fn offering(mandate: &str) -> String {
    POLICY.replace(
        "summary: \"Refund",
        &format!("mandate: {{{mandate}}}, summary: \"Refund"),
    )
}

/// Up to 50, five times.
const SUM: &str = "amount: /amount, at_most: \"50\", uses: 5, for: 24h";

fn nth(n: usize, amount: u32) -> Call {
    refund().saying(&format!(r#"{{"order":"A-{n}","amount":{amount}}}"#))
}

/// A mandate that somebody gives on the request that the call makes.
async fn given(desk: &Desk, subject: &str, call: &Call) {
    let asked = desk.held(call).await;
    let answer = desk.posts(subject, "mandate", &asked).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

pub async fn row_34_two_calls_under_one_mandate(shelf: &Shelf) {
    let desk = Desk::with(shelf, &offering(SUM), "", done).await;
    given(&desk, "boss", &nth(0, 1)).await;
    // Each alone is within 50, both are not.
    let (one, two) = (nth(1, 30), nth(2, 30));
    let (one, two) = tokio::join!(desk.ask(&one), desk.ask(&two));
    let mut statuses = [one.status, two.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 403], "{one:?} {two:?}");
    assert_eq!(desk.reached(), 1);
    // What is left of it is still good, to the last unit.
    assert_eq!(desk.ask(&nth(3, 20)).await.status, 201);
    assert_eq!(desk.code(&nth(4, 1)).await.1, "approval_required");
    assert_eq!(desk.reached(), 2);
}

pub async fn row_34_what_a_mandate_pins(shelf: &Shelf) {
    let policy = offering("uses: 9, for: 24h, same: /to");
    let many = format!("{}, limits: {{pending_per_session: 20}}", shelf.tickets);
    let shelf = &shelf.with(many, shelf.own.clone());
    let desk = Desk::with(shelf, &policy, "", server).await;
    let to = |session, arguments: Value| Call {
        session,
        ..mcp(ANN, 1, "refund", arguments)
    };
    let asked = told(
        &desk
            .ask(&to("s1", json!({"order": "A-1", "to": "Jose"})))
            .await,
    );
    let answer = desk.posts("boss", "mandate", &ticket(&asked)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let done = desk
        .ask(&to("s1", json!({"order": "A-2", "to": "Jose"})))
        .await;
    assert_eq!(done.json()["result"]["content"][0]["text"], "refund");
    for other in [
        json!({"to": "Eve"}),
        json!({"to": "jose"}),
        json!({"to": ["Jose"]}),
        // To many backends this is the payee, too.
        json!({"to": "Jose", "To": "Eve"}),
        json!({"To": "Eve"}),
    ] {
        let held = told(&desk.ask(&to("s1", other.clone())).await);
        assert_eq!(held["error"], "approval_required", "{other}");
    }
    assert_eq!(desk.reached(), 1);
    // Nor is one given that could be read in two ways.
    let both = to("s2", json!({"to": "Jose", "To": "Eve"}));
    let asked = told(&desk.ask(&both).await);
    let answer = desk.posts("boss", "mandate", &ticket(&asked)).await;
    assert_eq!(answer.code(), "mandate_not_offered");
}

pub async fn row_34_whoever_gave_it_may_not_any_more(shelf: &Shelf) {
    for (change, from, to) in [
        ("gone", "{subject: boss,", "{subject: sam,"),
        (
            "another role",
            "roles: [finance]}, {subject: chief",
            "roles: [desk]}, {subject: chief",
        ),
    ] {
        let mut desk = Desk::with(shelf, &offering(SUM), "", done).await;
        let usual = format!(
            "policy: policy.yaml\n{}",
            config(&desk.upstream.url(), shelf, "")
        );
        let changed = usual.replacen(from, to, 1);
        assert_ne!(usual, changed);
        given(&desk, "boss", &nth(0, 1)).await;
        assert_eq!(desk.ask(&nth(1, 1)).await.status, 201, "{change}");
        desk.rig = desk.rig.again(&[("holdpoint.yaml", &changed)]).await;
        assert_eq!(
            desk.code(&nth(2, 1)).await.1,
            "approval_required",
            "{change}"
        );
        // What has ended is not given back with the role.
        desk.rig = desk.rig.again(&[("holdpoint.yaml", &usual)]).await;
        assert_eq!(
            desk.code(&nth(3, 1)).await.1,
            "approval_required",
            "{change}"
        );
        let all = desk
            .store()
            .mandates(MandateFilter::default())
            .await
            .unwrap();
        assert_eq!(all[0].ended_by.as_deref(), Some("holdpoint"), "{change}");
        assert_eq!(desk.reached(), 1, "{change}");
    }
}

pub async fn row_34_the_rule_asks_for_more_by_now(shelf: &Shelf) {
    for tightened in ["role: cfo", "role: finance, fresh_login: true"] {
        let desk = Desk::with(shelf, &offering(SUM), "", done).await;
        given(&desk, "boss", &nth(0, 1)).await;
        assert_eq!(desk.ask(&nth(1, 1)).await.status, 201);
        let policy = offering(SUM).replace("role: finance", tightened);
        let desk = desk.under(&policy).await;
        assert_eq!(
            desk.code(&nth(2, 1)).await.1,
            "approval_required",
            "{tightened}"
        );
        assert_eq!(desk.reached(), 1);
    }
    // Given by the user alone, and somebody else is asked for by now.
    let confirmed = offering(SUM).replace("gate: approve, role: finance", "gate: confirm");
    let desk = Desk::with(shelf, &confirmed, "", done).await;
    given(&desk, "ann", &nth(0, 1)).await;
    assert_eq!(desk.ask(&nth(1, 1)).await.status, 201);
    let desk = desk.under(&offering(SUM)).await;
    assert_eq!(desk.code(&nth(2, 1)).await.1, "approval_required");
    assert_eq!(desk.reached(), 1);
}

pub async fn row_34_what_may_have_been_done_stays_spent(shelf: &Shelf) {
    let policy = offering(SUM).replace("egress: off", "egress: enforce")
        + "lists: {ours: {hosts: [shop.example]}}\negress: {allow: [ours]}\n";
    let script = |got: &Received| {
        let text = got.text();
        if text.contains("refused") {
            return answer("422 Unprocessable Content", "application/json", "{}");
        }
        if text.contains("broken") {
            return answer("503 Service Unavailable", "application/json", "{}");
        }
        // Done, and its answer leads where nobody may go.
        let head = "HTTP/1.1 303 See Other\r\nlocation: https://elsewhere.example/\r\ncontent-length: 0\r\n\r\n";
        vec![send(head)]
    };
    let desk = Desk::with(shelf, &policy, "", script).await;
    given(&desk, "boss", &nth(0, 1)).await;
    let ask = async |order: &str, amount: u32| {
        let call = refund().saying(&format!(r#"{{"order":"{order}","amount":{amount}}}"#));
        let answer = desk.ask(&call).await;
        let mandates = desk.store().mandates(MandateFilter::default()).await;
        (answer.status, mandates.unwrap()[0].spent.to_string())
    };
    assert_eq!(ask("refused-1", 40).await, (422, "0".to_owned()));
    assert_eq!(ask("broken-1", 30).await, (503, "30".to_owned()));
    assert_eq!(ask("led-1", 15).await, (403, "45".to_owned()));
    assert_eq!(ask("led-2", 6).await, (403, "45".to_owned()));
    assert_eq!(desk.reached(), 3);
}

pub async fn row_37_the_key_of_a_signed_mandate_was_taken_out(shelf: &Shelf) {
    let ((old, signs), (new, _)) = (signing_key(), signing_key());
    let issuers = |keys: &str| {
        let issuers = format!("issuers: [{{name: orchestrator, keys: [{keys}]}}]");
        shelf.with(format!("{}, {issuers}", shelf.tickets), shelf.own.clone())
    };
    let policy = offering("uses: 5, for: 24h, same: /to")
        .replace("role: finance,", "role: finance, issuers: orchestrator,");
    let mut desk = Desk::with(&issuers(&old), &policy, "", done).await;
    // What the rule pins is pinned by whoever signs.
    let loose = signed_mandate(&signs, &[]);
    let answer = desk.code(&refund().with("holdpoint-ticket", loose)).await;
    assert_eq!(answer, (422, "ticket_mismatch".to_owned()));
    let pinned = signed_mandate(&signs, &[("/to", "Jose")]);
    let shown = refund().with("holdpoint-ticket", pinned);
    assert_eq!(desk.ask(&shown).await.status, 201);
    // From then on it need not be shown.
    let nth = |n: usize, to: &str| refund().saying(&format!(r#"{{"order":"B-{n}","to":"{to}"}}"#));
    assert_eq!(desk.ask(&nth(1, "Jose")).await.status, 201);
    assert_eq!(desk.code(&nth(2, "Eve")).await.1, "approval_required");
    for keys in [format!("{new}, {old}"), new.clone(), old.clone()] {
        let shelf = issuers(&keys);
        let written = config(&desk.upstream.url(), &shelf, "");
        let written = format!("policy: policy.yaml\n{written}");
        desk.rig = desk.rig.again(&[("holdpoint.yaml", &written)]).await;
        let call = nth(10 + desk.reached(), "Jose");
        let both = keys.contains(", {");
        let answer = desk.ask(&call).await;
        if both {
            assert_eq!(answer.status, 201, "{answer:?}");
        } else {
            assert!(answer.code().starts_with("approval_"), "{answer:?}");
        }
    }
    assert_eq!(desk.reached(), 3);
}
