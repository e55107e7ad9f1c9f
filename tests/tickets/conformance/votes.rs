//! Who may answer, and how answers count.

use std::time::Duration;

use holdpoint::policy::Gate;
use holdpoint::principal::Principal;
use holdpoint::store::tickets::{
    Answer, AnswerError, Channel, Claiming, Decider, Person, TicketState, Verdict, Voter,
};

use super::{Bed, Desk, bind, local, person, refund, voter};

pub async fn several_approvals_come_from_several_people(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let mut call = refund("A-1");
    call.terms.approvals = 2;
    let ticket = desk.request(&call).await;
    let one = desk
        .answer(&ticket, Verdict::Approve, person("carol"))
        .await
        .unwrap();
    assert_eq!(
        (one.state, one.approved_by(), one.approvals),
        (TicketState::Requested, 1, 2)
    );
    assert!(matches!(
        desk.try_claim(&call, &ticket).await,
        Claiming::Lost(_)
    ));
    let two = desk
        .answer(&ticket, Verdict::Approve, person("dave"))
        .await
        .unwrap();
    assert_eq!((two.state, two.approved_by()), (TicketState::Approved, 2));
    let by: Vec<_> = two.votes.iter().map(|vote| vote.by.record()).collect();
    assert_eq!(by, ["idp:carol", "idp:dave"]);
    assert_eq!(two.votes[0].channel, Channel::Page);
    assert_eq!(two.votes[0].roles, ["finance"]);
    drop(desk.claim(&call, &ticket).await);
}

pub async fn one_human_counts_once(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let mut call = refund("A-1");
    call.terms.approvals = 2;
    let ticket = desk.request(&call).await;
    let mut carol = voter("carol");
    carol.aliases.push(Person::new("config", "carol.k"));
    let mut alias = Voter::new(
        Person::new("config", "carol.k"),
        vec!["finance".to_owned()],
        Channel::Api,
    );
    alias.aliases.push(Person::new("idp", "carol"));
    for identity in [carol.clone(), alias.clone(), carol, alias] {
        let said = desk
            .answer(&ticket, Verdict::Approve, Decider::Person(identity))
            .await
            .unwrap();
        assert_eq!((said.state, said.votes.len()), (TicketState::Requested, 1));
    }
    for _ in 0..2 {
        let said = desk.approve(&ticket).await;
        assert_eq!(said.state, TicketState::Approved);
    }
}

pub async fn the_same_word_twice_is_one(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let call = refund("A-1");
    let ticket = desk.request(&call).await;
    for verdict in [Verdict::Approve, Verdict::Deny] {
        for _ in 0..2 {
            desk.answer(&ticket, verdict, person("carol"))
                .await
                .unwrap();
        }
    }
    let votes = desk.get(&ticket).await.votes;
    assert_eq!(
        votes.iter().map(|vote| vote.verdict).collect::<Vec<_>>(),
        [Verdict::Approve, Verdict::Deny]
    );
    // Somebody else's comes too late.
    let late = desk.answer(&ticket, Verdict::Deny, person("dave")).await;
    assert!(matches!(
        late,
        Err(AnswerError::AlreadyDecided {
            state: TicketState::Revoked,
            ..
        })
    ));
}

pub async fn the_first_no_is_final(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let mut call = refund("A-1");
    call.terms.approvals = 2;
    let ticket = desk.request(&call).await;
    let answer = |verdict, who: &str| desk.answer(&ticket, verdict, person(who));
    answer(Verdict::Approve, "carol").await.unwrap();
    let no = answer(Verdict::Deny, "dave").await.unwrap();
    assert_eq!(no.state, TicketState::Denied);
    assert_eq!(no.refusal().unwrap().by.subject, "dave");
    for who in ["carol", "dave", "erin"] {
        let late = answer(Verdict::Approve, who).await;
        assert!(
            matches!(
                late,
                Err(AnswerError::AlreadyDecided {
                    state: TicketState::Denied,
                    ..
                })
            ),
            "{who}: {late:?}"
        );
    }
}

pub async fn an_approval_is_taken_back_until_it_is_used(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    for verdict in [Verdict::Deny, Verdict::Revoke] {
        let call = refund(verdict.as_str());
        let ticket = desk.approved(&call).await;
        let taken = desk.answer(&ticket, verdict, person("dave")).await.unwrap();
        assert_eq!(taken.state, TicketState::Revoked);
        assert!(matches!(
            desk.try_claim(&call, &ticket).await,
            Claiming::Lost(holdpoint::store::tickets::Standing::Denied { .. })
        ));
    }
    let call = refund("late");
    let ticket = desk.approved(&call).await;
    let claim = desk.claim(&call, &ticket).await;
    let late = desk.answer(&ticket, Verdict::Revoke, person("dave")).await;
    assert!(matches!(
        late,
        Err(AnswerError::AlreadyDecided {
            state: TicketState::Redeeming,
            ..
        })
    ));
    drop(claim);
}

