//! What a config file means, what the environment and flags change in it, and what is refused.

use std::path::Path;
use std::time::Duration;

use holdpoint::layers::egress::Registered;
use holdpoint::settings::{
    Overrides, Principals, RouteProtocol, SessionSource, Settings, SqlStore,
};
use proptest::prelude::*;
use support::{Faults, base, example, problems, read, with};

/// A config without problems.
const BASE: &str = r#"policy: p.yaml
upstreams:
  model: {url: "https://api.example.com/base", credential: {header: Authorization, scheme: Bearer, value_env: MODEL_KEY}}
  shop: {url: "http://127.0.0.1:3000"}
routes:
  - {name: model, prefix: /openai, upstream: model, protocol: openai_chat}
  - name: shop
    prefix: /shop
    upstream: shop
    protocol: http_tools
    tools:
      - {tool: get_order, method: GET, path: "/orders/{order_id}"}
      - {tool: refund, method: POST, path: "/orders/{order_id}/refund"}
      - {method: POST, path: "/tools/{tool}"}
principal: {fixed: {subject: bot, tenant: shop, scopes: [read]}}
"#;

#[test]
fn a_small_config_has_defaults() {
    let (settings, warnings) = base(BASE).unwrap_or_else(|problems| panic!("{problems}"));
    assert!(warnings.is_empty(), "{warnings}");
    assert_eq!(settings.listen.agents.to_string(), "127.0.0.1:8080");
    assert_eq!(settings.listen.approvers, None);
    assert_eq!(settings.listen.operations.to_string(), "127.0.0.1:9090");
    assert!(settings.policy.ends_with("p.yaml") && settings.policy.is_absolute());
    let upstream = &settings.upstreams["model"];
    assert_eq!(upstream.url.to_string(), "https://api.example.com/base");
    let (header, secret) = upstream.credential.as_ref().unwrap();
    assert_eq!(
        (header.as_str(), &*secret.0),
        ("authorization", "Bearer model-secret")
    );
    let RouteProtocol::OpenAiChat(model) = &settings.routes[0].protocol else {
        panic!("a model's route")
    };
    assert!(model.note);
    let RouteProtocol::HttpTools(http) = &settings.routes[1].protocol else {
        panic!("http tools")
    };
    assert_eq!(http.tools.len(), 3);
    assert_eq!(settings.venues().0["refund"].as_str(), "shop");
    assert_eq!(settings.open_routes().count(), 1);
    let Principals::Fixed(principal) = &settings.principals else {
        panic!("fixed")
    };
    assert_eq!(
        (&*principal.tenant, &*principal.issuer, &*principal.agent),
        ("shop", "config", "default")
    );
    assert!(matches!(&settings.session, SessionSource::Header(h) if h == "holdpoint-session"));
    assert_eq!(settings.limits.request_body, 32 << 20);
    assert_eq!(settings.timeouts.drain, Duration::from_secs(30));
    assert!(settings.tickets.is_none() && settings.approvers.is_empty());
}

#[test]
fn the_shipped_example_loads() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies/holdpoint.example.yaml");
    let checked = read(&path, &Overrides::default(), &example()).unwrap_or_else(|p| panic!("{p}"));
    assert!(checked.warnings.is_empty(), "{}", checked.warnings);
    let settings: Settings = checked.settings;
    assert_eq!(settings.listen.approvers.unwrap().port(), 8081);
    assert_eq!(settings.approvers.keys[0].who.roles, ["oncall"]);
    let SqlStore::Sqlite(path) = &settings.stores["commerce"] else {
        panic!("a file")
    };
    assert!(path.ends_with("policies/commerce.db"));
}

#[test]
fn environment_beats_file_and_flags_beat_both() {
    let text = format!("{BASE}limits: {{concurrency: 5}}\n");
    let env = [
        ("HOLDPOINT__LIMITS__CONCURRENCY", "6"),
        ("HOLDPOINT__LIMITS__HELD", "2MiB"),
        ("holdpoint__listen__agents", "0.0.0.0:7000"),
        ("HOLDPOINT__UPSTREAMS__SHOP__URL", "http://shop:81"),
        ("HOLDPOINT__PRINCIPAL__FIXED__SUBJECT", "123"),
        ("HOLDPOINT_LOG", "not a setting"),
    ];
    let (settings, _) = with(&text, &env, &[]).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(settings.limits.concurrency, 6);
    assert_eq!(settings.limits.held, 2 << 20);
    assert_eq!(settings.listen.agents.port(), 7000);
    assert_eq!(
        settings.upstreams["shop"].url.to_string(),
        "http://shop:81/"
    );
    let Principals::Fixed(principal) = &settings.principals else {
        panic!("fixed")
    };
    assert_eq!(&*principal.subject, "123");

    let flags = [("limits.concurrency", "7"), ("routes[0].prefix", "/v1")];
    let (settings, _) = with(&text, &env, &flags).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(settings.limits.concurrency, 7);
    assert_eq!(settings.routes[0].prefix, "/v1");
}

