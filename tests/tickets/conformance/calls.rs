//! Requests, claims, and what is told of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use holdpoint::guard::Outcome;
use holdpoint::store::tickets::{
    Answer, Cap, Cause, Claiming, Filter, Resource, Standing, TicketState, Verdict,
};

use super::{Bed, Desk, answered, bind, by, local, person, refund};

pub async fn a_request_is_made_once(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let call = refund("A-1");
    let Standing::Waiting { ticket, new: true } = desk.present(&call).await else {
        panic!("a request")
    };
    assert_eq!(ticket.state, TicketState::Requested);
    assert_eq!(ticket.arguments.get().as_bytes(), &call.call.arguments[..]);
    assert_eq!(ticket.principal, *call.principal);
    assert_eq!((ticket.session, ticket.seq), (call.session.clone(), 1));
    assert_eq!(ticket.created_at.to_string(), "2026-11-30T12:00:00Z");
    assert_eq!(ticket.expires_at.to_string(), "2026-11-30T12:15:00Z");
    let Standing::Waiting { ticket: same, new } = desk.present(&call).await else {
        panic!("the request")
    };
    assert_eq!((same.id, new), (ticket.id, false));
    for other in [
        by("bob", "s1", "A-1"),
        by("ann", "s2", "A-1"),
        refund("A-2"),
    ] {
        assert!(matches!(
            desk.present(&other).await,
            Standing::Waiting { new: true, .. }
        ));
    }
}

pub async fn of_many_at_once_one_makes_the_request(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let beside = desk.beside(bed).await;
    let call = refund("A-1");
    let asked = (0..50).map(|n| if n % 2 == 0 { &desk } else { &beside }.present(&call));
    let made = join_all(asked).await;
    let new = made
        .iter()
        .filter(|standing| matches!(standing, Standing::Waiting { new: true, .. }));
    assert_eq!(new.count(), 1);
    assert_eq!(desk.store.list(Filter::default()).await.unwrap().len(), 1);
}

pub async fn an_approval_is_claimed_once_and_its_receipt_given_back(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let call = refund("A-1");
    let ticket = desk.approved(&call).await;
    let Standing::Approved(approved) = desk.present(&call).await else {
        panic!("approved")
    };
    assert_eq!((approved.id, approved.votes.len()), (ticket.clone(), 1));
    let claim = desk.claim(&call, &ticket).await;
    assert_eq!(claim.ticket(), &ticket);
    assert_eq!(claim.arguments(), &call.call.arguments);
    assert!(matches!(desk.present(&call).await, Standing::Redeeming(_)));
    let second = desk.try_claim(&call, &ticket).await;
    assert!(matches!(second, Claiming::Lost(Standing::Redeeming(_))));
    claim.finish(answered(&ticket, 201, "done")).await.unwrap();
    for _ in 0..2 {
        let Standing::Done(receipt) = desk.present(&call).await else {
            panic!("done")
        };
        assert_eq!((receipt.status, &receipt.body[..]), (201, &b"done"[..]));
        assert_eq!(receipt.ticket, ticket);
    }
    assert!(matches!(
        desk.try_claim(&call, &ticket).await,
        Claiming::Lost(Standing::Done(_))
    ));
    let shown = desk.get(&ticket).await;
    assert_eq!((shown.state, shown.attempts), (TicketState::Succeeded, 1));
    assert_eq!(shown.completed.unwrap().length, 4);
}

pub async fn of_a_hundred_claims_one_wins(bed: &dyn Bed) {
    let desk = Arc::new(Desk::open(bed).await);
    let beside = Arc::new(desk.beside(bed).await);
    let call = refund("A-1");
    let ticket = desk.approved(&call).await;
    let claims = (0..100).map(|n| {
        let desk = Arc::clone(if n % 2 == 0 { &desk } else { &beside });
        let (call, ticket) = (call.clone(), ticket.clone());
        tokio::spawn(async move { desk.try_claim(&call, &ticket).await })
    });
    let mut won = Vec::new();
    for claiming in join_all(claims).await {
        match claiming.unwrap() {
            Claiming::Claimed(claim) => won.push(claim),
            Claiming::Lost(standing) => assert!(matches!(standing, Standing::Redeeming(_))),
        }
    }
    assert_eq!(won.len(), 1);
    let claim = won.remove(0);
    claim.finish(answered(&ticket, 200, "{}")).await.unwrap();
    assert_eq!(desk.get(&ticket).await.attempts, 1);
}

