//! What every ticket store promises, each promise a function over a bed of its own, so that every kind of store has the same
//! tests. Whoever takes them in calls this room `conformance`.

pub mod acquainted;
pub mod anything;
pub mod calls;
pub mod clock;
pub mod issued;
pub mod keeping;
pub mod mandates;
pub mod outcomes;
pub mod trail;
pub mod votes;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use holdpoint::clock::Clock;
use holdpoint::guard::{Claim, Outcome, Receipt};
use holdpoint::names::{RouteName, RuleId, SessionKey, TicketId, ToolName, UpstreamName};
use holdpoint::policy::{Gate, PolicyHash};
use holdpoint::principal::Principal;
use holdpoint::store::tickets::digest::{BoundCall, CallDigest, sha256_hex};
use holdpoint::store::tickets::{
    Answer, AnswerError, Bound, Channel, Claiming, Decider, Person, Presented, Standing, Terms,
    Ticket, TicketLimits, TicketState, TicketStore, Verdict, Voter,
};
use holdpoint::verdict::{LayerId, Reason};

use self::clock::StillClock;

/// A place for one set of tickets, empty at first.
pub trait Bed: Send + Sync {
    /// Opens it as the process does that serves it.
    fn serve(
        &self,
        clock: Arc<dyn Clock>,
        limits: TicketLimits,
    ) -> BoxFuture<'_, Arc<dyn TicketStore>>;

    /// Opens it as another process does.
    fn beside(
        &self,
        clock: Arc<dyn Clock>,
        limits: TicketLimits,
    ) -> BoxFuture<'_, Arc<dyn TicketStore>>;
}

/// A store that is served, and its clock.
pub struct Desk {
    pub store: Arc<dyn TicketStore>,
    pub clock: Arc<StillClock>,
}

impl Desk {
    pub async fn open(bed: &dyn Bed) -> Self {
        Self::with(bed, TicketLimits::default()).await
    }

    pub async fn with(bed: &dyn Bed, limits: TicketLimits) -> Self {
        let clock = StillClock::new();
        let store = bed.serve(clock.clone(), limits).await;
        Self { store, clock }
    }

    /// The same tickets as another process sees them.
    pub async fn beside(&self, bed: &dyn Bed) -> Self {
        let limits = self.store.limits().clone();
        let store = bed.beside(self.clock.clone(), limits).await;
        let clock = self.clock.clone();
        Self { store, clock }
    }

    pub async fn present(&self, call: &Presented) -> Standing {
        self.store.present(call.clone()).await.unwrap()
    }

    /// The request that the call makes or has made.
    pub async fn request(&self, call: &Presented) -> TicketId {
        match self.present(call).await {
            Standing::Waiting { ticket, .. } => ticket.id,
            other => panic!("no request: {other:?}"),
        }
    }

    pub async fn answer(
        &self,
        ticket: &TicketId,
        verdict: Verdict,
        by: Decider,
    ) -> Result<Ticket, AnswerError> {
        let prefix = self.get(ticket).await.digest.to_string()[..8].to_owned();
        let answer = Answer {
            ticket: ticket.clone(),
            verdict,
            by,
            digest_prefix: Some(prefix),
            comment: None,
        };
        self.store.answer(answer).await
    }

    pub async fn approve(&self, ticket: &TicketId) -> Ticket {
        self.answer(ticket, Verdict::Approve, local())
            .await
            .unwrap()
    }

    pub async fn approved(&self, call: &Presented) -> TicketId {
        let ticket = self.request(call).await;
        self.approve(&ticket).await;
        ticket
    }

    pub async fn try_claim(&self, call: &Presented, ticket: &TicketId) -> Claiming {
        self.store
            .claim(call.clone(), ticket.clone())
            .await
            .unwrap()
    }

    pub async fn claim(&self, call: &Presented, ticket: &TicketId) -> Box<dyn Claim> {
        match self.try_claim(call, ticket).await {
            Claiming::Claimed(claim) => claim,
            Claiming::Lost(standing) => panic!("not claimed: {standing:?}"),
        }
    }

    /// Asks, approves, claims, and stores the outcome.
    pub async fn done(&self, call: &Presented, status: u16) -> TicketId {
        let ticket = self.approved(call).await;
        let claim = self.claim(call, &ticket).await;
        claim
            .finish(answered(&ticket, status, "{\"refund\":\"R-7\"}"))
            .await
            .unwrap();
        ticket
    }

    /// Asks, approves, claims, and loses the outcome.
    pub async fn lost(&self, call: &Presented) -> TicketId {
        let ticket = self.approved(call).await;
        let claim = self.claim(call, &ticket).await;
        claim.finish(Outcome::Unknown).await.unwrap();
        ticket
    }

    pub async fn get(&self, ticket: &TicketId) -> Ticket {
        self.store.get(ticket.clone()).await.unwrap().unwrap()
    }

    pub async fn state(&self, ticket: &TicketId) -> TicketState {
        self.get(ticket).await.state
    }
}

/// Ann asks the shop for a refund in session `s1`, for arguments of an order.
pub fn refund(order: &str) -> Presented {
    by("ann", "s1", order)
}