#[test]
fn a_fault_of_the_environment_names_the_variable() {
    for (name, value, words) in [
        (
            "HOLDPOINT__LISTEN__AGENT",
            "sk-very-secret",
            "did you mean `agents`?",
        ),
        ("HOLDPOINT__TYPO", "sk-very-secret", "unknown key `typo`"),
        ("HOLDPOINT__LIMITS__HELD", "2", "must be a size in bytes"),
        ("HOLDPOINT__LISTEN", "127.0.0.1:1", "`listen` must be a map"),
        (
            "HOLDPOINT__ROUTES__0__PREFIX",
            "/x",
            "`routes` must be a list",
        ),
        (
            "HOLDPOINT__UPSTREAMS__MODEL__CREDENTIAL__VALUE_ENV",
            "sk-very-secret",
            "never the secret itself",
        ),
    ] {
        let said = problems(with(BASE, &[(name, value)], &[]));
        assert!(said.contains("--> environment:1:"), "{said}");
        assert!(said.contains(name) && said.contains(words), "{said}");
        assert!(!said.contains("sk-very-secret"), "{said}");
    }
    for key in [
        "routes[9].prefix",
        "routes[-1].prefix",
        "routes[99999999999].x",
        "routes[0",
    ] {
        let said = problems(with(BASE, &[], &[(key, "/x")]));
        assert!(
            said.contains("only elements that the file has") || said.contains("unknown key"),
            "{said}"
        );
    }
    let said = problems(with(BASE, &[], &[("limits.hold", "1MiB")]));
    assert!(
        said.contains("--set limits.hold") && said.contains("did you mean `held`?"),
        "{said}"
    );
}

#[rustfmt::skip]
const FAULTS: Faults = &[
    ("policy: p.yaml\n", "", 1, "upstreams", &["lacks the key `policy`"]),
    ("policy: p.yaml", "polcy: p.yaml", 1, "polcy", &["did you mean `policy`?"]),
    ("policy: p.yaml", "policy: p.yaml\nlisten: {agents: 8080}", 2, "8080", &["must be text"]),
    ("policy: p.yaml", "policy: p.yaml\nlisten: {agents: \":8080\"}", 2, "\":8080", &["write an address too: `127.0.0.1:8080`"]),
    ("policy: p.yaml", "policy: p.yaml\nlisten: {agents: \"localhost:80\"}", 2, "\"localhost", &["`127.0.0.1:80`"]),
    ("policy: p.yaml", "policy: p.yaml\nlisten: {agents: \"0.0.0.0:9090\"}", 2, "\"0.0.0.0", &["share port 9090"]),
    ("policy: p.yaml", "policy: p.yaml\nlisten: {approvers: \"127.0.0.1:1\"}", 2, "\"127", &["nobody who may use it"]),
    ("  model: {url", "  Model: {url", 3, "Model", &["not in lower case"]),
    ("https://api.example.com/base", "api.example.com", 3, "\"api", &["a whole URL"]),
    ("https://api.example.com/base", "ftp://api.example.com", 3, "\"ftp", &["neither `http` nor `https`"]),
    ("https://api.example.com/base", "https://api.example.com/?a=1", 3, "\"https", &["query"]),
    ("Authorization", "Content-Length", 3, "Content-Length", &["cannot be used here as a header"]),
    ("MODEL_KEY", "NO_KEY", 3, "NO_KEY", &["the environment variable `NO_KEY` is not set"]),
    ("MODEL_KEY", "EMPTY", 3, "EMPTY", &["is empty"]),
    ("MODEL_KEY", "BROKEN", 3, "BROKEN", &["cannot be sent in a header"]),
    ("value_env: MODEL_KEY", "value: x", 3, "value", &["unknown key `value`", "did you mean `value_env`?"]),
    ("upstream: model", "upstream: modle", 6, "modle", &["no upstream `modle`", "did you mean `model`?"]),
    ("prefix: /openai", "prefix: openai/", 6, "openai/", &["write `/openai`"]),
    ("prefix: /openai", "prefix: /a/../b", 6, "/a/..", &["whole path segments"]),
    ("prefix: /openai", "prefix: /", 8, "/shop", &["can never match: `/` takes every path of `/shop`"]),
    ("prefix: /shop", "prefix: /openai/shop", 8, "/openai/shop", &["can never match"]),
    ("name: shop", "name: model", 7, "model", &["two routes named `model`"]),
    ("protocol: openai_chat", "protocol: openai", 6, "openai", &["did you mean `openai_chat`?"]),
    ("protocol: openai_chat", "protocol: openai_chat, tools: []", 6, "[]", &["for the protocols `http_tools` and `mcp`"]),
    ("protocol: openai_chat", "protocol: mcp, tools: [a, \"b_*\"]", 6, "\"b_*", &["is not the name of one tool"]),
    ("protocol: openai_chat", "protocol: mcp, tools: [refund]", 13, "refund", &["the tool `refund` is on two routes", "on the route `model`"]),
    ("protocol: openai_chat", "protocol: mcp, tools: []", 6, "[]", &["must not be empty"]),
    ("method: GET", "method: get", 12, "get", &["did you mean `GET`?"]),
    ("/orders/{order_id}\"", "orders/{order_id}\"", 12, "\"orders", &["is not a path template"]),
    ("/orders/{order_id}\"", "/orders/{}\"", 12, "\"/orders", &["is not a path template"]),
    ("/orders/{order_id}\"", "/orders/x{order_id}\"", 12, "\"/orders", &["a parameter is a whole segment"]),
    ("{method: POST, path: \"/tools/{tool}\"}", "{method: POST, path: /tools}", 14, "{method", &["nothing says which tool"]),
    ("{method: POST, path: \"/tools/{tool}\"}", "{tool: x, method: POST, path: \"/tools/{tool}\"}", 14, "{tool", &["named twice"]),
    ("{method: POST, path: \"/tools/{tool}\"}", "{method: POST, path: \"/tools/{tool}\"}\n      - {method: DELETE, path: \"/more/{tool}\"}", 15, "\"/more", &["two paths", "{tool}"]),
    ("{method: POST, path: \"/tools/{tool}\"}", "{tool: x, method: GET, path: \"/orders/{id}\"}", 14, "\"/orders", &["take the same paths"]),
    ("tool: refund", "tool: \"refund_*\"", 13, "\"refund", &["the name of one tool"]),
    ("fixed: {", "fixd: {", 15, "fixd", &["did you mean `fixed`?"]),
    ("subject: bot, ", "", 15, "{tenant", &["lacks the key `subject`"]),
    ("scopes: [read]", "scopes: [1]", 15, "1", &["quote it: \"1\""]),
];

