//! What a policy file means and what is refused in one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use holdpoint::layers::egress;
use holdpoint::policy::{
    self, Allowed, Effect, ExecutesAt, Gate, Otherwise, Policy, RecipientKind, ToolMatcher,
};
use holdpoint::source::{self, Problems, Severity};
use holdpoint::verdict::{LayerId, Mode};
use proptest::prelude::*;
use regex::Regex;
use support::{check, everything, names_of_tools, refused, shipped, with, words, yaml};

/// A policy without problems and without warnings.
const BASE: &str = r#"version: 1
name: base
layers: {catalog: off, identity: off, egress: enforce, recipients: enforce, ownership: enforce, injection: enforce, tickets: enforce}
lists:
  hosts: {hosts: [API.Shop.Example., "*.cdn.shop.example", "[2001:DB8::1]:8443", bücher.example]}
  staff: {email_domains: [Shop.Example], emails: [Ann.Lee@Bücher.example]}
  payees: {accounts: [DE89 3704 0044 0532 0130 00]}
lookups:
  owner: {store: shop, sql: "SELECT subject FROM orders WHERE id = :order_id"}
  own: {store: shop, sql: "SELECT email FROM users WHERE subject = :principal"}
egress: {allow: [hosts]}
tools:
  - tool: get_order
    effect: read
    ownership: [{resource: /order_id, as: order_id, owner: owner}]
  - tool: "mail_*"
    recipients: [{at: [/to, /cc], kind: email, allow: [staff, {lookup: own}], otherwise: hold}]
    egress: [{at: /body, allow: []}]
  - tool: pay
    executes_at: {route: bank}
    recipients: [{at: /iban, kind: iban, allow: [payees]}]
    ticket: {gate: approve, role: oncall, ttl: 15m, summary: "Pay {/amount} to {/iban}"}
  - tool: "*"
    executes_at: agent
    ticket: {gate: confirm, ttl: 1h 30m}
injection: {redact: 0.6, block: 0.85, tools: [{tool: web_fetch, redact: 0.5}, {tool: "read_*", redact: never}]}
"#;

#[test]
fn a_policy_means_what_it_says() {
    let (policy, warnings) = check(BASE).unwrap_or_else(|problems| panic!("{problems}"));
    assert!(warnings.is_empty(), "{warnings}");
    assert_eq!(policy.name, "base");
    assert_eq!(policy.hash.0.len(), 64);
    assert_eq!(policy.modes.of(LayerId::Catalog), Mode::Off);
    assert_eq!(policy.modes.of(LayerId::Tickets), Mode::Enforce);

    let hosts = &policy.lists["hosts"];
    let entries: Vec<_> = hosts.hosts.iter().map(ToString::to_string).collect();
    assert_eq!(
        entries,
        [
            "api.shop.example",
            "*.cdn.shop.example",
            "[2001:db8::1]:8443",
            "xn--bcher-kva.example"
        ]
    );
    let staff = &policy.lists["staff"];
    assert!(staff.emails.contains("ann.lee@xn--bcher-kva.example"));
    assert!(staff.email_domains.contains("shop.example"));
    assert!(
        policy.lists["payees"]
            .accounts
            .contains("DE89370400440532013000")
    );

    let rule = |name: &str| policy.rule_for(&name.into()).unwrap();
    assert_eq!(rule("get_order").effect, Effect::Read);
    assert_eq!(rule("get_order").ownership[0].bind, "order_id");
    let mail = &rule("mail_send").recipients[0];
    assert_eq!(mail.id.as_str(), "tools[1].recipients[0]");
    assert_eq!(mail.kind, RecipientKind::Email);
    assert_eq!(mail.allow.len(), 2);
    assert_eq!(mail.allow[1], Allowed::Lookup("own".into()));
    assert_eq!(mail.otherwise, Otherwise::Hold.into());
    assert_eq!(mail.at.len(), 2);
    assert!(rule("mail_send").egress[0].allow.is_empty());
    let pay = rule("pay");
    assert_eq!(pay.executes_at, Some(ExecutesAt::Route("bank".into())));
    let ticket = pay.ticket.as_ref().unwrap();
    assert_eq!(
        (ticket.gate, ticket.roles.first().map(String::as_str)),
        (Gate::Approve, Some("oncall"))
    );
    assert_eq!(ticket.ttl, Duration::from_mins(15));
    let other = rule("anything");
    assert_eq!(other.matcher, ToolMatcher::Any);
    assert_eq!(other.effect, Effect::Write);
    assert_eq!(other.ticket.as_ref().unwrap().ttl, Duration::from_mins(90));

    let egress = policy.egress.as_ref().unwrap();
    assert_eq!(
        (egress.id.as_str(), egress.otherwise),
        ("egress", Otherwise::Deny.into())
    );
    let fetched = policy.injection.for_tool(Some(&"web_fetch".into()));
    assert_eq!((fetched.redact, fetched.block), (Some(0.5), Some(0.85)));
    let read = policy.injection.for_tool(Some(&"read_file".into()));
    assert_eq!((read.redact, read.block), (None, Some(0.85)));
    assert_eq!(policy.injection.for_tool(None).redact, Some(0.6));
}

