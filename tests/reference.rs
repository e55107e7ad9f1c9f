//! Every example of the reference pages and every file under `policies/` is what the program accepts.

use std::path::Path;

use holdpoint::policy;
use holdpoint::settings::{self, Overrides};
use holdpoint::source;
use holdpoint::store::Stores;
use holdpoint::store::sql::sqlite;
use support::{completed, environment, examples};

/// Sections that complete an example of a policy.
const POLICY: &[(&str, &str)] = &[
    ("version", "version: 1\n"),
    ("name", "name: example\n"),
    (
        "layers",
        "layers: {catalog: off, identity: off, egress: enforce, recipients: enforce, ownership: enforce, injection: enforce, tickets: enforce}\n",
    ),
    (
        "lists",
        "lists: {our_hosts: {hosts: [shop.example]}, staff: {email_domains: [shop.example], phones: [\"+447700900123\"]}, rooms: {chats: [C0SHOP123]}}\n",
    ),
    (
        "lookups",
        "lookups:\n  order_owner: {store: s, sql: SELECT 1}\n  own_email: {store: s, sql: SELECT 1}\n  item_owner: {store: s, sql: SELECT 1}\n  payment_owner: {store: s, sql: SELECT 1}\n  order_state: {store: s, sql: SELECT 1}\n  refund_by_ticket: {store: s, sql: SELECT 1}\n",
    ),
];

/// Sections that complete an example of a config.
const CONFIG: &[(&str, &str)] = &[
    ("policy", "policy: p.yaml\n"),
    (
        "upstreams",
        "upstreams: {openai: {url: \"https://openai\"}, shop: {url: \"http://shop\"}}\n",
    ),
    (
        "routes",
        "routes: [{name: m, prefix: /, upstream: openai, protocol: openai_chat}]\n",
    ),
    ("principal", "principal: {fixed: {subject: bot}}\n"),
    ("tickets", "tickets: {store: t.db}\n"),
];

#[test]
fn every_example_of_the_policy_reference_loads() {
    let examples = examples("docs/reference/policy.md");
    assert!(examples.len() >= 10, "{}", examples.len());
    for example in examples {
        let text = completed(&example, POLICY);
        let tree = source::parse("policy.md", text).unwrap_or_else(|p| panic!("{example}\n{p}"));
        policy::check(tree).unwrap_or_else(|problems| panic!("{example}\n{problems}"));
    }
}

#[test]
fn every_example_of_the_config_reference_loads() {
    let examples = examples("docs/reference/config.md");
    assert!(examples.len() >= 10, "{}", examples.len());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.yaml");
    for (name, text) in support::files("docs/reference/config.md") {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    for example in examples {
        std::fs::write(&path, completed(&example, CONFIG)).unwrap();
        settings::read(&path, &Overrides::default(), &environment())
            .unwrap_or_else(|problems| panic!("{example}\n{problems}"));
    }
}

#[test]
fn every_example_of_the_approvers_page_loads() {
    let examples = examples("docs/approvers.md");
    assert!(examples.len() >= 7, "{}", examples.len());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.yaml");
    for example in examples {
        std::fs::write(&path, completed(&example, CONFIG)).unwrap();
        settings::read(&path, &Overrides::default(), &environment())
            .unwrap_or_else(|problems| panic!("{example}\n{problems}"));
    }
}

#[test]
fn every_file_under_policies_loads_and_the_pages_know_every_key() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page =
        |name: &str| std::fs::read_to_string(folder.join("docs/reference").join(name)).unwrap();
    let (config_page, policy_page) = (page("config.md"), page("policy.md"));
    let mut seen = 0;
    for entry in std::fs::read_dir(folder.join("policies")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        seen += 1;
        let is_config = path.to_string_lossy().ends_with("holdpoint.example.yaml");
        if is_config {
            settings::read(&path, &Overrides::default(), &environment())
                .unwrap_or_else(|problems| panic!("{problems}"));
        } else {
            policy::read(&path).unwrap_or_else(|problems| panic!("{problems}"));
        }
        let page = if is_config {
            &config_page
        } else {
            &policy_page
        };
        let tree = source::read(&path).unwrap();
        for key in support::keys(&tree.root) {
            assert!(
                page.contains(&key),
                "{}: `{key}` is not explained",
                path.display()
            );
        }
    }
    assert!(seen >= 3, "{seen}");
}

