//! Whatever comes in whatever order: what must hold after every single step.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use holdpoint::clock::Clock;
use holdpoint::guard::{Claim, Outcome};
use holdpoint::names::TicketId;
use holdpoint::store::tickets::audit::Verifier;
use holdpoint::store::tickets::{
    Cause, Claiming, Decider, Filter, MandateFilter, MandateOffer, Mandated, NewMandate, Presented,
    Resolution, Resolver, Spend, Ticket, TicketLimits, TicketState, Verdict,
};
use jiff::Timestamp;
use rust_decimal::Decimal;

use super::mandates::all;
use super::{Bed, Desk, answered, bind, by, local, person};

const STEPS: u32 = 500;

/// Numbers that look random and are the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap()
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        (!of.is_empty()).then(|| &of[self.roll(of.len())])
    }
}

/// Calls of one user; that of number `n` costs `n + 1`, and every second one needs two people.
fn call(n: usize) -> Presented {
    let mut call = by("ann", "s1", &format!("A-{n}"));
    if n.is_multiple_of(2) {
        call.terms.mandate = Some(MandateOffer {
            amount: Some("/amount".to_owned()),
            currency: None,
            at_most: Some(Decimal::from(9)),
            uses: 4,
            within: Duration::from_mins(40),
            same: Vec::new(),
        });
    } else {
        call.terms.approvals = 2;
    }
    bind(&mut call);
    call
}

fn cost(n: usize) -> Decimal {
    Decimal::from(n + 1)
}

struct World {
    /// Of two processes.
    desks: [Desk; 2],
    dice: Dice,
    calls: Vec<Presented>,
    open: Vec<Box<dyn Claim>>,
    /// How often each ticket's call may have been carried out.
    acts: HashMap<TicketId, u32>,
    before: BTreeMap<TicketId, TicketState>,
    /// Every state that a ticket was seen in.
    seen: BTreeSet<&'static str>,
    /// The latest time that it has been.
    latest: Timestamp,
}

impl World {
    async fn tickets(&self) -> Vec<Ticket> {
        let filter = Filter {
            limit: 1000,
            ..Filter::default()
        };
        self.desks[0].store.list(filter).await.unwrap()
    }

    fn desk(&mut self) -> &Desk {
        let which = self.dice.roll(2);
        &self.desks[which]
    }

    /// One step of whoever has a hand in it.
    async fn step(&mut self) {
        let known = self.tickets().await;
        let n = self.dice.roll(self.calls.len());
        let call = self.calls[n].clone();
        // Of the newest, mostly: the others are final.
        let some = self.dice.one(&known[..known.len().min(8)]).cloned();
        match (self.dice.roll(14), some) {
            (0..=2, _) | (_, None) => drop(self.desk().store.present(call).await.unwrap()),
            (3 | 4, Some(ticket)) => {
                let verdict = [
                    Verdict::Approve,
                    Verdict::Approve,
                    Verdict::Deny,
                    Verdict::Revoke,
                ];
                let verdict = verdict[self.dice.roll(4)];
                let people = [person("carol"), person("dave"), person("ann"), local()];
                let who: Decider = people[self.dice.roll(4)].clone();
                // Whether it counts is for the invariants.
                let _ = self.desk().answer(&ticket.id, verdict, who).await;
            }
            (5 | 6, Some(ticket)) => {
                let own = self.calls.iter();
                let own = own.filter(|call| call.call.digest == ticket.digest);
                let call = match self.dice.roll(3) {
                    0 => call,
                    _ => own.last().unwrap().clone(),
                };
                let claiming = self.desk().try_claim(&call, &ticket.id).await;
                if let Claiming::Claimed(claim) = claiming {
                    assert_eq!(ticket.digest, call.call.digest, "claimed for another call");
                    assert_eq!(ticket.state, TicketState::Approved);
                    assert!(
                        ticket.expires_at > self.latest,
                        "claimed when it had run out"
                    );
                    self.claimed(claim);
                }
            }
            (7, _) => self.finish().await,
            (8, _) => {
                let minutes = Duration::from_mins(1 + self.dice.roll(9) as u64);
                let clock = &self.desks[0].clock;
                if self.dice.roll(4) == 0 {
                    clock.back(minutes);
                } else {
                    clock.forward(minutes);
                }
            }
            (9, Some(ticket)) => {
                let new = NewMandate {
                    ticket: ticket.id,
                    by: local(),
                    digest_prefix: None,
                    uses: None,
                    at_most: None,
                    within: None,
                    comment: None,
                };
                let _ = self.desk().store.grant(new).await;
            }
            (10, _) => {
                let spend = Some(Spend {
                    amount: cost(n),
                    currency: None,
                });
                let said = self.desk().store.claim_under(call, spend, all()).await;
                if let Mandated::Claimed(claim) = said.unwrap() {
                    self.claimed(claim);
                }
            }
            (11, Some(ticket)) => {
                let void = self.desk().store.void(ticket.id, Cause::StateChanged);
                void.await.unwrap();
            }
            (_, Some(ticket)) => {
                let mut unknown = known.iter();
                let unknown = unknown.find(|ticket| ticket.state == TicketState::Unknown);
                let word = Resolution {
                    ticket: unknown.unwrap_or(&ticket).id.clone(),
                    done: self.dice.roll(2) == 0,
                    by: Resolver::Person(local()),
                    note: Some("looked".to_owned()),
                    receipt: None,
                };
                let _ = self.desk().store.resolve(word).await;
            }
        }
    }

