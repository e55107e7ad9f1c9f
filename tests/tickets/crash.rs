//! Processes that die, start again, or share one store.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use futures_util::future::join_all;
use holdpoint::store::tickets::{TicketError, TicketState, sqlite};

use crate::world::{Said, StillClock, World, answered, guard, limits, policy, refund, send};

/// Names the store to a child process of the test that is running.
const CHILD_STORE: &str = "HOLDPOINT_TEST_CHILD_STORE";

/// Runs one test of this binary in a process of its own, which must end by a signal.
fn die_in_child(test: &str, store: &Path) {
    let status = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--test-threads=1"])
        .env(CHILD_STORE, store)
        .output()
        .unwrap()
        .status;
    assert!(!status.success());
    assert_eq!(status.code(), None, "the child ended by itself: {status}");
}

fn child_store() -> Option<std::path::PathBuf> {
    std::env::var_os(CHILD_STORE).map(Into::into)
}

/// What the child does: claims the approved call, finishes it if it is to, and dies at once.
async fn claim_and_die(path: &Path, finish: bool) {
    let store = sqlite::open_serving(path, StillClock::new(), limits()).unwrap();
    let guard = guard(policy(), Some(store));
    let claim = send(&guard, &refund()).await.claim();
    if finish {
        let ticket = claim.ticket().clone();
        claim.finish(answered(&ticket, 200, "done")).await.unwrap();
    } else {
        std::mem::forget(claim);
    }
    std::process::abort();
}

/// An approved call in a store that nobody serves any more.
async fn approved_and_closed() -> World {
    let mut world = World::new();
    world.approved(&refund()).await;
    world.close();
    world
}

#[tokio::test]
async fn killed_between_claim_and_receipt_the_call_is_unknown_and_never_sent_again() {
    if let Some(path) = child_store() {
        return claim_and_die(&path, false).await;
    }
    let mut world = approved_and_closed().await;
    die_in_child(
        "crash::killed_between_claim_and_receipt_the_call_is_unknown_and_never_sent_again",
        &world.path(),
    );
    world.open_beside();
    assert_eq!(world.all().await[0].state, TicketState::Redeeming);
    world.reopen();
    assert_eq!(world.all().await[0].state, TicketState::Unknown);
    assert_eq!(world.send(&refund()).await.word(), "outcome_unknown");
}

#[tokio::test]
async fn killed_after_the_receipt_the_call_is_replayed() {
    if let Some(path) = child_store() {
        return claim_and_die(&path, true).await;
    }
    let mut world = approved_and_closed().await;
    die_in_child(
        "crash::killed_after_the_receipt_the_call_is_replayed",
        &world.path(),
    );
    world.reopen();
    assert_eq!(&world.send(&refund()).await.receipt().body[..], b"done");
}

#[tokio::test]
async fn a_store_opened_beside_the_serving_process_leaves_its_claims_alone() {
    let world = World::new();
    let ticket = world.approved(&refund()).await;
    let claim = world.send(&refund()).await.claim();
    let beside = sqlite::open_existing(&world.path(), world.clock.clone(), limits()).unwrap();
    let seen = beside.get(ticket.clone()).await.unwrap().unwrap();
    assert_eq!(seen.state, TicketState::Redeeming);
    let second = sqlite::open_serving(&world.path(), world.clock.clone(), limits());
    assert!(matches!(second, Err(TicketError::Served { .. })));
    claim.finish(answered(&ticket, 200, "{}")).await.unwrap();
    let seen = beside.get(ticket).await.unwrap().unwrap();
    assert_eq!(seen.state, TicketState::Succeeded);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_connections_that_race_one_wins() {
    let world = World::new();
    let ticket = world.approved(&refund()).await;
    let other = sqlite::open(&world.path(), world.clock.clone(), limits()).unwrap();
    let guards =
        [&world.store, &other].map(|store| Arc::new(guard(policy(), Some(Arc::clone(store)))));
    let calls = (0..40).map(|n| {
        let guard = Arc::clone(&guards[n % 2]);
        tokio::spawn(async move { send(&guard, &refund()).await })
    });
    let said: Vec<_> = join_all(calls)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let sent = said.iter().filter(|s| matches!(s, Said::Sent(_))).count();
    let others = said.iter().filter(|s| s.word() == "in_progress").count();
    assert_eq!((sent, others), (1, 39));
    for said in said {
        if let Said::Sent(claim) = said {
            claim.finish(answered(&ticket, 200, "{}")).await.unwrap();
        }
    }
    for guard in guards {
        assert_eq!(send(&guard, &refund()).await.word(), "replayed");
    }
}

#[test]
fn what_is_not_a_ticket_store_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let clock = StillClock::new();
    let open = |path: &Path| sqlite::open(path, clock.clone(), limits()).err().unwrap();

    let text = folder.path().join("notes.txt");
    std::fs::write(&text, "x".repeat(5000)).unwrap();
    assert!(matches!(open(&text), TicketError::NotATicketStore { .. }));

    let shop = folder.path().join("shop.db");
    let raw = rusqlite::Connection::open(&shop).unwrap();
    raw.execute_batch("CREATE TABLE orders (id TEXT)").unwrap();
    assert!(matches!(open(&shop), TicketError::NotATicketStore { .. }));
    let mode: String = raw
        .query_row("PRAGMA journal_mode", [], |r| r.get(0))
        .unwrap();
    assert_eq!(mode, "delete", "a foreign file is not touched");

    let missing = folder.path().join("no/such/tickets.db");
    let message = open(&missing).to_string();
    assert!(
        message.contains("no/such/tickets.db") && message.contains("make its folder"),
        "{message}"
    );

    let absent = folder.path().join("typo.db");
    assert!(sqlite::open_existing(&absent, clock.clone(), limits()).is_err());
    assert!(!absent.exists());

    let newer = folder.path().join("newer.db");
    drop(sqlite::open(&newer, clock.clone(), limits()).unwrap());
    let raw = rusqlite::Connection::open(&newer).unwrap();
    raw.pragma_update(None, "user_version", 99).unwrap();
    assert!(matches!(open(&newer), TicketError::Newer { found: 99, .. }));
}

#[cfg(unix)]
#[test]
fn a_new_store_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    let mode = std::fs::metadata(world.path())
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}
