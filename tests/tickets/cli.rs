//! `holdpoint ticket` on a store that a guard uses at the same time.

use std::process::{Command, Output};
use std::sync::Arc;

use holdpoint::clock::SystemClock;
use holdpoint::guard::Guard;
use holdpoint::store::tickets::{TicketStore, sqlite};
use serde_json::Value;
use tempfile::TempDir;

use crate::world::{Call, guard, limits, policy, refund, send};

/// As `World`, on the system's clock, which the command uses too.
struct Live {
    folder: TempDir,
    store: Arc<dyn TicketStore>,
    guard: Guard,
}

impl Live {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tickets.db");
        let store = sqlite::open_serving(&path, SystemClock::shared(), limits()).unwrap();
        Self {
            guard: guard(policy(), Some(store.clone())),
            store,
            folder,
        }
    }

    fn run(&self, args: &[&str]) -> Output {
        run(&self.folder, args, "tickets.db")
    }

    fn text(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success(),
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        text
    }

    /// Exit code and standard error.
    fn error(&self, args: &[&str]) -> (i32, String) {
        failure(&self.run(args))
    }

    async fn digest(&self, id: &str) -> String {
        let ticket = self.store.get(id.into()).await.unwrap().unwrap();
        ticket.digest.to_string()
    }
}

fn run(folder: &TempDir, args: &[&str], store: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_holdpoint"))
        .arg("ticket")
        .args(args)
        .args(["--store".as_ref(), folder.path().join(store).as_os_str()])
        .env("USER", "mallory")
        .output()
        .unwrap()
}

fn failure(output: &Output) -> (i32, String) {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(text.trim_end().lines().count(), 1, "{text}");
    assert!(text.starts_with("error: "), "{text}");
    (output.status.code().unwrap(), text)
}

#[tokio::test]
async fn a_person_lists_shows_and_approves_and_the_call_goes_through() {
    let live = Live::new();
    assert_eq!(live.text(&["list"]), "no tickets\n");
    let id = send(&live.guard, &refund()).await.ticket().to_string();
    let digest = live.digest(&id).await;

    let list = live.text(&["list", "--state", "requested"]);
    for part in [&id, "Refund 19.9 on order A-1", "ann", &digest[..12]] {
        assert!(list.contains(part), "{part}: {list}");
    }
    let show = live.text(&["show", &id]);
    for part in [
        digest.as_str(),
        "nothing yet; approved: this exact call, once, until ",
        "somebody else's approval with the role finance",
        "ann (issuer config, tenant acme), agent bot, session s1",
        "4 in all",
        "/amount",
        "/lines/1",
    ] {
        assert!(show.contains(part), "{part}: {show}");
    }

    let (code, error) = live.error(&["approve", &id, "--digest", "00000000"]);
    assert_eq!(code, 1);
    assert!(error.contains("does not belong to ticket"), "{error}");
    let approved = live.text(&["approve", &id, "--digest", &digest[..8]]);
    assert!(
        approved.starts_with(&format!("approved {id}")),
        "{approved}"
    );
    assert!(
        approved.contains("this exact call, once, until "),
        "{approved}"
    );

    let json: Value = serde_json::from_str(&live.text(&["show", &id, "--json"])).unwrap();
    assert_eq!(json["state"], "approved");
    let by = &json["votes"][0]["by"];
    assert!(
        by["issuer"] == "local" && by["subject"] != "mallory",
        "{by}"
    );
    assert_eq!(send(&live.guard, &refund()).await.word(), "sent");
}

#[tokio::test]
async fn a_denial_is_kept_with_its_comment_and_is_final() {
    let live = Live::new();
    let id = send(&live.guard, &refund()).await.ticket().to_string();
    let denied = live.text(&["deny", &id, "--comment", "wrong \u{202e}order"]);
    assert!(denied.starts_with(&format!("denied {id}")), "{denied}");
    let show = live.text(&["show", &id]);
    assert!(show.contains("\"wrong \\u{202e}order\""), "{show}");
    let digest = live.digest(&id).await;
    let (code, error) = live.error(&["approve", &id, "--digest", &digest[..8]]);
    assert_eq!(code, 1);
    assert!(error.contains("is denied"), "{error}");
    assert_eq!(send(&live.guard, &refund()).await.word(), "approval_denied");
}