#[test]
fn the_egress_layer_takes_hosts_as_they_are_listed() {
    let (policy, _) = check(BASE).unwrap();
    let reach = &policy.egress.as_ref().unwrap().reach;
    let rule = egress::of_lists(reach, [&policy.lists["hosts"]]);
    for (url, allowed) in [
        ("https://api.shop.example/x", true),
        ("https://a.cdn.shop.example/", true),
        ("https://cdn.shop.example/", false),
        ("https://[2001:db8::1]:8443/", true),
        ("https://[2001:db8::1]/", false),
        ("https://bücher.example/", true),
        ("http://api.shop.example/x", false),
    ] {
        assert_eq!(egress::url(&rule, url).is_ok(), allowed, "{url}");
    }
}

#[test]
fn the_hash_is_the_sha_256_of_the_bytes() {
    let (one, _) = check(BASE).unwrap();
    let (same, _) = check(BASE).unwrap();
    let (other, _) = check(&format!("{BASE}# a comment\n")).unwrap();
    assert_eq!(one.hash, same.hash);
    assert_ne!(one.hash, other.hash);
}

/// What stands in the file, what is written instead, the line and text at the caret, words of message and help.
type Fault = (
    &'static str,
    &'static str,
    usize,
    &'static str,
    &'static [&'static str],
);

