//! `holdpoint policy check`, as an operator sees it.

use support::{CONFIG, Folder, POLICY, Said};

#[test]
fn a_good_policy_is_one_line() {
    let folder = Folder::new();
    folder.write("p.yaml", POLICY);
    let said = folder.check(&["p.yaml"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let words = "OK desk ";
    assert!(said.out.starts_with(words), "{}", said.out);
    assert!(
        said.out
            .contains(", 3 tool rules, 1 list, 2 look-ups; enforce: egress"),
        "{}",
        said.out
    );
    assert!(said.out.contains("off: catalog identity"), "{}", said.out);
    assert_eq!(said.out.lines().count(), 1);
    assert_eq!(said.err, "");
}

#[test]
fn all_problems_come_at_once_with_file_line_and_caret() {
    let folder = Folder::new();
    let bad = POLICY
        .replace("egress: enforce", "egres: enforce")
        .replace("owner: owner}", "owner: ownr}")
        .replace("ttl: 15m", "ttl: 15");
    folder.write("p.yaml", &bad);
    let said = folder.check(&["p.yaml"]);
    assert_eq!((said.code, said.out.as_str()), (2, ""));
    insta::assert_snapshot!(said.err);
}

#[test]
fn problems_of_policy_and_config_come_together() {
    let folder = Folder::new();
    folder.write("p.yaml", "version: 1\n");
    folder.write(
        "c.yaml",
        "policy: p.yaml\nlisten: {agent: \"127.0.0.1:1\"}\n",
    );
    let said = folder.check(&["p.yaml", "--config", "c.yaml"]);
    assert_eq!(said.code, 2);
    for words in [
        "p.yaml:1:1",
        "lacks the key `layers`",
        "c.yaml:2:10",
        "did you mean `agents`?",
        "lacks the key `routes`",
    ] {
        assert!(said.err.contains(words), "{words}\n{}", said.err);
    }
}

#[test]
fn warnings_do_not_fail_the_check() {
    let folder = Folder::new();
    folder.write("p.yaml", &POLICY.replace("tool: \"*\"", "tool: rest"));
    let said = folder.check(&["p.yaml"]);
    assert_eq!(said.code, 0);
    assert!(
        said.err.starts_with("warning: there is no rule for `*`"),
        "{}",
        said.err
    );
    assert!(said.out.ends_with(", 1 warning\n"), "{}", said.out);
}

#[test]
fn what_cannot_be_read_is_one_clear_problem() {
    let folder = Folder::new();
    folder.write("bad.yaml", "a: [1\nb: 2\n");
    folder.write_bytes("latin.yaml", b"name: caf\xe9\n");
    folder.write("empty.yaml", "\n# nothing\n");
    folder.write("two.yaml", "a: 1\n---\na: 2\n");
    for (file, words) in [
        ("missing.yaml", "`missing.yaml` does not exist"),
        (".", "`.` is a folder, not a file"),
        ("bad.yaml", "not valid YAML"),
        ("latin.yaml", "is not UTF-8 text: line 1"),
        ("empty.yaml", "`empty.yaml` is empty"),
        ("two.yaml", "a second document starts here"),
    ] {
        let Said { code, out, err } = folder.check(&[file]);
        assert_eq!((code, out.as_str()), (2, ""));
        assert!(
            err.contains(words) && err.contains("help: "),
            "{file}\n{err}"
        );
        assert_eq!(err.matches("error: ").count(), 1, "{err}");
        assert!(
            !err.contains('\u{1b}'),
            "colour without a terminal: {err:?}"
        );
    }
}

#[test]
fn with_a_config_the_whole_is_tried() {
    let folder = Folder::shop();
    let said = folder.check(&["p.yaml", "--config", "c.yaml"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(
        said.out
            .contains("; with c.yaml: 2 routes, 2 upstreams, 1 store"),
        "{}",
        said.out
    );
    // Nothing is left behind.
    assert!(!folder.path("tickets.db").exists());
}

#[test]
fn a_config_that_runs_no_or_another_policy_is_a_warning() {
    let folder = Folder::shop();
    folder.write("other.yaml", POLICY);
    let args = ["p.yaml", "--config", "c.yaml"];
    assert!(!folder.check(&args).err.contains("policy `"));
    for (named, words) in [
        ("other.yaml", "the config runs another policy, `other.yaml`"),
        (
            "gone.yaml",
            "the config's policy `gone.yaml` cannot be opened",
        ),
    ] {
        folder.write(
            "c.yaml",
            &CONFIG.replace("policy: p.yaml", &format!("policy: {named}")),
        );
        let said = folder.check(&args);
        assert_eq!(said.code, 0, "{}", said.err);
        assert!(
            said.err.contains(words) && said.err.contains("c.yaml:1"),
            "{}",
            said.err
        );
    }
}

/// File, what stands in it, what is written instead, words of the message.
#[rustfmt::skip]
const AGAINST: &[(&str, &str, &str, &[&str])] = &[
    ("p.yaml", "id = :order_id", "id = :order", &["p.yaml:10", "asks for `:order`, which is not bound here"]),
    ("p.yaml", "id = :order_id", "id = 1", &["does not ask for `:order_id`"]),
    ("p.yaml", "FROM orders", "FROM order_list", &["p.yaml:6", "cannot run", "order_list"]),
    ("p.yaml", "SELECT user_subject AS owner, id AS order_id FROM", "DELETE FROM", &["p.yaml:6", "cannot run"]),
    ("p.yaml", "subject = :principal", "subject = :user", &["p.yaml:13", "knows `:principal` and `:tenant` only"]),
    ("p.yaml", "store: commerce, sql: \"SELECT user", "store: comerce, sql: \"SELECT user", &["the config has no store `comerce`", "did you mean `commerce`?"]),
    ("p.yaml", "{route: shop}", "{route: shp}", &["the config has no route `shp`", "did you mean `shop`?"]),
    ("p.yaml", "{route: shop}", "{route: model}", &["only proposes calls", "`executes_at: agent`"]),
    ("p.yaml", "{route: shop}", "agent", &["on the route `shop`, such a call would pass without its ticket"]),
    ("c.yaml", "{tool: refund, method: POST, path: \"/orders/{order_id}/refund\"}", "{tool: pay, method: POST, path: /pay}", &["the route `shop` maps no tool that this rule decides"]),
    ("c.yaml", "shop.db", "shp.db", &["the store `commerce`", "check `stores.commerce.sqlite`"]),
    ("c.yaml", "tickets: {store: tickets.db}\n", "", &["the config has no ticket store", "p.yaml:3"]),
    ("c.yaml", "  - {name: model, prefix: /openai, upstream: model, protocol: openai_chat}\n", "", &["this rule can never match", "p.yaml:11"]),
];

#[test]
fn what_cannot_work_under_the_config_is_refused_at_its_line() {
    for (file, from, to, words) in AGAINST {
        let folder = Folder::shop();
        folder.replace(file, from, to);
        let said = folder.check(&["p.yaml", "--config", "c.yaml"]);
        assert_eq!(said.code, 2, "{to}: {}{}", said.out, said.err);
        for words in *words {
            assert!(said.err.contains(words), "{to}: {words}\n{}", said.err);
        }
    }
}

/// The tools of all routes, whichever way the config comes to them.
#[test]
fn a_rule_for_a_tool_of_no_route_names_the_one_that_was_meant() {
    let model = "  - {name: model, prefix: /openai, upstream: model, protocol: openai_chat}\n";
    for (word, help) in [
        ("refnud", "did you mean `refund`?"),
        ("send_*", "the tools of all routes are `refund`"),
    ] {
        let folder = Folder::shop();
        folder.replace("c.yaml", model, "");
        folder.replace("p.yaml", "tool: send_email", &format!("tool: {word}"));
        let said = folder.check(&["p.yaml", "--config", "c.yaml"]);
        assert_eq!(said.code, 2, "{}", said.out);
        for words in [
            "this rule can never match",
            help,
            "map the tool on an HTTP route",
        ] {
            assert!(said.err.contains(words), "{words}\n{}", said.err);
        }
    }
}

/// A rule that denies is proved able to match like any other; on an MCP route any tool may come.
#[test]
fn a_denial_that_can_never_match_is_refused() {
    let model = "  - {name: model, prefix: /openai, upstream: model, protocol: openai_chat}\n";
    let tools_only = |rule: &str| {
        let folder = Folder::shop();
        folder.replace("p.yaml", "catalog: off", "catalog: enforce");
        folder.replace("c.yaml", model, "");
        folder.replace(
            "p.yaml",
            "  - tool: send_email\n    recipients:\n      - {at: /to, kind: email, allow: [{lookup: own}]}\n",
            rule,
        );
        folder.replace("p.yaml", "  own: {store: commerce, sql: \"SELECT email FROM users WHERE subject = :principal\"}\n", "");
        folder.replace("p.yaml", "recipients: enforce", "recipients: off");
        folder
    };
    let check = |folder: &Folder| folder.check(&["p.yaml", "--config", "c.yaml"]);
    let denied = "  - {tool: drop_table, deny: true}\n";
    let said = check(&tools_only(denied));
    assert_eq!(said.code, 2, "{}", said.out);
    assert!(
        said.err.contains("this rule can never match"),
        "{}",
        said.err
    );

    let folder = tools_only(denied);
    folder.replace(
        "c.yaml",
        "routes:\n",
        "routes:\n  - {name: files, prefix: /mcp, upstream: model, protocol: mcp}\n",
    );
    let said = check(&folder);
    assert_eq!(said.code, 0, "{}", said.err);

    for (section, why) in [
        (
            "provider_tools: [{type: web_search}]",
            "no route of the config leads to a model",
        ),
        (
            "rendered: {images: [], links: []}",
            "no route of the config leads to a model",
        ),
    ] {
        let folder = tools_only("");
        folder.replace("p.yaml", "tools:\n", &format!("{section}\ntools:\n"));
        let said = check(&folder);
        assert_eq!(said.code, 2, "{}", said.out);
        assert!(said.err.contains(why), "{}", said.err);
    }
}

#[test]
fn a_route_that_takes_every_tool_must_not_bypass_tickets() {
    let folder = Folder::shop();
    folder.replace(
        "c.yaml",
        "principal:",
        "  - {name: open, prefix: /open, upstream: shop, protocol: http_tools, tools: [{method: POST, path: \"/{tool}\"}]}\nprincipal:",
    );
    let said = folder.check(&["p.yaml", "--config", "c.yaml"]);
    assert_eq!(said.code, 2);
    assert!(
        said.err
            .contains("on the route `open`, such a call would pass"),
        "{}",
        said.err
    );
    folder.replace("p.yaml", " executes_at: {route: shop},", "");
    let said = folder.check(&["p.yaml", "--config", "c.yaml"]);
    assert_eq!(said.code, 2);
    assert!(
        said.err
            .contains("on the route `open`, `refund` would pass"),
        "{}",
        said.err
    );
}

#[test]
fn a_role_that_nobody_has_is_a_warning() {
    let folder = Folder::shop();
    folder.replace(
        "c.yaml",
        "tickets:",
        "approvers: [{subject: ann, key_env: ANN_KEY, roles: [on_call]}]\ntickets:",
    );
    let said = folder.check(&["p.yaml", "--config", "c.yaml"]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("`ANN_KEY` is not set"), "{}", said.err);
    let said = folder.run(
        &["policy", "check", "p.yaml", "--config", "c.yaml"],
        &[("ANN_KEY", "0123456789abcdef")],
    );
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(
        said.err
            .contains("no approver of the config has the role `oncall`"),
        "{}",
        said.err
    );
    assert!(!said.err.contains("0123456789abcdef"));
}

/// What stands in policy and config, what is written instead, and what is said.
const IDENTITIES: &[(&str, &str, &[&str])] = &[
    (
        "scopes: [\"refund:create\"]",
        "fixed: {subject: bot, scopes: [\"refund:creat\"]}",
        &[
            "has the scope `refund:create`",
            "did you mean `refund:creat`?",
        ],
    ),
    (
        "agents: [desk]",
        "fixed: {subject: bot}",
        &["can be the agent `desk`"],
    ),
    (
        "agents: [desk]",
        "jwt: {issuer: i, audience: a, jwks_file: k, actors: [disk]}",
        &["can be the agent `desk`", "did you mean `disk`?"],
    ),
    (
        "session: own",
        "fixed: {subject: bot}",
        &["every call would be refused"],
    ),
    (
        "session: own",
        "jwt: {issuer: i, audience: a, jwks_file: k}",
        &["`principal.jwt.claims.session`"],
    ),
    (
        "scopes: [a], agents: [desk]",
        "fixed: {subject: bot, agent: desk, scopes: [a, b]}",
        &[],
    ),
    (
        "scopes: [a], agents: [desk], session: own",
        "jwt: {issuer: i, audience: a, jwks_file: k, claims: {session: sid}}",
        &[],
    ),
    (
        "agents: [desk]",
        "jwt: {issuer: i, audience: a, jwks_file: k, actors: [x], claims: {agent: azp}}",
        &[],
    ),
];

#[test]
fn what_no_caller_can_have_is_an_error() {
    for (asks, principal, said) in IDENTITIES {
        let folder = Folder::shop();
        folder.replace("p.yaml", "identity: off", "identity: enforce");
        folder.replace(
            "p.yaml",
            "- {tool: refund, ",
            &format!("- {{tool: refund, {asks}, "),
        );
        folder.replace("c.yaml", "fixed: {subject: bot}", principal);
        let checked = folder.check(&["p.yaml", "--config", "c.yaml"]);
        assert_eq!(checked.code == 0, said.is_empty(), "{asks} {}", checked.err);
        for words in *said {
            assert!(checked.err.contains(words), "{words}: {}", checked.err);
        }
    }
}

#[test]
fn what_the_layer_that_is_off_would_ask_is_a_warning() {
    let folder = Folder::shop();
    folder.replace(
        "p.yaml",
        "- {tool: refund, ",
        "- {tool: refund, scopes: [a], session: own, ",
    );
    let said = folder.check(&["p.yaml"]);
    assert_eq!(said.code, 0);
    assert_eq!(
        said.err.matches("the layer `identity` is off").count(),
        2,
        "{}",
        said.err
    );
    let folder = Folder::shop();
    folder.replace("p.yaml", "identity: off", "identity: shadow");
    let said = folder.check(&["p.yaml"]);
    assert!(
        said.err.contains("the layer `identity` is on and nothing"),
        "{}",
        said.err
    );
}

#[test]
fn flags_and_environment_reach_the_check() {
    let folder = Folder::shop();
    let args = ["policy", "check", "p.yaml", "--config", "c.yaml"];
    let said = folder.run(&args, &[("HOLDPOINT__LIMITS__HOLD", "1MiB")]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("HOLDPOINT__LIMITS__HOLD"), "{}", said.err);
    let said = folder.check(&["p.yaml", "--config", "c.yaml", "--set", "listen.agents=x"]);
    assert!(said.err.contains("--set listen.agents=x"), "{}", said.err);
    let said = folder.check(&["p.yaml", "--config", "c.yaml", "--set", "listen.agents"]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("write KEY=VALUE"), "{}", said.err);
}

const WHO: &str = "allow: [{lookup: own}]";

#[test]
fn where_values_come_from_is_read_strictly() {
    for (allow, words) in [
        (
            "allow: [{lookup: own}, {from: usr}]",
            "did you mean `user`?",
        ),
        ("allow: [{lookup: own}, {from: user, tools: x}]", "tools"),
        (
            "allow: [{lookup: own}, {from: user, lookup: own}]",
            "lookup",
        ),
        (
            "allow: [{lookup: own}, {from: tool_output, fields: a/b}]",
            "a field is a key",
        ),
        (
            "allow: [{lookup: own}, {from: tool_output, tools: []}]",
            "empty",
        ),
        (
            "allow: [{lookup: own}, {from: tool_output, fields: a, free_text: true}]",
            "`free_text: true` has no meaning beside `fields`",
        ),
        (
            "allow: [{lookup: own}, {from: user, site: true}]",
            "`site` is about URLs",
        ),
        (
            "allow: [{lookup: own}]}\n    arguments:\n      - {at: /x, allow: [hosts]",
            "cannot serve here",
        ),
    ] {
        let folder = Folder::new();
        folder.write("p.yaml", POLICY);
        folder.replace("p.yaml", WHO, allow);
        let said = folder.check(&["p.yaml"]);
        assert!(said.err.contains(words), "{allow}: {}", said.err);
        assert!(
            said.err.contains("p.yaml:13") || said.err.contains("p.yaml:15"),
            "{}",
            said.err
        );
    }
    let folder = Folder::shop();
    let allow = "allow: [{lookup: own}, {from: user}, {from: tool_output, tools: [a, \"b_*\"], fields: [email, /x/*], asked: true, beside: sender, like_user: true}]";
    folder.replace("p.yaml", WHO, allow);
    let said = folder.check(&["p.yaml", "--config", "c.yaml"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
}

#[test]
fn nobody_says_anything_where_no_route_leads_to_a_model() {
    for (entry, code) in [
        ("{from: user}", 2),
        ("{from: operator}", 2),
        ("{from: tool_output, asked: true}", 2),
        ("{from: tool_output, like_user: true}", 2),
        ("{from: tool_output, tools: \"find_*\"}", 0),
    ] {
        let folder = Folder::shop();
        let model = "  - {name: model, prefix: /openai, upstream: model, protocol: openai_chat}\n";
        let server = "  - {name: server, prefix: /srv, upstream: model, protocol: mcp}\n";
        folder.replace("c.yaml", model, server);
        folder.replace("p.yaml", WHO, &format!("allow: [{{lookup: own}}, {entry}]"));
        let said = folder.check(&["p.yaml", "--config", "c.yaml"]);
        assert_eq!(said.code, code, "{entry}: {}", said.err);
        assert_eq!(
            said.err.contains("can never vouch"),
            code == 2,
            "{}",
            said.err
        );
    }
}

/// What the tests share.
#[cfg(test)]
mod support {
    use std::path::PathBuf;
    use std::process::Command;

    use tempfile::TempDir;

    pub const POLICY: &str = r#"version: 1
name: desk
layers: {catalog: off, identity: off, egress: enforce, recipients: enforce, ownership: enforce, injection: off, tickets: enforce}
lists: {hosts: {hosts: [shop.example]}}
lookups:
  owner: {store: commerce, sql: "SELECT user_subject AS owner, id AS order_id FROM orders WHERE id = :order_id"}
  own: {store: commerce, sql: "SELECT email FROM users WHERE subject = :principal"}
egress: {allow: [hosts]}
tools:
  - {tool: refund, executes_at: {route: shop}, ownership: [{resource: /order_id, as: order_id, owner: owner}], ticket: {gate: approve, role: oncall, ttl: 15m}}
  - tool: send_email
    recipients:
      - {at: /to, kind: email, allow: [{lookup: own}]}
  - {tool: "*", ticket: {gate: confirm, ttl: 1h}}
"#;

    pub const CONFIG: &str = r#"policy: p.yaml
upstreams: {model: {url: "https://api.example.com"}, shop: {url: "http://127.0.0.1:3000"}}
routes:
  - {name: model, prefix: /openai, upstream: model, protocol: openai_chat}
  - name: shop
    prefix: /shop
    upstream: shop
    protocol: http_tools
    tools:
      - {tool: refund, method: POST, path: "/orders/{order_id}/refund"}
principal: {fixed: {subject: bot}}
stores: {commerce: {sqlite: shop.db}}
tickets: {store: tickets.db}
"#;

    /// What a command said.
    pub struct Said {
        pub code: i32,
        pub out: String,
        pub err: String,
    }

    /// A folder of its own to run in.
    pub struct Folder(TempDir);

    impl Folder {
        pub fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        /// With policy, config and database.
        pub fn shop() -> Self {
            let folder = Self::new();
            folder.write("p.yaml", POLICY);
            folder.write("c.yaml", CONFIG);
            let database = rusqlite::Connection::open(folder.path("shop.db")).unwrap();
            database
                .execute_batch(
                    "CREATE TABLE orders (id TEXT PRIMARY KEY, user_subject TEXT NOT NULL);
                     CREATE TABLE users (subject TEXT PRIMARY KEY, email TEXT NOT NULL);",
                )
                .unwrap();
            folder
        }

        pub fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        pub fn write(&self, name: &str, text: &str) {
            self.write_bytes(name, text.as_bytes());
        }

        pub fn write_bytes(&self, name: &str, bytes: &[u8]) {
            std::fs::write(self.path(name), bytes).unwrap();
        }

        pub fn replace(&self, name: &str, from: &str, to: &str) {
            let text = std::fs::read_to_string(self.path(name)).unwrap();
            assert!(text.contains(from), "{name} lacks {from}");
            self.write(name, &text.replacen(from, to, 1));
        }

        pub fn check(&self, args: &[&str]) -> Said {
            let args: Vec<_> = ["policy", "check"].iter().chain(args).copied().collect();
            self.run(&args, &[])
        }

        pub fn run(&self, args: &[&str], environment: &[(&str, &str)]) -> Said {
            let done = Command::new(env!("CARGO_BIN_EXE_holdpoint"))
                .args(args)
                .envs(environment.iter().copied())
                .current_dir(self.0.path())
                .output()
                .unwrap();
            Said {
                code: done.status.code().unwrap(),
                out: String::from_utf8(done.stdout).unwrap(),
                err: String::from_utf8(done.stderr).unwrap(),
            }
        }
    }
}
