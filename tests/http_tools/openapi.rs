//! Tools from an API's description: read whole or not at all, and the same at every place that asks for tools.

use std::path::Path;
use std::process::Command;

use holdpoint::settings::{self, BodyKind, HttpTool, Overrides, RouteProtocol, Settings};

use crate::desk::{EVIL, FORM, multipart_type, named, parts};
use crate::support::client::request;
use crate::support::rig::Rig;
use crate::support::upstream::{Upstream, json};

const SHOP: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/fixtures/openapi/shop.yaml"
);

/// A config with one route, whose tools are said by `lines`.
fn config(upstream: &str, lines: &str) -> String {
    format!(
        "upstreams:
  shop: {{url: \"{upstream}\", credential: {{header: X-API-Key, value_env: UPSTREAM_KEY}}}}
routes:
  - name: shop
    prefix: /shop
    upstream: shop
    protocol: http_tools
{lines}
principal: {{fixed: {{tenant: t, subject: ann, agent: bot}}}}
"
    )
}

/// Settings and warnings with this document as `api.yaml` beside the config, or the problems.
fn read(document: &str, lines: &str) -> Result<(Settings, String), String> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("api.yaml"), document).unwrap();
    let path = folder.path().join("holdpoint.yaml");
    let config = config("http://127.0.0.1:1", lines);
    std::fs::write(&path, format!("policy: policy.yaml\n{config}")).unwrap();
    let environment = [("UPSTREAM_KEY".to_owned(), "upstream-secret".to_owned())];
    settings::read(&path, &Overrides::default(), &environment.into())
        .map(|checked| (checked.settings, checked.warnings.to_string()))
        .map_err(|problems| problems.to_string())
}

fn tools(settings: &Settings) -> &[HttpTool] {
    match &settings.routes[0].protocol {
        RouteProtocol::HttpTools(http) => &http.tools,
        other => panic!("{other:?}"),
    }
}

fn shown(settings: &Settings) -> Vec<String> {
    let tools = tools(settings).iter();
    tools
        .map(|tool| {
            let name = tool.tool.as_ref().map_or("?", |name| name.as_str());
            format!("{name}: {} {}", tool.method, tool.path)
        })
        .collect()
}

#[tokio::test]
async fn each_operation_is_a_tool_behind_the_policy() {
    let policy = "version: 1
name: shop
layers: {catalog: off, identity: off, egress: enforce, recipients: off, ownership: off, injection: off, tickets: off}
lists: {ours: {hosts: [shop.example]}}
tools:
  - {tool: get_order, effect: read, egress: [{at: /X-Account, allow: [ours]}]}
  - {tool: delete_orders_order_id, egress: [{at: /why, allow: [ours]}]}
  - {tool: send_mail, egress: [{at: /link, allow: [ours]}]}
  - {tool: upload, egress: [{at: /note, allow: [ours]}]}
  - {tool: refund, egress: [{at: /link, allow: [ours]}]}
  - {tool: export, egress: [{at: /link, allow: [ours]}]}
";
    let upstream = Upstream::start(|_| json("{}")).await;
    let config = config(&upstream.url(), &format!("    openapi: \"{SHOP}\""));
    let rig = Rig::start(&config, policy).await;
    let multipart = multipart_type();
    let multipart = [("content-type", multipart.as_str())];
    let note = parts(&[(&named("note"), EVIL)]);
    let link = format!("link={EVIL}");
    let refund = format!("{{\"link\":\"{EVIL}\"}}");
    for denied in [
        request("GET", "/shop/v1/orders/1", &[("x-account", EVIL)], ""),
        request("DELETE", &format!("/shop/v1/orders/1?why={EVIL}"), &[], ""),
        request("POST", "/shop/v1/mail", &[FORM], &link),
        request("POST", "/shop/v1/files", &multipart, &note),
        request("POST", "/shop/v1/orders/1/refund", &[], &refund),
        request("GET", &format!("/shop/v1/orders/export?{link}"), &[], ""),
    ] {
        let answer = rig.ask(denied).await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (403, "host_not_allowed")
        );
    }
    for (refused, code) in [
        (
            request("GET", "/shop/orders/1", &[], ""),
            "endpoint_unknown",
        ),
        (
            request("PUT", "/shop/v1/orders/1", &[], "{}"),
            "endpoint_unknown",
        ),
        (
            request("GET", "/shop/v1/orders/EXPORT", &[], ""),
            "endpoint_unknown",
        ),
        (
            request("POST", "/shop/v1/mail", &[], "{}"),
            "unsupported_media_type",
        ),
        (
            request("POST", "/shop/v1/orders/1/refund", &[FORM], "a=1"),
            "unsupported_media_type",
        ),
    ] {
        assert_eq!(rig.ask(refused).await.code(), code);
    }
    assert!(upstream.received().is_empty());
    let fine = rig.ask(request("GET", "/shop/v1/orders/1", &[], "")).await;
    assert_eq!(fine.status, 200);
    assert_eq!(upstream.only().target(), "GET /v1/orders/1");
}