#[test]
fn every_fault_is_shown_at_its_place_with_what_to_do() {
    support::every_fault(BASE, FAULTS);
}

#[rustfmt::skip]
const MORE: Faults = &[
    ("fixed: {subject: bot}", "api_keys: {keys: [{key_env: KEY_ONE, subject: a}, {key_env: KEY_ONE, subject: b}]}", 1, "{key_env", &["same key"]),
    ("fixed: {subject: bot}", "api_keys: {keys: [{key_env: SHORT, subject: a}]}", 1, "SHORT", &["shorter than 16"]),
    ("fixed: {subject: bot}", "api_keys: {keys: [{key_sha256: sk-secret, subject: a}]}", 1, "*********", &["64 hexadecimal digits"]),
    ("fixed: {subject: bot}", "api_keys: {keys: []}", 1, "[]", &["must not be empty"]),
    ("fixed: {subject: bot}", "fixed: {subject: bot}, api_keys: {}", 1, "{fixed", &["exclude each other"]),
    ("fixed: {subject: bot}", "api_keys: {}", 1, "{}", &["there is no key", "`file`"]),
    ("fixed: {subject: bot}", "api_keys: {file: none.yaml}", 1, "none.yaml", &["none.yaml"]),
    ("fixed: {subject: bot}", "jwt: {audience: a, jwks_file: k}", 1, "{audience", &["lacks the key `issuer`"]),
    ("fixed: {subject: bot}", "jwt: {issuer: i, jwks_file: k}", 1, "{issuer", &["lacks the key `audience`"]),
    ("fixed: {subject: bot}", "jwt: {issuer: i, audience: [], jwks_file: k}", 1, "[]", &["must not be empty"]),
    ("fixed: {subject: bot}", "jwt: {issuer: i, audience: a}", 1, "{issuer", &["neither of `jwks_url`, `jwks_file`"]),
    ("fixed: {subject: bot}", "jwt: {issuer: i, audience: a, jwks_url: \"http://id.example/k\"}", 1, "\"http", &["with `https`"]),
    ("fixed: {subject: bot}", "jwt: {issuer: i, audience: a, jwks_file: k, jwks_ca: c}", 1, "c", &["no meaning with a file"]),
    ("fixed: {subject: bot}", "jwt: {issuer: i, audience: a, jwks_file: k, algorithms: [HS256]}", 1, "HS256", &["cannot be `HS256`"]),
    ("fixed: {subject: bot}", "jwt: {issuer: i, audience: a, jwks_file: k, algorithms: [none]}", 1, "none", &["cannot be `none`"]),
    ("fixed: {subject: bot}", "jwt: {issuer: i, audience: a, jwks_file: k, leeway: 1h}", 1, "1h", &["more than 5m"]),
    ("fixed: {subject: bot}", "jwt: {issuer: i, audience: a, jwks_file: k, refresh: 1s}", 1, "1s", &["must not fall"]),
    ("fixed: {subject: bot}", "jwt: {issuer: i, audience: a, jwks_file: k, actor_depth: 9}", 1, "9", &["more than 8"]),
    ("fixed: {subject: bot}", "jwt: {issuer: i, audience: a, jwks_file: k, tenant: t, claims: {tenant: org}}", 1, "t", &["keep one of the two"]),
    ("fixed: {subject: bot}", "mtls: {names: [{uri: \"spiffe://a/b\", subject: a}]}", 1, "{names", &["`listen.tls.client_ca`"]),
    ("session: {header: s}", "session: {claim: sid}", 2, "sid", &["no tokens"]),
    ("stores: {", "secrets: {git: {value_env: KEY_ONE, upstreams: [n]}}\nstores: {", 7, "n", &["no upstream `n`"]),
    ("stores: {", "secrets: {git: {value_env: KEY_ONE, upstreams: [m], in: [path]}}\nstores: {", 7, "path", &["cannot be `path`"]),
    ("stores: {", "secrets: {git: {value_env: SHORT, upstreams: [m]}}\nstores: {", 7, "SHORT", &["shorter than 8"]),
    ("stores: {", "secrets: {Git: {value_env: KEY_ONE, upstreams: [m]}}\nstores: {", 7, "Git", &["lower case"]),
    ("session: {header: s}", "session: {header: host}", 2, "host", &["cannot be used"]),
    ("session: {header: s}", "session: {}", 2, "{}", &["neither of `header`, `fixed`"]),
    ("held: 1MiB", "held: 0B", 3, "0B", &["more than 0"]),
    ("held: 1MiB", "concurrency: 0", 3, "0", &["at least 1"]),
    ("held: 1MiB", "connections: 0", 3, "0", &["limits.connections: 0", "at least 1"]),
    ("held: 1MiB", "connections: 5, connections_per_address: 6", 3, "6", &["more than the 5", "lower it"]),
    ("idle: 5m", "client_idle: 0s", 4, "0s", &["more than 0"]),
    ("idle: 5m", "idle: 0s", 4, "0s", &["more than 0"]),
    ("idle: 5m", "idle: 5", 4, "5", &["such as `15m`"]),
    ("key_env: KEY_ONE", "key_env: KEY_ONE}, {subject: ann, key_env: KEY_TWO", 5, "{subject: ann, key_env: KEY_TWO", &["same subject"]),
    ("key_env: KEY_ONE", "key_env: KEY_ONE}, {subject: bob, key_env: KEY_ONE", 5, "{subject: bob", &["same key"]),
    ("key_env: KEY_ONE", "key: abc", 5, "key", &["unknown key `key`", "neither of `key_env`"]),
    ("tickets: {store: t.db}\n", "", 5, "[", &["no ticket store"]),
    ("sqlite: c.db", "oracle: c", 7, "oracle", &["unknown key `oracle`"]),
];