#[rustfmt::skip]
const FAULTS: &[Fault] = &[
    ("version: 1", "version: 2", 1, "2", &["version 2", "write `version: 1`"]),
    ("version: 1\n", "", 1, "name: base", &["lacks the key `version`"]),
    ("name: base", "name: 123", 2, "123", &["must be text", "quote it: \"123\""]),
    ("catalog: off, ", "", 3, "{identity", &["lacks the key `catalog`"]),
    ("identity: off", "identity: shadowed", 3, "shadowed", &["did you mean `shadow`?"]),
    ("- tool: pay\n", "- tool: pay\n    scopes: []\n", 20, "[]", &["must not be empty"]),
    ("- tool: pay\n", "- tool: pay\n    scopes: [a b]\n", 20, "a b", &["has blanks", "refund:create"]),
    ("- tool: pay\n", "- tool: pay\n    agents: [a, a]\n", 20, "a", &["is listed twice"]),
    ("- tool: pay\n", "- tool: pay\n    session: any\n", 20, "any", &["`own`"]),
    ("- tool: pay\n", "- tool: pay\n    scopes: [a]\n    deny: true\n", 20, "scopes", &["no meaning beside `deny: true`"]),
    ("egress: enforce", "egress: enforced", 3, "enforced", &["did you mean `enforce`?"]),
    ("egress: enforce", "egres: enforce", 3, "egres", &["unknown key `egres` in `layers`", "did you mean `egress`?"]),
    ("API.Shop.Example.", "https://api.shop.example:8443/v1", 5, "https", &["`api.shop.example:8443/v1`", "schemes stand in the rule"]),
    ("API.Shop.Example.", "https://api.shop.example:443", 5, "https", &["`api.shop.example`"]),
    ("API.Shop.Example.", "\"api.shop.example:99999\"", 5, "\"api.shop.example:99999", &["not a plain port"]),
    ("API.Shop.Example.", "api.shop.example/v1/../admin", 5, "api", &["dot segments"]),
    ("API.Shop.Example.", "10.0.0.0/33", 5, "10", &["is not a host"]),
    ("API.Shop.Example.", "0x7f.0.0.1", 5, "0x7f", &["not a plain spelling of an address"]),
    ("API.Shop.Example.", "\"2001:db8::1\"", 5, "\"2001", &["in brackets: \"[2001:db8::1]\""]),
    ("API.Shop.Example.", "a b", 5, "a b", &["`a b` is not a host"]),
    ("*.cdn.shop.example", "*.example", 5, "\"*.example", &["top-level domain"]),
    ("*.cdn.shop.example", "cdn.*.example", 5, "\"cdn.*", &["wildcard"]),
    ("\"*.cdn.shop.example\"", "*.cdn.shop.example", 5, "*.cdn", &["aliases", "quote it: \"*.cdn.shop.example\""]),
    ("Ann.Lee@Bücher.example", "\"@shop.example\"", 6, "\"@shop", &["email_domains: [shop.example]"]),
    ("Ann.Lee@Bücher.example", "\"Ann <ann@shop.example>\"", 6, "\"Ann <", &["not an e-mail address"]),
    ("[Shop.Example]", "[ann@shop.example]", 6, "ann@", &["emails: [ann@shop.example]"]),
    ("[Shop.Example]", "[\"*.shop.example\"]", 6, "\"*.shop", &["write `email_subdomains_of: [shop.example]`"]),
    ("[Shop.Example]", "[shop.example.]", 6, "shop.example.", &["write `shop.example`"]),
    ("[Shop.Example]", "[shop..example]", 6, "shop..", &["is not an e-mail domain"]),
    ("[Shop.Example]", "[.]", 6, ".", &["is not an e-mail domain"]),
    ("[DE89 3704 0044 0532 0130 00]", "[]", 7, "[]", &["must not be empty"]),
    ("{accounts: [DE89 3704 0044 0532 0130 00]}", "{}", 7, "{}", &["the list `payees` is empty"]),
    ("DE89 3704 0044 0532 0130 00", "DE89 3704 0044 0532 0130 01", 21, "payees", &["no valid IBAN", "kind: account"]),
    ("DE89 3704 0044 0532 0130 00", "DE89é3704", 7, "DE89é", &["is not an account"]),
    ("store: shop", "stor: shop", 9, "stor", &["unknown key `stor` in `lookups.owner`"]),
    ("egress: {allow: [hosts]}", "egress: {allow: [host]}", 11, "host", &["no list `host`", "did you mean `hosts`?"]),
    ("egress: {allow: [hosts]}", "egress: {allow: [staff]}", 11, "staff", &["the list `staff` has no hosts"]),
    ("egress: {allow: [hosts]}", "egress: {allow: [hosts], schemes: [htps]}", 11, "htps", &["not a scheme", "did you mean `https`?"]),
    ("egress: {allow: [hosts]}", "egress: {allow: [hosts], ports: [0]}", 11, "0", &["0 is not a port"]),
    ("egress: {allow: [hosts]}", "egress: {allow: [hosts], urls: all}", 11, "all", &["the choices are `by_key`, `within`, `whole`"]),
    ("egress: {allow: [hosts]}", "egress: {allow: [hosts]}\nforward: {allow: [host]}", 12, "host", &["no list `host`", "did you mean `hosts`?"]),
    ("egress: {allow: [hosts]}", "egress: {allow: [hosts]}\nforward: {allow: [hosts], methods: [get]}", 12, "get", &["upper case"]),
    ("egress: {allow: [hosts]}", "egress: {allow: [hosts]}\nrendered: {images: [staff], links: [hosts]}", 12, "staff", &["has no hosts"]),
    ("egress: {allow: [hosts]}", "egress: {allow: [hosts]}\nrendered: {links: [hosts]}", 12, "{links", &["lacks the key `images`"]),
    ("- tool: get_order", "- tool: 123", 13, "123", &["quote it: \"123\""]),
    ("- tool: get_order", "- tool: get_*_order", 13, "get_*_order", &["is not a tool pattern"]),
    ("effect: read", "effect: raed", 14, "raed", &["did you mean `read`?"]),
    ("resource: /order_id", "resource: order_id", 15, "order_id", &["a selector starts with '/', such as \"/order_id\""]),
    ("as: order_id", "as: \":order_id\"", 15, "\":order", &["write it without colon: `order_id`"]),
    ("as: order_id", "as: principal", 15, "principal", &["always bound"]),
    ("as: order_id", "as: owner", 15, "owner", &["the column of the owner"]),
    ("as: order_id", "as: order_id, with: {order_id: /x}", 15, "order_id", &["`:order_id` is bound already"]),
    ("as: order_id", "as: order_id, with: {tenant: /x}", 15, "tenant", &["always bound"]),
    ("as: order_id", "as: order_id, with: {item: x}", 15, "x", &["a selector starts with '/'"]),
    ("{store: shop, sql: \"SELECT subject FROM orders WHERE id = :order_id\"}", "{http: {upstream: shop, path: \"/a/{id}/../{order_id}\", owner: /u}}", 9, "\"/a", &["is not a path"]),
    ("{store: shop, sql: \"SELECT subject FROM orders WHERE id = :order_id\"}", "{http: {upstream: shop, path: \"/a/x{order_id}\", owner: /u}}", 9, "\"/a", &["whole segments"]),
    ("{store: shop, sql: \"SELECT subject FROM orders WHERE id = :order_id\"}", "{http: {upstream: shop, path: \"/a/{order_id}\", owner: u}}", 9, "u", &["is not a JSON Pointer"]),
    ("{store: shop, sql: \"SELECT subject FROM orders WHERE id = :order_id\"}", "{http: {upstream: shop, path: \"/a/{order_id}\", owner: /u, echo: {id: /id}}}", 9, "id", &["`echo.id` answers no parameter"]),
    ("owner: owner", "owner: ownr", 15, "ownr", &["no look-up `ownr`", "did you mean `owner`?"]),
    ("kind: email", "kind: mail", 17, "mail", &["did you mean `email`?"]),
    ("kind: email", "kind: account", 17, "staff", &["the list `staff` has no `accounts`"]),
    ("kind: email", "kind: email, region: GB", 17, "GB", &["`region` has no meaning with `kind: email`", "belongs to `phone`"]),
    ("kind: email", "kind: email, allow_anyone: true", 17, "true", &["`allow_anyone` has no meaning with `kind: email`"]),
    ("kind: email", "kind: email, plus: folded", 17, "folded", &["did you mean `fold`?"]),
    ("kind: email", "kind: phone, region: gb", 17, "gb", &["write `GB`"]),
    ("kind: email", "kind: chat", 17, "staff", &["the list `staff` has no `chats`"]),
    ("{lookup: own}", "{lookup: own, from: user}", 17, "{lookup", &["write exactly one of `lookup`, `from`"]),
    ("otherwise: hold", "otherwise: ask", 17, "ask", &["the choices are `deny`, `hold`"]),
    ("{route: bank}", "bank", 20, "bank", &["`{route: NAME}`"]),
    ("role: oncall, ttl: 15m", "role: oncall, ttl: 15", 22, "15", &["must be a duration", "`15m`"]),
    ("ttl: 15m", "ttl: 0s", 22, "0s", &["more than 0"]),
    ("{/amount}", "{amount}", 22, "\"Pay", &["`{amount}`: a JSON Pointer starts with `/`"]),
    ("{/amount}", "{/amount", 22, "\"Pay", &["summary"]),
    ("{/amount}", "/amount}", 22, "\"Pay", &["not opened"]),
    ("{/amount}", "{/items/*}", 22, "\"Pay", &["wildcard"]),
    ("gate: confirm", "gate: confirm, role: x", 25, "x", &["no meaning with `gate: confirm`"]),
    ("- tool: pay\n", "- tool: pay\n    deny: false\n", 20, "false", &["`deny: false` says nothing", "remove it"]),
    ("- tool: pay\n", "- tool: pay\n    deny: true\n", 21, "executes_at", &["`executes_at` has no meaning beside `deny: true`"]),
    ("- tool: pay\n", "- tool: pay\n    deny: true\n", 22, "recipients", &["`recipients` has no meaning beside `deny: true`"]),
    ("- tool: pay\n", "- tool: pay\n    deny: 1\n", 20, "1", &["must be"]),
    ("injection: {", "provider_tools: [{type: web_*_search}]\ninjection: {", 26, "web_*", &["is not a tool pattern"]),
    ("injection: {", "provider_tools: [{servers: [\"https://a.example/\"]}]\ninjection: {", 26, "{servers", &["lacks the key `type`"]),
    ("injection: {", "provider_tools: [{type: mcp, server: [\"https://a.example/\"]}]\ninjection: {", 26, "server", &["unknown key `server`", "did you mean `servers`?"]),
    ("injection: {", "provider_tools: [{type: mcp, servers: []}]\ninjection: {", 26, "[]", &["must not be empty"]),
    ("injection: {", "provider_tools: [{type: mcp, servers: [mcp.example.com]}]\ninjection: {", 26, "mcp.example", &["is not the URL of a server", "`https://mcp.example.com/`"]),
    ("injection: {", "provider_tools: [{type: mcp, servers: [\"https://a.example/x/../y\"]}]\ninjection: {", 26, "\"https", &["is not the URL of a server"]),
    ("injection: {", "provider_tools: [{type: mcp, servers: [\"https://*.example/\"]}]\ninjection: {", 26, "\"https", &["no wildcard"]),
    ("redact: 0.6", "redact: 1.5", 26, "1.5", &["a score is from 0 to 1"]),
    ("redact: 0.6", "redact: 0.9", 26, "{redact", &["redact (0.9) is above block (0.85)"]),
    ("redact: 0.6", "redact: \"0.6\"", 26, "\"0.6", &["a number or `never`"]),
    ("read_*", "web_fetch", 26, "\"web_fetch", &["this rule can never match", "matches all of it before"]),
    ("- tool: pay", "- tool: mail_pay", 19, "mail_pay", &["this rule can never match", "16 |"]),
    ("tools:\n", "tols:\n", 12, "tols", &["unknown key `tols`", "did you mean `tools`?"]),
];

