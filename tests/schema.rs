//! The JSON Schema for editors: up to date, and of one mind with the reader about what a file may look like.

use std::path::Path;

use holdpoint::{policy, source};
use serde_json::Value;
use support::faults;

#[test]
fn the_file_is_what_the_program_prints() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies/policy.schema.json");
    let file = std::fs::read_to_string(path).unwrap();
    assert_eq!(
        file,
        format!("{:#}\n", policy::schema()),
        "run: holdpoint policy schema > policies/policy.schema.json"
    );
}

#[test]
fn every_shipped_policy_fits_the_schema() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies");
    let mut seen = 0;
    for (folder, schema) in [
        (folder.clone(), "policy.schema.json"),
        (folder.join("worlds"), "../policy.schema.json"),
    ] {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let yaml = path
                .extension()
                .is_some_and(|extension| extension == "yaml");
            if !yaml || name == "holdpoint.example.yaml" {
                continue;
            }
            seen += 1;
            let tree = source::read(&path).unwrap();
            let found = faults(&policy::schema(), &tree.root.json(), "");
            assert_eq!(found, [] as [&str; 0], "{name}");
            let first = tree.file.text.lines().next().unwrap();
            let said = format!("# yaml-language-server: $schema={schema}");
            assert_eq!(first, said, "{name}");
        }
    }
    assert!(seen >= 10);
}

const BASE: &str = r#"version: 1
name: base
layers: {catalog: off, identity: off, egress: enforce, recipients: enforce, ownership: enforce, injection: enforce, tickets: enforce}
lists: {hosts: {hosts: [shop.example]}, staff: {emails: [a@shop.example]}}
lookups: {owner: {store: shop, sql: SELECT 1}, by_http: {http: {upstream: shop, path: "/o/{order_id}", owner: /u, tenant: /t, echo: {order_id: /id}}}}
egress: {allow: [hosts]}
tools:
  - tool: get_order
    effect: read
    executes_at: {route: shop}
    egress: [{at: [/a, /b], allow: [], otherwise: hold}]
    recipients: [{at: /to, kind: email, allow: [staff, {lookup: owner}]}]
    ownership: [{resource: "/items/*", as: item_id, with: {order_id: /order_id}, optional: true, owners: any, owner: owner}, {resource: /order_id, as: order_id, owner: by_http}]
    scopes: ["a:b"]
    agents: [desk]
    session: own
    ticket: {gate: approve, role: oncall, ttl: 15m, summary: "{/a}"}
  - {tool: shell, deny: true}
  - {tool: "*", executes_at: agent}
provider_tools: [{type: "web_search*"}, {type: mcp, servers: ["https://mcp.example.com/"]}]
injection: {redact: 0.6, block: never, tools: [{tool: "web_*", redact: 0.5}]}
"#;

/// Slips that an editor can show: the reader and the schema both refuse them.
const SLIPS: &[(&str, &str)] = &[
    ("version: 1", "version: 2"),
    ("name: base\n", ""),
    ("name: base", "name: 1"),
    ("catalog: off", "catalog: on"),
    ("identity: off", "identity: on"),
    ("scopes: [\"a:b\"]", "scopes: a:b"),
    ("scopes: [\"a:b\"]", "scopes: []"),
    ("scopes: [\"a:b\"]", "scopes: [a b]"),
    ("agents: [desk]", "agents: [\"\"]"),
    ("session: own", "session: any"),
    ("deny: true", "deny: false"),
    ("type: mcp, ", ""),
    ("type: mcp", "kind: mcp"),
    ("[\"https://mcp.example.com/\"]", "[]"),
    ("https://mcp.example.com/", "mcp.example.com"),
    ("https://mcp.example.com/", "https://*.example.com/"),
    ("egress: enforce", "egress: enforced"),
    ("egress: enforce, ", ""),
    ("hosts: [shop.example]", "host: [shop.example]"),
    ("{hosts: [shop.example]}", "{}"),
    ("[shop.example]", "[]"),
    ("staff: {emails", "9staff: {emails"),
    ("store: shop", "stor: shop"),
    (
        "egress: {allow: [hosts]}",
        "egress: {at: /x, allow: [hosts]}",
    ),
    ("tool: get_order", "tool: get_*_order"),
    ("effect: read", "effect: raed"),
    ("{route: shop}", "shop"),
    ("at: [/a, /b]", "at: []"),
    ("at: /to", "at: to"),
    ("kind: email", "kind: mail"),
    ("{lookup: owner}", "{from: nobody}"),
    ("{lookup: owner}", "{from: user, lookup: owner}"),
    ("{lookup: owner}", "{from: operator, site: true}"),
    ("{lookup: owner}", "{from: tool_output, tools: []}"),
    ("{lookup: owner}", "{from: tool_output, tools: \"a*b\"}"),
    ("{lookup: owner}", "{from: tool_output, fields: a/b}"),
    ("{lookup: owner}", "{from: tool_output, asked: maybe}"),
    ("{lookup: owner}", "{from: tool_output, site: true}"),
    ("as: order_id", "as: \":order_id\""),
    ("with: {order_id: /order_id}", "with: {}"),
    ("with: {order_id: /order_id}", "with: {order_id: order_id}"),
    ("with: {order_id: /order_id}", "with: /order_id"),
    ("optional: true", "optional: 1"),
    ("owners: any", "owners: some"),
    ("upstream: shop, ", ""),
    ("owner: /u", "owner: u"),
    ("echo: {order_id: /id}", "echo: {order_id: id}"),
    ("path: \"/o/{order_id}\"", "path: \"/o/{order_id}?x=1\""),
    ("gate: approve", "gate: ask"),
    ("ttl: 15m, ", ""),
    ("ttl: 15m", "ttl: 15"),
    ("redact: 0.6", "redact: 6"),
    ("block: never", "block: nevr"),
    ("injection: {", "injection: {annotated: 0.3, "),
];

