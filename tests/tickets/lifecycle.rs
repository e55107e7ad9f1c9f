//! One call from its request to its receipt, and everything that must not match on the way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use holdpoint::guard::{Decision, Guard, Observer, Outcome, Parts, Settlement};
use holdpoint::item::{Exchange, Item};
use holdpoint::layers::tickets::settler;
use holdpoint::layers::{Context, LAYERS, Memo};
use holdpoint::policy::Gate;
use holdpoint::store::Stores;
use holdpoint::store::tickets::{AnswerError, TicketState, Verdict};
use holdpoint::verdict::LayerId;

use crate::world::{
    Call, Said, World, answered, local, person, policy, recipient_hold, refund, send,
};

#[tokio::test]
async fn a_call_is_held_approved_sent_once_and_replayed() {
    let world = World::new();
    let hold = world.send(&refund()).await.hold();
    assert_eq!(hold.finding.reason.as_str(), "approval_required");
    assert_eq!(hold.finding.rule.as_str(), "tools[0].ticket");
    assert_eq!(hold.summary.as_deref(), Some("Refund 19.9 on order A-1"));
    assert_eq!(hold.expires_at.as_deref(), Some("2026-11-30T12:15:00Z"));

    let pending = world.send(&refund()).await.hold();
    assert_eq!(pending.finding.reason.as_str(), "approval_pending");
    assert_eq!(pending.ticket, hold.ticket);

    let ticket = hold.ticket.unwrap();
    let shown = world.approve(&ticket).await;
    assert_eq!(shown.state, TicketState::Approved);
    assert_eq!(shown.votes[0].by.record(), "local:root");

    let claim = world.send(&refund()).await.claim();
    assert_eq!(claim.ticket(), &ticket);
    assert_eq!(
        &claim.arguments()[..],
        br#"{"amount":19.9,"lines":[1,2],"order":"A-1"}"#
    );
    assert_eq!(world.send(&refund()).await.word(), "in_progress");
    claim
        .finish(answered(&ticket, 200, r#"{"refund":"R-7"}"#))
        .await
        .unwrap();

    for _ in 0..2 {
        let receipt = world.send(&refund()).await.receipt();
        assert_eq!(
            (receipt.ticket.clone(), receipt.status),
            (ticket.clone(), 200)
        );
        assert_eq!(&receipt.body[..], br#"{"refund":"R-7"}"#);
        assert_eq!(receipt.content_type.as_deref(), Some("application/json"));
    }
    let all = world.all().await;
    assert_eq!(all.len(), 1);
    assert_eq!((all[0].state, all[0].attempts), (TicketState::Succeeded, 1));
}

#[tokio::test]
async fn fifty_identical_calls_make_one_request() {
    let world = World::new();
    let call = refund();
    let said = join_all((0..50).map(|_| world.send(&call))).await;
    let required = said
        .iter()
        .filter(|s| s.word() == "approval_required")
        .count();
    let pending = said
        .iter()
        .filter(|s| s.word() == "approval_pending")
        .count();
    assert_eq!((required, pending), (1, 49));
    assert_eq!(world.all().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_a_hundred_calls_at_once_one_is_sent() {
    let world = Arc::new(World::new());
    let ticket = world.approved(&refund()).await;
    let calls = (0..100).map(|_| {
        let world = Arc::clone(&world);
        tokio::spawn(async move { world.send(&refund()).await })
    });
    let said: Vec<_> = join_all(calls)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let sent = said.iter().filter(|s| s.word() == "sent").count();
    let others = said.iter().filter(|s| s.word() == "in_progress").count();
    assert_eq!((sent, others), (1, 99));
    for claim in said
        .into_iter()
        .filter(|s| matches!(s, Said::Sent(_)))
        .map(Said::claim)
    {
        claim.finish(answered(&ticket, 200, "{}")).await.unwrap();
    }
    assert_eq!(world.send(&refund()).await.word(), "replayed");
}

#[tokio::test]
async fn whatever_differs_needs_an_approval_of_its_own() {
    type Change = fn(&mut Call);
    let changes: [(&str, Change); 14] = [
        ("amount", |c| c.args = c.args.replace("19.9", "19.91")),
        ("payee", |c| c.args = c.args.replace("A-1", "A-2")),
        ("case", |c| c.args = c.args.replace("A-1", "a-1")),
        ("order of a list", |c| {
            c.args = c.args.replace("[1,2]", "[2,1]");
        }),
        ("number as text", |c| {
            c.args = c.args.replace("19.9", "\"19.9\"");
        }),
        ("extra key", |c| {
            c.args = c.args.replace('{', "{\"approved\":true,");
        }),
        ("null key", |c| {
            c.args = c.args.replace('{', "{\"note\":null,");
        }),
        ("principal", |c| c.subject = "bob".to_owned()),
        ("issuer", |c| c.issuer = "idp".to_owned()),
        ("tenant", |c| c.tenant = "globex".to_owned()),
        ("agent", |c| c.agent = "other".to_owned()),
        ("session", |c| c.session = Some("s2".to_owned())),
        ("no session", |c| c.session = None),
        ("upstream", |c| c.upstream = "shop2".to_owned()),
    ];
    for (what, change) in changes {
        let world = World::new();
        let ticket = world.approved(&refund()).await;
        let mut call = refund();
        change(&mut call);
        let hold = world.send(&call).await.hold();
        assert_eq!(hold.finding.reason.as_str(), "approval_required", "{what}");
        assert_ne!(hold.ticket.as_ref(), Some(&ticket), "{what}");
        assert_eq!(world.state(&ticket).await, TicketState::Approved, "{what}");
    }
}

#[tokio::test]
async fn a_renamed_tool_and_another_normal_form_do_not_match() {
    let world = World::new();
    let composed = Call {
        args: "{\"name\":\"\u{e9}\"}".to_owned(),
        ..refund()
    };
    let ticket = world.approved(&composed).await;
    let decomposed = Call {
        args: "{\"name\":\"e\u{301}\"}".to_owned(),
        ..refund()
    };
    assert_eq!(world.send(&decomposed).await.word(), "approval_required");
    let renamed = Call {
        tool: "refund_now".to_owned(),
        ..composed
    };
    assert_eq!(world.send(&renamed).await.word(), "approval_required");
    assert_eq!(world.state(&ticket).await, TicketState::Approved);
}

#[tokio::test]
async fn the_same_call_in_other_words_is_the_same_call() {
    let world = World::new();
    let asked = Call {
        args: r#"{"order":"A-1","amount":20.0}"#.to_owned(),
        ..refund()
    };
    let ticket = world.approved(&asked).await;
    let repeated = Call {
        args: "{ \"amount\" : 2e1,\n \"order\": \"\\u0041-1\" }".to_owned(),
        ..refund()
    };
    let claim = world.send(&repeated).await.claim();
    assert_eq!(claim.ticket(), &ticket);
    assert_eq!(&claim.arguments()[..], br#"{"amount":20,"order":"A-1"}"#);
}

#[tokio::test]
async fn what_cannot_be_bound_is_refused_before_any_look_up() {
    let world = World::new();
    let huge = Call {
        args: r#"{"account":9007199254740993}"#.to_owned(),
        ..refund()
    };
    let deep = Call {
        args: format!("{{\"a\":{}{}}}", "[".repeat(64), "]".repeat(64)),
        ..refund()
    };
    let large = Call {
        args: format!("{{\"a\":\"{}\"}}", "x".repeat(1 << 20)),
        ..refund()
    };
    for call in [huge, deep, large] {
        assert_eq!(world.send(&call).await.word(), "arguments_not_bindable");
    }
    assert_eq!(world.all().await.len(), 0);
}

#[tokio::test]
async fn a_ticket_runs_out_to_the_second_and_for_good() {
    let world = World::new();
    let ticket = world.approved(&refund()).await;
    world
        .clock
        .forward(Duration::from_mins(15) - Duration::from_secs(1));
    assert_eq!(world.state(&ticket).await, TicketState::Approved);
    world.clock.forward(Duration::from_secs(1));
    assert_eq!(world.send(&refund()).await.word(), "approval_expired");
    world.clock.back(Duration::from_mins(10));
    assert_eq!(world.state(&ticket).await, TicketState::Expired);
    let answer = world.answer(&ticket, Verdict::Approve, local()).await;
    assert!(matches!(answer, Err(AnswerError::Expired(_))), "{answer:?}");
    let next = world.send(&refund()).await.hold();
    assert_eq!(next.finding.reason.as_str(), "approval_required");
    assert_ne!(next.ticket.unwrap(), ticket);
}

#[tokio::test]
async fn an_expiry_that_somebody_else_saw_is_still_told_once() {
    let world = World::new();
    let ticket = world.send(&refund()).await.ticket();
    world.clock.forward(Duration::from_mins(16));
    assert_eq!(world.all().await[0].state, TicketState::Expired);
    assert_eq!(world.send(&refund()).await.word(), "approval_expired");
    assert_ne!(world.send(&refund()).await.ticket(), ticket);
}

#[tokio::test]
async fn a_denied_call_is_refused_for_ten_minutes_without_asking() {
    let world = World::new();
    let ticket = world.send(&refund()).await.ticket();
    world.deny(&ticket).await;
    world.clock.forward(Duration::from_secs(599));
    let again = Call {
        again: true,
        ..refund()
    };
    assert_eq!(world.send(&refund()).await.word(), "approval_denied");
    assert_eq!(world.send(&again).await.word(), "approval_denied");
    assert_eq!(world.all().await.len(), 1);
    world.clock.forward(Duration::from_secs(1));
    assert_ne!(world.send(&refund()).await.ticket(), ticket);
}

#[tokio::test]
async fn nothing_sent_gives_the_approval_back_with_its_old_expiry() {
    let world = World::new();
    let ticket = world.approved(&refund()).await;
    world.clock.forward(Duration::from_mins(10));
    let claim = world.send(&refund()).await.claim();
    claim.finish(Outcome::NotSent).await.unwrap();
    let shown = world.store.get(ticket.clone()).await.unwrap().unwrap();
    assert_eq!(shown.state, TicketState::Approved);
    assert_eq!(shown.expires_at.to_string(), "2026-11-30T12:15:00Z");
    let claim = world.send(&refund()).await.claim();
    claim.finish(Outcome::NotSent).await.unwrap();
    world.clock.forward(Duration::from_mins(5));
    assert_eq!(world.send(&refund()).await.word(), "approval_expired");
}

#[tokio::test]
async fn an_upstream_error_uses_the_ticket_and_is_replayed() {
    for status in [400, 503] {
        let world = World::new();
        let ticket = world.done(&refund(), status).await;
        assert_eq!(world.state(&ticket).await, TicketState::Failed);
        assert_eq!(world.send(&refund()).await.receipt().status, status);
    }
}

#[tokio::test]
async fn an_unknown_outcome_is_never_sent_again() {
    let world = World::new();
    let ticket = world.approved(&refund()).await;
    let claim = world.send(&refund()).await.claim();
    claim.finish(Outcome::Unknown).await.unwrap();
    let again = Call {
        again: true,
        ..refund()
    };
    for call in [refund(), again] {
        assert_eq!(world.send(&call).await.word(), "outcome_unknown");
    }
    world.clock.forward(Duration::from_hours(100));
    assert_eq!(world.send(&refund()).await.word(), "outcome_unknown");
    assert_eq!(world.state(&ticket).await, TicketState::Unknown);
    assert_eq!(world.all().await.len(), 1);
}

#[tokio::test]
async fn a_claim_that_is_dropped_ends_as_unknown() {
    let world = World::new();
    let ticket = world.approved(&refund()).await;
    drop(world.send(&refund()).await.claim());
    assert_eq!(world.state(&ticket).await, TicketState::Unknown);
    assert_eq!(world.send(&refund()).await.word(), "outcome_unknown");
}

#[tokio::test]
async fn a_caller_that_goes_before_the_claim_is_his_leaves_the_approval() {
    let world = World::new();
    let ticket = world.approved(&refund()).await;
    let call = refund();
    tokio::select! {
        biased;
        said = world.send(&call) => said.claim().finish(Outcome::NotSent).await.unwrap(),
        () = std::future::ready(()) => {}
    }
    let mut state = world.state(&ticket).await;
    for _ in 0..1000 {
        if state == TicketState::Approved {
            break;
        }
        assert_eq!(state, TicketState::Redeeming);
        tokio::time::sleep(Duration::from_millis(1)).await;
        state = world.state(&ticket).await;
    }
    assert_eq!(state, TicketState::Approved);
    assert_eq!(world.send(&refund()).await.word(), "sent");
}

#[tokio::test]
async fn after_the_replay_window_the_call_is_asked_for_again() {
    let world = World::new();
    let first = world.done(&refund(), 200).await;
    world
        .clock
        .forward(Duration::from_hours(24) - Duration::from_secs(1));
    assert_eq!(world.send(&refund()).await.word(), "replayed");
    world.clock.forward(Duration::from_secs(1));
    let second = world.send(&refund()).await.ticket();
    let shown = world.store.get(second).await.unwrap().unwrap();
    let earlier = shown.earlier.unwrap();
    assert_eq!((earlier.id, earlier.state), (first, TicketState::Succeeded));
}

#[tokio::test]
async fn a_second_act_on_purpose_needs_a_second_approval() {
    let world = World::new();
    let again = Call {
        again: true,
        ..refund()
    };
    let first = world.done(&refund(), 200).await;
    assert_eq!(world.send(&refund()).await.word(), "replayed");
    let second = world.done(&again, 200).await;
    assert_ne!(first, second);
    assert_eq!(world.send(&refund()).await.receipt().ticket, second);
    assert_eq!(world.counts().await, [(TicketState::Succeeded, 2)].into());
}

#[tokio::test]
async fn a_denial_wins_until_the_call_is_on_its_way() {
    let world = World::new();
    let ticket = world.approved(&refund()).await;
    world.deny(&ticket).await;
    assert_eq!(world.send(&refund()).await.word(), "approval_denied");
    let answer = world.answer(&ticket, Verdict::Approve, local()).await;
    assert!(
        matches!(
            answer,
            Err(AnswerError::AlreadyDecided {
                state: TicketState::Revoked,
                ..
            })
        ),
        "{answer:?}"
    );

    let other = Call {
        session: Some("s2".to_owned()),
        ..refund()
    };
    let ticket = world.approved(&other).await;
    let claim = world.send(&other).await.claim();
    let late = world.answer(&ticket, Verdict::Deny, local()).await;
    assert!(
        matches!(
            late,
            Err(AnswerError::AlreadyDecided {
                state: TicketState::Redeeming,
                ..
            })
        ),
        "{late:?}"
    );
    claim.finish(answered(&ticket, 200, "{}")).await.unwrap();
}

#[tokio::test]
async fn nobody_approves_an_own_request_and_nobody_else_confirms_one() {
    let world = World::new();
    let ticket = world.send(&refund()).await.ticket();
    let own = world
        .answer(&ticket, Verdict::Approve, person("ann", &["finance"]))
        .await;
    assert!(matches!(own, Err(AnswerError::SelfApproval(_))), "{own:?}");
    let role = world
        .answer(&ticket, Verdict::Approve, person("carol", &["support"]))
        .await;
    assert!(
        matches!(role, Err(AnswerError::RoleMissing { .. })),
        "{role:?}"
    );
    let good = world
        .answer(&ticket, Verdict::Approve, person("carol", &["finance"]))
        .await
        .unwrap();
    assert_eq!(good.votes[0].by.record(), "config:carol");

    let subscribe = Call {
        tool: "subscribe".to_owned(),
        ..refund()
    };
    let ticket = world.send(&subscribe).await.ticket();
    let other = world
        .answer(&ticket, Verdict::Approve, person("carol", &[]))
        .await;
    assert!(
        matches!(other, Err(AnswerError::NotTheRequester(_))),
        "{other:?}"
    );
    world
        .answer(&ticket, Verdict::Approve, person("ann", &[]))
        .await
        .unwrap();
    assert_eq!(world.send(&subscribe).await.word(), "sent");
}

#[tokio::test]
async fn an_approval_under_a_weaker_rule_does_not_count() {
    let world = World::new();
    let ticket = world.approved(&refund()).await;
    let mut stricter = policy();
    stricter.tools[0].ticket.as_mut().unwrap().roles = vec!["board".to_owned()];
    let guard = crate::world::guard(stricter, Some(world.store.clone()));
    let next = send(&guard, &refund()).await.ticket();
    assert_eq!(world.state(&ticket).await, TicketState::Cancelled);
    let shown = world.store.get(next).await.unwrap().unwrap();
    assert_eq!(shown.roles, ["board"]);
}

#[tokio::test]
async fn what_nobody_described_needs_an_approval_and_a_described_read_none() {
    let world = World::new();
    let unknown = Call {
        tool: "delete_everything".to_owned(),
        ..refund()
    };
    let hold = world.send(&unknown).await.hold();
    assert_eq!(hold.finding.rule.as_str(), "undescribed");
    assert_eq!(
        hold.summary.as_deref(),
        Some("Run delete_everything at shop")
    );
    let shown = world
        .store
        .get(hold.ticket.unwrap())
        .await
        .unwrap()
        .unwrap();
    assert_eq!((shown.gate, shown.roles), (Gate::Approve, vec![]));
    assert_eq!(shown.expires_at.to_string(), "2026-11-30T12:15:00Z");

    let read = Call {
        tool: "get_order".to_owned(),
        ..refund()
    };
    assert_eq!(world.send(&read).await.word(), "passed");
    assert_eq!(world.all().await.len(), 1);
}

#[tokio::test]
async fn a_backend_carries_out_what_it_gets_whatever_route_the_rule_names() {
    let world = World::new();
    let call = Call {
        tool: "elsewhere".to_owned(),
        ..refund()
    };
    assert_eq!(world.send(&call).await.word(), "approval_required");
}

#[tokio::test]
async fn a_hold_of_another_layer_is_settled_on_default_terms() {
    let world = World::new();
    let policy = Arc::new(policy());
    let stores = Stores {
        tickets: Some(world.store.clone()),
        ..Stores::default()
    };
    let settler = settler(&policy, &stores).unwrap();
    let call = Call {
        tool: "get_order".to_owned(),
        ..refund()
    };
    let exchange = call.exchange();
    let Item::ToolCall(item) = &exchange.items[0].item else {
        panic!("a call")
    };
    let memo = Memo::default();
    let context = Context {
        exchange: &exchange,
        rule: policy.rule_for(&item.tool),
        executes_here: true,
        tainted: Some(false),
        memo: &memo,
    };
    let Ok(Settlement::Hold(hold)) = settler.settle(item, &context, recipient_hold()).await else {
        panic!("held")
    };
    assert_eq!(hold.finding.layer, LayerId::Recipients);
    assert_eq!(hold.finding.argument.as_deref(), Some("/to"));
    assert_eq!(hold.finding.reason.as_str(), "approval_required");
    let shown = world
        .store
        .get(hold.ticket.clone().unwrap())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (shown.layer.as_str(), shown.reason.as_str()),
        ("recipients", "recipient_not_allowed")
    );
    assert_eq!((shown.gate, shown.roles), (Gate::Approve, vec![]));

    world.approve(&hold.ticket.unwrap()).await;
    let settled = settler.settle(item, &context, recipient_hold()).await;
    assert!(matches!(settled, Ok(Settlement::Redeem(_))));
}

#[test]
fn the_layer_comes_last() {
    assert_eq!(LAYERS.last().unwrap().id, LayerId::Tickets);
}

/// Never done recording; says when it was asked to.
#[derive(Default)]
struct Stuck(AtomicBool);

impl Observer for Stuck {
    fn decided<'a>(
        &'a self,
        _: &'a Exchange,
        _: &'a Decision,
    ) -> BoxFuture<'a, Result<(), String>> {
        self.0.store(true, Ordering::Relaxed);
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn an_agent_that_leaves_before_the_decision_keeps_its_approval() {
    let world = World::new();
    let ticket = world.approved(&refund()).await;
    let policy = Arc::new(policy());
    let observer = Arc::new(Stuck::default());
    let parts = Parts {
        stores: Stores {
            tickets: Some(world.store.clone()),
            ..Stores::default()
        },
        observers: vec![Arc::clone(&observer) as _],
        ..Parts::default()
    };
    let stuck = Guard::new(Arc::clone(&policy), &policy.modes, parts).unwrap();
    let exchange = refund().exchange();
    let mut deciding = Box::pin(stuck.decide(&exchange));
    while !observer.0.load(Ordering::Relaxed) {
        assert!(futures_util::poll!(&mut deciding).is_pending());
        tokio::task::yield_now().await;
    }
    assert_eq!(world.state(&ticket).await, TicketState::Redeeming);
    drop(deciding);
    while world.state(&ticket).await == TicketState::Redeeming {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.state(&ticket).await, TicketState::Approved);
    assert_eq!(world.send(&refund()).await.word(), "sent");
}
