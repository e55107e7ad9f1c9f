//! Callers by the names in their client certificates.

use rcgen::{CertificateParams, SanType};

use crate::http2;
use crate::support::rig::Rig;
use crate::support::upstream::{Upstream, json as ok};
use crate::tls::{Authority, ask, connect};

const NAMES: &str = "principal:
  mtls:
    names:
      - {uri: \"spiffe://shop.example/desk\", tenant: shop, subject: desk-bot, scopes: [refund:create]}
      - {dns: mailer.agents.example, tenant: shop, subject: mailer}
";

const POLICY: &str = "version: 1
name: scopes
layers: {catalog: off, identity: enforce, egress: off, recipients: off, ownership: off, injection: off, tickets: off}
tools:
  - {tool: get_order, scopes: [refund:create]}
  - {tool: \"*\"}
";

async fn rig(upstream: &Upstream, authority: &Authority) -> Rig {
    authority.sign("proxy", "localhost");
    let ca = authority.file("ca.pem");
    let listen = authority.listen(&format!(", client_ca: \"{}\"", ca.display()));
    let config = crate::support::rig::config(&upstream.url(), &format!("{NAMES}{listen}"));
    Rig::start(&config, POLICY).await
}

/// The status of a request by a client that shows this certificate.
async fn status(rig: &Rig, authority: &Authority, shows: &str) -> String {
    let stream = connect(rig, authority, Some(shows), &[]).await.unwrap();
    let answer = ask(stream).await.unwrap();
    let code = ["credential_unknown", "scope_missing"];
    let code = code.into_iter().find(|code| answer.contains(code));
    format!("{} {}", &answer[9..12], code.unwrap_or_default())
}

#[tokio::test]
async fn a_certificate_names_its_principal() {
    let upstream = Upstream::start(|_| ok("{}")).await;
    let authority = Authority::new();
    let rig = rig(&upstream, &authority).await;
    let uri = |text: &str| SanType::URI(text.try_into().unwrap());
    let dns = |text: &str| SanType::DnsName(text.try_into().unwrap());
    for (name, names, expected) in [
        ("desk", vec![uri("spiffe://shop.example/desk")], "200 "),
        (
            "mailer",
            vec![dns("mailer.agents.example")],
            "403 scope_missing",
        ),
        (
            "other",
            vec![uri("spiffe://shop.example/other")],
            "401 credential_unknown",
        ),
        (
            "under",
            vec![uri("spiffe://shop.example/desk/x")],
            "401 credential_unknown",
        ),
        (
            "wild",
            vec![dns("*.agents.example")],
            "401 credential_unknown",
        ),
        (
            "both",
            vec![
                uri("spiffe://shop.example/desk"),
                dns("mailer.agents.example"),
            ],
            "401 credential_unknown",
        ),
        ("none", vec![], "401 credential_unknown"),
    ] {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.subject_alt_names = names;
        authority.sign_as(name, &params);
        assert_eq!(status(&rig, &authority, name).await, expected, "{name}");
    }
    assert_eq!(upstream.received().len(), 1);
}

#[tokio::test]
async fn over_http_2_every_request_of_the_connection_has_the_name() {
    let upstream = Upstream::start(|_| ok("{}")).await;
    let authority = Authority::new();
    let rig = rig(&upstream, &authority).await;
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.subject_alt_names = vec![SanType::URI(
        "spiffe://shop.example/desk".try_into().unwrap(),
    )];
    authority.sign_as("desk", &params);
    let stream = connect(&rig, &authority, Some("desk"), &["h2"])
        .await
        .unwrap();
    let mut sender = http2::speak(stream).await;
    for _ in 0..2 {
        let asked = http2::get("https://localhost/shop/orders/1");
        let answer = sender.send_request(asked).await.unwrap();
        assert_eq!(answer.status(), 200);
    }
}

#[tokio::test]
async fn without_a_certificate_there_is_no_connection() {
    let upstream = Upstream::start(|_| ok("{}")).await;
    let authority = Authority::new();
    let rig = rig(&upstream, &authority).await;
    let stream = connect(&rig, &authority, None, &[]).await;
    let spoken = match stream {
        Ok(stream) => ask(stream).await.unwrap_or_default(),
        Err(_) => String::new(),
    };
    assert!(!spoken.starts_with("HTTP/"), "{spoken}");
}