#[test]
fn reader_and_schema_agree_on_slips() {
    let schema = policy::schema();
    let read = |text: &str| {
        let tree = source::parse("p.yaml", text.to_owned()).unwrap();
        (faults(&schema, &tree.root.json(), ""), policy::check(tree))
    };
    let (found, checked) = read(BASE);
    assert!(checked.is_ok() && found.is_empty(), "{found:?}");
    for (from, to) in SLIPS {
        assert!(BASE.contains(from), "{from}");
        let (found, checked) = read(&BASE.replacen(from, to, 1));
        assert!(checked.is_err(), "the reader accepts {to}");
        assert!(!found.is_empty(), "the schema accepts {to}");
    }
}

/// What the tests share.
#[cfg(test)]
mod support {
    use super::*;

    /// What of the value does not fit, as JSON Pointers with the keyword. Knows the keywords that the schema uses.
    pub fn faults(schema: &Value, value: &Value, at: &str) -> Vec<String> {
        let mut found = Vec::new();
        for (keyword, rule) in schema.as_object().unwrap() {
            if !holds(keyword, rule, value) {
                found.push(format!("{at}: {keyword}"));
            }
        }
        if let Some(items) = value.as_array() {
            for (index, item) in items.iter().enumerate() {
                if let Some(rule) = schema.get("items") {
                    found.extend(faults(rule, item, &format!("{at}/{index}")));
                }
            }
        }
        for (key, member) in value.as_object().into_iter().flatten() {
            let at = format!("{at}/{key}");
            let named = schema.get("properties").and_then(|rules| rules.get(key));
            match named.or_else(|| schema.get("additionalProperties")) {
                Some(Value::Bool(false)) => found.push(format!("{at}: unknown")),
                Some(rule) => found.extend(faults(rule, member, &at)),
                None => {}
            }
        }
        found
    }

    fn holds(keyword: &str, rule: &Value, value: &Value) -> bool {
        let at_least =
            |count: Option<usize>| count.is_none_or(|n| n as u64 >= rule.as_u64().unwrap());
        match keyword {
            "type" => match rule.as_str().unwrap() {
                "object" => value.is_object(),
                "array" => value.is_array(),
                "string" => value.is_string(),
                "number" => value.is_number(),
                "boolean" => value.is_boolean(),
                other => panic!("type {other}"),
            },
            "const" => value == rule,
            "enum" => rule.as_array().unwrap().contains(value),
            "anyOf" => rule
                .as_array()
                .unwrap()
                .iter()
                .any(|schema| faults(schema, value, "").is_empty()),
            "required" => rule.as_array().unwrap().iter().all(|key| {
                value
                    .as_object()
                    .is_none_or(|map| map.contains_key(key.as_str().unwrap()))
            }),
            "minItems" => at_least(value.as_array().map(Vec::len)),
            "minProperties" => at_least(value.as_object().map(serde_json::Map::len)),
            "minLength" => at_least(value.as_str().map(|text| text.chars().count())),
            "minimum" => value.as_f64().is_none_or(|n| n >= rule.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|n| n <= rule.as_f64().unwrap()),
            "pattern" => value.as_str().is_none_or(|text| {
                regex::Regex::new(rule.as_str().unwrap())
                    .unwrap()
                    .is_match(text)
            }),
            "propertyNames" => value.as_object().is_none_or(|map| {
                map.keys()
                    .all(|key| faults(rule, &Value::from(key.as_str()), "").is_empty())
            }),
            // Looked at above, or only words.
            "properties"
            | "additionalProperties"
            | "items"
            | "description"
            | "title"
            | "$schema" => true,
            other => panic!("the keyword {other} is not checked"),
        }
    }
}