#[test]
fn every_fault_is_shown_at_its_place_with_what_to_do() {
    for (from, to, line, caret, words) in FAULTS {
        let problems = refused(&with(from, to));
        let said = problems.to_string();
        for word in words.iter().copied().chain(["help: "]) {
            assert!(said.contains(word), "{to}: no `{word}` in\n{said}");
        }
        let mut places = problems.0.iter().filter_map(|problem| problem.at.as_ref());
        let found = places.any(|(file, bytes)| {
            let text = &file.text.as_bytes()[bytes.clone()];
            let (at, _) = file.line_column(bytes.start);
            at == *line && text.starts_with(caret.as_bytes())
        });
        assert!(found, "{to}: not at `{caret}` in line {line}\n{said}");
    }
}

#[test]
fn all_faults_come_at_once_in_file_order() {
    let mut text = BASE.to_owned();
    for (from, to) in [
        ("egress: enforce", "egress: on"),
        ("API.Shop.Example.", "http://x/"),
        ("owner: owner", "owner: ownr"),
        ("allow: [payees]", "allow: [payes]"),
        ("ttl: 15m", "tll: 15m"),
        ("block: 0.85", "block: 85"),
    ] {
        assert!(text.contains(from));
        text = text.replacen(from, to, 1);
    }
    let problems = refused(&text);
    let line = |problem: &source::Problem| {
        let (file, bytes) = problem.at.as_ref().unwrap();
        file.line_column(bytes.start).0
    };
    let lines: Vec<_> = problems.0.iter().map(line).collect();
    assert_eq!(lines, [3, 5, 15, 21, 22, 26], "{problems}");
}

