//! Mandates: what is left of one is asked and taken in one step.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use holdpoint::guard::{Claim, Outcome};
use holdpoint::names::MandateId;
use holdpoint::store::tickets::{
    AnswerError, Decider, Mandate, MandateFilter, MandateOffer, Mandated, NewMandate, Presented,
    Spend, Standing, Stands, TicketState,
};
use rust_decimal::Decimal;

use super::{Bed, Desk, answered, bind, by, local, person, receipt, refund, voter};

/// Every mandate stands.
pub fn all() -> Stands {
    Arc::new(|_| true)
}

fn decimal(text: &str) -> Decimal {
    text.parse().unwrap()
}

fn offer() -> MandateOffer {
    MandateOffer {
        amount: Some("/amount".to_owned()),
        currency: Some("/currency".to_owned()),
        at_most: Some(decimal("50.00")),
        uses: 3,
        within: Duration::from_hours(8),
        same: Vec::new(),
    }
}

/// A refund whose rule offers a mandate.
fn offered(order: &str) -> Presented {
    let mut call = refund(order);
    call.terms.mandate = Some(offer());
    call
}

fn spend(amount: &str) -> Spend {
    Spend {
        amount: decimal(amount),
        currency: Some("EUR".to_owned()),
    }
}

fn wanted(ticket: holdpoint::names::TicketId, by: Decider) -> NewMandate {
    NewMandate {
        ticket,
        by,
        digest_prefix: None,
        uses: None,
        at_most: None,
        within: None,
        comment: None,
    }
}

/// A mandate on the request that the call makes.
async fn granted(desk: &Desk, call: &Presented) -> Mandate {
    let ticket = desk.request(call).await;
    desk.store.grant(wanted(ticket, local())).await.unwrap()
}

async fn claim(desk: &Desk, call: &Presented, amount: &str) -> Mandated {
    desk.store
        .claim_under(call.clone(), Some(spend(amount)), all())
        .await
        .unwrap()
}

/// `claimed`, or what was said.
async fn word(desk: &Desk, call: &Presented, amount: &str) -> &'static str {
    match claim(desk, call, amount).await {
        Mandated::NoMandate => "no mandate",
        Mandated::Exceeded(_) => "exceeded",
        Mandated::Said(_) => "said",
        Mandated::Claimed(claim) => {
            let ticket = claim.ticket().clone();
            claim.finish(answered(&ticket, 200, "{}")).await.unwrap();
            "claimed"
        }
    }
}

async fn taken(desk: &Desk, call: &Presented, amount: &str) -> Box<dyn Claim> {
    match claim(desk, call, amount).await {
        Mandated::Claimed(claim) => claim,
        _ => panic!("not claimed"),
    }
}

async fn left(desk: &Desk, id: &MandateId) -> (u32, Decimal) {
    let all = desk.store.mandates(MandateFilter::default()).await.unwrap();
    let found = all.into_iter().find(|mandate| mandate.id == *id).unwrap();
    (found.used, found.spent)
}

pub async fn a_mandate_lets_calls_pass_up_to_its_count(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    assert_eq!(word(&desk, &offered("A-1"), "1").await, "no mandate");
    let mandate = granted(&desk, &offered("A-1")).await;
    for n in 0..3 {
        assert_eq!(
            word(&desk, &offered(&format!("B-{n}")), "1").await,
            "claimed"
        );
    }
    assert_eq!(word(&desk, &offered("B-3"), "1").await, "exceeded");
    assert_eq!(left(&desk, &mandate.id).await, (3, decimal("3")));
    // Spent tickets say under what.
    let listed = desk
        .store
        .list(holdpoint::store::tickets::Filter::default());
    let under = listed.await.unwrap();
    let under = under
        .iter()
        .filter(|ticket| ticket.mandate.as_ref() == Some(&mandate.id));
    assert_eq!(under.count(), 3);
    let live = MandateFilter {
        live: true,
        ..MandateFilter::default()
    };
    assert!(desk.store.mandates(live).await.unwrap().is_empty());
}

