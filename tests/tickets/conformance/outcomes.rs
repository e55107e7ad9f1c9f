//! What came of a call, known or not.

use std::time::Duration;

use holdpoint::guard::Outcome;
use holdpoint::names::RuleId;
use holdpoint::store::tickets::{
    AnswerError, Claiming, Decider, RECEIPT_BODY, Resolution, Resolver, Standing, TicketState,
};

use super::{Bed, Desk, answered, local, person, receipt, refund, voter};

pub async fn what_was_provably_not_sent_is_approved_again(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let call = refund("A-1");
    let ticket = desk.approved(&call).await;
    let before = desk.get(&ticket).await;
    desk.clock.forward(Duration::from_mins(1));
    let claim = desk.claim(&call, &ticket).await;
    claim.finish(Outcome::NotSent).await.unwrap();
    let after = desk.get(&ticket).await;
    assert_eq!(after.state, TicketState::Approved);
    assert_eq!(after.expires_at, before.expires_at);
    let claim = desk.claim(&call, &ticket).await;
    claim.finish(answered(&ticket, 500, "no")).await.unwrap();
    assert_eq!(desk.state(&ticket).await, TicketState::Failed);
    assert!(matches!(desk.present(&call).await, Standing::Done(receipt) if receipt.status == 500));
}

pub async fn what_nobody_knows_stays_unknown(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let call = refund("A-1");
    let ticket = desk.approved(&call).await;
    // A claim that is dropped may have been sent.
    drop(desk.claim(&call, &ticket).await);
    let patience = Duration::from_secs(10);
    let state = desk
        .store
        .changed(ticket.clone(), TicketState::Redeeming, patience)
        .await;
    assert_eq!(state.unwrap(), TicketState::Unknown);
    let mut again = call.clone();
    again.again = true;
    for call in [&call, &again] {
        assert!(matches!(desk.present(call).await, Standing::Unknown(_)));
        assert!(matches!(
            desk.try_claim(call, &ticket).await,
            Claiming::Lost(Standing::Unknown(_))
        ));
    }
    desk.clock.forward(Duration::from_hours(24 * 365));
    assert!(matches!(desk.present(&call).await, Standing::Unknown(_)));
    let listed = desk.store.unknown(10).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].id, ticket);
}

pub async fn an_upstream_that_honours_the_key_is_asked_once_more(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let mut call = refund("A-1");
    call.terms.idempotent = Some(Duration::from_mins(30));
    let ticket = desk.lost(&call).await;
    // Provably not sent this time, and the first time is as unknown as before.
    let claim = desk.claim(&call, &ticket).await;
    claim.finish(Outcome::NotSent).await.unwrap();
    assert_eq!(desk.state(&ticket).await, TicketState::Unknown);
    // The key lives from the last claim on.
    desk.clock.forward(Duration::from_mins(29));
    let claim = desk.claim(&call, &ticket).await;
    claim.finish(Outcome::Unknown).await.unwrap();
    // Lost twice: no third time.
    let third = desk.try_claim(&call, &ticket).await;
    assert!(matches!(third, Claiming::Lost(Standing::Unknown(_))));

    let mut late = refund("A-2");
    let ticket = desk.lost(&late).await;
    assert!(matches!(
        desk.try_claim(&late, &ticket).await,
        Claiming::Lost(_)
    ));
    late.terms.idempotent = Some(Duration::from_mins(30));
    desk.clock.forward(Duration::from_mins(30));
    assert!(matches!(
        desk.try_claim(&late, &ticket).await,
        Claiming::Lost(_)
    ));

    let mut good = refund("A-3");
    good.terms.idempotent = Some(Duration::from_mins(30));
    let ticket = desk.lost(&good).await;
    let claim = desk.claim(&good, &ticket).await;
    claim.finish(answered(&ticket, 200, "{}")).await.unwrap();
    assert!(matches!(desk.present(&good).await, Standing::Done(_)));
}