#[test]
fn what_has_no_effect_is_a_warning() {
    for (from, to, words) in [
        (
            "  - tool: pay\n",
            "  - {tool: shell, deny: true}\n  - tool: pay\n",
            "the layer `catalog` is off",
        ),
        (
            "injection: {",
            "provider_tools: [{type: web_search}]\ninjection: {",
            "the layer `catalog` is off",
        ),
        (
            "ownership: enforce",
            "ownership: off",
            "the layer `ownership` is off",
        ),
        (
            "injection: enforce",
            "injection: off",
            "the layer `injection` is off",
        ),
        (
            "tickets: enforce",
            "tickets: off",
            "the layer `tickets` is off",
        ),
        ("tickets: enforce", "tickets: shadow", "refuses like `deny`"),
        ("tool: \"*\"", "tool: rest", "no rule for `*`"),
        (
            "allow: [staff, {lookup: own}]",
            "allow: [staff]",
            "no rule uses the look-up `own`",
        ),
        (
            "kind: iban, allow: [payees]",
            "kind: iban, allow: []",
            "no rule uses the list `payees`",
        ),
        (
            "    ownership: [{resource: /order_id, as: order_id, owner: owner}]\n",
            "",
            "the layer `ownership` is on and nothing",
        ),
    ] {
        let (_, warnings) = check(&with(from, to)).unwrap_or_else(|problems| panic!("{problems}"));
        assert!(warnings.0.iter().all(|w| w.severity == Severity::Warning));
        assert!(warnings.to_string().contains(words), "{to}\n{warnings}");
    }
}

