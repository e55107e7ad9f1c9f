//! The issuer's keys over time.

use std::sync::Arc;

use holdpoint::serve;
use holdpoint::store::Stores;
use serde_json::json;

use super::issuer::{Hands, Issuer, Key};
use crate::support::client::request;
use crate::support::rig::{OFF, Rig, config, load};
use crate::support::upstream::{Upstream, json as ok};

async fn code(rig: &Rig, key: &Key) -> String {
    // Good for long: only keys age here.
    let token = key.token(&json!({"exp": jiff::Timestamp::now().as_second() + 30 * 86400}));
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str())];
    let answer = rig
        .ask(request("GET", "/shop/orders/1", &headers, ""))
        .await;
    if answer.status == 200 {
        return "ok".to_owned();
    }
    answer.code()
}

async fn rig(issuer: &Issuer) -> (Rig, Hands, Upstream) {
    let upstream = Upstream::start(|_| ok("{}")).await;
    let hands = Hands::new();
    let config = config(&upstream.url(), &issuer.principal(""));
    let rig = Rig::at(&config, OFF, Arc::new(hands.clone())).await;
    (rig, hands, upstream)
}

#[tokio::test]
async fn a_new_key_is_found_once_a_token_names_it_and_the_old_one_is_forgotten() {
    let (old, new) = (Key::ed("old"), Key::ec("new"));
    let issuer = Issuer::of(&[&old]).await;
    let (rig, hands, _upstream) = rig(&issuer).await;
    assert_eq!(code(&rig, &old).await, "ok");
    assert_eq!(issuer.asked(), 1);
    issuer.publish(&[&new]);
    hands.forward(31);
    assert_eq!(code(&rig, &new).await, "ok");
    assert_eq!(issuer.asked(), 2);
    // Gone at once: its id is unknown now.
    assert_eq!(code(&rig, &old).await, "token_invalid");
}

#[tokio::test]
async fn tokens_of_unknown_keys_do_not_storm_the_issuer() {
    let key = Key::ed("a");
    let issuer = Issuer::of(&[&key]).await;
    let (rig, hands, _upstream) = rig(&issuer).await;
    let stranger = Key::ed("zz");
    for _ in 0..20 {
        assert_eq!(code(&rig, &stranger).await, "token_invalid");
    }
    assert_eq!(issuer.asked(), 1, "within the floor nobody asks");
    hands.forward(31);
    let asking = (0..20).map(|_| code(&rig, &stranger));
    let said = futures_util::future::join_all(asking).await;
    assert!(said.iter().all(|code| code == "token_invalid"));
    assert_eq!(issuer.asked(), 2, "one asks for all");
    assert_eq!(code(&rig, &key).await, "ok");
}

#[tokio::test]
async fn old_keys_serve_while_the_issuer_is_down_but_not_for_ever() {
    let key = Key::ed("a");
    let issuer = Issuer::of(&[&key]).await;
    let (rig, hands, _upstream) = rig(&issuer).await;
    issuer.is_down(true);
    hands.forward(3600);
    assert_eq!(code(&rig, &key).await, "ok");
    hands.forward(22 * 3600);
    assert_eq!(code(&rig, &key).await, "ok");
    hands.forward(2 * 3600);
    assert_eq!(code(&rig, &key).await, "keys_unavailable");
    let asked = issuer.asked();
    for _ in 0..10 {
        assert_eq!(code(&rig, &key).await, "keys_unavailable");
    }
    assert_eq!(issuer.asked(), asked, "within the floor nobody asks");
    issuer.is_down(false);
    hands.forward(31);
    assert_eq!(code(&rig, &key).await, "ok");
}

#[tokio::test]
async fn without_usable_keys_nothing_starts() {
    let key = Key::ed("a");
    let issuer = Issuer::of(&[&key]).await;
    let folder = tempfile::tempdir().unwrap();
    let keys = |text: &str| std::fs::write(folder.path().join("keys.json"), text).unwrap();
    let start = async |principal: &str| {
        let text = config("http://127.0.0.1:1", principal);
        let (settings, policy) = load(folder.path(), &text, OFF);
        let started = serve::start(Arc::new(settings), Arc::new(policy), Stores::default()).await;
        started.map(|_| ()).map_err(|problems| problems.to_string())
    };
    issuer.is_down(true);
    let refused = start(&issuer.principal("")).await.unwrap_err();
    assert!(
        refused.contains("the issuer's keys at http://127.0.0.1"),
        "{refused}"
    );
    assert!(refused.contains("503"), "{refused}");

    let file = "principal: {jwt: {issuer: i, audience: a, jwks_file: keys.json}}";
    assert!(start(file).await.unwrap_err().contains("cannot be read"));
    keys("{\"keys\":[]}");
    assert!(start(file).await.unwrap_err().contains("no public key"));
    keys(&" ".repeat(300 << 10));
    assert!(
        start(file)
            .await
            .unwrap_err()
            .contains("larger than 256 KiB")
    );
    keys(&json!({"keys": [key.jwk()]}).to_string());
    assert_eq!(start(file).await, Ok(()));
}
