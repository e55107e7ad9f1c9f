//! `holdpoint doctor`, run as a command.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

const POLICY: &str = "version: 1
name: desk
layers: {catalog: enforce, identity: off, egress: shadow, recipients: off, ownership: off, injection: enforce, tickets: enforce}
lists: {hosts: {hosts: [shop.example]}}
egress: {allow: [hosts]}
tools:
  - {tool: get_order, effect: read}
injection: {redact: 0.6}
";

const CONFIG: &str = "policy: p.yaml
upstreams: {up: {url: \"http://127.0.0.1:1\"}}
routes:
  - {name: model, prefix: /openai, upstream: up, protocol: openai_chat}
  - name: shop
    prefix: /shop
    upstream: up
    protocol: http_tools
    tools:
      - {tool: get_order, method: GET, path: \"/orders/{order_id}\"}
      - {tool: refund, method: POST, path: \"/orders/{order_id}/refund\"}
principal: {fixed: {subject: bot}}
tickets: {store: tickets.db}
";

struct Said {
    code: i32,
    out: String,
    err: String,
}

fn doctor(folder: &Path, args: &[&str]) -> Said {
    let output = Command::new(env!("CARGO_BIN_EXE_holdpoint"))
        .args(["doctor", "--config", "c.yaml"])
        .args(args)
        .current_dir(folder)
        .output()
        .unwrap();
    Said {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn folder(policy: &str, config: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("p.yaml"), policy).unwrap();
    std::fs::write(folder.path().join("c.yaml"), config).unwrap();
    folder
}

/// The line of the matrix with this content.
fn line<'s>(said: &'s Said, place: &str, content: &str) -> &'s str {
    let fits = |line: &&str| line.trim_start().starts_with(place) && line.contains(content);
    let found = said.out.lines().find(fits);
    found.unwrap_or_else(|| panic!("{content}\n{}", said.out))
}

#[test]
fn the_text_of_a_model_is_a_kind_of_its_own_where_a_rule_asks() {
    let shown = "image in the model's text";
    let without = doctor(folder(POLICY, CONFIG).path(), &["--offline"]);
    assert!(!without.out.contains(shown), "{}", without.out);
    let policy = format!("{POLICY}rendered: {{images: [], links: [hosts]}}\n");
    let said = doctor(folder(&policy, CONFIG).path(), &["--offline"]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    for place in ["answer, whole", "answer, streamed"] {
        let line = line(&said, place, shown);
        assert!(line.ends_with("model_text: egress shadow"), "{line}");
    }
}

#[test]
fn the_matrix_tells_what_looks_at_each_kind_of_content() {
    let folder = folder(POLICY, CONFIG);
    let said = doctor(folder.path(), &["--offline"]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    for (place, content, fate) in [
        (
            "request",
            "tool output, string",
            "tool_output: injection enforce",
        ),
        ("request", "text of the user", "passed unscanned: user_text"),
        ("request", "web search", "provider_tool: catalog enforce"),
        (
            "request",
            "an endpoint that is not understood",
            "refused: endpoint_unknown",
        ),
        (
            "answer, whole",
            "call of a function",
            "call: egress shadow, tickets enforce (some)",
        ),
        (
            "answer, streamed",
            "call of a function",
            "call: egress shadow, tickets enforce (some)",
        ),
        (
            "answer, streamed",
            "text of the model",
            "passed unscanned: model_text",
        ),
        (
            "request",
            "call, argument in the path",
            "call: egress shadow, tickets enforce (some)",
        ),
        (
            "answer, whole",
            "output, key of JSON",
            "tool_output: injection enforce",
        ),
    ] {
        let line = line(&said, place, content);
        assert!(line.ends_with(fate), "{line}");
    }
    // The guard itself refuses what cannot be read: no layer is missing there.
    let line = line(&said, "answer", "call that cannot be read");
    assert!(
        line.ends_with("call: the guard refuses it: arguments_unreadable"),
        "{line}"
    );
    assert!(
        !said.out.contains("items of the kind `call`"),
        "{}",
        said.out
    );
    assert!(said.out.contains("0 problems, "), "{}", said.out);
    for words in [
        "note     layers: the layer `ownership` is off",
        "note     layers: the layer `egress` judges and counts, and changes nothing",
        "note     tools: no rule is for the tool `refund` of the route `shop`",
        "ok       listeners: every listener is on a loopback address",
        "ok       tickets:",
        "will be made",
        "ok       policy: the policy `desk` can run under this config",
    ] {
        assert!(said.out.contains(words), "{words}\n{}", said.out);
    }
    // Nothing is left behind.
    assert!(!folder.path().join("tickets.db").exists());
}

#[test]
fn programs_get_the_same_as_json() {
    let folder = folder(POLICY, CONFIG);
    let said = doctor(folder.path(), &["--offline", "--json"]);
    let report: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(report["problems"], 0);
    let rows = report["matrix"].as_array().unwrap();
    let find = |outcome: &str, content: &str| {
        let fits = |row: &&Value| row["outcome"] == outcome && row["content"] == content;
        rows.iter()
            .find(fits)
            .unwrap_or_else(|| panic!("{content}"))
    };
    let output = find("judged", "tool output, string");
    assert_eq!(output["as"], "tool_output");
    assert_eq!(output["layers"][0]["layer"], "injection");
    assert_eq!(find("passed", "text of the user")["as"], "user_text");
    assert_eq!(
        find("passed", "text of the user")["layers"],
        Value::Array(Vec::new())
    );
}

#[test]
fn what_is_open_unguarded_or_unreachable_is_told() {
    let open = CONFIG.replacen(
        "upstreams",
        "listen: {agents: \"0.0.0.0:8080\", operations: \"0.0.0.0:9090\"}\nupstreams",
        1,
    );
    let free = POLICY
        .replace("tickets: enforce", "tickets: off")
        .replace("injection: enforce", "injection: off");
    let folder = folder(&free, &open);
    let said = doctor(folder.path(), &["--offline"]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    for words in [
        "from other machines, without TLS",
        "whoever reaches 0.0.0.0:8080 acts as `bot`",
        "health and metrics are reachable at 0.0.0.0:9090",
        "on the route `model` no layer looks at items of the kind `tool_output`",
        "the layer `tickets` is not enforced: it is free",
        "p.yaml:8:",
    ] {
        assert!(said.out.contains(words), "{words}\n{}", said.out);
    }
    // Port 1 of this machine takes no connection.
    let said = doctor(folder.path(), &[]);
    assert_eq!(said.code, 2);
    assert!(
        said.out.contains("the upstream `up` takes no connection"),
        "{}",
        said.out
    );
    assert!(said.err.contains("there is 1 problem"), "{}", said.err);
    assert!(said.out.contains("\n1 problem, "), "{}", said.out);
}

#[test]
fn a_broken_set_up_is_a_problem_with_its_place() {
    let bad = POLICY.replace(
        "effect: read",
        "effect: read, executes_at: {route: nowhere}",
    );
    let folder = folder(&bad, CONFIG);
    let said = doctor(folder.path(), &["--offline"]);
    assert_eq!(said.code, 2);
    assert!(
        said.out.contains("the config has no route `nowhere`"),
        "{}",
        said.out
    );
    let gone = CONFIG.replace("policy: p.yaml", "policy: gone.yaml");
    std::fs::write(folder.path().join("c.yaml"), gone).unwrap();
    let said = doctor(folder.path(), &["--offline"]);
    assert_eq!(said.code, 2);
    for words in [
        "`policy`: `gone.yaml` does not exist",
        "c.yaml:1:",
        "in a config at the config's folder",
    ] {
        assert!(said.err.contains(words), "{words}\n{}", said.err);
    }
    std::fs::write(folder.path().join("c.yaml"), "policy: p.yaml\n").unwrap();
    let said = doctor(folder.path(), &["--offline"]);
    assert_eq!((said.code, said.out.as_str()), (2, ""));
    assert!(said.err.contains("lacks the key"), "{}", said.err);
}

#[test]
fn the_tools_of_each_route_are_told_by_name() {
    let config = CONFIG.replace(
        "    tools:\n",
        "    openapi: api.yaml\n    tools:\n      - {method: POST, path: \"/tools/{tool}\"}\n",
    );
    let config = config.replace(
        "principal:",
        "  - {name: files, prefix: /files, upstream: up, protocol: mcp, tools: [read_file]}
  - {name: plain, prefix: /plain, upstream: up, protocol: http_tools, tools: [{tool: ping, method: GET, path: /ping}]}
principal:",
    );
    let folder = folder(POLICY, &config);
    let document = "openapi: 3.0.0\npaths: {/orders: {get: {}, post: {operationId: add}}}\n";
    std::fs::write(folder.path().join("api.yaml"), document).unwrap();
    let said = doctor(folder.path(), &["--offline"]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    let lines = said
        .out
        .lines()
        .filter(|line| line.starts_with("tools of "));
    assert_eq!(
        lines.collect::<Vec<_>>(),
        [
            "tools of shop: get_order, refund, get_orders, add, and others",
            "tools of files: read_file, and others",
            "tools of plain: ping",
        ]
    );
    let said = doctor(folder.path(), &["--offline", "--json"]);
    let report: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(
        report["tools"][0],
        serde_json::json!({"route": "shop", "tools": ["get_order", "refund", "get_orders", "add"], "others": true})
    );
    assert_eq!(report["tools"][2]["others"], false);
}

#[test]
fn the_forward_listener_is_shown_with_what_it_does_not_see() {
    let policy = format!("{POLICY}forward: {{allow: [hosts]}}\n");
    let config = format!("{CONFIG}listen: {{forward: \"127.0.0.1:3128\"}}\n");
    let folder = folder(&policy, &config);
    let said = doctor(folder.path(), &["--offline"]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    assert!(
        said.out.contains("route forward (forward_proxy)"),
        "{}",
        said.out
    );
    for (place, content, fate) in [
        ("request", "tunnel, host and port", "egress: egress shadow"),
        ("request", "plain HTTP, URL", "egress: egress shadow"),
        ("request", "bytes of a tunnel", "passed unscanned: tunnel"),
        ("request", "plain HTTP, body", "passed unscanned: forward"),
        (
            "request",
            "no form of a proxy",
            "refused: proxy_form_invalid",
        ),
        ("answer", "bytes of a tunnel", "passed unscanned: tunnel"),
        ("answer", "plain HTTP, redirect", "egress: egress shadow"),
        ("answer", "redirect to a host", "egress: egress shadow"),
    ] {
        let line = line(&said, place, content);
        assert!(line.ends_with(fate), "{line}");
    }
    assert!(
        said.out
            .contains("inside its tunnels the forward proxy sees nothing"),
        "{}",
        said.out
    );
    let alone = self::folder(POLICY, &config);
    let said = doctor(alone.path(), &["--offline"]);
    assert_eq!(said.code, 2);
    assert!(
        said.out.contains("does not say where agents may go"),
        "{}",
        said.out
    );
}
