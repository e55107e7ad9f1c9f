//! Names and addresses: judged before any look-up, looked up once, and nothing dialled that was not checked.

use tokio::io::AsyncWriteExt;

use crate::support::upstream::{Upstream, json};
use crate::world::{OTHER, POLICY, PUBLIC, Rig};

#[tokio::test]
async fn a_denied_name_is_never_looked_up() {
    let rig = Rig::start(POLICY, "").await;
    for (authority, code) in [
        ("secret-in-a-label.attacker.test:443", "host_not_allowed"),
        ("pay.shop.test.attacker.test:443", "host_not_allowed"),
        ("img.shop.test:443", "host_not_allowed"),
        ("pay.shop.test:25", "host_not_allowed"),
        ("pay.shop.test:22", "host_not_allowed"),
    ] {
        assert_eq!(
            rig.refusal(authority).await,
            (403, code.to_owned()),
            "{authority}"
        );
        let url = format!("http://{authority}/");
        let got = rig.get(&url).await;
        assert_eq!((got.status, got.code()), (403, code.to_owned()), "{url}");
        assert!(!String::from_utf8(got.body).unwrap().contains("test"));
    }
    for literal in [
        "127.0.0.1:443",
        "169.254.169.254:443",
        "10.0.0.1:443",
        "[::1]:443",
        "[::ffff:127.0.0.1]:443",
        "2130706433:443",
        "0x7f.1:443",
        "127.1:443",
        "localhost:443",
        "metadata.google.internal:443",
    ] {
        let (status, _) = rig.refusal(literal).await;
        assert_eq!(status, 403, "{literal}");
        let got = rig
            .get(&format!("http://{}/", literal.trim_end_matches(":443")))
            .await;
        assert_eq!(got.status, 403, "{literal}");
    }
    assert!(rig.world.asked().is_empty(), "{:?}", rig.world.asked());
    assert!(rig.world.dialled().is_empty());
}

#[tokio::test]
async fn an_answer_that_leads_inside_refuses_all_of_them() {
    let rig = Rig::start(POLICY, "").await;
    for answers in [
        &["172.16.9.9"][..],
        &[PUBLIC, "10.0.0.1"],
        &["169.254.169.254", PUBLIC],
        &["127.0.0.1"],
        &["::1"],
        &["::ffff:10.0.0.1"],
        &["64:ff9b::a00:1"],
        &["2002:a00:1::1"],
        &["fd00:ec2::254"],
        &["0.0.0.0"],
        &["224.0.0.1"],
    ] {
        rig.world.name("pay.shop.test", &[answers]);
        let (status, code) = rig.refusal("pay.shop.test:443").await;
        assert_eq!(
            (status, &*code),
            (403, "address_not_allowed"),
            "{answers:?}"
        );
        rig.world.name("plain.shop.test", &[answers]);
        let got = rig.get("http://plain.shop.test/").await;
        assert_eq!(
            (got.status, &*got.code()),
            (403, "address_not_allowed"),
            "{answers:?}"
        );
    }
    assert!(rig.world.dialled().is_empty());
}

#[tokio::test]
async fn a_name_that_changes_its_answer_is_dialled_where_it_was_checked() {
    let rig = Rig::start(POLICY, "").await;
    let upstream = Upstream::start(|_| json("{}")).await;
    rig.world.place(&format!("{PUBLIC}:80"), upstream.address);
    rig.world.place("169.254.169.254:80", upstream.address);
    rig.world
        .name("plain.shop.test", &[&[PUBLIC], &["169.254.169.254"]]);
    assert_eq!(rig.get("http://plain.shop.test/a").await.status, 200);
    assert_eq!(rig.world.asked().len(), 1);
    // Asked again, it is looked up again and checked again.
    let got = rig.get("http://plain.shop.test/b").await;
    assert_eq!((got.status, &*got.code()), (403, "address_not_allowed"));
    assert_eq!(rig.world.asked().len(), 2);
    assert_eq!(rig.world.dialled(), [format!("{PUBLIC}:80")]);
    assert_eq!(upstream.only().target(), "GET /a");
}

