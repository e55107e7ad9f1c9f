//! Whose answer counts.

use holdpoint::store::tickets::{
    AnswerError, Channel, Decider, Person, TicketState, Verdict, Voter,
};

use serde_json::json;

use super::desk::{ANN, DONE, Desk, POLICY, Shelf, done, holding, refund};
use super::issuer::{ISSUER, Issuer, Key};
use crate::support::client::{ask, request};
use crate::support::upstream::{Gate, Step, answer};

pub async fn row_15_revoked_while_held(shelf: &Shelf) {
    // Waiting for an answer: it is a no.
    let desk = Desk::with(shelf, &holding("50s"), "", done).await;
    let mut client = desk.begin(&refund()).await;
    let ticket = desk.asked(1).await[0].id.clone();
    desk.waiting(1).await;
    desk.deny(&ticket).await;
    let told = client.answer().await;
    assert_eq!(
        (told.status, told.code().as_str()),
        (403, "approval_denied")
    );
    assert_eq!(told.json()["request_id"], ticket.as_str());

    // Approved, and taken back before it was used.
    let other = refund().saying(r#"{"order":"A-2","amount":1}"#);
    let mut client = desk.begin(&other).await;
    let second = desk.asked(2).await[0].id.clone();
    drop(client);
    desk.idle().await;
    desk.approve(&second).await;
    desk.say(&second, Verdict::Revoke, "chief").await.unwrap();
    assert_eq!(desk.code(&other).await, (403, "approval_denied".to_owned()));
    assert_eq!(desk.state(&second).await, TicketState::Revoked);
    assert_eq!(desk.reached(), 0);

    // On its way: too late, and whoever says so is told.
    let gate = Gate::default();
    let opened = gate.clone();
    let script = move |_: &_| {
        let whole = answer("201 Created", "application/json", DONE);
        [vec![Step::Wait(opened.clone())], whole].concat()
    };
    let desk = Desk::with(shelf, POLICY, "", script).await;
    let late = refund().saying(r#"{"order":"A-3","amount":1}"#);
    let ticket = desk.approved(&late).await;
    client = desk.begin(&late).await;
    desk.reaches(1).await;
    let said = desk.say(&ticket, Verdict::Revoke, "chief").await;
    let late = |state| {
        matches!(
            state,
            Err(AnswerError::AlreadyDecided {
                state: TicketState::Redeeming,
                ..
            })
        )
    };
    assert!(late(said));
    gate.open();
    assert_eq!(client.answer().await.status, 201);
    assert_eq!(desk.state(&ticket).await, TicketState::Succeeded);
}

pub async fn row_16_the_requester_approves(shelf: &Shelf) {
    let desk = Desk::open(shelf).await;
    let ticket = desk.held(&refund()).await;
    let finance = || vec!["finance".to_owned()];
    let own = Voter::new(Person::new("config", "ann"), finance(), Channel::Api);
    let alias = Voter {
        aliases: vec![Person::new("config", "ann")],
        ..Voter::new(
            Person::new("https://id.example", "u-17"),
            finance(),
            Channel::Page,
        )
    };
    for voter in [own, alias] {
        let said = desk
            .answer(&ticket, Verdict::Approve, Decider::Person(voter))
            .await;
        assert!(matches!(said, Err(AnswerError::SelfApproval(_))));
    }
    assert_eq!(desk.state(&ticket).await, TicketState::Requested);
    let refused = desk.store().audit(0, 1000).await.unwrap();
    let refused = refused
        .iter()
        .filter(|row| row.event.as_str() == "self_approval_refused");
    assert_eq!(refused.count(), 2);
    assert_eq!(desk.code(&refund()).await.1, "approval_pending");
    by_delegation(shelf).await;
}

/// A token says for whom, and who acts: nobody of them approves, neither by another name.
async fn by_delegation(shelf: &Shelf) {
    let key = Key::ed("k1");
    let issuer = Issuer::of(&[&key]).await;
    let more = format!(
        "  aliases: [{{subject: chief, is: [{{issuer: \"{ISSUER}\", subject: bot-of-chief}}]}}]\n{}",
        issuer.principal("actor_depth: 3")
    );
    let desk = Desk::with(shelf, POLICY, &more, done).await;
    // Boss began it: a bot of the chief's acts for boss's bot, which acts for boss, who acts for ann.
    let chain =
        json!({"act": {"sub": "bot-of-chief", "act": {"sub": "bot", "act": {"sub": "boss"}}}});
    let bearer = format!("Bearer {}", key.token(&chain));
    let call = refund().with("authorization", bearer);
    let ticket = desk.held(&call).await;
    let asked = desk.ticket(&ticket).await.principal;
    assert_eq!((&*asked.subject, &*asked.issuer), ("ann", ISSUER));
    for own in ["ann", "boss", "chief"] {
        let refused = desk.posts(own, "approve", &ticket).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (403, "self_approval"),
            "{own}"
        );
    }
    assert_eq!(desk.state(&ticket).await, TicketState::Requested);
    let counted = "holdpoint_ticket_answers_refused_total{code=\"self_approval\"} 3\n";
    let scrape = desk.rig.scrape().await;
    assert!(scrape.contains(counted), "{scrape}");
    assert_eq!(desk.code(&call).await.1, "approval_pending");
    let approved = desk.posts("cfo", "approve", &ticket).await;
    assert_eq!(approved.status, 200, "{approved:?}");
    assert_eq!(desk.ask(&call).await.status, 201);
    assert_eq!(desk.reached(), 1);
}

pub async fn row_17_one_person_twice(shelf: &Shelf) {
    let policy = POLICY.replace("role: finance,", "role: finance, approvals: 2,");
    let desk = Desk::with(shelf, &policy, "", done).await;
    let ticket = desk.held(&refund()).await;
    for _ in 0..2 {
        desk.say(&ticket, Verdict::Approve, "boss").await.unwrap();
        assert_eq!(desk.state(&ticket).await, TicketState::Requested);
        assert_eq!(desk.code(&refund()).await.1, "approval_pending");
    }
    desk.say(&ticket, Verdict::Approve, "chief").await.unwrap();
    assert_eq!(desk.state(&ticket).await, TicketState::Approved);
    assert_eq!(desk.ask(&refund()).await.status, 201);
}

pub async fn row_18_an_agents_credential(shelf: &Shelf) {
    let desk = Desk::open(shelf).await;
    let ticket = desk.held(&refund()).await;
    let digest = desk.ticket(&ticket).await.digest.to_string();
    let address = desk.approvers();
    let body = format!("{{\"digest_prefix\":\"{}\"}}", &digest[..12]);
    let target = format!("/v1/tickets/{ticket}/approve");
    let bearer = format!("Bearer {ANN}");
    for headers in [
        vec![("authorization", bearer.as_str())],
        vec![("x-agent-key", ANN)],
    ] {
        let refused = ask(address, request("POST", &target, &headers, &body)).await;
        assert!(matches!(refused.status, 401 | 403), "{refused:?}");
    }
    assert_eq!(desk.state(&ticket).await, TicketState::Requested);
    let rows = desk.store().audit(0, 1000).await.unwrap();
    let alerts = rows
        .iter()
        .filter(|row| row.event.as_str() == "foreign_credential");
    assert!(alerts.count() > 0);
}

pub async fn row_19_approve_and_deny_race(shelf: &Shelf) {
    let desk = Desk::open(shelf).await;
    for round in 0..4 {
        let call = refund().saying(&format!(r#"{{"order":"A-{round}","amount":1}}"#));
        let ticket = desk.held(&call).await;
        let (yes, no) = tokio::join!(
            desk.say(&ticket, Verdict::Approve, "boss"),
            desk.say(&ticket, Verdict::Deny, "chief"),
        );
        // Whichever came first: a no holds until the call is on its way.
        assert!(no.is_ok(), "{no:?}");
        let state = desk.state(&ticket).await;
        let expected = if yes.is_ok() {
            TicketState::Revoked
        } else {
            TicketState::Denied
        };
        assert_eq!(state, expected, "round {round}");
        assert_eq!(desk.code(&call).await, (403, "approval_denied".to_owned()));
    }
    assert_eq!(desk.reached(), 0);
}