pub async fn a_receipt_is_given_back_within_its_window(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let call = refund("A-1");
    let ticket = desk.done(&call, 200).await;
    desk.clock
        .forward(Duration::from_hours(24) - Duration::from_micros(1));
    assert!(matches!(desk.present(&call).await, Standing::Done(_)));
    let mut again = call.clone();
    again.again = true;
    let next = desk.request(&again).await;
    let shown = desk.get(&next).await;
    let earlier = shown.earlier.unwrap();
    assert_eq!(
        (earlier.id, earlier.state),
        (ticket, TicketState::Succeeded)
    );
    // The newest one counts: it waits.
    assert_eq!(desk.request(&call).await, next);

    let other = refund("A-2");
    let done = desk.done(&other, 200).await;
    desk.clock.forward(Duration::from_hours(24));
    assert_ne!(desk.request(&other).await, done);

    // A long body is not kept, and the repeat says so.
    let long = refund("A-3");
    let ticket = desk.approved(&long).await;
    let claim = desk.claim(&long, &ticket).await;
    let body = "x".repeat(RECEIPT_BODY + 1);
    claim.finish(answered(&ticket, 200, &body)).await.unwrap();
    let completed = desk.get(&ticket).await.completed.unwrap();
    assert_eq!(
        (completed.length, completed.whole),
        (body.len() as u64, false)
    );
}

fn found(ticket: &holdpoint::names::TicketId, done: bool, by: Resolver) -> Resolution {
    Resolution {
        ticket: ticket.clone(),
        done,
        by,
        note: None,
        receipt: None,
    }
}

pub async fn what_turned_out_to_be_done_is_not_done_again(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let call = refund("A-1");
    let ticket = desk.lost(&call).await;
    let recipe = Resolver::Recipe(RuleId::from("tools[0].ticket"));
    let resolution = Resolution {
        receipt: Some(receipt(&ticket, 200, "found")),
        ..found(&ticket, true, recipe.clone())
    };
    let resolved = desk.store.resolve(resolution).await.unwrap();
    assert_eq!(resolved.state, TicketState::ResolvedDone);
    assert_eq!(resolved.resolved.unwrap().by, "recipe:tools[0].ticket");
    let Standing::Done(receipt) = desk.present(&call).await else {
        panic!("the receipt of the look")
    };
    assert_eq!(&receipt.body[..], b"found");

    // A person knows that it was done, and not what was answered.
    let other = refund("A-2");
    let ticket = desk.lost(&other).await;
    let mut said = found(&ticket, true, Resolver::Person(person("carol")));
    said.note = Some("seen in the books".to_owned());
    let resolved = desk.store.resolve(said).await.unwrap().resolved.unwrap();
    assert_eq!(
        (&*resolved.by, resolved.note.as_deref()),
        ("idp:carol", Some("seen in the books"))
    );
    assert!(matches!(desk.present(&other).await, Standing::ResolvedDone(of) if of == ticket));
    desk.clock.forward(Duration::from_hours(24));
    assert_ne!(desk.request(&other).await, ticket);
}

pub async fn what_turned_out_not_to_be_done_is_asked_for_anew(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let call = refund("A-1");
    let ticket = desk.lost(&call).await;
    let resolution = found(&ticket, false, Resolver::Person(local()));
    let resolved = desk.store.resolve(resolution).await.unwrap();
    assert_eq!(resolved.state, TicketState::ResolvedNotDone);
    let next = desk.request(&call).await;
    let earlier = desk.get(&next).await.earlier.unwrap();
    assert_eq!(
        (earlier.id, earlier.state),
        (ticket, TicketState::ResolvedNotDone)
    );
}

pub async fn only_what_is_unknown_is_resolved_and_only_by_those_who_may(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let call = refund("A-1");
    let ticket = desk.done(&call, 200).await;
    let late = desk
        .store
        .resolve(found(&ticket, false, Resolver::Person(local())))
        .await;
    assert!(matches!(
        late,
        Err(AnswerError::NotUnknown {
            state: TicketState::Succeeded,
            ..
        })
    ));
    let ticket = desk.lost(&refund("A-2")).await;
    let resolve = |by: Decider| {
        desk.store
            .resolve(found(&ticket, true, Resolver::Person(by)))
    };
    let own = resolve(person("ann")).await;
    assert!(matches!(own, Err(AnswerError::SelfApproval(_))));
    let mut roleless = voter("carol");
    roleless.roles.clear();
    let roleless = resolve(Decider::Person(roleless)).await;
    assert!(matches!(roleless, Err(AnswerError::RoleMissing { .. })));
    resolve(person("carol")).await.unwrap();
    let twice = resolve(person("carol")).await;
    assert!(matches!(twice, Err(AnswerError::NotUnknown { .. })));
}