pub async fn a_mandate_lets_calls_pass_up_to_its_sum(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let mandate = granted(&desk, &offered("A-1")).await;
    assert_eq!(mandate.at_most, Some(decimal("50.00")));
    assert_eq!(mandate.currency.as_deref(), Some("EUR"));
    assert_eq!(word(&desk, &offered("B-1"), "49.98").await, "claimed");
    assert_eq!(word(&desk, &offered("B-2"), "0.03").await, "exceeded");
    assert_eq!(word(&desk, &offered("B-2"), "-1").await, "exceeded");
    assert_eq!(word(&desk, &offered("B-2"), "0.02").await, "claimed");
    assert_eq!(word(&desk, &offered("B-3"), "0.01").await, "exceeded");
    assert_eq!(word(&desk, &offered("B-3"), "0").await, "claimed");
    assert_eq!(left(&desk, &mandate.id).await, (3, decimal("50.00")));
}

pub async fn parallel_calls_never_pass_the_limit(bed: &dyn Bed) {
    let desk = Arc::new(Desk::open(bed).await);
    let beside = Arc::new(desk.beside(bed).await);
    let mut first = offered("A-1");
    first.terms.mandate.as_mut().unwrap().uses = 1000;
    let mandate = granted(&desk, &first).await;
    // Amounts from 0.50 to 7.50 in an order that looks like none.
    let amounts: Vec<Decimal> = (0..60_i64)
        .map(|n| Decimal::new(50 * (1 + (n * 7919) % 15), 2))
        .collect();
    let calls = amounts.iter().enumerate().map(|(n, amount)| {
        let desk = Arc::clone(if n % 2 == 0 { &desk } else { &beside });
        let mut call = offered(&format!("B-{n}"));
        call.terms.mandate.as_mut().unwrap().uses = 1000;
        let amount = *amount;
        tokio::spawn(async move {
            match claim(&desk, &call, &amount.to_string()).await {
                Mandated::Claimed(claim) => {
                    let ticket = claim.ticket().clone();
                    // Some are not sent, some fail, and of some nobody knows.
                    let (outcome, counts) = match n % 6 {
                        0 => (Outcome::NotSent, false),
                        1 => (answered(&ticket, 409, "{}"), false),
                        2 => (Outcome::Unknown, true),
                        3 => (answered(&ticket, 502, "{}"), true),
                        _ => (answered(&ticket, 200, "{}"), true),
                    };
                    claim.finish(outcome).await.unwrap();
                    counts.then_some(amount)
                }
                Mandated::Exceeded(_) => None,
                Mandated::NoMandate | Mandated::Said(_) => panic!("covered, and new"),
            }
        })
    });
    let spent: Vec<Decimal> = join_all(calls)
        .await
        .into_iter()
        .filter_map(Result::unwrap)
        .collect();
    let sum: Decimal = spent.iter().sum();
    assert!(sum <= decimal("50.00"), "{sum}");
    let used = u32::try_from(spent.len()).unwrap();
    assert_eq!(left(&desk, &mandate.id).await, (used, sum));
    // Almost everything was asked for at once, so it was nearly used up.
    assert!(sum > decimal("25.00"), "{sum}");
}