pub async fn a_claim_whose_caller_has_gone_is_given_back(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let call = refund("A-1");
    let ticket = desk.approved(&call).await;
    for _ in 0..20 {
        let claim = desk.store.claim(call.clone(), ticket.clone());
        // Whether it was claimed by then or not, nobody has taken it over.
        let _ = tokio::time::timeout(Duration::from_micros(200), claim).await;
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            match desk.state(&ticket).await {
                TicketState::Approved => break,
                // It came in time and was dropped by its caller, who may have sent the call.
                TicketState::Unknown => return,
                TicketState::Redeeming if Instant::now() < until => {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                other => panic!("{other}"),
            }
        }
    }
}

pub async fn a_ticket_of_another_call_is_not_claimed(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let ticket = desk.approved(&refund("A-1")).await;
    for other in [
        refund("A-2"),
        by("bob", "s1", "A-1"),
        by("ann", "s2", "A-1"),
    ] {
        let lost = desk.try_claim(&other, &ticket).await;
        assert!(matches!(
            lost,
            Claiming::Lost(Standing::Waiting { new: true, .. })
        ));
    }
    // Nor by the digest alone.
    let mut forged = by("bob", "s1", "A-9");
    forged.call.digest = refund("A-1").call.digest;
    let forged = desk.store.claim(forged, ticket.clone()).await;
    assert!(!matches!(forged, Ok(Claiming::Claimed(_))));
    assert_eq!(desk.state(&ticket).await, TicketState::Approved);
}

pub async fn what_ran_out_is_told_once(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let call = refund("A-1");
    let ticket = desk.approved(&call).await;
    desk.clock
        .forward(Duration::from_mins(15) - Duration::from_micros(1));
    assert_eq!(desk.state(&ticket).await, TicketState::Approved);
    // An hour back on the wall brings nothing back.
    desk.clock.back(Duration::from_hours(1));
    desk.clock.forward(Duration::from_micros(1));
    let lost = desk.try_claim(&call, &ticket).await;
    assert!(matches!(lost, Claiming::Lost(Standing::Expired(_))));
    assert_eq!(desk.state(&ticket).await, TicketState::Expired);
    assert!(matches!(
        desk.present(&call).await,
        Standing::Waiting { new: true, .. }
    ));
}

pub async fn other_terms_cancel_a_request_and_an_approval(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    for approved in [false, true] {
        let mut call = refund(if approved { "A-1" } else { "A-2" });
        let ticket = desk.request(&call).await;
        if approved {
            desk.approve(&ticket).await;
        }
        call.terms.approvals = 2;
        let next = desk.request(&call).await;
        assert_ne!(next, ticket);
        let old = desk.get(&ticket).await;
        assert_eq!(
            (old.state, old.cause),
            (TicketState::Cancelled, Some(Cause::TermsChanged))
        );
        call.terms.roles.push("board".to_owned());
        assert_ne!(desk.request(&call).await, next);
    }
}

pub async fn changed_facts_cancel_a_request(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let mut call = refund("A-1");
    call.bound.resources.push(Resource {
        at: "/order".to_owned(),
        id: "A-1".to_owned(),
        lookup: "orders".to_owned(),
        owner: Some("ann".to_owned()),
        state: [("status".to_owned(), Some("delivered".to_owned()))].into(),
    });
    call.bound.first_time.push("/order".to_owned());
    let ticket = desk.request(&call).await;
    assert_eq!(desk.get(&ticket).await.bound, call.bound);
    // What is only shown may differ.
    call.bound.first_time.clear();
    assert_eq!(desk.request(&call).await, ticket);
    let state = &mut call.bound.resources[0].state;
    state.insert("status".to_owned(), None);
    let next = desk.request(&call).await;
    assert_ne!(next, ticket);
    let old = desk.get(&ticket).await;
    assert_eq!(
        (old.state, old.cause),
        (TicketState::Cancelled, Some(Cause::StateChanged))
    );
}

