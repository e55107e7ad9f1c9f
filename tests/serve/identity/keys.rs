//! Keys of agents, known by their digests.

use std::io::Write;
use std::process::{Command, Stdio};

use holdpoint::settings::{self, Overrides, Principals};

use crate::support::client::request;
use crate::support::rig::Rig;
use crate::support::upstream::{Upstream, json as ok};

fn key(arguments: &[&str], input: &str) -> (Option<i32>, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_holdpoint"))
        .arg("key")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn made() -> (String, String) {
    let (status, out, _) = key(&["new"], "");
    assert_eq!(status, Some(0));
    let line = |name: &str| {
        let found = out.lines().find_map(|line| line.strip_prefix(name));
        found.unwrap().to_owned()
    };
    (line("key: "), line("key_sha256: "))
}

#[tokio::test]
async fn a_made_key_is_taken_and_the_config_holds_its_digest_alone() {
    let (one, digest) = made();
    let (other, _) = made();
    assert_eq!(key(&["hash"], &format!("{one}\n")).1.trim(), digest);
    let upstream = Upstream::start(|_| ok("{}")).await;
    let principal =
        format!("principal: {{api_keys: {{keys: [{{key_sha256: \"{digest}\", subject: ann}}]}}}}");
    let rig = Rig::before(&upstream.url(), &principal).await;
    for (key, status) in [(&one, 200), (&other, 401), (&digest, 401)] {
        let bearer = format!("Bearer {key}");
        let headers = [("authorization", bearer.as_str())];
        let answer = rig
            .ask(request("GET", "/shop/orders/1", &headers, ""))
            .await;
        assert_eq!(answer.status, status);
    }
}

#[test]
fn a_key_that_could_be_guessed_gets_no_digest() {
    for input in [
        "",
        "hunter2\n",
        "a key with blanks that is long enough to be one\n",
    ] {
        let (status, out, error) = key(&["hash"], input);
        assert_eq!(status, Some(2), "{input}");
        assert!(out.is_empty());
        assert!(error.contains("holdpoint key new"), "{error}");
        assert!(input.is_empty() || !error.contains(input.trim()), "{error}");
    }
}

#[test]
fn keys_may_stand_in_a_file_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let (_, digest) = made();
    let write = |text: &str| std::fs::write(folder.path().join("keys.yaml"), text).unwrap();
    let config = "policy: p.yaml
upstreams: {shop: {url: \"http://shop\"}}
routes: [{name: m, prefix: /, upstream: shop, protocol: openai_chat}]
principal: {api_keys: {file: keys.yaml}}
";
    std::fs::write(folder.path().join("c.yaml"), config).unwrap();
    let read = || {
        let path = folder.path().join("c.yaml");
        let read = settings::read(&path, &Overrides::default(), &settings::Environment::new());
        read.map_err(|problems| problems.to_string())
    };
    write(&format!(
        "- {{key_sha256: \"{digest}\", subject: ann, scopes: [a]}}\n"
    ));
    let Principals::ApiKeys { keys, .. } = read().unwrap().settings.principals else {
        panic!("keys")
    };
    assert_eq!(keys.len(), 1);
    for (text, said) in [
        (
            "- {key_sha256: hpk_pasted-key, subject: ann}\n",
            "64 hexadecimal digits",
        ),
        ("- {key_env: A_KEY, subject: ann}\n", "key_env"),
        ("[]\n", "keys.yaml"),
    ] {
        write(text);
        let problems = read().unwrap_err();
        assert!(
            problems.contains(said) && problems.contains("keys.yaml"),
            "{problems}"
        );
        assert!(!problems.contains("pasted-key"), "{problems}");
    }
    write(&format!(
        "- {{key_sha256: \"{digest}\", subject: a}}\n- {{key_sha256: \"{digest}\", subject: b}}\n"
    ));
    assert!(read().unwrap_err().contains("the same key"));
}