pub async fn what_failed_is_free_again_and_what_is_unknown_is_not(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let mandate = granted(&desk, &offered("A-1")).await;
    let unsent = taken(&desk, &offered("B-1"), "40").await;
    let ticket = unsent.ticket().clone();
    assert_eq!(left(&desk, &mandate.id).await, (1, decimal("40")));
    unsent.finish(Outcome::NotSent).await.unwrap();
    assert_eq!(left(&desk, &mandate.id).await, (0, decimal("0")));
    assert_eq!(desk.state(&ticket).await, TicketState::Cancelled);

    let failed = taken(&desk, &offered("B-1"), "40").await;
    let ticket = failed.ticket().clone();
    failed.finish(answered(&ticket, 422, "{}")).await.unwrap();
    assert_eq!(left(&desk, &mandate.id).await, (0, decimal("0")));
    assert_eq!(desk.state(&ticket).await, TicketState::Failed);
    // One that fails may have acted before, and so may one whose answer is withheld.
    let broken = taken(&desk, &offered("B-4"), "4").await;
    let ticket = broken.ticket().clone();
    broken.finish(answered(&ticket, 503, "{}")).await.unwrap();
    let withheld = taken(&desk, &offered("B-5"), "1").await;
    let ticket = withheld.ticket().clone();
    let instead = Outcome::Withheld(receipt(&ticket, 403, "{}"));
    withheld.finish(instead).await.unwrap();
    assert_eq!(desk.state(&ticket).await, TicketState::Failed);
    assert_eq!(left(&desk, &mandate.id).await, (2, decimal("5")));

    let lost = taken(&desk, &offered("B-2"), "35").await;
    let ticket = lost.ticket().clone();
    lost.finish(Outcome::Unknown).await.unwrap();
    assert_eq!(left(&desk, &mandate.id).await, (3, decimal("40")));
    assert_eq!(word(&desk, &offered("B-3"), "11").await, "exceeded");
    // It turns out not to have been done.
    let resolution = holdpoint::store::tickets::Resolution {
        ticket,
        done: false,
        by: holdpoint::store::tickets::Resolver::Person(local()),
        note: None,
        receipt: None,
    };
    desk.store.resolve(resolution).await.unwrap();
    assert_eq!(left(&desk, &mandate.id).await, (2, decimal("5")));
}

pub async fn a_repeated_call_is_not_a_second_spend(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let mandate = granted(&desk, &offered("A-1")).await;
    let under_way = taken(&desk, &offered("B-1"), "10").await;
    let again = claim(&desk, &offered("B-1"), "10").await;
    assert!(matches!(again, Mandated::Said(Standing::Redeeming(_))));
    let ticket = under_way.ticket().clone();
    under_way
        .finish(answered(&ticket, 200, "{}"))
        .await
        .unwrap();
    let again = claim(&desk, &offered("B-1"), "10").await;
    assert!(matches!(again, Mandated::Said(Standing::Done(_))));
    assert_eq!(left(&desk, &mandate.id).await, (1, decimal("10")));
    let mut deliberate = offered("B-1");
    deliberate.again = true;
    assert_eq!(word(&desk, &deliberate, "10").await, "claimed");
}

/// Makes another call of it.
type Change = fn(&mut Presented);

pub async fn nothing_else_is_covered(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let mut first = offered("A-1");
    first.terms.mandate.as_mut().unwrap().same = vec!["/currency".to_owned()];
    let mandate = granted(&desk, &first).await;
    assert_eq!(mandate.same["/currency"], "EUR");
    let changes: [(&str, Change); 10] = [
        ("user", |c| {
            Arc::make_mut(&mut c.principal).subject = "bob".into();
        }),
        ("issuer", |c| {
            Arc::make_mut(&mut c.principal).issuer = "x".into();
        }),
        ("tenant", |c| {
            Arc::make_mut(&mut c.principal).tenant = "x".into();
        }),
        ("agent", |c| {
            Arc::make_mut(&mut c.principal).agent = "x".into();
        }),
        ("session", |c| c.session = Some("s2".into())),
        ("upstream", |c| c.upstream = "x".into()),
        ("tool", |c| c.tool = "pay".into()),
        ("rule", |c| c.terms.rule = "tools[1].ticket".into()),
        ("no offer any more", |c| c.terms.mandate = None),
        ("pinned argument", |c| {
            c.call.arguments = b"{\"amount\":\"10.00\",\"currency\":\"USD\",\"order\":\"B-1\"}"
                .as_slice()
                .into();
        }),
    ];
    for (what, change) in changes {
        let mut call = offered("B-1");
        change(&mut call);
        bind(&mut call);
        assert_eq!(word(&desk, &call, "1").await, "no mandate", "{what}");
    }
    let foreign = Spend {
        amount: decimal("1"),
        currency: Some("USD".to_owned()),
    };
    for other in [Some(foreign), None] {
        let said = desk.store.claim_under(offered("B-1"), other, all());
        let said = said.await.unwrap();
        assert!(matches!(said, Mandated::NoMandate));
    }
    assert_eq!(word(&desk, &offered("B-1"), "1").await, "claimed");
}

