//! A client that everybody has.

use std::process::Stdio;

use tokio::process::Command;

use crate::support::upstream::{Upstream, json};
use crate::world::{Echo, POLICY, PUBLIC, Rig};

/// Runs it: what it wrote, and its exit code.
async fn curl(rig: &Rig, arguments: &[&str]) -> Option<(String, i32)> {
    let ran = Command::new("curl")
        .args([
            "--silent",
            "--show-error",
            "--max-time",
            "20",
            "--noproxy",
            "",
        ])
        .args(["--proxy", &format!("http://{}", rig.forward())])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .await;
    let ran = ran.ok()?;
    let said = [ran.stdout, ran.stderr].concat();
    Some((
        String::from_utf8_lossy(&said).into_owned(),
        ran.status.code().unwrap_or(-1),
    ))
}

#[tokio::test]
async fn curl_gets_out_where_it_may_and_is_told_where_not() {
    let rig = Rig::start(POLICY, "").await;
    let upstream = Upstream::start(|_| json("{\"plain\":true}")).await;
    rig.world.place(&format!("{PUBLIC}:80"), upstream.address);
    let echo = Echo::start("pay.shop.test").await;
    rig.world.place(&format!("{PUBLIC}:443"), echo.address);
    let Some((said, code)) = curl(&rig, &["http://plain.shop.test/x"]).await else {
        println!("skipped: there is no curl");
        return;
    };
    assert_eq!((&*said, code), ("{\"plain\":true}", 0));
    let (said, code) = curl(&rig, &["http://attacker.test/x"]).await.unwrap();
    assert!(said.contains("host_not_allowed"), "{said}");
    assert_eq!(code, 0);
    // The peer sends the request back, which is HTTP/0.9 to curl: its bytes went through.
    let authority = echo.authority();
    let authority = authority.to_str().unwrap();
    let through = [
        "--http0.9",
        "--max-time",
        "2",
        "--cacert",
        authority,
        "https://pay.shop.test/x",
    ];
    let (said, _) = curl(&rig, &through).await.unwrap();
    assert!(said.starts_with("GET /x HTTP/1.1"), "{said}");
    let (said, code) = curl(&rig, &["https://attacker.test/x"]).await.unwrap();
    assert_eq!(code, 56, "{said}");
    assert!(said.contains("403"), "{said}");
    // Its name in the hello is not the one of the tunnel.
    let other = [
        "--connect-to",
        "other.test:443:pay.shop.test:443",
        "https://other.test/",
    ];
    let (said, code) = curl(&rig, &other).await.unwrap();
    assert_ne!(code, 0, "{said}");
    rig.refused("tunnel_refused").await;
    let dialled = rig.world.dialled();
    assert_eq!(dialled, [format!("{PUBLIC}:80"), format!("{PUBLIC}:443")]);
}
