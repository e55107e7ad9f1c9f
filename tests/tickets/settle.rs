//! What an approval relies on, and what stands in for one: state, definition, roles, mandates, signed tickets, and what is found
//! out about lost outcomes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use data_encoding::BASE64URL_NOPAD;
use holdpoint::guard::{Guard, Outcome};
use holdpoint::item::{Item, Located, Place, ToolDefinition};
use holdpoint::layers::tickets::reconcile::{Reconciled, Reconciler};
use holdpoint::names::{StoreName, ToolName, UpstreamName};
use holdpoint::policy::{Policy, parse};
use holdpoint::store::Stores;
use holdpoint::store::sql::sqlite as lookups;
use holdpoint::store::tickets::issued::{Claims, Issuer, IssuerKey, SignedMandate, SigningKey};
use holdpoint::store::tickets::{
    Answer, Authority, Channel, Decider, Directory, NewMandate, Person, TicketState, TicketStore,
    Verdict, Voter, sqlite,
};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::world::{AsVoted, Call, Said, StillClock, answered, guard_over, limits, refund, send};

const LAYERS: &str = "layers: {catalog: off, identity: off, egress: off, recipients: off, ownership: off, injection: off, tickets: enforce}";

/// A shop with orders and a book of refunds, and a guard in front of it.
struct Shop {
    folder: TempDir,
    clock: Arc<StillClock>,
    stores: Stores,
    tickets: Arc<dyn TicketStore>,
    policy: Policy,
    guard: Guard,
}

/// Approvers whose roles a test changes.
#[derive(Debug, Default)]
struct Office(Mutex<HashMap<String, Vec<String>>>);

impl Directory for Office {
    fn authority(&self, _issuer: &str, subject: &str, _voted: &[String]) -> Option<Authority> {
        let roles = self.0.lock().unwrap().get(subject)?.clone();
        Some(Authority {
            roles,
            tenants: None,
        })
    }
}

impl Shop {
    /// `ticket` is what stands in the rule of `refund`.
    fn new(ticket: &str) -> Self {
        Self::with(ticket, |_| ())
    }

    fn with(ticket: &str, change: impl FnOnce(&mut Stores)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.db");
        let shop = Connection::open(&path).unwrap();
        shop.execute_batch(
            "CREATE TABLE orders (id TEXT PRIMARY KEY, status TEXT);
             INSERT INTO orders VALUES ('A-1', 'paid'), ('A-2', 'paid');
             CREATE TABLE refunds (ref TEXT, state TEXT);",
        )
        .unwrap();
        let clock = StillClock::new();
        let tickets =
            sqlite::open_serving(&folder.path().join("t.db"), clock.clone(), limits()).unwrap();
        let mut stores = Stores {
            sql: [(StoreName::from("shop"), lookups::open(&path).unwrap())].into(),
            tickets: Some(tickets.clone()),
            directory: Arc::new(AsVoted),
            clock: clock.clone(),
            ..Stores::default()
        };
        change(&mut stores);
        let policy = policy(ticket);
        Self {
            guard: guard_over(policy.clone(), stores.clone()),
            folder,
            clock,
            stores,
            tickets,
            policy,
        }
    }

    fn sql(&self, statement: &str) {
        let path = self.folder.path().join("shop.db");
        Connection::open(path)
            .unwrap()
            .execute_batch(statement)
            .unwrap();
    }

    async fn send(&self, call: &Call) -> Said {
        send(&self.guard, call).await
    }

    async fn word(&self, call: &Call) -> &'static str {
        self.send(call).await.word()
    }

    /// Asks for the call and has somebody say yes.
    async fn approved(&self, call: &Call, by: Decider) {
        let ticket = self.send(call).await.ticket();
        let shown = self.tickets.get(ticket.clone()).await.unwrap().unwrap();
        let answer = Answer {
            ticket,
            verdict: Verdict::Approve,
            by,
            digest_prefix: Some(shown.digest.to_string()[..8].to_owned()),
            comment: None,
        };
        self.tickets.answer(answer).await.unwrap();
    }

    /// Sends an approved call whose outcome is lost.
    async fn lost(&self, call: &Call) -> String {
        self.approved(call, local()).await;
        let claim = self.send(call).await.claim();
        let ticket = claim.ticket().clone();
        claim.finish(Outcome::Unknown).await.unwrap();
        ticket.to_string()
    }

    async fn state(&self, ticket: &str) -> TicketState {
        self.tickets
            .get(ticket.into())
            .await
            .unwrap()
            .unwrap()
            .state
    }

    fn reconciler(&self) -> Reconciler {
        let policy = Arc::new(self.policy.clone());
        Reconciler::new(&policy, &self.stores).unwrap().unwrap()
    }
}