#[test]
fn hosts_that_many_share_are_a_warning() {
    for (host, words) in [
        ("github.com", "`github.com/YOUR-ORG`"),
        ("api.anthropic.com", "another key reaches another account"),
        ("\"*.github.io\"", "anybody may register"),
        ("\"*.amazonaws.com\"", "anybody may register"),
        ("\"*.co.uk\"", "anybody may register"),
        ("s3.eu-west-1.amazonaws.com", "anybody's account"),
    ] {
        let (_, warnings) = check(&with("API.Shop.Example.", host)).unwrap();
        assert!(warnings.to_string().contains(words), "{host}\n{warnings}");
    }
    let (_, warnings) = check(&with("API.Shop.Example.", "github.com/org")).unwrap();
    assert!(warnings.is_empty(), "{warnings}");
}

#[test]
fn names_that_lead_nowhere_are_a_warning_when_asked_for() {
    let tree = source::parse("p.yaml", BASE.to_owned()).unwrap();
    let checked = policy::check(tree).unwrap();
    let all = policy::unresolved(&checked, &|_| true);
    assert!(all.is_empty(), "{all}");
    let some = policy::unresolved(&checked, &|name| name == "api.shop.example");
    assert_eq!(some.0.len(), 1, "{some}");
    let said = some.to_string();
    assert!(
        said.contains("`xn--bcher-kva.example` does not resolve"),
        "{said}"
    );
    assert!(said.contains("p.yaml:5:"), "{said}");
}

#[test]
fn a_small_policy_is_enough() {
    let text = "version: 1\nname: scan\nlayers: {catalog: off, identity: off, egress: off, recipients: off, ownership: off, injection: shadow, tickets: off}\ninjection: {block: 0.9}\n";
    let (policy, warnings) = check(text).unwrap();
    assert!(policy.tools.is_empty() && policy.egress.is_none());
    assert_eq!(warnings.0.len(), 1, "{warnings}");
}

#[test]
fn every_shipped_policy_loads_without_a_warning() {
    let mut policies = 0;
    for path in shipped() {
        if path.ends_with("holdpoint.example.yaml") {
            continue;
        }
        policies += 1;
        let checked = policy::read(&path).unwrap_or_else(|problems| panic!("{problems}"));
        assert!(checked.warnings.is_empty(), "{}", checked.warnings);
    }
    assert!(policies >= 9);
}