#[tokio::test]
async fn nothing_hidden_or_padded_reaches_the_terminal() {
    let live = Live::new();
    let call = Call {
        args: format!(
            "{{\"order\":\"A-1\\u001b[2J\u{202e}\",\"amount\":1,\"note\":\"ok{}pay mallory\",\"k\u{200b}\":0}}",
            " ".repeat(900)
        ),
        ..refund()
    };
    let id = send(&live.guard, &call).await.ticket().to_string();
    let hidden = |text: &str| {
        text.chars()
            .any(|c| (c.is_control() && c != '\n') || c > '\u{2027}')
    };
    let show = live.text(&["show", &id]);
    assert!(!hidden(&show.replace('…', "")), "{show}");
    assert!(show.contains("\\u{1b}[2J\\u{202e}"), "{show}");
    assert!(
        show.contains("pay mallory\" (915 characters, sha256 "),
        "{show}"
    );
    assert!(show.contains("/k\\u{200b}"), "{show}");
    assert!(!hidden(&live.text(&["list"])));
    let full = live.text(&["show", &id, "--full"]);
    assert!(full.contains(&" ".repeat(900)), "{full}");

    let json = live.text(&["list", "--json"]);
    assert!(!hidden(&json), "{json}");
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["arguments"]["order"], "A-1\u{1b}[2J\u{202e}");
}

#[tokio::test]
async fn what_cannot_be_done_is_said_in_one_line() {
    let live = Live::new();
    send(&live.guard, &refund()).await;
    for command in ["show", "approve", "deny", "revoke"] {
        let (code, error) = live.error(&[command, "tkt_none"]);
        assert_eq!(code, 2);
        assert!(error.contains("there is no ticket tkt_none"), "{error}");
    }
    let missing = failure(&run(&live.folder, &["list"], "none.db"));
    assert_eq!(missing.0, 2);
    assert!(
        missing.1.contains("none.db") && missing.1.contains("check the path"),
        "{}",
        missing.1
    );
    assert!(!live.folder.path().join("none.db").exists());

    std::fs::write(live.folder.path().join("notes.txt"), "hello").unwrap();
    let other = failure(&run(&live.folder, &["list"], "notes.txt"));
    assert_eq!(other.0, 2);
    assert!(
        other.1.contains("notes.txt is not a ticket store"),
        "{}",
        other.1
    );
}

#[tokio::test]
async fn what_was_not_shown_is_not_approved() {
    let live = Live::new();
    let id = send(&live.guard, &refund()).await.ticket().to_string();
    // Nobody sits at a terminal here.
    let (code, error) = live.error(&["approve", &id]);
    assert_eq!(code, 2);
    assert!(error.contains("`--digest`"), "{error}");
    for digest in ["", "1234567", "not hex!"] {
        let (code, error) = live.error(&["approve", &id, "--digest", digest]);
        assert_eq!(code, 2);
        assert!(error.contains("hex digits"), "{digest}: {error}");
    }
    let state = live.store.get(id.as_str().into()).await.unwrap().unwrap();
    assert_eq!(state.state.as_str(), "requested");
}

#[tokio::test]
async fn an_approval_is_taken_back() {
    let live = Live::new();
    let id = send(&live.guard, &refund()).await.ticket().to_string();
    let digest = live.digest(&id).await;
    live.text(&["approve", &id, "--digest", &digest]);
    let revoked = live.text(&["revoke", &id, "--comment", "not today"]);
    assert!(revoked.starts_with(&format!("revoked {id}")), "{revoked}");
    assert_eq!(send(&live.guard, &refund()).await.word(), "approval_denied");
    let list = live.text(&["list", "--state", "revoked,denied", "--subject", "ann"]);
    assert!(list.contains(&id), "{list}");
    assert_eq!(live.text(&["list", "--tenant", "other"]), "no tickets\n");
    assert_eq!(live.text(&["mandates"]), "no mandates\n");
    let (code, error) = live.error(&["mandates", "--end", "mdt_none"]);
    assert_eq!(code, 2);
    assert!(error.contains("there is no mandate mdt_none"), "{error}");
}