fn policy(ticket: &str) -> Policy {
    let text = format!(
        "version: 1\nname: shop\n{LAYERS}\nlookups:\n\
         \x20 order_state: {{store: shop, sql: \"SELECT status FROM orders WHERE id = :order\"}}\n\
         \x20 by_ticket: {{store: shop, sql: \"SELECT state FROM refunds WHERE ref = :ticket\"}}\n\
         tools:\n  - {{tool: refund, ticket: {{gate: approve, ttl: 1h, {ticket}}}}}\n\
         \x20 - {{tool: cancel, ticket: {{gate: approve, ttl: 1h, state: {STATE}}}}}\n\
         \x20 - {{tool: \"*\", ticket: {{gate: approve, ttl: 1h}}}}\n"
    );
    parse("p.yaml", text).unwrap_or_else(|problems| panic!("{problems}"))
}

const STATE: &str = "{resource: /order, as: order, lookup: order_state, columns: status}";
const RECONCILE: &str =
    "reconcile: {lookup: by_ticket, done: {column: state, one_of: [settled]}, after: 5m}";

fn local() -> Decider {
    Decider::Local("ops".to_owned())
}

fn args(text: &str) -> Call {
    Call {
        args: text.to_owned(),
        ..refund()
    }
}

#[tokio::test]
async fn a_changed_state_voids_the_approval_and_sends_nothing() {
    let shop = Shop::new(&format!("state: {STATE}"));
    let call = refund();
    shop.approved(&call, local()).await;
    shop.sql("UPDATE orders SET status = 'refunded' WHERE id = 'A-1'");
    assert_eq!(shop.word(&call).await, "state_changed");
    // Asked anew, under the state as it is now.
    shop.approved(&call, local()).await;
    assert_eq!(shop.word(&call).await, "sent");
    // A call that names no order has no state that could be bound.
    assert_eq!(
        shop.word(&args(r#"{"amount": 1}"#)).await,
        "condition_failed"
    );
}

#[tokio::test]
async fn a_changed_definition_voids_the_approval_and_an_unseen_one_does_not() {
    let shop = Shop::new("hold: 1s");
    let call = refund();
    let offer = async |description: &str| {
        let source = format!(r#"{{"name":"refund","description":"{description}"}}"#);
        let mut exchange = call.exchange();
        exchange.items = vec![Located {
            place: Place::default(),
            item: Item::Definition(ToolDefinition {
                source: Bytes::from(source),
                ..ToolDefinition::new("refund", description)
            }),
        }];
        shop.guard.decide(&exchange).await.unwrap();
    };
    shop.approved(&call, local()).await;
    // Nobody had seen one when it was asked for.
    offer("Refunds.").await;
    let claim = shop.send(&call).await.claim();
    let ticket = claim.ticket().clone();
    claim.finish(answered(&ticket, 200, "{}")).await.unwrap();
    let again = Call {
        again: true,
        ..call.clone()
    };
    shop.approved(&again, local()).await;
    offer("Refunds.").await;
    offer("Refunds twice the amount.").await;
    assert_eq!(shop.word(&again).await, "state_changed");
}

#[tokio::test]
async fn a_vote_counts_only_while_its_voter_has_the_role() {
    let office = Arc::new(Office::default());
    let roles = |roles: &[&str]| {
        let roles = roles.iter().map(ToString::to_string).collect();
        office.0.lock().unwrap().insert("sam".to_owned(), roles);
    };
    roles(&["finance"]);
    let directory = Arc::clone(&office);
    let shop = Shop::with("role: finance", |stores| stores.directory = directory);
    let sam = || {
        let person = Person::new("config", "sam");
        let voter = Voter::new(person, vec!["finance".to_owned()], Channel::Api);
        Decider::Person(voter)
    };
    let call = refund();
    shop.approved(&call, sam()).await;
    roles(&["support"]);
    assert_eq!(shop.word(&call).await, "state_changed");
    roles(&["finance"]);
    // What is void stays void.
    assert_eq!(shop.word(&call).await, "approval_required");
    shop.approved(&call, sam()).await;
    office.0.lock().unwrap().clear();
    assert_eq!(shop.word(&call).await, "state_changed");
}

#[tokio::test]
async fn a_small_amount_needs_no_ticket_and_an_odd_one_does() {
    let shop = Shop::new(r#"unless: [{at: /amount, at_most: "20.00"}]"#);
    assert_eq!(
        shop.word(&args(r#"{"order":"A-1","amount":"20.00"}"#))
            .await,
        "passed"
    );
    for held in [
        r#"{"order":"A-1","amount":"20.01"}"#,
        r#"{"order":"A-1","amount":"2e1"}"#,
        r#"{"order":"A-1","amount":[1]}"#,
        r#"{"order":"A-1"}"#,
    ] {
        assert_eq!(shop.word(&args(held)).await, "approval_required", "{held}");
    }
}

#[tokio::test]
async fn a_trace_id_may_differ_and_the_stored_one_is_sent() {
    let shop = Shop::new("volatile: /trace, scope: principal");
    shop.approved(&args(r#"{"order":"A-1","trace":"t-1"}"#), local())
        .await;
    let other = Call {
        session: Some("another".to_owned()),
        ..args(r#"{"order":"A-1","trace":"t-2"}"#)
    };
    let claim = shop.send(&other).await.claim();
    assert_eq!(&claim.arguments()[..], br#"{"order":"A-1","trace":"t-1"}"#);
    claim.finish(Outcome::NotSent).await.unwrap();
    let url = args(r#"{"order":"A-1","trace":"https://evil.example"}"#);
    assert_eq!(shop.word(&url).await, "approval_required");
}

const MANDATE: &str =
    "mandate: {amount: /amount, currency: /currency, at_most: \"50.00\", uses: 3, for: 24h}";

fn euros(amount: &str, note: u32) -> Call {
    args(&format!(
        r#"{{"order":"A-1","amount":"{amount}","currency":"EUR","note":{note}}}"#
    ))
}

#[tokio::test]
async fn a_mandate_is_never_overspent_and_a_repeat_spends_nothing() {
    let shop = Shop::new(MANDATE);
    let ticket = shop.send(&euros("10.00", 0)).await.ticket();
    let given = NewMandate {
        ticket,
        by: local(),
        digest_prefix: None,
        uses: None,
        at_most: None,
        within: None,
        comment: None,
    };
    shop.tickets.grant(given).await.unwrap();
    let (one, two) = (euros("30.00", 1), euros("30.00", 2));
    let (first, second) = tokio::join!(shop.send(&one), shop.send(&two));
    let ((Said::Sent(claim), held) | (held, Said::Sent(claim))) = (first, second) else {
        panic!("one of them fits")
    };
    assert_eq!(held.word(), "approval_required");
    let spent = claim.ticket().clone();
    claim
        .finish(answered(&spent, 200, r#"{"ok":1}"#))
        .await
        .unwrap();
    for call in [&one, &two] {
        let word = shop.word(call).await;
        assert!(["replayed", "approval_pending"].contains(&word), "{word}");
    }
    let live = shop
        .tickets
        .mandates(holdpoint::store::tickets::MandateFilter::default());
    assert_eq!(live.await.unwrap()[0].spent.to_string(), "30.00");
    // Another currency is another matter.
    let dollars = args(r#"{"order":"A-1","amount":"1.00","currency":"USD"}"#);
    assert_eq!(shop.word(&dollars).await, "approval_required");
}

fn signed(
    shop_key: &SigningKey,
    shop: &Shop,
    call: Option<String>,
    mandate: Option<SignedMandate>,
) -> String {
    let now = holdpoint::clock::Clock::now(shop.clock.as_ref()).as_second();
    let claims = Claims {
        jti: format!("{now}-{}", mandate.is_some()),
        iat: now,
        nbf: now,
        exp: now + 600,
        call,
        mandate,
        tool: None,
        arguments: None,
    };
    shop_key.sign(&claims).unwrap()
}

fn key() -> (SigningKey, Issuer) {
    let key = SigningKey::from_pem(&SigningKey::generate().unwrap()).unwrap();
    let public = BASE64URL_NOPAD.decode(key.public().as_bytes()).unwrap();
    let issuer = Issuer {
        name: "orchestrator".to_owned(),
        keys: vec![IssuerKey {
            kid: key.kid().to_owned(),
            public: public.try_into().unwrap(),
            from: None,
            until: None,
        }],
    };
    (key, issuer)
}

fn with_ticket(call: &Call, token: String) -> Call {
    Call {
        hint: Some(token),
        ..call.clone()
    }
}

#[tokio::test]
async fn a_signed_ticket_lets_its_one_call_through_once() {
    let (key, issuer) = key();
    let shop = Shop::with("issuers: orchestrator", |stores| {
        stores.issuers = Arc::from([issuer]);
    });
    let call = refund();
    let pending = shop.send(&call).await.ticket();
    let digest = shop.tickets.get(pending).await.unwrap().unwrap().digest;
    let token = signed(&key, &shop, Some(digest.to_string()), None);
    let other = args(r#"{"order":"A-2","amount":1}"#);
    assert_eq!(
        shop.word(&with_ticket(&other, token.clone())).await,
        "ticket_mismatch"
    );
    let broken = with_ticket(&call, format!("{token}x"));
    assert_eq!(shop.word(&broken).await, "ticket_mismatch");
    let claim = shop.send(&with_ticket(&call, token.clone())).await.claim();
    let spent = claim.ticket().clone();
    claim.finish(answered(&spent, 200, "{}")).await.unwrap();
    assert_eq!(
        shop.word(&with_ticket(&call, token.clone())).await,
        "replayed"
    );
    let again = Call {
        again: true,
        ..with_ticket(&call, token)
    };
    assert_eq!(shop.word(&again).await, "approval_required");
    // A rule that names no issuer takes none.
    let cancel = Call {
        tool: "cancel".to_owned(),
        ..with_ticket(&call, signed(&key, &shop, Some("ab".repeat(32)), None))
    };
    assert_eq!(shop.word(&cancel).await, "approval_required");
}

#[tokio::test]
async fn a_signed_mandate_holds_for_its_own_user_and_what_it_limits() {
    let (key, issuer) = key();
    let shop = Shop::with(&format!("issuers: orchestrator, {MANDATE}"), |stores| {
        stores.issuers = Arc::from([issuer]);
    });
    let mandate = |sub: &str| SignedMandate {
        tenant: "acme".to_owned(),
        iss: "config".to_owned(),
        sub: sub.to_owned(),
        agent: "bot".to_owned(),
        upstream: UpstreamName::from("shop"),
        tool: ToolName::from("refund"),
        at_most: Some("25.00".to_owned()),
        currency: Some("EUR".to_owned()),
        uses: 2,
        same: std::collections::BTreeMap::new(),
    };
    let foreign = signed(&key, &shop, None, Some(mandate("bob")));
    let call = euros("20.00", 1);
    assert_eq!(
        shop.word(&with_ticket(&call, foreign)).await,
        "ticket_mismatch"
    );
    let own = signed(&key, &shop, None, Some(mandate("ann")));
    assert_eq!(shop.word(&with_ticket(&call, own.clone())).await, "sent");
    // Shown again it gives nothing more.
    let more = with_ticket(&euros("20.00", 2), own);
    assert_eq!(shop.word(&more).await, "approval_required");
}

#[tokio::test]
async fn the_books_say_what_became_of_a_lost_call() {
    let shop = Shop::new(RECONCILE);
    let call = refund();
    let ticket = shop.lost(&call).await;
    assert_eq!(shop.word(&call).await, "outcome_unknown");
    let reconciler = shop.reconciler();
    let ask = async || reconciler.once(ticket.as_str().into()).await.unwrap();
    // Nothing there yet: it may still be on its way.
    assert_eq!(ask().await, Reconciled::Open);
    shop.sql(&format!(
        "INSERT INTO refunds VALUES ('{ticket}', 'pending')"
    ));
    shop.clock.forward(Duration::from_mins(10));
    assert_eq!(ask().await, Reconciled::Open);
    shop.sql("UPDATE refunds SET state = 'settled'");
    assert_eq!(ask().await, Reconciled::Done);
    assert_eq!(shop.state(&ticket).await, TicketState::ResolvedDone);
    let receipt = shop.send(&call).await.receipt();
    assert!(String::from_utf8_lossy(&receipt.body).contains("settled"));
}

#[tokio::test]
async fn what_never_took_effect_may_be_asked_for_anew() {
    let shop = Shop::new(RECONCILE);
    let call = refund();
    let ticket = shop.lost(&call).await;
    shop.clock.forward(Duration::from_mins(5));
    let found = shop
        .reconciler()
        .once(ticket.as_str().into())
        .await
        .unwrap();
    assert_eq!(found, Reconciled::NotDone);
    assert_eq!(shop.word(&call).await, "approval_required");
}

#[tokio::test]
async fn a_lost_call_freezes_what_it_names() {
    let shop = Shop::new(&format!("freeze: true, state: {STATE}"));
    let ticket = shop.lost(&refund()).await;
    let cancel = |order: &str| Call {
        tool: "cancel".to_owned(),
        ..args(&format!(r#"{{"order":"{order}"}}"#))
    };
    assert_eq!(shop.word(&cancel("A-1")).await, "outcome_unknown");
    assert_eq!(shop.word(&cancel("A-2")).await, "approval_required");
    let other = args(r#"{"order":"A-1","amount":1}"#);
    assert_eq!(shop.word(&other).await, "outcome_unknown");
    let resolution = holdpoint::store::tickets::Resolution {
        ticket: ticket.as_str().into(),
        done: true,
        by: holdpoint::store::tickets::Resolver::Person(local()),
        note: Some("looked".to_owned()),
        receipt: None,
    };
    shop.tickets.resolve(resolution).await.unwrap();
    assert_eq!(shop.word(&cancel("A-1")).await, "approval_required");
}

#[tokio::test]
async fn an_upstream_that_honours_the_key_is_asked_once_more() {
    let shop = Shop::new("idempotent: 1h");
    let call = refund();
    let ticket = shop.lost(&call).await;
    let claim = shop.send(&call).await.claim();
    assert_eq!(claim.ticket().as_str(), ticket);
    claim.finish(Outcome::Unknown).await.unwrap();
    assert_eq!(shop.word(&call).await, "outcome_unknown");
    let late = Shop::new("idempotent: 1m");
    late.lost(&call).await;
    late.clock.forward(Duration::from_mins(2));
    assert_eq!(late.word(&call).await, "outcome_unknown");
}

#[test]
fn a_rule_that_cannot_work_is_told_at_its_place() {
    let said = |ticket: &str| {
        let text = format!(
            "version: 1\nname: t\n{LAYERS}\nlookups:\n  l: {{store: s, sql: \"SELECT a FROM t WHERE id = :id\"}}\n\
             tools:\n  - {{tool: \"*\", ticket: {{{ticket}}}}}\n"
        );
        match parse("p.yaml", text) {
            Ok(_) => String::new(),
            Err(problems) => problems.to_string(),
        }
    };
    for (ticket, words) in [
        (
            "gate: confirm, ttl: 1h, approvals: 2",
            "no meaning with `gate: confirm`",
        ),
        ("gate: approve, ttl: 1h, approvals: 0", "from 1 to 10"),
        (
            "gate: approve, ttl: 1h, role: a, roles: [b]",
            "exclude each other",
        ),
        ("gate: approve, ttl: 1h, hold: 2m", "at most 55s"),
        ("gate: approve, ttl: 1h, volatile: trace", "starts with `/`"),
        (
            "gate: approve, ttl: 1h, unless: [{count: {per: session, at_most: 3}}]",
            "cannot stand in `unless`",
        ),
        (
            "gate: approve, ttl: 1h, unless: [{at: /a, at_most: 1, else: hold}]",
            "no meaning in `unless`",
        ),
        (
            "gate: approve, ttl: 1h, reconcile: {lookup: x}",
            "no look-up `x`",
        ),
        (
            "gate: approve, ttl: 1h, reconcile: {lookup: l, done: {column: a, one_of: [x]}, not_done: {column: a, one_of: [x]}}",
            "cannot tell",
        ),
        (
            "gate: approve, ttl: 1h, mandate: {amount: /a, uses: 2, for: 1h}",
            "not limited",
        ),
        (
            "gate: approve, ttl: 1h, mandate: {uses: 1, for: 1h}",
            "from 2 to 1000",
        ),
        (
            "gate: approve, ttl: 1h, approvals: 2, mandate: {uses: 2, for: 1h}",
            "given by one person",
        ),
        ("gate: approve, ttl: 1h, freeze: maybe", "must be a boolean"),
        ("gate: approve, ttl: 1h, freez: true", "unknown key `freez`"),
    ] {
        let problems = said(ticket);
        assert!(problems.contains(words), "{ticket}\n{problems}");
    }
    let whole = concat!(
        "gate: approve, ttl: 1h, roles: [a, b], approvals: 3, hold: 25s, fresh_login: true, freeze: true, idempotent: 24h, ",
        "state: {resource: /id, as: id, lookup: l, columns: [a]}, reconcile: {lookup: l, with: {id: /id}}, issuers: [o]"
    );
    assert_eq!(said(whole), "");
}