pub async fn nobody_approves_an_own_request(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let ticket = desk.request(&refund("A-1")).await;
    let mut alias = voter("a.k");
    alias.aliases.push(Person::new("idp", "ann"));
    let config = Voter::new(
        Person::new("config", "ann"),
        vec!["finance".to_owned()],
        Channel::Api,
    );
    let own = [
        voter("ann"),
        alias,
        // Who acts for the user is no better.
        voter("desk"),
        config,
    ];
    for voter in own {
        let said = desk
            .answer(&ticket, Verdict::Approve, Decider::Person(voter.clone()))
            .await;
        assert!(
            matches!(said, Err(AnswerError::SelfApproval(_))),
            "{voter:?}: {said:?}"
        );
    }
    let noted = desk.store.audit(0, 100).await.unwrap();
    let refused = noted
        .iter()
        .filter(|row| row.event.as_str() == "self_approval_refused");
    assert_eq!(refused.count(), 4);
    // The same name elsewhere is somebody else, and a no is everybody's own.
    let elsewhere = Voter::new(
        Person::new("other-idp", "ann"),
        vec!["finance".to_owned()],
        Channel::Page,
    );
    desk.answer(&ticket, Verdict::Approve, Decider::Person(elsewhere))
        .await
        .unwrap();
    let no = desk.answer(&ticket, Verdict::Deny, person("ann")).await;
    assert_eq!(no.unwrap().state, TicketState::Revoked);
}

pub async fn a_confirmation_is_the_users_own(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let mut call = refund("A-1");
    call.terms.gate = Gate::Confirm;
    call.terms.roles.clear();
    let ticket = desk.request(&call).await;
    let answer = |voter| desk.answer(&ticket, Verdict::Approve, Decider::Person(voter));
    let elsewhere = Voter::new(Person::new("config", "ann"), Vec::new(), Channel::Page);
    for voter in [voter("carol"), voter("desk"), elsewhere] {
        let said = answer(voter).await;
        assert!(
            matches!(said, Err(AnswerError::NotTheRequester(_))),
            "{said:?}"
        );
    }
    let mut alias = voter("a.k");
    alias.aliases.push(Person::new("idp", "ann"));
    assert_eq!(answer(alias).await.unwrap().state, TicketState::Approved);
}

pub async fn roles_tenants_and_a_fresh_log_in(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let mut call = refund("A-1");
    call.terms.roles.push("board".to_owned());
    call.terms.fresh = true;
    let ticket = desk.request(&call).await;
    let answer = |verdict, voter: &Voter| {
        let voter = Decider::Person(voter.clone());
        desk.answer(&ticket, verdict, voter)
    };
    let mut carol = voter("carol");
    carol.tenants = Some(vec!["globex".to_owned()]);
    for verdict in [Verdict::Approve, Verdict::Deny] {
        let said = answer(verdict, &carol).await;
        assert!(matches!(said, Err(AnswerError::NoSuchTicket(_))));
    }
    carol.tenants = Some(vec!["globex".to_owned(), "acme".to_owned()]);
    carol.roles = vec!["support".to_owned()];
    let said = answer(Verdict::Approve, &carol).await.unwrap_err();
    assert_eq!(
        said.to_string(),
        format!("ticket {ticket} needs the role `finance` or `board`")
    );
    carol.roles = vec!["board".to_owned()];
    let said = answer(Verdict::Approve, &carol).await;
    assert!(matches!(said, Err(AnswerError::FreshLogin(_))));
    carol.strong = true;
    let approved = answer(Verdict::Approve, &carol).await.unwrap();
    assert_eq!(approved.state, TicketState::Approved);
    assert!(approved.votes[0].strong);
    // A no needs no fresh log-in.
    carol.strong = false;
    assert!(answer(Verdict::Deny, &carol).await.is_ok());
}

pub async fn an_approval_names_what_was_shown(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let ticket = desk.request(&refund("A-1")).await;
    let other = desk.request(&refund("A-2")).await;
    let digest = desk.get(&ticket).await.digest.to_string();
    let foreign = desk.get(&other).await.digest.to_string();
    let answer = |prefix: Option<&str>| {
        let answer = Answer {
            ticket: ticket.clone(),
            verdict: Verdict::Approve,
            by: person("carol"),
            digest_prefix: prefix.map(str::to_owned),
            comment: None,
        };
        desk.store.answer(answer)
    };
    for prefix in [None, Some(&digest[..7]), Some("zzzzzzzz"), Some("")] {
        let said = answer(prefix).await;
        assert!(
            matches!(said, Err(AnswerError::DigestPrefix)),
            "{prefix:?}: {said:?}"
        );
    }
    let said = answer(Some(&foreign[..8])).await;
    assert!(matches!(said, Err(AnswerError::DigestMismatch(_))));
    let none = Answer {
        ticket: "tkt_none".into(),
        verdict: Verdict::Approve,
        by: local(),
        digest_prefix: None,
        comment: None,
    };
    let said = desk.store.answer(none).await;
    assert!(matches!(said, Err(AnswerError::NoSuchTicket(_))));
    assert!(answer(Some(&digest[..8].to_uppercase())).await.is_ok());
    desk.clock.forward(Duration::from_mins(15));
    let late = desk.answer(&other, Verdict::Approve, person("carol")).await;
    assert!(matches!(late, Err(AnswerError::Expired(_))));
}

pub async fn approve_and_deny_race_and_the_no_holds(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let beside = desk.beside(bed).await;
    for n in 0..8 {
        let call = super::by("ann", &format!("s{n}"), "A-1");
        let ticket = desk.request(&call).await;
        let (_, no) = tokio::join!(
            desk.answer(&ticket, Verdict::Approve, person("carol")),
            beside.answer(&ticket, Verdict::Deny, person("dave"))
        );
        let state = desk.state(&ticket).await;
        assert_eq!(no.unwrap().state, state);
        assert!(matches!(state, TicketState::Denied | TicketState::Revoked));
    }
    // A principal with no actors is nobody's own by accident.
    let mut call = refund("A-2");
    call.principal = std::sync::Arc::new(Principal {
        actors: Vec::new(),
        ..(*call.principal).clone()
    });
    bind(&mut call);
    let ticket = desk.request(&call).await;
    let said = desk.answer(&ticket, Verdict::Approve, person("desk")).await;
    assert!(said.is_ok());
}