#[tokio::test]
async fn an_unknown_outcome_is_found_out_with_a_note() {
    let live = Live::new();
    let id = send(&live.guard, &refund()).await.ticket().to_string();
    let digest = live.digest(&id).await;
    live.text(&["approve", &id, "--digest", &digest[..12]]);
    let note = ["--not-done", "--note", "the bank shows nothing"];
    let (code, error) = live.error(&[&["reconcile", &id][..], &note].concat());
    assert_eq!(code, 1);
    assert!(error.contains("only what is unknown"), "{error}");
    drop(send(&live.guard, &refund()).await.claim());
    while live
        .store
        .get(id.as_str().into())
        .await
        .unwrap()
        .unwrap()
        .state
        .as_str()
        != "unknown"
    {
        tokio::task::yield_now().await;
    }
    let resolved = live.text(&[&["reconcile", &id][..], &note].concat());
    assert!(
        resolved.starts_with(&format!("resolved_not_done {id}")),
        "{resolved}"
    );
    let show = live.text(&["show", &id]);
    assert!(show.contains("\"the bank shows nothing\""), "{show}");
}

/// Row 25: the books of the upstream say what became of the call.
#[tokio::test]
async fn an_unknown_outcome_is_found_out_by_the_recipe_of_the_rule() {
    let live = Live::new();
    let id = send(&live.guard, &refund()).await.ticket().to_string();
    let digest = live.digest(&id).await;
    live.text(&["approve", &id, "--digest", &digest]);
    drop(send(&live.guard, &refund()).await.claim());
    let state = async || {
        let ticket = live.store.get(id.as_str().into()).await.unwrap().unwrap();
        ticket.state.as_str()
    };
    while state().await != "unknown" {
        tokio::task::yield_now().await;
    }
    let (code, error) = live.error(&["reconcile", &id]);
    assert_eq!(code, 2);
    assert!(error.contains("`--config`"), "{error}");

    let path = |name: &str| live.folder.path().join(name);
    let books = rusqlite::Connection::open(path("books.db")).unwrap();
    books
        .execute_batch("CREATE TABLE refunds (ref TEXT)")
        .unwrap();
    let policy = "version: 1
name: t
layers: {catalog: off, identity: off, egress: off, recipients: off, ownership: off, injection: off, tickets: enforce}
lookups: {refund_of: {store: books, sql: \"SELECT ref FROM refunds WHERE ref = :ticket\"}}
tools: [{tool: refund, ticket: {gate: approve, ttl: 1h, reconcile: {lookup: refund_of, after: 1h}}}]
";
    let config = "policy: policy.yaml
upstreams: {shop: {url: \"http://127.0.0.1:1\"}}
routes: [{name: tools, prefix: /, upstream: shop, protocol: mcp}]
principal: {fixed: {subject: ann}}
tickets: {store: tickets.db}
stores: {books: {sqlite: books.db}}
";
    std::fs::write(path("policy.yaml"), policy).unwrap();
    std::fs::write(path("holdpoint.yaml"), config).unwrap();
    let reconcile = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdpoint"));
        command.args(["ticket", "reconcile", &id, "--config"]);
        command.arg(path("holdpoint.yaml")).output().unwrap()
    };
    // No row, and the call may be on its way still.
    let open = reconcile();
    assert_eq!(open.status.code(), Some(1), "{open:?}");
    assert_eq!(state().await, "unknown");
    books
        .execute("INSERT INTO refunds VALUES (?1)", [&id])
        .unwrap();
    let done = reconcile();
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(text.starts_with(&format!("resolved_done {id}")), "{done:?}");
    assert_eq!(state().await, "resolved_done");
}

/// The parts of a signed ticket that say what it permits.
fn payload(token: &str) -> Value {
    let payload = token.split('.').nth(2).unwrap();
    let json = data_encoding::BASE64URL_NOPAD
        .decode(payload.as_bytes())
        .unwrap();
    serde_json::from_slice(&json).unwrap()
}

#[tokio::test]
async fn an_approved_ticket_is_handed_out_signed_and_is_spent_by_that() {
    let live = Live::new();
    let key = live.folder.path().join("key.pem");
    let made = Command::new(env!("CARGO_BIN_EXE_holdpoint"))
        .args(["ticket", "key", "new"])
        .arg(&key)
        .output()
        .unwrap();
    let printed = String::from_utf8(made.stdout).unwrap();
    let public: std::collections::HashMap<&str, &str> = printed
        .trim()
        .trim_matches(['{', '}'])
        .split(", ")
        .map(|pair| pair.split_once(": ").unwrap())
        .map(|(name, value)| (name, value.trim_matches('"')))
        .collect();
    let key = key.to_str().unwrap();
    let id = send(&live.guard, &refund()).await.ticket().to_string();
    // Nothing is handed out that nobody has approved.
    let (code, error) = live.error(&["export", &id, "--key", key]);
    assert_eq!(code, 1);
    assert!(error.contains("is requested"), "{error}");
    let (code, _) = live.error(&["export", "tkt_none", "--key", key]);
    assert_eq!(code, 2);
    let digest = live.digest(&id).await;
    live.text(&["approve", &id, "--digest", &digest]);

    let text = live.text(&["export", &id, "--key", key]);
    let exported: Value = serde_json::from_str(&text).unwrap();
    let token = exported["ticket"].as_str().unwrap();
    let claims = payload(token);
    assert_eq!(claims["jti"], id.as_str());
    assert_eq!(claims["call"], digest.as_str());
    assert_eq!(claims["tool"], "refund");
    let ticket = live.store.get(id.as_str().into()).await.unwrap().unwrap();
    let arguments = ticket.arguments.get();
    let hash = holdpoint::store::tickets::digest::sha256_hex(arguments.as_bytes());
    assert_eq!(claims["arguments"], hash.as_str());
    assert_eq!(
        exported["arguments"],
        serde_json::from_str::<Value>(arguments).unwrap()
    );
    // Whoever has the public key can tell that it is genuine.
    let issuer = holdpoint::store::tickets::issued::Issuer {
        name: "guard".to_owned(),
        keys: vec![holdpoint::store::tickets::issued::IssuerKey {
            kid: public["kid"].to_owned(),
            public: data_encoding::BASE64URL_NOPAD
                .decode(public["public"].as_bytes())
                .unwrap()
                .try_into()
                .unwrap(),
            from: None,
            until: None,
        }],
    };
    let now = jiff::Timestamp::now();
    let verified = holdpoint::store::tickets::issued::verify(token, [&issuer], now).unwrap();
    assert_eq!(verified.kid, public["kid"]);
    // The guard sends it no more, and it is handed out once.
    assert_eq!(send(&live.guard, &refund()).await.word(), "replayed");
    assert_eq!(ticket.state.as_str(), "succeeded");
    let (code, error) = live.error(&["export", &id, "--key", key]);
    assert_eq!(code, 1);
    assert!(error.contains("is succeeded"), "{error}");
}

#[test]
fn a_password_is_hashed_for_the_config() {
    use std::io::Write as _;
    let hash = |password: &str| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_holdpoint"))
            .args(["approver", "hash"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(password.as_bytes()).unwrap();
        drop(input);
        child.wait_with_output().unwrap()
    };
    let output = hash("correct horse battery\n");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("$argon2id$v=19$"), "{text}");
    assert!(holdpoint::approvals::password::verify(
        "correct horse battery",
        text.trim()
    ));
    let (code, error) = failure(&hash("too short\n"));
    assert_eq!(code, 2);
    assert!(
        error.contains("15 characters") && !error.contains("too short\n"),
        "{error}"
    );
}

#[tokio::test]
async fn the_config_names_the_store() {
    let live = Live::new();
    let id = send(&live.guard, &refund()).await.ticket().to_string();
    let config = live.folder.path().join("holdpoint.yaml");
    let listed = |text: &str| {
        std::fs::write(&config, text).unwrap();
        Command::new(env!("CARGO_BIN_EXE_holdpoint"))
            .args(["ticket", "list", "--config"])
            .arg(&config)
            .output()
            .unwrap()
    };
    let base = "policy: policy.yaml
upstreams:
  model: {url: \"http://127.0.0.1:1\"}
routes:
  - {name: model, prefix: /, upstream: model, protocol: openai_chat}
principal: {fixed: {subject: ann}}
";
    let whole = listed(&format!("{base}tickets: {{store: tickets.db}}\n"));
    let list = String::from_utf8_lossy(&whole.stdout);
    assert!(
        list.contains(&id),
        "{list}{}",
        String::from_utf8_lossy(&whole.stderr)
    );

    let (code, error) = failure(&listed(base));
    assert_eq!(code, 2);
    assert!(error.contains("set `tickets`"), "{error}");

    let broken = listed("polcy: x\n");
    let error = String::from_utf8_lossy(&broken.stderr).into_owned();
    assert_eq!(broken.status.code(), Some(2));
    assert!(
        error.contains("did you mean `policy`?") && error.contains("`--store FILE`"),
        "{error}"
    );
}

/// The same command of another room.
fn audit(live: &Live, args: &[&str]) -> (i32, String) {
    let path = live.folder.path().join("tickets.db");
    let output = Command::new(env!("CARGO_BIN_EXE_holdpoint"))
        .args(["audit", "verify", "--store"])
        .arg(path)
        .args(args)
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.code().unwrap(),
        String::from_utf8(said).unwrap(),
    )
}

#[tokio::test]
async fn the_audit_is_walked_and_tampering_is_told() {
    let live = Live::new();
    let id = send(&live.guard, &refund()).await.ticket().to_string();
    let digest = live.digest(&id).await;
    live.text(&["approve", &id, "--digest", &digest[..8]]);
    send(&live.guard, &refund()).await.claim();
    let (code, said) = audit(&live, &[]);
    assert_eq!(code, 0, "{said}");
    assert!(said.starts_with("the audit holds: "), "{said}");
    let head = said.trim().rsplit_once("head ").unwrap().1.to_owned();
    assert_eq!(audit(&live, &["--head", &head]).0, 0);
    assert_eq!(audit(&live, &["--head", "3"]).0, 2);

    let raw = rusqlite::Connection::open(live.folder.path().join("tickets.db")).unwrap();
    let copy = |sql: &str| raw.execute_batch(sql).unwrap();
    copy("CREATE TABLE kept AS SELECT * FROM audit; CREATE TABLE tickets AS SELECT * FROM ticket");
    let restore = "DELETE FROM audit; INSERT INTO audit SELECT * FROM kept; \
                   DELETE FROM ticket; INSERT INTO ticket SELECT * FROM tickets";
    let tampering = [
        (
            "UPDATE audit SET actor = 'local:sam' WHERE seq = 2",
            "row 2 was changed",
        ),
        (
            "UPDATE audit SET at = at + 1 WHERE seq = 1",
            "row 1 was changed",
        ),
        (
            "UPDATE audit SET event = 'nothing' WHERE seq = 2",
            "cannot be read after row 0",
        ),
        ("DELETE FROM audit WHERE seq = 2", "row 2 is missing"),
        ("DELETE FROM audit WHERE seq = 1", "row 1 is missing"),
        (
            "UPDATE audit SET seq = -seq WHERE seq IN (1, 2); UPDATE audit SET seq = 3 + seq WHERE seq < 0",
            "row 1",
        ),
        ("DELETE FROM audit WHERE seq > 1", "was noted"),
        // Nobody approved it, by the audit.
        (
            "UPDATE ticket SET state = 'approved'",
            "is approved, and no row leads there",
        ),
        (
            "INSERT INTO ticket SELECT seq + 1, 'tkt_x', 'failed', digest, tenant, issuer, subject, agent, session, route, \
             upstream, tool, arguments, policy, layer, rule, reason, gate, summary, created_at, expires_at, 0, 0, NULL, NULL, \
             NULL, NULL, NULL, NULL, NULL, NULL, roles, 1, 0, '[]', '{}', NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, \
             NULL, NULL FROM ticket",
            "ticket tkt_x is failed",
        ),
    ];
    for (sql, told) in tampering {
        copy(sql);
        let (code, said) = audit(&live, &["--head", &head]);
        assert_eq!(code, 1, "{sql}: {said}");
        assert!(said.contains(told), "{sql}: {said}");
        copy(restore);
        let (code, said) = audit(&live, &["--head", &head]);
        assert_eq!(code, 0, "{said}");
    }
}