/// A policy that is scored on recordings may hold no name of their worlds: no address, host, account, id, file or person.
#[test]
fn policies_of_worlds_name_nothing_of_them() {
    let Some(data) = std::env::var_os("HOLDPOINT_TEST_DATA").map(PathBuf::from) else {
        println!("skipped: HOLDPOINT_TEST_DATA is not set");
        return;
    };
    let env = data.join("agentdojo_env");
    let tools = std::fs::read_to_string(env.join("tools.json")).unwrap();
    let api = words(&names_of_tools(&serde_json::from_str(&tools).unwrap()));
    let worlds: String = everything(&env);
    let mut literals = BTreeSet::new();
    for pattern in [
        r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
        r"(?:https?://|www\.)[\w.-]+",
        r"\b[A-Z]{2}\d[\dA-Z]{6,}\b",
        r"\b[A-Z]{1,8}-?\d{3,}\b",
        r"\b[\w-]+\.(?:txt|pdf|docx|xlsx|exe|csv)\b",
    ] {
        let found = Regex::new(pattern).unwrap();
        literals.extend(
            found
                .find_iter(&worlds)
                .map(|found| found.as_str().to_lowercase()),
        );
    }
    assert!(literals.len() > 200, "{}", literals.len());
    let people: BTreeSet<String> = literals
        .iter()
        .filter_map(|literal| literal.split_once('@'))
        .flat_map(|(local, domain)| words(&format!("{local} {domain}")))
        .filter(|word| word.len() > 3 && !api.contains(word))
        .collect();
    assert!(people.len() > 30, "{people:?}");
    // Names of fields are the tools' own, those of tables the database's.
    let fields = Regex::new(r"fields: \[[^\]]*\]|\b(?:from|join) \w+").unwrap();
    for path in yaml(&Path::new(env!("CARGO_MANIFEST_DIR")).join("policies/worlds")) {
        let text = std::fs::read_to_string(&path).unwrap().to_lowercase();
        let name = path.display();
        for literal in &literals {
            assert!(!text.contains(literal.as_str()), "{name}: {literal}");
        }
        let rules = text.lines().map(|line| line.split('#').next().unwrap());
        let rules = rules.collect::<Vec<_>>().join("\n");
        let said = words(&fields.replace_all(&rules, ""));
        let of_worlds: Vec<_> = said.intersection(&people).collect();
        assert_eq!(of_worlds, [] as [&String; 0], "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_damaged_policy_gives_problems_and_never_a_panic(
        from in 0..BASE.len(),
        length in 0..40_usize,
        put in "[ -~\n]{0,6}",
    ) {
        let mut bytes = BASE.as_bytes().to_vec();
        let end = (from + length).min(bytes.len());
        bytes.splice(from..end, put.bytes());
        if let Err(problems) = check(&String::from_utf8_lossy(&bytes)) {
            prop_assert!(problems.has_errors());
            prop_assert!(!problems.to_string().is_empty());
        }
    }
}

/// What the tests share.
#[cfg(test)]
mod support {
    use super::*;

    pub fn check(text: &str) -> Result<(Policy, Problems), Problems> {
        let checked = policy::check(source::parse("p.yaml", text.to_owned())?)?;
        Ok((checked.policy, checked.warnings))
    }

    /// The base with one text replaced; panics if it does not hold that text.
    pub fn with(from: &str, to: &str) -> String {
        assert!(BASE.contains(from), "{from}");
        BASE.replacen(from, to, 1)
    }

    pub fn refused(text: &str) -> Problems {
        match check(text) {
            Ok(_) => panic!("accepted:\n{text}"),
            Err(problems) => problems,
        }
    }

    pub fn shipped() -> Vec<PathBuf> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies");
        let mut files = yaml(&folder);
        files.extend(yaml(&folder.join("worlds")));
        files
    }

    pub fn yaml(folder: &Path) -> Vec<PathBuf> {
        let files = std::fs::read_dir(folder).unwrap();
        let mut files: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|ext| ext == "yaml"));
        files.sort();
        files
    }

    /// Names of tools and of their parameters: the words of an API, which a policy must speak.
    pub fn names_of_tools(tools: &serde_json::Value) -> String {
        let suites = tools.as_object().unwrap().values();
        let all = suites.flat_map(|tools| tools.as_array().unwrap());
        let names = all.map(|tool| {
            let parameters = tool["parameters"]["properties"].as_object();
            let keys = parameters.into_iter().flat_map(|all| all.keys().cloned());
            let keys: Vec<_> = keys.collect();
            format!("{} {}", tool["name"].as_str().unwrap(), keys.join(" "))
        });
        names.collect::<Vec<_>>().join("\n")
    }

    /// Every file of a folder, in one text.
    pub fn everything(folder: &Path) -> String {
        let mut all = String::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                all += &everything(&path);
            } else if path
                .extension()
                .is_some_and(|ext| ext == "yaml" || ext == "json")
                && !path.ends_with("tools.json")
            {
                all += &std::fs::read_to_string(&path).unwrap();
            }
            all.push('\n');
        }
        all
    }

    pub fn words(text: &str) -> BTreeSet<String> {
        let words = text.split(|c: char| !c.is_alphanumeric());
        words
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect()
    }
}