/// The answers to `calls` on a route with this document and these lines; how many were forwarded.
async fn answers(document: &str, lines: &str, calls: &[(&str, &str)]) -> (Vec<String>, usize) {
    let policy = "version: 1
name: shop
layers: {catalog: off, identity: off, egress: enforce, recipients: off, ownership: off, injection: off, tickets: off}
lists: {ours: {hosts: [shop.example]}}
egress: {allow: [ours]}
";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("api.yaml");
    std::fs::write(&path, document).unwrap();
    let lines = lines.replace("api.yaml", &format!("\"{}\"", path.display()));
    let upstream = Upstream::start(|_| json("{}")).await;
    let rig = Rig::start(&config(&upstream.url(), &lines), policy).await;
    let mut said = Vec::new();
    for (method, path) in calls {
        let answer = rig
            .ask(request(method, &format!("/shop{path}"), &[], ""))
            .await;
        said.push(match answer.status {
            200 => "200".to_owned(),
            _ => answer.code(),
        });
    }
    (said, upstream.received().len())
}

/// Everything that a document describes and that is no tool, under templates that would take it.
const WIDE: &str = "openapi: 3.0.3
paths:
  \"/orders/{order_id}\":
    get: {operationId: get_order}
    post: {operationId: post_order}
  /orders/export: {get: {operationId: export}}
  /orders/drop/: {get: {operationId: drop}}
  \"/orders/{order_id}.json\": {get: {operationId: as_json}}
  \"/orders/{order_id}:cancel\": {get: {operationId: cancel}}
  \"/{kind}/all\": {get: {operationId: list}}
  /mail: {post: {operationId: send_mail}}
  \"/{kind}\": {post: {operationId: add}, get: {operationId: one}}
";

#[tokio::test]
async fn an_operation_that_is_no_tool_is_not_taken_for_one_of_a_wider_path() {
    let calls = [
        ("GET", "/orders/export"),
        ("GET", "/orders/EXPORT"),
        ("GET", "/orders/%65xport"),
        ("GET", "/orders/export?a=1"),
        ("GET", "/orders/drop"),
        ("GET", "/orders/1.json"),
        ("GET", "/orders/1:cancel"),
        ("GET", "/orders/1%3Acancel"),
        ("GET", "/orders/all"),
        ("GET", "/mail"),
    ];
    let open = [
        ("GET", "/orders/1"),
        ("GET", "/orders/exports"),
        ("GET", "/orders/json"),
        ("POST", "/orders/export"),
    ];
    for lines in [
        "    openapi: {file: api.yaml, except: [export, drop, as_json, cancel, list, send_mail, add, one]}",
        "    openapi: {file: api.yaml, only: [get_order, post_order]}",
    ] {
        let (said, forwarded) = answers(WIDE, lines, &calls).await;
        for ((method, path), said) in calls.iter().zip(said) {
            assert_eq!(said, "endpoint_unknown", "{method} {path}");
        }
        assert_eq!(forwarded, 0);
        let (said, forwarded) = answers(WIDE, lines, &open).await;
        assert_eq!(said, ["200"; 4]);
        assert_eq!(forwarded, 4);
    }
}

