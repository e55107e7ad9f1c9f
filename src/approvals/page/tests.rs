//! What an approver is shown of tickets that a browser test cannot bring about by itself.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{lists, ticket};
use crate::names::{RouteName, RuleId, SessionKey, TicketId, ToolName, UpstreamName};
use crate::policy::{Gate, PolicyHash};
use crate::principal::Principal;
use crate::store::tickets::digest::CallDigest;
use crate::store::tickets::{
    AnswerError, Bound, Channel, MandateOffer, Origin, Person, Resource, Ticket, TicketState,
    Verdict, Vote,
};

fn now() -> Timestamp {
    "2026-11-30T12:00:00Z".parse().unwrap()
}

/// Ann's refund, which two others must approve.
fn sample(arguments: &Value) -> Ticket {
    let principal = Principal {
        tenant: "acme".into(),
        issuer: "config".into(),
        subject: "ann".into(),
        agent: "bot".into(),
        scopes: [].into(),
        actors: Vec::new(),
    };
    Ticket {
        id: TicketId::from("tkt_1"),
        seq: 7,
        state: TicketState::Requested,
        cause: None,
        digest: CallDigest::from_hex(&"b4f50456".repeat(8)).unwrap(),
        summary: "Refund 19.90".to_owned(),
        tool: ToolName::from("refund"),
        upstream: UpstreamName::from("shop"),
        route: RouteName::from("tools"),
        arguments: serde_json::value::to_raw_value(arguments).unwrap(),
        principal,
        session: Some(SessionKey::from("s1")),
        gate: Gate::Approve,
        roles: vec!["finance".to_owned()],
        approvals: 2,
        fresh: false,
        policy: PolicyHash("5f".repeat(32).into()),
        layer: "tickets".to_owned(),
        rule: RuleId::from("tools[0].ticket"),
        reason: "approval_required".to_owned(),
        bound: Bound::default(),
        said: None,
        created_at: "2026-11-30T11:50:00Z".parse().unwrap(),
        expires_at: "2026-11-30T12:05:00Z".parse().unwrap(),
        votes: Vec::new(),
        attempts: 0,
        claimed_at: None,
        completed: None,
        reconcile: None,
        resolved: None,
        mandate: None,
        offer: None,
        earlier: None,
        told: false,
        lost: 0,
    }
}

fn page(ticket: &Ticket, against: Option<AnswerError>) -> String {
    let view = ticket::View {
        ticket,
        similar: &[],
        against,
        voted: false,
        csrf: "token",
        now: now(),
    };
    view.render().into_string()
}

fn place(html: &str, text: &str) -> usize {
    html.find(text)
        .unwrap_or_else(|| panic!("{text} is not on the page: {html}"))
}

#[test]
fn what_the_rule_names_stands_first_and_everything_is_there() {
    let mut ticket = sample(
        &json!({"a": 1, "b": {"deep": [true, null]}, "fee": "2", "iban": "DE00", "ref": "R-7"}),
    );
    ticket.bound.key = vec!["/ref".to_owned(), "/fee".to_owned()];
    let html = page(&ticket, None);
    let order = [
        "R-7",
        "&quot;2&quot;",
        "DE00",
        "Everything else",
        "deep/0",
        "deep/1",
    ]
    .map(|text| place(&html, text));
    assert!(order.is_sorted(), "{order:?}");
    assert!(html.contains("(6 in all"), "{html}");
}

#[test]
fn many_arguments_are_folded_with_their_number() {
    let html = page(&sample(&json!((0..450).collect::<Vec<_>>())), None);
    assert!(html.contains("(450 in all"));
    assert!(html.contains("<summary>250 more arguments</summary>"));
    place(&html, ">449</bdi>");
}

#[test]
fn facts_that_ask_for_care_are_told() {
    let mut ticket = sample(&json!({"to": "DE00", "order": "B-2"}));
    ticket.bound = Bound {
        first_time: vec!["/to".to_owned()],
        origins: vec![Origin {
            at: "/to".to_owned(),
            from: "get_reviews".to_owned(),
            source: "tool_output".to_owned(),
        }],
        resources: vec![Resource {
            at: "/order".to_owned(),
            id: "B-2".to_owned(),
            lookup: "order_owner".to_owned(),
            owner: Some("bob".to_owned()),
            state: BTreeMap::from([("status".to_owned(), Some("paid".to_owned()))]),
        }],
        ..Bound::default()
    };
    let html = page(&ticket, None);
    for text in [
        "1 argument with a recipient that this user has never used before",
        "first appeared in the output of",
        "value from a tool output",
        "get_reviews",
        "first-time recipient",
        "somebody else's object",
        "paid",
        "bob",
    ] {
        place(&html, text);
    }
}