pub async fn an_approval_that_no_longer_holds_is_cancelled(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let call = refund("A-1");
    let ticket = desk.approved(&call).await;
    let void = || desk.store.void(ticket.clone(), Cause::ApproverLost);
    assert!(void().await.unwrap());
    assert!(!void().await.unwrap());
    assert_eq!(desk.get(&ticket).await.cause, Some(Cause::ApproverLost));
    assert!(matches!(
        desk.try_claim(&call, &ticket).await,
        Claiming::Lost(Standing::Waiting { new: true, .. })
    ));
    // What is under way is not undone.
    let other = refund("A-2");
    let ticket = desk.approved(&other).await;
    let claim = desk.claim(&other, &ticket).await;
    let late = desk.store.void(ticket.clone(), Cause::StateChanged).await;
    assert!(!late.unwrap());
    claim.finish(Outcome::NotSent).await.unwrap();
    assert_eq!(desk.state(&ticket).await, TicketState::Approved);
}

pub async fn a_denial_holds_for_a_while_with_its_comment(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let call = refund("A-1");
    let ticket = desk.request(&call).await;
    let no = Answer {
        ticket: ticket.clone(),
        verdict: Verdict::Deny,
        by: person("carol"),
        digest_prefix: None,
        comment: Some("not before Friday".to_owned()),
    };
    desk.store.answer(no).await.unwrap();
    desk.clock
        .forward(Duration::from_mins(10) - Duration::from_micros(1));
    let Standing::Denied {
        ticket: denied,
        comment,
    } = desk.present(&call).await
    else {
        panic!("denied")
    };
    assert_eq!(denied, ticket);
    assert_eq!(comment.as_deref(), Some("not before Friday"));
    desk.clock.forward(Duration::from_micros(1));
    assert_ne!(desk.request(&call).await, ticket);
}

pub async fn a_hint_is_no_authority(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let first = refund("A-1");
    let ticket = desk.approved(&first).await;
    let hinted = |order: &str, who: &str| {
        let mut call = by(who, "s1", order);
        call.hint = Some(ticket.clone());
        call
    };
    // Not used yet: another call is simply another call.
    assert!(matches!(
        desk.present(&hinted("A-2", "ann")).await,
        Standing::Waiting { new: true, .. }
    ));
    let claim = desk.claim(&first, &ticket).await;
    let another = desk.present(&hinted("A-3", "ann")).await;
    assert!(matches!(another, Standing::Mismatch(of) if of == ticket));
    let itself = desk.present(&hinted("A-1", "ann")).await;
    assert!(matches!(itself, Standing::Redeeming(_)));
    // Somebody else's ticket does not exist.
    let others = desk.present(&hinted("A-3", "bob")).await;
    assert!(matches!(others, Standing::Waiting { new: true, .. }));
    claim.finish(answered(&ticket, 200, "{}")).await.unwrap();
    let another = desk.present(&hinted("A-3", "ann")).await;
    assert!(matches!(another, Standing::Mismatch(_)));
    let mut absent = refund("A-3");
    absent.hint = Some("tkt_none".into());
    desk.request(&absent).await;
}

pub async fn too_many_requests_are_not_taken(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    for n in 0..5 {
        desk.request(&refund(&format!("A-{n}"))).await;
    }
    assert!(matches!(
        desk.present(&refund("A-5")).await,
        Standing::Capped(Cap::PendingPerSession)
    ));
    // Known ones are told of, and others are not affected.
    desk.request(&refund("A-0")).await;
    desk.request(&by("bob", "s1", "A-5")).await;
    for n in 5..20 {
        desk.request(&by("ann", &format!("s{n}"), "A-5")).await;
    }
    assert!(matches!(
        desk.present(&by("ann", "s20", "A-5")).await,
        Standing::Capped(Cap::RequestsPerUser)
    ));
    desk.clock.forward(Duration::from_hours(1));
    desk.request(&by("ann", "s20", "A-5")).await;
}