#[tokio::test]
async fn an_operation_whose_place_is_taken_is_open_on_the_new_path_alone() {
    let lines = "    openapi: {file: api.yaml, except: [export, drop, as_json, cancel, list]}
    tools:
      - {tool: send_mail, method: POST, path: /v2/mail}
      - {tool: export_orders, method: GET, path: /orders/export}";
    let calls = [
        ("POST", "/mail"),
        ("POST", "/v2/mail"),
        ("POST", "/other"),
        ("GET", "/orders/export"),
        ("GET", "/orders/drop"),
    ];
    let (said, forwarded) = answers(WIDE, lines, &calls).await;
    assert_eq!(
        said,
        ["endpoint_unknown", "200", "200", "200", "endpoint_unknown"]
    );
    assert_eq!(forwarded, 3);
}

#[test]
fn what_is_read_of_a_document() {
    let document = std::fs::read_to_string(SHOP).unwrap();
    let (settings, warnings) = read(&document, "    openapi: api.yaml").unwrap();
    assert_eq!(warnings, "");
    assert_eq!(
        shown(&settings),
        [
            "get_order: GET /v1/orders/{order_id}",
            "delete_orders_order_id: DELETE /v1/orders/{order_id}",
            "export: GET /v1/orders/export",
            "refund: POST /v1/orders/{id}/refund",
            "send_mail: POST /v1/mail",
            "upload: POST /v1/files",
        ]
    );
    let all = tools(&settings);
    assert_eq!(all[0].headers, ["X-Account"]);
    assert_eq!(all[0].bodies, BodyKind::ALL);
    assert_eq!(all[3].bodies, [BodyKind::Json]);
    assert_eq!(all[4].bodies, [BodyKind::Form]);
    assert_eq!(all[5].bodies, [BodyKind::Multipart]);
    assert_eq!(settings.venues().0["refund"].as_str(), "shop");
    // The same as JSON, which is YAML to nobody who reads it strictly.
    let tree = holdpoint::source::read_document(Path::new(SHOP)).unwrap();
    let json = format!(" {}\n", tree.root.json());
    let (same, _) = read(&json, "    openapi: api.yaml").unwrap();
    assert_eq!(tools(&same), all);
}

#[test]
fn parameters_in_headers_and_cookies_are_arguments_where_they_reach_the_backend() {
    let document = "openapi: 3.1.0
paths:
  /a:
    get:
      operationId: a
      parameters:
        - {name: X-One, in: header}
        - {name: x-one, in: header}
        - {name: Authorization, in: header}
        - {name: X-API-Key, in: header}
        - {name: X-Forwarded-For, in: header}
        - {name: theme, in: cookie}
        - {name: token, in: cookie}
";
    let (settings, warnings) = read(document, "    openapi: api.yaml").unwrap();
    assert_eq!(tools(&settings)[0].headers, ["X-One", "Cookie"]);
    for name in ["X-API-Key", "X-Forwarded-For"] {
        let said = format!("the header `{name}` never reaches the upstream");
        assert!(warnings.contains(&said), "{warnings}");
    }
}