#[tokio::test]
async fn checked_addresses_are_tried_in_their_order() {
    let rig = Rig::start(POLICY, "").await;
    let upstream = Upstream::start(|_| json("{}")).await;
    rig.world.name("plain.shop.test", &[&[OTHER, PUBLIC]]);
    rig.world.place(&format!("{PUBLIC}:80"), upstream.address);
    assert_eq!(rig.get("http://plain.shop.test/").await.status, 200);
    assert_eq!(
        rig.world.dialled(),
        [format!("{OTHER}:80"), format!("{PUBLIC}:80")]
    );
}

#[tokio::test]
async fn a_name_without_an_address_is_told() {
    let rig = Rig::start(POLICY, "").await;
    for answers in [&[&[][..]][..], &[]] {
        rig.world.name("pay.shop.test", answers);
        let refusal = rig.refusal("pay.shop.test:443").await;
        assert_eq!(refusal, (502, "name_unresolved".to_owned()));
    }
    let (status, code) = rig.refusal("new.img.shop.test:443").await;
    assert_eq!((status, &*code), (502, "name_unresolved"));
    assert!(rig.world.dialled().is_empty());
}

#[tokio::test]
async fn two_requests_of_one_connection_are_two_look_ups_and_two_dials() {
    let rig = Rig::start(POLICY, "").await;
    let (one, two) = (
        Upstream::start(|_| json("{\"n\":1}")).await,
        Upstream::start(|_| json("{\"n\":2}")).await,
    );
    rig.world.name("a.img.shop.test", &[&[PUBLIC]]);
    rig.world.name("b.img.shop.test", &[&[OTHER]]);
    rig.world.place(&format!("{PUBLIC}:80"), one.address);
    rig.world.place(&format!("{OTHER}:80"), two.address);
    let mut client = crate::support::client::Client::connect(rig.forward()).await;
    for (host, n) in [("a", 1), ("b", 2), ("a", 1)] {
        let host = format!("{host}.img.shop.test");
        client
            .send(format!(
                "GET http://{host}/ HTTP/1.1\r\nhost: {host}\r\n\r\n"
            ))
            .await;
        assert_eq!(client.answer().await.text(), format!("{{\"n\":{n}}}"));
    }
    assert_eq!(rig.world.asked().len(), 3);
    assert_eq!(rig.world.dialled().len(), 3);
    assert_eq!((one.received().len(), two.received().len()), (2, 1));
}

#[tokio::test]
async fn listed_addresses_may_be_named_and_own_listeners_never() {
    let policy = POLICY.replace("hosts: [", "hosts: [\"127.0.0.0/8\", ");
    let rig = Rig::start(&policy, "").await;
    let addresses = rig.running().addresses();
    for port in [
        addresses.agents.port(),
        addresses.operations.port(),
        addresses.forward.unwrap().port(),
    ] {
        let url = format!("http://127.0.0.1:{port}/metrics");
        let got = rig.get(&url).await;
        assert_eq!(got.status, 403, "{url}");
    }
    assert!(rig.world.dialled().is_empty());
    let upstream = Upstream::start(|_| json("{}")).await;
    rig.world.place("127.0.0.9:80", upstream.address);
    assert_eq!(rig.get("http://127.0.0.9/x").await.status, 200);
    assert_eq!(upstream.only().header("host"), ["127.0.0.9"]);
    assert!(rig.world.asked().is_empty());
}

#[tokio::test]
async fn in_shadow_names_pass_and_addresses_do_not() {
    let policy = POLICY.replace("egress: enforce", "egress: shadow");
    let rig = Rig::start(&policy, "").await;
    let upstream = Upstream::start(|_| json("{}")).await;
    rig.world.name("other.test", &[&[PUBLIC], &["10.0.0.1"]]);
    rig.world.place(&format!("{PUBLIC}:80"), upstream.address);
    assert_eq!(rig.get("http://other.test/").await.status, 200);
    assert_eq!(rig.get("http://other.test/").await.status, 403);
    let said = "holdpoint_verdicts_total{layer=\"egress\",mode=\"shadow\",verdict=\"deny\"}";
    assert_eq!(rig.count(said).await, 2);
    let mut stream = rig.connect("pay.shop.test:443").await.1;
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    rig.refused("tunnel_refused").await;
    assert_eq!(rig.world.dialled(), [format!("{PUBLIC}:80")]);
}