pub async fn a_mandate_is_never_more_than_was_offered(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let ticket = desk.request(&offered("A-1")).await;
    let more = NewMandate {
        uses: Some(100),
        at_most: Some(decimal("1000")),
        within: Some(Duration::from_hours(1000)),
        ..wanted(ticket.clone(), local())
    };
    let given = desk.store.grant(more).await.unwrap();
    assert_eq!((given.uses, given.at_most), (3, Some(decimal("50.00"))));
    assert_eq!(given.expires_at.to_string(), "2026-11-30T20:00:00Z");
    desk.store
        .end_mandate(given.id, local())
        .await
        .unwrap()
        .unwrap();

    let less = NewMandate {
        uses: Some(2),
        at_most: Some(decimal("5")),
        within: Some(Duration::from_hours(1)),
        comment: Some("for today".to_owned()),
        ..wanted(ticket, local())
    };
    let given = desk.store.grant(less).await.unwrap();
    assert_eq!((given.uses, given.at_most), (2, Some(decimal("5"))));
    assert_eq!(given.comment.as_deref(), Some("for today"));
    assert_eq!(word(&desk, &offered("B-1"), "5.01").await, "exceeded");
    // Today's policy offers less than then.
    let mut tighter = offered("B-1");
    tighter.terms.mandate.as_mut().unwrap().at_most = Some(decimal("4"));
    assert_eq!(word(&desk, &tighter, "4.5").await, "exceeded");
    assert_eq!(word(&desk, &tighter, "4").await, "claimed");
    // It pins more, or holds for less long.
    let mut pinning = offered("B-2");
    pinning.terms.mandate.as_mut().unwrap().same = vec!["/order".to_owned()];
    assert_eq!(word(&desk, &pinning, "1").await, "no mandate");
    let mut shorter = offered("B-2");
    shorter.terms.mandate.as_mut().unwrap().within = Duration::from_mins(20);
    desk.clock.forward(Duration::from_mins(20));
    assert_eq!(word(&desk, &shorter, "1").await, "no mandate");
    assert_eq!(word(&desk, &offered("B-2"), "1").await, "claimed");
}

pub async fn only_those_who_may_approve_give_one(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let ticket = desk.request(&offered("A-1")).await;
    let digest = desk.get(&ticket).await.digest.to_string();
    let grant = |by: Decider| {
        let mut new = wanted(ticket.clone(), by);
        new.digest_prefix = Some(digest[..8].to_owned());
        desk.store.grant(new)
    };
    let own = grant(person("ann")).await;
    assert!(matches!(own, Err(AnswerError::SelfApproval(_))));
    let mut roleless = voter("carol");
    roleless.roles.clear();
    let roleless = grant(Decider::Person(roleless)).await;
    assert!(matches!(roleless, Err(AnswerError::RoleMissing { .. })));
    let unseen = desk.store.grant(wanted(ticket.clone(), person("carol")));
    assert!(matches!(unseen.await, Err(AnswerError::DigestPrefix)));
    let mandate = grant(person("carol")).await.unwrap();
    assert_eq!(mandate.granted_by.record(), "idp:carol");

    let plain = desk.request(&refund("A-2")).await;
    let none = desk.store.grant(wanted(plain, local())).await;
    assert!(matches!(none, Err(AnswerError::NotOffered { .. })));
    let mut two = offered("A-3");
    two.terms.approvals = 2;
    let two = desk.request(&two).await;
    let two = desk.store.grant(wanted(two, local())).await;
    assert!(matches!(two, Err(AnswerError::NotOffered { .. })));
    let mut lacking = offered("A-4");
    lacking.terms.mandate.as_mut().unwrap().currency = Some("/none".to_owned());
    let lacking = desk.request(&lacking).await;
    let lacking = desk.store.grant(wanted(lacking, local())).await;
    assert!(matches!(lacking, Err(AnswerError::NotOffered { .. })));
    let done = desk.done(&by("ann", "s9", "A-5"), 200).await;
    let done = desk.store.grant(wanted(done, local())).await;
    assert!(matches!(done, Err(AnswerError::AlreadyDecided { .. })));
}