/// As [`refund`], by somebody else or in another session.
pub fn by(subject: &str, session: &str, order: &str) -> Presented {
    let arguments = format!("{{\"amount\":\"10.00\",\"currency\":\"EUR\",\"order\":\"{order}\"}}");
    let mut call = Presented {
        call: BoundCall {
            digest: CallDigest::from_hex(&"00".repeat(32)).unwrap(),
            arguments: Bytes::from(arguments),
        },
        principal: Arc::new(Principal {
            tenant: "acme".into(),
            issuer: "idp".into(),
            subject: subject.into(),
            agent: "bot".into(),
            actors: vec!["desk".into()],
            scopes: BTreeSet::new(),
        }),
        session: Some(SessionKey::from(session)),
        route: RouteName::from("tools"),
        upstream: UpstreamName::from("shop"),
        tool: ToolName::from("refund"),
        again: false,
        hint: None,
        said: None,
        bound: Bound::default(),
        terms: Terms {
            policy: PolicyHash("5f".repeat(32).into()),
            layer: LayerId::Tickets,
            rule: RuleId::from("tools[0].ticket"),
            reason: Reason::ApprovalRequired,
            gate: Gate::Approve,
            roles: vec!["finance".to_owned()],
            approvals: 1,
            fresh: false,
            ttl: Duration::from_mins(15),
            summary: "Refund 10.00".to_owned(),
            reconcile: None,
            mandate: None,
            idempotent: None,
        },
    };
    bind(&mut call);
    call
}

/// Any difference makes another digest; how a digest is made is no store's business.
pub fn bind(call: &mut Presented) {
    let whole = format!(
        "{:?} {:?} {:?} {:?} {:?}",
        call.call.arguments, call.principal, call.session, call.upstream, call.tool
    );
    call.call.digest = CallDigest::from_hex(&sha256_hex(whole.as_bytes())).unwrap();
}

pub fn local() -> Decider {
    Decider::Local("root".to_owned())
}

/// A person of finance with one identity.
pub fn voter(subject: &str) -> Voter {
    Voter::new(
        Person::new("idp", subject),
        vec!["finance".to_owned()],
        Channel::Page,
    )
}

pub fn person(subject: &str) -> Decider {
    Decider::Person(voter(subject))
}

pub fn answered(ticket: &TicketId, status: u16, body: &str) -> Outcome {
    Outcome::Answered(receipt(ticket, status, body))
}

pub fn receipt(ticket: &TicketId, status: u16, body: &str) -> Receipt {
    Receipt {
        ticket: ticket.clone(),
        status,
        content_type: Some("application/json".to_owned()),
        body: Bytes::from(body.to_owned()),
        completed_at: "2026-11-30T12:00:00Z".parse().unwrap(),
    }
}

/// Every promise, by a macro of the crate that makes tests of them.
macro_rules! every_promise {
    ($by:ident, $bed:path) => {
        $by! { $bed;
            calls {
                a_request_is_made_once
                of_many_at_once_one_makes_the_request
                an_approval_is_claimed_once_and_its_receipt_given_back
                of_a_hundred_claims_one_wins
                a_claim_whose_caller_has_gone_is_given_back
                a_ticket_of_another_call_is_not_claimed
                what_ran_out_is_told_once
                other_terms_cancel_a_request_and_an_approval
                changed_facts_cancel_a_request
                an_approval_that_no_longer_holds_is_cancelled
                a_denial_holds_for_a_while_with_its_comment
                a_hint_is_no_authority
                too_many_requests_are_not_taken
                whoever_waits_hears_of_every_change
                lists_come_in_pages_and_kinds
            }
            outcomes {
                what_was_provably_not_sent_is_approved_again
                what_nobody_knows_stays_unknown
                an_upstream_that_honours_the_key_is_asked_once_more
                a_receipt_is_given_back_within_its_window
                what_turned_out_to_be_done_is_not_done_again
                what_turned_out_not_to_be_done_is_asked_for_anew
                only_what_is_unknown_is_resolved_and_only_by_those_who_may
            }
            votes {
                several_approvals_come_from_several_people
                one_human_counts_once
                the_same_word_twice_is_one
                the_first_no_is_final
                an_approval_is_taken_back_until_it_is_used
                nobody_approves_an_own_request
                a_confirmation_is_the_users_own
                roles_tenants_and_a_fresh_log_in
                an_approval_names_what_was_shown
                approve_and_deny_race_and_the_no_holds
            }
            mandates {
                a_mandate_lets_calls_pass_up_to_its_count
                a_mandate_lets_calls_pass_up_to_its_sum
                parallel_calls_never_pass_the_limit
                what_failed_is_free_again_and_what_is_unknown_is_not
                a_repeated_call_is_not_a_second_spend
                nothing_else_is_covered
                a_mandate_is_never_more_than_was_offered
                only_those_who_may_approve_give_one
                a_mandate_ends
                one_that_does_not_stand_is_ended_for_good
                a_waiting_request_gives_way
            }
            issued {
                a_signed_ticket_is_taken_once_ever
                a_signed_ticket_changes_no_decision
                a_signed_mandate_covers_its_calls
            }
            trail {
                every_step_is_noted_and_the_chain_holds
                no_argument_is_in_the_audit
                chains_of_two_processes_are_one
                a_follower_moves_by_one_hand
                a_step_that_fails_notes_nothing
            }
            anything {
                nothing_is_done_twice_or_overspent_whatever_comes
            }
            keeping {
                what_ended_is_removed_in_time
                what_is_unknown_or_open_is_kept
            }
        }
    };
}

pub(crate) use every_promise;