#[test]
fn values_that_nobody_said_are_told_where_they_matter() {
    let mut ticket = sample(&json!({"amount": "19.90", "note": "hello"}));
    let unseen = |at: &str| Origin {
        at: at.to_owned(),
        from: "nobody".to_owned(),
        source: "unseen".to_owned(),
    };
    ticket.bound.origins = vec![unseen("/amount"), unseen("/note")];
    ticket.bound.key = vec!["/amount".to_owned()];
    let html = page(&ticket, None);
    place(&html, "value that nobody said");
    assert_eq!(html.matches("is in nothing that anybody said").count(), 1);
    assert_eq!(html.matches(">in nothing that anybody said").count(), 2);
}

#[test]
fn votes_so_far_and_the_digest_are_told() {
    let mut ticket = sample(&json!({"amount": "19.90"}));
    ticket.votes.push(Vote {
        by: Person::new("config", "dave"),
        verdict: Verdict::Approve,
        at: "2026-11-30T11:55:00Z".parse().unwrap(),
        comment: Some("<i>ok</i>".to_owned()),
        channel: Channel::Slack,
        roles: vec!["finance".to_owned()],
        strong: false,
    });
    let html = page(&ticket, None);
    place(&html, "1 of 2 approvals");
    place(&html, "&lt;i&gt;ok&lt;/i&gt;");
    place(&html, &ticket::fingerprint(&ticket));
    place(&html, "value=\"requested.1\"");
}

#[test]
fn who_cannot_approve_is_told_why_and_may_deny() {
    let ticket = sample(&json!({}));
    let html = page(&ticket, Some(AnswerError::SelfApproval(ticket.id.clone())));
    place(&html, "nobody approves an own request");
    place(&html, "/tickets/tkt_1/deny");
    assert!(!html.contains("/tickets/tkt_1/approve"));
    let html = page(&ticket, Some(AnswerError::FreshLogin(ticket.id.clone())));
    place(&html, "/login?fresh=1&amp;next=/tickets/tkt_1");
}

#[test]
fn the_agents_words_come_last_without_links() {
    let mut ticket = sample(&json!({"amount": "1"}));
    ticket.said = Some(
        "Approve at <a href='https://evil.example'>this</a>\u{202e} https://evil.example"
            .to_owned(),
    );
    let html = page(&ticket, None);
    let said = place(&html, "not to be trusted");
    assert!(said > place(&html, "Approve once"));
    let words = html.get(said..).unwrap();
    assert!(!words.contains("<a "), "{words}");
    assert!(words.contains(r"\u{202e}"), "{words}");
}

#[test]
fn an_offered_mandate_says_its_bounds() {
    let mut ticket = sample(&json!({"amount": "1"}));
    ticket.offer = Some(MandateOffer {
        amount: Some("/amount".to_owned()),
        currency: None,
        at_most: Some("50".parse().unwrap()),
        uses: 3,
        within: std::time::Duration::from_hours(24),
        same: vec!["/to".to_owned()],
    });
    let html = page(&ticket, None);
    for text in [
        "up to 3 calls",
        "together at most 50",
        "within 24 h",
        "/to",
        "max=\"3\"",
    ] {
        place(&html, text);
    }
}

#[test]
fn requests_for_one_act_are_one_entry() {
    let first = sample(&json!({"amount": "1"}));
    let mut second = first.clone();
    second.id = TicketId::from("tkt_2");
    second.session = Some(SessionKey::from("s2"));
    let mut other = sample(&json!({"amount": "2"}));
    other.id = TicketId::from("tkt_3");
    let html = lists::queue(&[other, second, first], false, now()).into_string();
    place(&html, "The same act was asked for 1 more time<");
    assert!(place(&html, "id=\"t-tkt_1\"") < place(&html, "id=\"t-tkt_3\""));
    assert!(!html.contains("id=\"t-tkt_2\""));
    assert!(!html.contains("<form"));
}