#[test]
fn the_shipped_policies_work_under_the_shipped_config() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies");
    let config = folder.join("holdpoint.example.yaml");
    let settings = settings::read(&config, &Overrides::default(), &environment())
        .unwrap_or_else(|problems| panic!("{problems}"))
        .settings;
    assert_eq!(settings.policy, folder.join("support-desk.yaml"));
    let shop = tempfile::tempdir().unwrap();
    let database = shop.path().join("commerce.db");
    rusqlite::Connection::open(&database)
        .unwrap()
        .execute_batch(
            "CREATE TABLE orders (id, user_subject); CREATE TABLE users (subject, email);",
        )
        .unwrap();
    let mut stores = Stores::default();
    let opened = sqlite::open(&database).unwrap();
    stores.sql.insert("commerce".into(), opened);
    for name in ["support-desk.yaml", "coding-agent.yaml"] {
        let checked = policy::read(&folder.join(name)).unwrap_or_else(|p| panic!("{p}"));
        let problems = policy::check_against(&checked, &settings, &stores);
        assert!(problems.is_empty(), "{problems}");
    }
}

/// Of a password that nobody has.
const PASSWORD_HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$PIUmhxDCQ2PuKuCqzsiFsDCBPiI6W0ibLMVcyFOnJ0o";

/// What the tests share.
#[cfg(test)]
mod support {
    use holdpoint::settings::Environment;
    use holdpoint::source::{Kind, Node};

    use super::*;

    /// The YAML blocks of a page.
    pub fn examples(page: &str) -> Vec<String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
        let text = std::fs::read_to_string(path).unwrap();
        text.split("```yaml\n")
            .skip(1)
            .map(|rest| rest.split("```").next().unwrap().to_owned())
            .collect()
    }

    /// The files that a page shows beside its examples: name and text.
    pub fn files(page: &str) -> Vec<(String, String)> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
        let text = std::fs::read_to_string(path).unwrap();
        text.split("```yaml ")
            .skip(1)
            .filter_map(|rest| rest.split("```").next()?.split_once('\n'))
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .collect()
    }

    /// An example with the sections that it lacks. One that is a list is a list of rules for tools.
    pub fn completed(example: &str, sections: &[(&str, &str)]) -> String {
        let mut text = if example.starts_with("- ") {
            format!("tools:\n{example}")
        } else {
            example.to_owned()
        };
        for (key, section) in sections {
            let there = text
                .lines()
                .any(|line| line.starts_with(&format!("{key}:")));
            if !there {
                text.push_str(section);
            }
        }
        text
    }

    pub fn environment() -> Environment {
        let mut environment: Environment = [
            "OPENAI_API_KEY",
            "ANN_APPROVER_KEY",
            "SUPPORT_KEY",
            "SHOP_TOKEN",
            "OIDC_CLIENT_SECRET",
            "PAGER_HOOK_SECRET",
            "SLACK_SIGNING_SECRET",
            "SLACK_BOT_TOKEN",
        ]
        .map(|name| (name.to_owned(), format!("an example value of {name}")))
        .into();
        for (name, url) in [
            (
                "HOLDPOINT_SPOTLIGHT_KEY",
                "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
            ),
            ("ANN_PASSWORD_HASH", PASSWORD_HASH),
            ("BOB_PASSWORD_HASH", PASSWORD_HASH),
            (
                "BILLING_DB_URL",
                "postgresql://holdpoint:secret@db.example/billing",
            ),
            (
                "LEGACY_DB_URL",
                "mysql://holdpoint:secret@db.example/legacy",
            ),
        ] {
            environment.insert(name.to_owned(), url.to_owned());
        }
        environment
    }

    /// Every key of the document that is not a name that its author chose.
    pub fn keys(node: &Node) -> Vec<String> {
        let mut found = Vec::new();
        match &node.kind {
            Kind::List(items) => items.iter().for_each(|item| found.extend(keys(item))),
            Kind::Map(entries) => {
                for entry in entries {
                    found.push(entry.key.clone());
                    let named = ["lists", "lookups", "upstreams", "stores"];
                    match &entry.value.kind {
                        Kind::Map(inner) if named.contains(&entry.key.as_str()) => {
                            for inner in inner {
                                found.extend(keys(&inner.value));
                            }
                        }
                        _ => found.extend(keys(&entry.value)),
                    }
                }
            }
            _ => {}
        }
        found
    }
}