    fn claimed(&mut self, claim: Box<dyn Claim>) {
        let twice = self.open.iter().any(|open| open.ticket() == claim.ticket());
        assert!(!twice, "claimed twice at once");
        *self.acts.entry(claim.ticket().clone()).or_default() += 1;
        self.open.push(claim);
    }

    async fn finish(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let which = self.dice.roll(self.open.len());
        let claim = self.open.swap_remove(which);
        let ticket = claim.ticket().clone();
        match self.dice.roll(5) {
            0 => {
                *self.acts.get_mut(&ticket).unwrap() -= 1;
                claim.finish(Outcome::NotSent).await.unwrap();
            }
            1 => claim.finish(Outcome::Unknown).await.unwrap(),
            2 => {
                drop(claim);
                // Written by itself, and soon.
                while self.desks[0].state(&ticket).await == TicketState::Redeeming {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
            status => {
                let status = if status == 3 {
                    200
                } else {
                    [422, 503][self.dice.roll(2)]
                };
                let outcome = answered(&ticket, status, "{}");
                claim.finish(outcome).await.unwrap();
            }
        }
    }

    /// What must hold now, whatever has been.
    async fn check(&mut self) {
        self.latest = self.latest.max(self.desks[0].clock.now());
        let tickets = self.tickets().await;
        let mut live: HashMap<_, u32> = HashMap::new();
        for ticket in &tickets {
            self.seen.insert(ticket.state.as_str());
            let then = self.before.insert(ticket.id.clone(), ticket.state);
            if let Some(then) = then.filter(|then| then.is_final()) {
                assert_eq!(then, ticket.state, "what is final has changed: {ticket:?}");
            }
            let acts = self.acts.get(&ticket.id).copied().unwrap_or_default();
            let open = self.open.iter().any(|claim| *claim.ticket() == ticket.id);
            assert!(
                acts <= 1,
                "may have been carried out {acts} times: {ticket:?}"
            );
            assert_eq!(open, ticket.state == TicketState::Redeeming, "{ticket:?}");
            let may_act = matches!(
                ticket.state,
                TicketState::Redeeming
                    | TicketState::Succeeded
                    | TicketState::Failed
                    | TicketState::Unknown
                    | TicketState::ResolvedDone
                    | TicketState::ResolvedNotDone
            );
            assert_eq!(acts == 1, may_act, "{acts} acts: {ticket:?}");
            let waits = matches!(ticket.state, TicketState::Requested | TicketState::Approved);
            if waits || matches!(ticket.state, TicketState::Redeeming | TicketState::Unknown) {
                *live.entry(ticket.digest).or_default() += 1;
            }
            if ticket.state == TicketState::Approved && ticket.mandate.is_none() {
                let mut people: Vec<_> = ticket.votes.iter().map(|vote| &vote.by).collect();
                people.sort();
                people.dedup();
                assert!(people.len() >= ticket.approvals as usize, "{ticket:?}");
                assert!(people.iter().all(|person| person.subject != "ann"));
            }
        }
        assert!(live.values().all(|count| *count == 1), "asked for twice");
        let mandates = self.desks[1].store.mandates(MandateFilter::default());
        for mandate in mandates.await.unwrap() {
            let under: Vec<_> = tickets
                .iter()
                .filter(|ticket| ticket.mandate.as_ref() == Some(&mandate.id))
                .filter(|ticket| match ticket.state {
                    TicketState::Failed => ticket.completed.as_ref().unwrap().status == 503,
                    state => {
                        !matches!(state, TicketState::Cancelled | TicketState::ResolvedNotDone)
                    }
                })
                .collect();
            let cost = |ticket: &&Ticket| {
                let same = |call: &Presented| call.call.digest == ticket.digest;
                cost(self.calls.iter().position(same).unwrap())
            };
            assert_eq!(mandate.spent, under.iter().map(cost).sum::<Decimal>());
            assert_eq!(mandate.used as usize, under.len());
            assert!(mandate.used <= mandate.uses);
            assert!(mandate.at_most.is_none_or(|most| mandate.spent <= most));
        }
    }
}

pub async fn nothing_is_done_twice_or_overspent_whatever_comes(bed: &dyn Bed) {
    let limits = TicketLimits {
        pending_per_session: u32::MAX,
        requests_per_user: u32::MAX,
        ..TicketLimits::default()
    };
    let desk = Desk::with(bed, limits).await;
    let beside = desk.beside(bed).await;
    let mut world = World {
        latest: desk.clock.now(),
        desks: [desk, beside],
        dice: Dice(0x2545_f491_4f6c_dd1d),
        calls: (0..6).map(call).collect(),
        open: Vec::new(),
        acts: HashMap::new(),
        before: BTreeMap::new(),
        seen: BTreeSet::new(),
    };
    for _ in 0..STEPS {
        world.step().await;
        world.check().await;
    }
    let mut verifier = Verifier::new(None);
    loop {
        let rows = world.desks[1].store.audit(verifier.head().seq, 1000).await;
        let rows = rows.unwrap();
        if rows.is_empty() {
            break;
        }
        for row in &rows {
            verifier.take(row).unwrap();
        }
    }
    for ticket in world.tickets().await {
        assert!(verifier.agrees(&ticket), "{ticket:?}");
    }
    let seen = world.seen;
    assert!(seen.len() >= 8, "it has not seen much: {seen:?}");
}