const FULL: &str = "principal: {fixed: {subject: bot}}
session: {header: s}
limits: {held: 1MiB}
timeouts: {idle: 5m}
approvers: [{subject: ann, key_env: KEY_ONE}]
tickets: {store: t.db}
stores: {commerce: {sqlite: c.db}}
policy: p.yaml
upstreams: {m: {url: \"http://m\"}}
routes: [{name: m, prefix: /, upstream: m, protocol: openai_chat}]
";

#[test]
fn people_sessions_and_limits_are_checked_too() {
    support::every_fault(FULL, MORE);
}

const APPROVE: &str = "principal: {jwt: {issuer: \"https://id\", audience: agents, jwks_file: k}}
policy: p.yaml
upstreams: {m: {url: \"http://m\"}}
routes: [{name: m, prefix: /, upstream: m, protocol: openai_chat}]
tickets: {store: t.db}
approvers:
  url: https://approve.example
  keys: [{subject: ann, key_env: KEY_ONE, roles: [finance], tenants: [shop]}]
  accounts: [{name: bob, subject: bob, password_hash_env: HASH}]
  oidc: {issuer: \"https://id\", client_id: c, client_secret_env: KEY_TWO, claims: {tenants: org}, api_audience: people}
  aliases: [{subject: ann, is: [{subject: u1, issuer: \"https://else\"}]}]
  sessions: {idle: 30m}
  slack: {signing_secret_env: KEY_ONE, users: {U1: ann}, post: {token_env: KEY_TWO, channel: C1}}
  webhooks: [{name: pager, url: \"https://hooks.example/x\", secret_env: KEY_ONE, events: [requested]}]
listen: {approvers: {address: \"127.0.0.1:8444\", tls: {certificate: c, key: k}}}
";

#[rustfmt::skip]
const APPROVE_FAULTS: Faults = &[
    ("https://approve.example", "http://approve.example", 7, "http", &["not a URL with `https`"]),
    ("https://approve.example", "https://approve.example/base", 7, "https", &["has a path", "host name of its own"]),
    ("  url: https://approve.example\n", "", 9, "{issuer", &["send people back", "add `url`"]),
    ("subject: ann, key_env: KEY_ONE", "subject: ann", 8, "{subject", &["neither of `key_env`, `key_sha256`"]),
    ("subject: ann, key_env: KEY_ONE", "subject: ann, key_env: KEY_ONE, key_sha256: x", 8, "{subject", &["exclude each other"]),
    ("subject: ann, key_env: KEY_ONE", "subject: ann, key_sha256: \"0123\"", 8, "*", &["not a SHA-256", "never write the key itself"]),
    ("roles: [finance]", "roles: [\"a b\"]", 8, "\"a b", &["not a name"]),
    ("tenants: [shop]", "tenants: []", 8, "[]", &["must not be empty"]),
    ("password_hash_env: HASH", "password_hash_env: KEY_ONE", 9, "KEY_ONE", &["no hash of a password", "holdpoint approver hash"]),
    ("password_hash_env: HASH", "password_hash: hunter2-hunter2", 9, "*", &["no hash of a password"]),
    ("password_hash_env: HASH", "password: hunter2-hunter2", 9, "password", &["unknown key `password`"]),
    ("password_hash_env: HASH}", "password_hash_env: HASH}, {name: bob, subject: c, password_hash_env: HASH}", 9, "{name: bob, subject: c", &["same name"]),
    ("oidc: {issuer: \"https://id\"", "oidc: {issuer: \"http://id\"", 10, "\"http", &["not a URL with `https`"]),
    ("client_id: c, ", "", 10, "{issuer", &["lacks the key `client_id`"]),
    ("claims: {tenants: org}", "claims: {tenants: org}, tenants: [shop]", 10, "[shop]", &["keep one of the two"]),
    ("api_audience: people", "api_audience: agents", 10, "agents", &["an agent could approve"]),
    ("api_audience: people", "api_audience: c", 10, "c", &["ID tokens, which are no keys"]),
    ("api_audience: people", "algorithms: [HS256]", 10, "HS256", &["cannot be `HS256`"]),
    ("is: [{subject: u1, issuer: \"https://else\"}]", "is: [{subject: ann}]", 11, "{subject", &["a person is themselves"]),
    ("is: [{subject: u1, issuer: \"https://else\"}]", "is: []", 11, "[]", &["must not be empty"]),
    ("idle: 30m", "idle: 0s", 12, "0s", &["more than 0"]),
    ("signing_secret_env: KEY_ONE", "signing_secret_env: SHORT", 13, "SHORT", &["shorter than 16"]),
    ("users: {U1: ann}", "users: {U1: zoe}", 13, "zoe", &["no key and no account has the subject `zoe`"]),
    ("users: {U1: ann}", "users: {}", 13, "{}", &["no user of Slack"]),
    ("token_env: KEY_TWO, channel: C1", "token_env: KEY_TWO", 13, "{token_env", &["lacks the key `channel`"]),
    ("token_env: KEY_TWO, channel: C1", "webhook_url_env: KEY_TWO", 13, "KEY_TWO", &["no URL with `https`"]),
    ("events: [requested]", "events: [request]", 14, "request", &["did you mean `requested`?"]),
    ("name: pager", "name: a b", 14, "a b", &["not a name"]),
    ("events: [requested]}", "events: [requested]}, {name: pager, url: \"https://b.example\", secret_env: KEY_ONE}", 14, "{name: pager, url: \"https://b", &["same name"]),
    ("address: \"127.0.0.1:8444\", ", "", 15, "{tls", &["lacks the key `address`"]),
    ("certificate: c, key: k", "certificate: c, key: k, client_ca: a", 15, "{certificate", &["not known by certificates"]),
    ("127.0.0.1:8444", "127.0.0.1:8080", 15, "", &["share port 8080"]),
];

#[test]
fn approvers_are_checked_at_their_places() {
    let hash = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$PIUmhxDCQ2PuKuCqzsiFsDCBPiI6W0ibLMVcyFOnJ0o";
    let base = APPROVE.replace(
        "password_hash_env: HASH",
        &format!("password_hash: \"{hash}\""),
    );
    let (settings, _) = support::base(&base).unwrap_or_else(|problems| panic!("{problems}"));
    let approvers = &settings.approvers;
    // Whom the config names is who agents act for under that name.
    assert_eq!(&*approvers.keys[0].who.id.issuer, "https://id");
    let names = approvers.names_of(&approvers.keys[0].who.id);
    assert_eq!(names.len(), 2);
    assert_eq!(settings.listen.approvers.unwrap().port(), 8444);
    assert!(settings.listen.approvers_tls.is_some());
    assert!(approvers.is_secret("0123456789abcdef-one") && !approvers.is_secret("else"));

    let base: &'static str = base.leak();
    for (from, to, line, caret, words) in APPROVE_FAULTS {
        let from = from.replace(
            "password_hash_env: HASH",
            &format!("password_hash: \"{hash}\""),
        );
        let to = to.replace(
            "password_hash_env: HASH",
            &format!("password_hash: \"{hash}\""),
        );
        let fault: Faults = vec![(&*from.leak(), &*to.leak(), *line, *caret, *words)].leak();
        support::every_fault(base, fault);
    }
    let said = support::problems(support::base(&base.replace(hash, "hunter2-hunter2")));
    assert!(!said.contains("hunter2"), "{said}");
    let nobody = "principal: {fixed: {subject: bot}}\npolicy: p.yaml\nupstreams: {m: {url: \"http://m\"}}\nroutes: [{name: m, prefix: /, upstream: m, protocol: openai_chat}]\ntickets: {store: t.db}\napprovers: {url: \"https://a.example\"}\n";
    let said = support::problems(support::base(nobody));
    assert!(said.contains("nobody who may approve"), "{said}");
}

const DOOR: &str =
    "listen: {hosts: [gateway.example], origins: [\"https://app.example\"], h2c: false}
policy: p.yaml
principal: {fixed: {subject: bot}}
upstreams: {shop: {url: \"https://shop\", tls: {ca: ca.pem}}}
routes: [{name: m, prefix: /, upstream: shop, protocol: openai_chat}]
limits: {request_body: 1MiB, response_body: 1MiB, memory: 2MiB}
";

#[rustfmt::skip]
const CLOSED: Faults = &[
    ("[gateway.example]", "gateway.example", 1, "gateway", &["a list"]),
    ("gateway.example", "gateway.example:8080", 1, "gateway", &["not the name of a host", "a name alone"]),
    ("gateway.example", "gateway.example.", 1, "gateway", &["not the name of a host"]),
    ("gateway.example", "127.0.0.1", 1, "127", &["is an IP address", "always taken"]),
    ("gateway.example", "\"[::1]\"", 1, "\"[::1]", &["is an IP address"]),
    ("https://app.example", "app.example", 1, "\"app", &["not an origin"]),
    ("https://app.example", "https://app.example/", 1, "\"https", &["not an origin"]),
    ("https://app.example", "https://app.example/path", 1, "\"https", &["not an origin"]),
    ("https://app.example", "*", 1, "\"*", &["not an origin", "scheme, host"]),
    ("h2c: false", "h2c: maybe", 1, "maybe", &["true"]),
    ("h2c: false", "h2c: true, tls: {certificate: c, key: k}", 1, "true", &["no HTTP/2 without TLS"]),
    ("h2c: false", "tls: {certificate: c}", 1, "{certificate", &["lacks the key `key`"]),
    ("tls: {ca: ca.pem}", "tls: {}", 4, "{}", &["lacks the key `ca`"]),
    ("https://shop", "http://shop", 4, "{ca", &["a URL without it"]),
    ("fixed: {subject: bot}", "mtls: {names: []}", 3, "{names", &["`listen.tls.client_ca`"]),
    ("memory: 2MiB", "memory: 1MiB", 6, "{request_body", &["one request and its answer"]),
];

#[test]
fn who_is_let_in_is_checked_at_its_place() {
    support::every_fault(DOOR, CLOSED);
    let text = DOOR
        .replace("gateway.example", "Gateway.Example, B\u{fc}cher.example")
        .replace("https://app.example", "HTTPS://App.Example:443");
    let (settings, _) = base(&text).unwrap_or_else(|problems| panic!("{problems}"));
    let listen = &settings.listen;
    let hosts = listen.hosts.as_deref().unwrap();
    assert_eq!(hosts, ["gateway.example", "xn--bcher-kva.example"]);
    assert_eq!(listen.origins.as_deref().unwrap(), ["https://app.example"]);
}

#[test]
fn one_session_is_not_shared_by_several_principals() {
    let keys = "api_keys: {header: x-api-key, keys: [{key_env: KEY_ONE, subject: a, agent: x}, {key_sha256: 9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08, subject: b}]}";
    let text = FULL.replace("fixed: {subject: bot}", keys);
    let (settings, _) = base(&text).unwrap_or_else(|problems| panic!("{problems}"));
    let Principals::ApiKeys { header, keys } = &settings.principals else {
        panic!("keys")
    };
    assert_eq!((header.as_str(), keys.len()), ("x-api-key", 2));
    let said = problems(base(&text.replace("header: s}", "fixed: one}")));
    assert!(said.contains("would mix their conversations"), "{said}");
    let said = problems(base(&text.replace("header: s}", "header: x-api-key}")));
    assert!(
        said.contains("already carries the caller's credential"),
        "{said}"
    );
    let fixed = FULL.replace("header: s}", "fixed: one}");
    let (settings, _) = base(&fixed).unwrap();
    assert!(matches!(settings.session, SessionSource::Fixed(_)));
}

#[test]
fn a_tool_lives_on_one_route() {
    let text = BASE.replace(
        "principal:",
        "  - {name: other, prefix: /other, upstream: shop, protocol: http_tools, tools: [{tool: refund, method: POST, path: /r}]}\nprincipal:",
    );
    let said = problems(base(&text));
    assert!(
        said.contains("the tool `refund` is on two routes"),
        "{said}"
    );
}

#[test]
fn an_mcp_route_names_the_tools_that_execute_there() {
    let text = BASE.replace(
        "principal:",
        "  - {name: files, prefix: /files, upstream: shop, protocol: mcp, tools: [write_file, move_file]}\nprincipal:",
    );
    let (settings, _) = base(&text).unwrap_or_else(|problems| panic!("{problems}"));
    let venues = settings.venues().0;
    for tool in ["write_file", "move_file"] {
        assert_eq!(venues[tool].as_str(), "files");
    }
    assert_eq!(venues["refund"].as_str(), "shop");
}

#[test]
fn a_secret_in_the_wrong_place_is_not_printed() {
    for (from, to) in [
        ("MODEL_KEY", "sk-pasted-secret"),
        ("value_env: MODEL_KEY", "value: sk-pasted-secret"),
        ("value_env: MODEL_KEY", "token: sk-pasted-secret, oops: 1"),
        (
            "https://api.example.com/base",
            "https://user:sk-pasted-secret@api.example.com",
        ),
        (
            "fixed: {",
            "api_keys: {keys: [{key_sha256: sk-pasted-secret, subject: x}]}, fixed: {",
        ),
    ] {
        let text = BASE.replace(from, to);
        let said = problems(base(&text));
        assert!(
            said.contains("c.yaml:") && !said.contains("pasted"),
            "{said}"
        );
    }
}

#[test]
fn registered_secrets_are_lines_and_never_the_secret() {
    let secret = "correct-horse-battery-1";
    let line = Registered::new(secret).unwrap().to_string();
    let with_line = |line: &str| base(&format!("{BASE}registered_secrets: [\"{line}\"]\n"));
    let (settings, _) = with_line(&line).unwrap_or_else(|problems| panic!("{problems}"));
    let register = settings.register().unwrap();
    assert!(register.is_in(format!("it is {secret}.").as_bytes()));
    assert!(!register.is_in(b"correct-horse-battery-2"));
    assert!(!format!("{settings:?}").contains(&line));
    // The upstream's own credential is registered by itself, without its scheme.
    let (_, credential) = settings.upstreams["model"].credential.as_ref().unwrap();
    let bare = credential.0.rsplit(' ').next().unwrap();
    assert_eq!(register.is_in(bare.as_bytes()), bare.len() >= 12);
    let text = problems(with_line(secret));
    assert!(
        text.contains("is not a line that `holdpoint secret hash` prints"),
        "{text}"
    );
    assert!(!text.contains(secret), "{text}");
}

#[test]
fn secrets_of_settings_are_not_printed() {
    let (settings, _) = base(BASE).unwrap();
    let shown = format!("{settings:?}");
    assert!(!shown.contains("model-secret"), "{shown}");
}

#[test]
fn an_upstream_without_route_and_an_unencrypted_credential_are_warnings() {
    let text = BASE
        .replace("https://api.example.com/base", "http://api.example.com")
        .replace(
            "  shop: {url",
            "  idle: {url: \"http://idle\"}\n  shop: {url",
        );
    let (_, warnings) = base(&text).unwrap_or_else(|problems| panic!("{problems}"));
    let said = warnings.to_string();
    assert!(
        said.contains("sent unencrypted") && said.contains("no route leads to the upstream `idle`"),
        "{said}"
    );
    assert_eq!(warnings.0.len(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_damaged_config_gives_problems_and_never_a_panic(
        from in 0..BASE.len(),
        length in 0..40_usize,
        put in "[ -~\n]{0,6}",
        key in "[A-Zr01_\\[\\].]{0,12}",
    ) {
        let mut bytes = BASE.as_bytes().to_vec();
        let end = (from + length).min(bytes.len());
        bytes.splice(from..end, put.bytes());
        let text = String::from_utf8_lossy(&bytes);
        let name = format!("HOLDPOINT__{key}");
        for environment in [vec![], vec![(name.as_str(), "x")]] {
            if let Err(problems) = with(&text, &environment, &[(&key, "y")]) {
                prop_assert!(problems.has_errors());
                prop_assert!(!problems.to_string().is_empty());
            }
        }
    }
}

const CERTIFIED: &str = "listen: {tls: {certificate: c, key: k, client_ca: ca.pem}}
principal: {mtls: {names: [{uri: \"spiffe://a/b\", subject: bot}]}}
policy: p.yaml
upstreams: {m: {url: \"http://m\"}}
routes: [{name: m, prefix: /, upstream: m, protocol: openai_chat}]
";

#[rustfmt::skip]
const UNCERTIFIED: Faults = &[
    ("[{uri: \"spiffe://a/b\", subject: bot}]", "[]", 2, "[]", &["must not be empty"]),
    ("spiffe://a/b", "desk", 2, "\"desk", &["is not a URI"]),
    ("uri: \"spiffe://a/b\"", "dns: \"*.agents.example\"", 2, "\"*.", &["is not a DNS name", "wildcards name nobody"]),
    ("uri: \"spiffe://a/b\"", "dns: 10.0.0.1", 2, "10.0", &["is not a DNS name"]),
    ("uri: \"spiffe://a/b\", ", "", 2, "{subject", &["neither of `uri`, `dns`"]),
    ("[{uri", "[{uri: \"spiffe://a/b\", subject: x}, {uri", 2, "{uri: \"spiffe://a/b\", subject: bot", &["same name"]),
    ("policy: p", "session: {fixed: one}\npolicy: p", 3, "one", &["mix their conversations"]),
];

#[test]
fn names_of_certificates_are_checked() {
    support::every_fault(CERTIFIED, UNCERTIFIED);
}

/// What the tests share.
#[cfg(test)]
mod support {
    use holdpoint::settings::Settings as Ready;
    use holdpoint::settings::{Checked, Environment};
    use holdpoint::source::Problems;

    pub use holdpoint::settings::read;

    use super::*;

    /// Replaced text, what by, line and text at the caret, words.
    pub type Faults = &'static [(
        &'static str,
        &'static str,
        usize,
        &'static str,
        &'static [&'static str],
    )];

    pub fn example() -> Environment {
        [
            ("OPENAI_API_KEY", "an-example-key-for-tests"),
            ("ANN_APPROVER_KEY", "another-example-key-for-tests"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
    }

    pub fn base(text: &str) -> Result<(Ready, Problems), Problems> {
        with(text, &[], &[])
    }

    pub fn with(
        text: &str,
        environment: &[(&str, &str)],
        flags: &[(&str, &str)],
    ) -> Result<(Ready, Problems), Problems> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.yaml");
        std::fs::write(&path, text).unwrap();
        let mut all: Environment = [
            ("MODEL_KEY", "model-secret"),
            ("EMPTY", " "),
            ("BROKEN", "a\u{1}b"),
            ("KEY_ONE", "0123456789abcdef-one"),
            ("KEY_TWO", "0123456789abcdef-two"),
            ("SHORT", "short"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        all.extend(
            environment
                .iter()
                .map(|(n, v)| ((*n).to_owned(), (*v).to_owned())),
        );
        let flags = flags
            .iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
        let Checked {
            settings, warnings, ..
        } = read(&path, &Overrides(flags.collect()), &all)?;
        Ok((settings, warnings))
    }

    pub fn problems(result: Result<(Ready, Problems), Problems>) -> String {
        result.expect_err("refused").to_string()
    }

    pub fn every_fault(base_text: &str, faults: Faults) {
        for (from, to, line, caret, words) in faults {
            assert!(base_text.contains(from), "{from}");
            let found = base(&base_text.replacen(from, to, 1));
            let problems = found.err().unwrap_or_else(|| panic!("accepted: {to}"));
            let said = problems.to_string();
            for word in words.iter().copied().chain(["help: "]) {
                assert!(said.contains(word), "{to}: no `{word}` in\n{said}");
            }
            let mut places = problems.0.iter().filter_map(|problem| problem.at.as_ref());
            let found = places.any(|(file, bytes)| {
                let text = &file.text.as_bytes()[bytes.clone()];
                file.line_column(bytes.start).0 == *line && text.starts_with(caret.as_bytes())
            });
            assert!(found, "{to}: not at `{caret}` in line {line}\n{said}");
        }
    }
}