#[test]
fn an_entry_of_tools_takes_the_place_of_an_operation() {
    let document = std::fs::read_to_string(SHOP).unwrap();
    let lines = "    openapi: {file: api.yaml, except: [upload, delete_orders_order_id]}
    tools:
      - {tool: look_up, method: GET, path: \"/v1/orders/{number}\", headers: [X-Shop]}
      - {tool: send_mail, method: POST, path: /v2/mail}
      - {method: POST, path: \"/tools/{tool}\"}";
    let (settings, _) = read(&document, lines).unwrap();
    assert_eq!(
        shown(&settings),
        [
            "look_up: GET /v1/orders/{number}",
            "send_mail: POST /v2/mail",
            "?: POST /tools/{tool}",
            "export: GET /v1/orders/export",
            "refund: POST /v1/orders/{id}/refund",
        ]
    );
    assert_eq!(tools(&settings)[0].headers, ["X-Shop"]);
    assert_eq!(settings.open_routes().count(), 1);
    let (only, _) = read(&document, "    openapi: {file: api.yaml, only: [refund]}").unwrap();
    assert_eq!(shown(&only), ["refund: POST /v1/orders/{id}/refund"]);
}

#[test]
fn a_relative_server_is_a_base_and_an_absolute_one_is_the_upstream() {
    let with = |servers: &str| {
        let document = format!(
            "openapi: 3.0.0\n{servers}\npaths: {{/a/{{b}}: {{get: {{operationId: a}}}}, /a/{{c}}/d: {{get: {{operationId: d}}}}}}"
        );
        read(
            &document
                .replace("/a/{b}", "\"/a/{b}\"")
                .replace("/a/{c}/d", "\"/a/{c}/d\""),
            "    openapi: api.yaml",
        )
    };
    for (servers, path) in [
        ("", "/a/{b}"),
        ("servers: []", "/a/{b}"),
        ("servers: [{url: /}]", "/a/{b}"),
        ("servers: [{url: /v1/x/}]", "/v1/x/a/{b}"),
        (
            "servers: [{url: \"https://shop.example/v1\"}, {url: /v2}]",
            "/a/{b}",
        ),
    ] {
        let (settings, _) = with(servers).unwrap();
        assert_eq!(tools(&settings)[0].path, path, "{servers}");
    }
    for servers in ["servers: [{url: \"/{version}\"}]", "servers: [{url: v1}]"] {
        let said = with(servers).unwrap_err();
        assert!(
            said.contains("is not a base") && said.contains("api.yaml:2:"),
            "{said}"
        );
    }
}

#[test]
fn every_problem_of_a_document_has_its_place_and_all_come_at_once() {
    let document = "openapi: 3.0.3
paths:
  /a/{b}.json:
    get: {operationId: a}
  orders:
    get: {operationId: b}
  /c:
    get: {operationId: c, parameters: [{$ref: \"other.yaml#/x\"}]}
    post: {operationId: c}
  /d:
    get: {operationId: d, parameters: [{$ref: \"#/components/none\"}]}
    put: {operationId: e, parameters: [{$ref: \"#/components/parameters/Loop\"}]}
    patch: {operationId: f, parameters: [{name: x, in: body}, {name: y}]}
  /g:
    $ref: \"https://evil.example/paths.yaml\"
  /h: {get: {operationId: \"*\"}}
components:
  parameters:
    Loop: {$ref: \"#/components/parameters/Loop\"}
";
    let document = document.replace("  /a/{b}.json:", "  \"/a/{b}.json\":");
    let said = read(&document, "    openapi: api.yaml").unwrap_err();
    for (what, line) in [
        (
            "`/a/{b}.json` is not a path that can be mapped to a tool",
            3,
        ),
        ("`orders` is not a path that can be mapped to a tool", 5),
        ("`other.yaml#/x` leads out of the document", 8),
        ("two operations are named `c`", 9),
        ("`#/components/none` leads nowhere", 11),
        ("this reference leads in a circle", 19),
        ("cannot be `body`", 13),
        ("the parameter does not say where it is", 13),
        (
            "`https://evil.example/paths.yaml` leads out of the document",
            15,
        ),
        ("`*` is not the name of one tool", 16),
    ] {
        let block = said.split("\n\n").find(|block| block.contains(what));
        let block = block.unwrap_or_else(|| panic!("{what}\n{said}"));
        assert!(block.contains(&format!("api.yaml:{line}:")), "{block}");
    }
    let clash = "openapi: 3.0.3
paths:
  \"/i/{x}\": {get: {operationId: i}}
  \"/i/{y}\": {get: {operationId: j}}
  \"/I/{z}\": {get: {operationId: k}}
  \"/i/{y}/deep\": {get: {operationId: l}}
";
    let said = read(clash, "    openapi: api.yaml").unwrap_err();
    assert!(
        said.contains("`/i/{y}` and `/i/{x}` take the same paths"),
        "{said}"
    );
    assert!(
        said.contains("`/I/{z}` and `/i/{x}` take the same paths to a backend that ignores case"),
        "{said}"
    );
}

#[test]
fn a_document_or_choice_that_cannot_be_meant_is_refused() {
    let fine = "openapi: 3.0.0\npaths: {/a: {get: {operationId: get_a}}}\n";
    for (document, lines, what) in [
        (
            "swagger: \"2.0\"\n",
            "    openapi: api.yaml",
            "this is a Swagger 2.0 document",
        ),
        (
            "info: {}\n",
            "    openapi: api.yaml",
            "this is no OpenAPI document",
        ),
        (
            "openapi: 4.0.0\n",
            "    openapi: api.yaml",
            "OpenAPI 4.0.0 is not read",
        ),
        (
            "openapi: 3.0.0\n",
            "    openapi: api.yaml",
            "describes no paths",
        ),
        (
            "openapi: 3.0.0\npaths: {}\n",
            "    openapi: api.yaml",
            "no operation of the document is left",
        ),
        (
            "{\"openapi\": \"3.0.0\", \"openapi\": \"3.1.0\"}",
            "    openapi: api.yaml",
            "duplicate key",
        ),
        (
            "openapi: 3.0.0\nopenapi: 3.0.0\n",
            "    openapi: api.yaml",
            "stands here twice",
        ),
        (fine, "    openapi: none.yaml", "does not exist"),
        (
            fine,
            "    openapi: {file: api.yaml, only: [get_b]}",
            "did you mean `get_a`?",
        ),
        (
            fine,
            "    openapi: {file: api.yaml, except: [get_b]}",
            "the document has no operation `get_b`",
        ),
        (
            fine,
            "    openapi: {file: api.yaml, except: [get_a]}",
            "no operation of the document is left",
        ),
        (
            fine,
            "    openapi: {file: api.yaml, only: [get_a], except: [get_a]}",
            "exclude each other",
        ),
        (
            fine,
            "    openapi: {fiel: api.yaml}",
            "did you mean `file`?",
        ),
        (fine, "", "lacks the key `tools`"),
        (
            fine,
            "    tools: [{tool: a, method: GET, path: /a, headers: [Host]}]",
            "the header `Host` cannot be an argument",
        ),
        (
            fine,
            "    tools: [{tool: a, method: GET, path: /a, headers: [x_api_key]}]",
            "cannot be an argument",
        ),
        (
            fine,
            "    tools: [{tool: a, method: GET, path: /a, headers: [\"a b\"]}]",
            "is not the name of a header",
        ),
        (
            fine,
            "    tools: [{tool: a, method: GET, path: /a, headers: [X-A, x-a]}]",
            "stands here twice",
        ),
        (
            fine,
            "    tools: [{tool: a, method: GET, path: /a, body: xml}]",
            "cannot be `xml`",
        ),
    ] {
        let said = read(document, lines).map(|(settings, _)| shown(&settings));
        let said = said.expect_err(what);
        assert!(said.contains(what), "{what}\n{said}");
    }
    let xml = "openapi: 3.0.0\npaths: {/a: {post: {operationId: a, servers: [{url: /x}], requestBody: {content: {application/xml: {}}}}}}\n";
    let (_, warnings) = read(xml, "    openapi: api.yaml").unwrap();
    assert!(
        warnings.contains("calls with a body are refused"),
        "{warnings}"
    );
    assert!(
        warnings.contains("`servers` of a single path"),
        "{warnings}"
    );
}

#[test]
fn a_rule_for_a_tool_that_the_document_lacks_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let config_path = folder.path().join("holdpoint.yaml");
    let policy_path = folder.path().join("policy.yaml");
    std::fs::copy(SHOP, folder.path().join("shop.yaml")).unwrap();
    let config = config("http://127.0.0.1:1", "    openapi: shop.yaml");
    std::fs::write(&config_path, format!("policy: policy.yaml\n{config}")).unwrap();
    let check = |tool: &str| {
        let policy = format!(
            "version: 1
name: p
layers: {{catalog: off, identity: off, egress: enforce, recipients: off, ownership: off, injection: off, tickets: off}}
lists: {{ours: {{hosts: [shop.example]}}}}
tools:
  - {{tool: {tool}, executes_at: {{route: shop}}, egress: [{{at: /link, allow: [ours]}}]}}
"
        );
        std::fs::write(&policy_path, policy).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_holdpoint"))
            .args(["policy", "check"])
            .arg(&policy_path)
            .arg("--config")
            .arg(&config_path)
            .env("UPSTREAM_KEY", "upstream-secret")
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    };
    let (fine, said) = check("refund");
    assert!(fine, "{said}");
    let (fine, said) = check("refnud");
    assert!(!fine && said.contains("refnud"), "{said}");
    assert_eq!(said.matches("did you mean `refund`?").count(), 2, "{said}");
}