pub async fn a_mandate_ends(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let mandate = granted(&desk, &offered("A-1")).await;
    let mut foreign = voter("carol");
    foreign.tenants = Some(vec!["globex".to_owned()]);
    let end = |by| desk.store.end_mandate(mandate.id.clone(), by);
    assert!(end(Decider::Person(foreign)).await.unwrap().is_none());
    let ended = end(person("carol")).await.unwrap().unwrap();
    assert_eq!(ended.ended_by.as_deref(), Some("idp:carol"));
    let twice = end(person("dave")).await.unwrap().unwrap();
    assert_eq!(twice.ended_by, ended.ended_by);
    assert_eq!(word(&desk, &offered("B-1"), "1").await, "no mandate");

    granted(&desk, &offered("A-1")).await;
    desk.clock
        .forward(Duration::from_hours(8) - Duration::from_micros(1));
    assert_eq!(word(&desk, &offered("B-1"), "1").await, "claimed");
    desk.clock.forward(Duration::from_micros(1));
    assert_eq!(word(&desk, &offered("B-2"), "1").await, "no mandate");
}

pub async fn one_that_does_not_stand_is_ended_for_good(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let first = granted(&desk, &offered("A-1")).await;
    let call = offered("A-2");
    let given = granted(&desk, &call).await;
    assert_eq!(given.given.unwrap().gate, call.terms.gate);
    let under = async |stands: Stands| {
        let said = desk
            .store
            .claim_under(offered("B-1"), Some(spend("1")), stands);
        said.await.unwrap()
    };
    // The other one takes its place.
    let gone = first.id.clone();
    let Mandated::Claimed(claim) = under(Arc::new(move |it| it.id != gone)).await else {
        panic!("the second mandate covers it")
    };
    let ticket = claim.ticket().clone();
    claim.finish(Outcome::NotSent).await.unwrap();
    let under_what = desk.get(&ticket).await.mandate;
    assert_eq!(under_what.as_ref(), Some(&given.id));
    let said = under(Arc::new(|_| false)).await;
    assert!(matches!(said, Mandated::NoMandate));
    assert_eq!(word(&desk, &offered("B-2"), "1").await, "no mandate");
    let all = desk.store.mandates(MandateFilter::default()).await.unwrap();
    for mandate in all {
        assert_eq!(mandate.ended_by.as_deref(), Some("holdpoint"));
    }
    let rows = desk.store.audit(0, 100).await.unwrap();
    let ended = rows
        .iter()
        .filter(|row| row.event.as_str() == "mandate_ended" && row.actor == "holdpoint");
    assert_eq!(ended.count(), 2);
}

pub async fn a_waiting_request_gives_way(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let call = offered("A-1");
    let waiting = desk.request(&call).await;
    desk.store
        .grant(wanted(waiting.clone(), local()))
        .await
        .unwrap();
    assert_eq!(word(&desk, &call, "10").await, "claimed");
    assert_eq!(desk.state(&waiting).await, TicketState::Cancelled);
    // What a person approved is used first; what a person denied stays denied.
    let approved = offered("A-2");
    desk.approved(&approved).await;
    assert_eq!(word(&desk, &approved, "10").await, "no mandate");
    let denied = offered("A-3");
    let ticket = desk.request(&denied).await;
    desk.answer(&ticket, holdpoint::store::tickets::Verdict::Deny, local())
        .await
        .unwrap();
    let said = claim(&desk, &denied, "10").await;
    assert!(matches!(said, Mandated::Said(Standing::Denied { .. })));
}
