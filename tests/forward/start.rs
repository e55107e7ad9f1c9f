//! A forward proxy starts only where somebody says where it may lead.

use holdpoint::policy;
use holdpoint::settings::{self, Overrides};
use holdpoint::store::Stores;

use crate::support::rig::config;
use crate::world::{POLICY, Rig};

const WITHOUT: &str = "version: 1
name: without
layers: {catalog: off, identity: off, egress: enforce, recipients: off, ownership: off, injection: off, tickets: off}
tools: [{tool: '*', effect: read}]
";

#[tokio::test]
async fn a_listener_without_a_rule_does_not_start() {
    let off = POLICY.replace("egress: enforce", "egress: off");
    for (policy, words) in [
        (WITHOUT, "the policy has no `forward`"),
        (off.as_str(), "the layer `egress` is off"),
    ] {
        let problems = Rig::among(policy, "").await.err().unwrap();
        assert!(problems.contains(words), "{problems}");
        assert!(problems.contains("listen.forward"), "{problems}");
    }
}

/// What a check of a policy with a config says.
fn checked(policy: &str, listen: &str) -> String {
    let config = config("http://127.0.0.1:1", listen);
    let text = format!("policy: p.yaml\n{config}");
    let environment = [("UPSTREAM_KEY".to_owned(), "k".to_owned())].into();
    let settings = match settings::parse("config", &text, &Overrides::default(), &environment) {
        Ok(checked) => checked.settings,
        Err(problems) => return problems.to_string(),
    };
    let tree = holdpoint::source::parse("policy", policy.to_owned()).unwrap();
    let policy = policy::check(tree).unwrap_or_else(|problems| panic!("{problems}"));
    policy::check_against(&policy, &settings, &Stores::default()).to_string()
}

#[test]
fn a_check_says_what_start_would() {
    let on = "listen: {forward: \"127.0.0.1:3128\"}";
    let off = POLICY.replace("egress: enforce", "egress: off");
    for (policy, listen, words) in [
        (POLICY, on, ""),
        (WITHOUT, "", ""),
        (POLICY, "", "the config has no forward proxy"),
        (WITHOUT, on, "the policy does not say where agents may go"),
        (off.as_str(), on, "the layer `egress` is off"),
    ] {
        let said = checked(policy, listen);
        assert_eq!(said.is_empty(), words.is_empty(), "{said}");
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn the_listener_has_a_port_and_a_name_of_its_own() {
    for (listen, words) in [
        (
            "listen: {agents: \"127.0.0.1:1\", forward: \"127.0.0.1:1\"}",
            "share port 1",
        ),
        ("listen: {forward: \":3128\"}", "127.0.0.1:3128"),
    ] {
        let said = checked(POLICY, listen);
        assert!(said.contains(words), "{said}");
    }
    let config = config(
        "http://127.0.0.1:1",
        "listen: {forward: \"127.0.0.1:3128\"}",
    );
    let config = config
        .replace("name: shop", "name: forward")
        .replace("model: {url", "forward: {url")
        .replace("upstream: model", "upstream: forward");
    let text = format!("policy: p.yaml\n{config}");
    let environment = [("UPSTREAM_KEY".to_owned(), "k".to_owned())].into();
    let read = settings::parse("config", &text, &Overrides::default(), &environment);
    let problems = read.err().unwrap().to_string();
    assert!(
        problems.contains("no route can have the name `forward`"),
        "{problems}"
    );
    assert!(
        problems.contains("no upstream can have the name `forward`"),
        "{problems}"
    );
}

/// What a check says where the config is this alone.
fn alone(policy: &str, config: &str) -> String {
    let text = format!("policy: p.yaml\n{config}");
    let read = settings::parse("config", &text, &Overrides::default(), &[].into());
    let settings = match read {
        Ok(checked) => checked.settings,
        Err(problems) => return problems.to_string(),
    };
    let tree = holdpoint::source::parse("policy", policy.to_owned()).unwrap();
    let policy = policy::check(tree).unwrap_or_else(|problems| panic!("{problems}"));
    policy::check_against(&policy, &settings, &Stores::default()).to_string()
}

#[test]
fn a_config_without_routes_is_for_a_forward_proxy_alone() {
    let config = "listen: {forward: \"127.0.0.1:3128\"}\nprincipal: {fixed: {subject: ann}}\n";
    let bare = POLICY.replace("tools: [{tool: '*', effect: read}]\n", "");
    assert_eq!(alone(&bare, config), "");
    for (policy, config, words) in [
        // Nothing could ever come that these are about.
        (POLICY.to_owned(), config.to_owned(), "this rule can never match"),
        (
            format!("{bare}egress: {{allow: [web]}}\n"),
            config.to_owned(),
            "only a forward proxy",
        ),
        (
            format!("{bare}private: [{{tool: a, fields: b}}]\n"),
            config.to_owned(),
            "only a forward proxy",
        ),
        (bare.clone(), "principal: {fixed: {subject: ann}}\n".to_owned(), "routes"),
        (
            bare.clone(),
            config.replace("forward:", "agents:"),
            "upstreams",
        ),
        (
            bare.clone(),
            "listen: {forward: \"127.0.0.1:1\", forward_tls: {certificate: a, key: b}}\nprincipal: {mtls: {names: [{dns: a.test, subject: ann}]}}\n".to_owned(),
            "listen.forward_tls.client_ca",
        ),
        (
            bare.clone(),
            format!("listen: {{forward_tls: {{certificate: a, key: b}}}}\n{}", "principal: {fixed: {subject: ann}}\n"),
            "a forward listener that is not there",
        ),
    ] {
        let said = alone(&policy, &config);
        assert!(said.contains(words), "{said}");
    }
}
