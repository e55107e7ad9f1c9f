//! How much a session may send to one host through the proxy: never more, whatever comes at once.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use crate::hello::hello;
use crate::support::upstream::{Upstream, json};
use crate::world::{Keeper, POLICY, PUBLIC, Rig};

fn policy(budget: &str) -> String {
    POLICY.replace(
        "schemes: [https, http]}",
        &format!("schemes: [https, http], budget: {{{budget}}}}}"),
    )
}

async fn before(budget: &str, more: &str) -> (Rig, Upstream) {
    let rig = Rig::start(&policy(budget), more).await;
    let upstream = Upstream::start(|_| json("{}")).await;
    rig.world.place(&format!("{PUBLIC}:80"), upstream.address);
    (rig, upstream)
}

fn post(host: &str, session: &str, body: &str) -> String {
    format!(
        "POST http://{host}/ HTTP/1.1\r\nhost: {host}\r\nholdpoint-session: {session}\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The bytes of bodies that have arrived.
fn arrived(upstream: &Upstream) -> usize {
    upstream.received().iter().map(|r| r.body.len()).sum()
}

#[tokio::test]
async fn a_session_sends_a_host_no_more_than_its_budget() {
    let (rig, upstream) = before("bytes: 2KiB, window: 1h", "").await;
    let body = "x".repeat(400);
    let mut passed = 0;
    loop {
        let got = rig.ask(post("plain.shop.test", "s1", &body)).await;
        if got.status != 200 {
            assert_eq!((got.status, &*got.code()), (403, "budget_exceeded"));
            break;
        }
        passed += 1;
    }
    // Path and header fields count too.
    assert!((2..5).contains(&passed), "{passed}");
    assert_eq!(arrived(&upstream), passed * 400);
    let dialled = rig.world.dialled().len();
    // Less may still fit; another host and another session have budgets of their own.
    assert_eq!(
        rig.ask(post("pay.shop.test", "s1", &body)).await.status,
        200
    );
    assert_eq!(
        rig.ask(post("plain.shop.test", "s2", &body)).await.status,
        200
    );
    assert_eq!(rig.world.dialled().len(), dialled + 2);
    assert_eq!(rig.refusals("budget_exceeded").await, 1);
    // Neither a metric nor a label knows the host.
    assert!(!rig.scrape().await.contains("shop.test"));
}

#[tokio::test]
async fn a_budget_of_the_principal_counts_whatever_session_an_agent_names() {
    let (rig, upstream) = before("bytes: 2KiB, per: principal", "").await;
    let body = "x".repeat(400);
    let mut refused = 0;
    for session in 0..12 {
        let got = rig
            .ask(post("plain.shop.test", &format!("s{session}"), &body))
            .await;
        refused += usize::from(got.status == 403);
    }
    assert!(refused > 6, "{refused}");
    assert!(arrived(&upstream) <= 2048);
}

#[tokio::test]
async fn names_below_one_wildcard_are_one_place() {
    let (rig, upstream) = before("bytes: 2KiB", "").await;
    let body = "x".repeat(400);
    for n in 0..12 {
        let host = format!("n{n}.img.shop.test");
        rig.world.name(&host, &[&[PUBLIC]]);
        rig.ask(post(&host, "s1", &body)).await;
    }
    assert!(arrived(&upstream) <= 2048, "{}", arrived(&upstream));
    assert!(arrived(&upstream) >= 800);
}

#[tokio::test]
async fn what_tells_little_costs_little() {
    let (rig, _upstream) = before("entropy: 1KiB", "").await;
    let ask = async |session: &str, body: &str| {
        rig.ask(post("plain.shop.test", session, body)).await.status
    };
    let random: String = (0..3000_u32)
        .map(|n| char::from(b'!' + u8::try_from(n.wrapping_mul(2_654_435_761) >> 20 & 63).unwrap()))
        .collect();
    assert_eq!(ask("s1", &"a".repeat(100_000)).await, 200);
    assert_eq!(ask("s2", &random).await, 403);
}

#[tokio::test]
async fn requests_at_once_never_pass_it_together() {
    let (rig, upstream) = before("bytes: 4KiB", "").await;
    let forward = rig.forward();
    let mut asking = JoinSet::new();
    for _ in 0..40 {
        let request = post("plain.shop.test", "s1", &"x".repeat(300));
        asking.spawn(async move { crate::support::client::ask(forward, request).await.status });
    }
    let statuses = asking.join_all().await;
    let passed = statuses.iter().filter(|status| **status == 200).count();
    assert!(passed > 3, "{statuses:?}");
    assert!(statuses.contains(&403));
    assert_eq!(arrived(&upstream), passed * 300);
    assert!(arrived(&upstream) <= 4096);
}

#[tokio::test]
async fn what_was_not_sent_is_not_counted() {
    let rig = Rig::start(&policy("bytes: 1KiB"), "").await;
    let body = "x".repeat(300);
    for _ in 0..8 {
        let got = rig.ask(post("plain.shop.test", "s1", &body)).await;
        assert_eq!(got.code(), "upstream_unreachable");
    }
    let upstream = Upstream::start(|_| json("{}")).await;
    rig.world.place(&format!("{PUBLIC}:80"), upstream.address);
    assert_eq!(
        rig.ask(post("plain.shop.test", "s1", &body)).await.status,
        200
    );
}

#[tokio::test]
async fn a_tunnel_ends_before_a_byte_too_much_has_left() {
    let hello = hello("pay.shop.test", true);
    let budget = hello.len() + 100;
    let rig = Rig::start(
        &policy(&format!("bytes: {budget}B")),
        "session: {fixed: one}",
    )
    .await;
    let peer = Keeper::start().await;
    rig.world.place(&format!("{PUBLIC}:443"), peer.address);
    let mut stream = rig.tunnel("pay.shop.test:443").await;
    let whole = [&hello[..], &[7; 100]].concat();
    stream.write_all(&whole).await.unwrap();
    peer.gets(&whole).await;
    // The tunnel stands, and not one byte more gets through.
    stream.write_all(&[7]).await.unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert!(rest.is_empty());
    rig.refused("budget_exceeded").await;
    assert_eq!(peer.count(), budget);
    // The next one is told so at once, before anything is dialled.
    let refusal = rig.refusal("pay.shop.test:443").await;
    assert_eq!(refusal, (403, "budget_exceeded".to_owned()));
    assert_eq!(rig.world.dialled().len(), 1);
    // A plain request to the same host has no room either.
    let got = rig.get("http://pay.shop.test/").await;
    assert_eq!(got.code(), "budget_exceeded");
}

#[tokio::test]
async fn tunnels_at_once_share_one_budget() {
    let hello = hello("pay.shop.test", true);
    let budget = hello.len() * 4;
    let rig = Rig::start(
        &policy(&format!("bytes: {budget}B")),
        "session: {fixed: one}",
    )
    .await;
    let peer = Keeper::start().await;
    rig.world.place(&format!("{PUBLIC}:443"), peer.address);
    let mut tunnels = JoinSet::new();
    for _ in 0..8 {
        let mut stream = rig.tunnel("pay.shop.test:443").await;
        let hello = hello.clone();
        tunnels.spawn(async move {
            let _ = stream.write_all(&hello).await;
            for _ in 0..20 {
                if stream.write_all(&[7; 50]).await.is_err() {
                    break;
                }
            }
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
        });
    }
    tunnels.join_all().await;
    assert!(peer.count() <= budget, "{} {budget}", peer.count());
    assert!(peer.count() >= hello.len());
}

#[tokio::test]
async fn where_the_layer_only_watches_nothing_is_counted() {
    let shadow = policy("bytes: 10B").replace("egress: enforce", "egress: shadow");
    let rig = Rig::start(&shadow, "").await;
    let upstream = Upstream::start(|_| json("{}")).await;
    rig.world.place(&format!("{PUBLIC}:80"), upstream.address);
    assert_eq!(
        rig.ask(post("plain.shop.test", "s1", "hello")).await.status,
        200
    );
}