pub async fn whoever_waits_hears_of_every_change(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let beside = desk.beside(bed).await;
    let ticket = desk.request(&refund("A-1")).await;
    let patience = Duration::from_secs(30);
    let wait = async |desk: &Desk, seen| {
        desk.store
            .changed(ticket.clone(), seen, patience)
            .await
            .unwrap()
    };
    // What is different already is told at once.
    let at_once = wait(&desk, TicketState::Approved).await;
    assert_eq!(at_once, TicketState::Requested);
    // Nothing happens: it ends.
    let short = Duration::from_millis(5);
    let nothing = desk
        .store
        .changed(ticket.clone(), TicketState::Requested, short)
        .await;
    assert_eq!(nothing.unwrap(), TicketState::Requested);
    // This process's change, and another's.
    let (own, others, _) = tokio::join!(
        wait(&desk, TicketState::Requested),
        wait(&beside, TicketState::Requested),
        desk.approve(&ticket)
    );
    assert_eq!(own, TicketState::Approved);
    assert_eq!(others, TicketState::Approved);
    // Running out is a change as well.
    desk.clock.forward(Duration::from_mins(15));
    let ran_out = wait(&desk, TicketState::Approved).await;
    assert_eq!(ran_out, TicketState::Expired);
}

pub async fn lists_come_in_pages_and_kinds(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let mut made = Vec::new();
    for n in 0..4 {
        made.push(desk.request(&refund(&format!("A-{n}"))).await);
    }
    let mut foreign = by("bob", "s1", "B-1");
    Arc::make_mut(&mut foreign.principal).tenant = "globex".into();
    bind(&mut foreign);
    made.push(desk.request(&foreign).await);
    desk.answer(&made[1], Verdict::Deny, local()).await.unwrap();
    desk.approve(&made[2]).await;

    let ids = async |filter: Filter| -> Vec<_> {
        let found = desk.store.list(filter).await.unwrap();
        found
            .into_iter()
            .map(|ticket| made.iter().position(|id| *id == ticket.id).unwrap())
            .collect()
    };
    assert_eq!(ids(Filter::default()).await, [4, 3, 2, 1, 0]);
    assert_eq!(ids(Filter::state(TicketState::Requested)).await, [4, 3, 0]);
    let both = Filter {
        states: vec![TicketState::Denied, TicketState::Approved],
        ..Filter::default()
    };
    assert_eq!(ids(both).await, [2, 1]);
    let tenant = |names: &[&str]| Filter {
        tenants: Some(names.iter().map(|name| (*name).to_owned()).collect()),
        ..Filter::default()
    };
    assert_eq!(ids(tenant(&["globex"])).await, [4]);
    assert_eq!(ids(tenant(&[])).await, [0_usize; 0]);
    let user = Filter {
        issuer: Some("idp".to_owned()),
        subject: Some("bob".to_owned()),
        tool: Some("refund".to_owned()),
        upstream: Some("shop".to_owned()),
        ..Filter::default()
    };
    assert_eq!(ids(user).await, [4]);
    let page = |before| Filter {
        before,
        limit: 2,
        ..Filter::default()
    };
    let first = desk.store.list(page(None)).await.unwrap();
    assert_eq!(first[1].id, made[3]);
    assert_eq!(ids(page(Some(first[1].seq))).await, [2, 1]);

    let counts = desk.store.counts().await.unwrap();
    assert_eq!(counts.len(), TicketState::ALL.len());
    assert_eq!(counts[&TicketState::Requested], 3);
    assert_eq!(counts[&TicketState::Denied], 1);
}
