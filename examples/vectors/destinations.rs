//! Kinds that lead somewhere: URLs, tunnels, requests, answers of resolvers, redirects, rendered text.

use std::net::IpAddr;

use holdpoint::layers::egress::{
    self, Denied, Entry, Fields, Head, Host, Opening, Redirects, Rendered, Rule, Tunnel, Url,
};
use holdpoint::policy::Selector;
use serde_json::Value;

use super::file::{Decided, Said, selectors, switch, text, texts};

fn said<T>(result: Result<T, Denied>) -> Said {
    result.map(drop).map_err(|denied| denied.code.as_str())
}

/// The library's rule for the policy's keys; `hosts` is the key that holds the hosts.
fn rule(policy: &Value, hosts: &str) -> Result<Rule, String> {
    let mut rule = Rule::new();
    if policy.get("schemes").is_some() {
        rule.schemes = texts(policy, "schemes")?;
    }
    rule.ports = ports(policy)?;
    rule.methods = texts(policy, "methods")?;
    rule.max_query = number(policy, "max_query_bytes")?;
    rule.deny_private = switch(policy, "deny_private", true)?;
    rule.require_sni = switch(policy, "require_sni", false)?;
    let pins = pins(policy)?;
    for host in texts(policy, hosts)? {
        let mut entry = read_entry(&host)?;
        if !entry.ports.is_empty() {
            // `name:port` adds a port to the others.
            entry.ports.extend(&rule.ports);
        }
        let (name, _) = host.rsplit_once(':').unwrap_or((&host, ""));
        let pinned: Vec<_> = pins
            .iter()
            .filter(|(pin, _)| *pin == host || pin == name)
            .collect();
        if pinned.is_empty() {
            rule.allow(entry);
            continue;
        }
        for (_, path) in pinned {
            let mut entry = entry.clone();
            entry.path = Some(path.clone());
            rule.allow(entry);
        }
    }
    // A pinned host that only a wildcard lists.
    let listed = rule.clone();
    for (pin, path) in &pins {
        let mut entry = read_entry(pin)?;
        let port = entry.ports.first().or(rule.ports.first()).copied();
        let host = egress::read_authority("", pin).map(|target| target.host);
        let Ok(host) = host else { continue };
        if listed.judge_host(&host, port.unwrap_or(443)).is_ok() {
            entry.path = Some(path.clone());
            rule.allow(entry);
        }
    }
    for net in texts(policy, "ips")? {
        rule.allow(read_entry(&net)?);
    }
    Ok(rule)
}

fn read_entry(text: &str) -> Result<Entry, String> {
    Entry::read(text).map_err(|denied| format!("`{text}` is not a host: {}", denied.why))
}

fn number(policy: &Value, key: &str) -> Result<Option<usize>, String> {
    match policy.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value
            .as_u64()
            .and_then(|number| usize::try_from(number).ok())
            .map(Some)
            .ok_or_else(|| format!("`{key}` is not a whole number")),
    }
}

fn ports(policy: &Value) -> Result<Vec<u16>, String> {
    let Some(ports) = policy.get("ports") else {
        return Ok(Vec::new());
    };
    let read = |port: &Value| port.as_u64().and_then(|port| u16::try_from(port).ok());
    let ports = ports
        .as_array()
        .and_then(|ports| ports.iter().map(read).collect());
    ports.ok_or_else(|| "`ports` is not a list of ports".to_owned())
}

/// `paths`: prefixes by host.
fn pins(policy: &Value) -> Result<Vec<(String, egress::Prefix)>, String> {
    let Some(paths) = policy.get("paths") else {
        return Ok(Vec::new());
    };
    let by_host = paths.as_object().ok_or("`paths` is not a map by host")?;
    let mut pins = Vec::new();
    for (host, prefixes) in by_host {
        let prefixes = match prefixes {
            Value::String(prefix) => vec![prefix.clone()],
            _ => texts(paths, host)?,
        };
        for prefix in prefixes {
            let read = egress::Prefix::read(&prefix);
            let read = read.map_err(|denied| format!("`{prefix}`: {}", denied.why))?;
            pins.push((host.clone(), read));
        }
    }
    Ok(pins)
}

pub fn url(policy: &Value, input: &Value) -> Decided {
    let rule = rule(policy, "hosts")?;
    // What is no text is no URL either.
    Ok(said(egress::url(&rule, input.as_str().unwrap_or_default())))
}

pub fn args(policy: &Value, input: &Value) -> Decided {
    let rule = rule(policy, "hosts")?;
    let mut fields = Fields {
        whole: selectors(policy, "url_paths")?,
        ..Fields::default()
    };
    if switch(policy, "scan_all_strings_for_urls", false)? {
        fields.search.push(Selector::everything());
    }
    let judged = egress::arguments(&rule, input, &fields);
    Ok(said(judged.map_err(|objection| objection.denied)))
}

type Headers<'v> = Vec<(&'v str, &'v [u8])>;

/// A list of pairs, or a map.
fn headers(input: &Value) -> Result<Headers<'_>, String> {
    const FORM: &str = "`headers` is neither a list of pairs of texts nor a map of texts";
    let mut headers = Vec::new();
    match input.get("headers") {
        None | Some(Value::Null) => {}
        Some(Value::Array(pairs)) => {
            for pair in pairs {
                let pair = pair.as_array().map(Vec::as_slice).unwrap_or_default();
                let [Value::String(name), Value::String(value)] = pair else {
                    return Err(FORM.to_owned());
                };
                headers.push((name.as_str(), value.as_bytes()));
            }
        }
        Some(Value::Object(map)) => {
            for (name, value) in map {
                let values = match value {
                    Value::Array(values) => values.as_slice(),
                    value => std::slice::from_ref(value),
                };
                for value in values {
                    let value = value.as_str().ok_or(FORM)?;
                    headers.push((name.as_str(), value.as_bytes()));
                }
            }
        }
        Some(_) => return Err(FORM.to_owned()),
    }
    Ok(headers)
}

/// What the resolver of the vector says of the host, where it says anything.
fn answers(rule: &Rule, input: &Value, host: &Host, port: u16) -> Result<Said, String> {
    let Some(dns) = input.get("dns").and_then(Value::as_object) else {
        return Ok(Ok(()));
    };
    let asked = |name: &&String| egress::read_domain(name).is_ok_and(|n| n == host.to_string());
    let Some(name) = dns.keys().find(asked) else {
        return Ok(Ok(()));
    };
    let addresses = match addresses(&texts(&input["dns"], name)?) {
        Ok(addresses) => addresses,
        Err(denied) => return Ok(Err(denied.code.as_str())),
    };
    Ok(said(egress::resolve(rule, host, port, &addresses)))
}

fn addresses(texts: &[String]) -> Result<Vec<IpAddr>, Denied> {
    texts.iter().map(|text| egress::read_answer(text)).collect()
}

fn first_bytes(input: &Value) -> Opening {
    match input.get("first_bytes").and_then(Value::as_str) {
        Some("tls_client_hello") => Opening::Hello {
            sni: input.get("sni").and_then(Value::as_str).map(str::to_owned),
        },
        _ => Opening::NotTls,
    }
}

pub fn connect(policy: &Value, input: &Value) -> Decided {
    let rule = rule(policy, "hosts")?;
    let head = Head::read(text(input, "line")?, headers(input)?);
    let tunnel = match head.and_then(|head| egress::connect(&rule, &head)) {
        Ok(tunnel) => tunnel,
        Err(denied) => return Ok(Err(denied.code.as_str())),
    };
    let dialled = answers(&rule, input, &tunnel.host, tunnel.port)?;
    Ok(dialled.and_then(|()| said(egress::opening(&rule, &tunnel, &first_bytes(input)))))
}

/// Words by which a vector names the tunnel around an intercepted request.
const AROUND: [&str; 6] = ["connect", "tunnel", "sni", "servername", "inside", "tls"];

/// The tunnel that an intercepted request came in, and what its TLS asked for, where it came in one.
fn around(input: &Value) -> Option<Result<(Tunnel, Option<String>), Denied>> {
    let mut named = Vec::new();
    names(input, false, &mut named);
    let sni = named
        .iter()
        .find(|(key, _)| key.ends_with("sni") || key == "servername");
    let sni = sni.map(|(_, text)| (*text).to_owned());
    let place = named
        .iter()
        .find(|(key, _)| !key.ends_with("sni") && key != "servername")
        .map(|(_, text)| (*text, None))
        .or_else(|| Some((sni.as_deref()?, Some(443))))?;
    let (text, port) = place;
    // `CONNECT host:port HTTP/1.1`, or the place alone.
    let text = text.strip_prefix("CONNECT ").unwrap_or(text);
    let text = text.split(' ').next().unwrap_or_default();
    let read = egress::read_authority("", text).map(|target| {
        let tunnel = Tunnel {
            host: target.host,
            port: target.port.or(port).unwrap_or(443),
        };
        (tunnel, sni.clone())
    });
    Some(read)
}

/// Texts under keys that name a tunnel, or below one.
fn names<'v>(of: &'v Value, below: bool, named: &mut Vec<(String, &'v str)>) {
    for (key, value) in of.as_object().into_iter().flatten() {
        let key = key.to_ascii_lowercase().replace(['_', '-'], "");
        if matches!(
            key.as_str(),
            "line" | "headers" | "dns" | "body" | "note" | "firstbytes"
        ) {
            continue;
        }
        let about = below || AROUND.iter().any(|word| key.contains(word));
        match value {
            Value::String(text) if about => named.push((key, text)),
            Value::Object(_) => names(value, about, named),
            _ => {}
        }
    }
}

pub fn http_forward(policy: &Value, input: &Value) -> Decided {
    let rule = rule(policy, "hosts")?;
    let head = Head::read(text(input, "line")?, headers(input)?);
    let judged = head.and_then(|head| match around(input) {
        None => egress::http_forward(&rule, &head),
        Some(tunnel) => {
            let (tunnel, sni) = tunnel?;
            if sni.is_some() {
                egress::opening(&rule, &tunnel, &Opening::Hello { sni })?;
            }
            egress::intercepted(&rule, &tunnel, &head)
        }
    });
    match judged {
        Ok(url) => answers(&rule, input, &url.target.host, url.target.port_number()),
        Err(denied) => Ok(Err(denied.code.as_str())),
    }
}

pub fn resolve(policy: &Value, input: &Value) -> Decided {
    let rule = rule(policy, "hosts")?;
    let port = rule.ports.first().copied().unwrap_or(443);
    let host = match egress::read_authority("", text(input, "host")?) {
        Ok(target) => target.host,
        Err(denied) => return Ok(Err(denied.code.as_str())),
    };
    if let Err(denied) = rule.may_look_up(&host, port) {
        return Ok(Err(denied.code.as_str()));
    }
    let queries = input.get("answers").and_then(Value::as_array);
    // One query: what a second one would say is never heard.
    let first = queries.ok_or("`answers` is not a list")?.first();
    let none = Value::Null;
    let first = first.unwrap_or(&none);
    if first.is_array() {
        let answers = serde_json::json!({ "A": first });
        return one_query(&rule, &host, port, &answers);
    }
    one_query(&rule, &host, port, first)
}

fn one_query(rule: &Rule, host: &Host, port: u16, first: &Value) -> Decided {
    let mut found = Vec::new();
    for record in ["A", "AAAA"] {
        match addresses(&some_texts(first, record)?) {
            Ok(more) => found.extend(more),
            Err(denied) => return Ok(Err(denied.code.as_str())),
        }
    }
    for alias in some_texts(first, "CNAME")? {
        if let Err(denied) = egress::alias(rule, &alias) {
            return Ok(Err(denied.code.as_str()));
        }
    }
    Ok(said(egress::resolve(rule, host, port, &found)))
}

/// One text, or a list of texts.
fn some_texts(of: &Value, key: &str) -> Result<Vec<String>, String> {
    match of.get(key) {
        Some(Value::String(text)) => Ok(vec![text.clone()]),
        _ => texts(of, key),
    }
}

pub fn redirect(policy: &Value, input: &Value) -> Decided {
    let rule = rule(policy, "hosts")?;
    let start = Url::read(text(input, "start")?).and_then(|start| Redirects::new(&rule, start));
    let mut chain = match start {
        Ok(chain) => chain,
        Err(denied) => return Ok(Err(denied.code.as_str())),
    };
    let locations = input.get("locations").and_then(Value::as_array);
    for location in locations.ok_or("`locations` is not a list")? {
        // A redirect without a text leads nowhere.
        let hop = match chain.follow(location.as_str().unwrap_or_default()) {
            Ok(hop) => &hop.target,
            Err(denied) => return Ok(Err(denied.code.as_str())),
        };
        if let Err(code) = answers(&rule, input, &hop.host, hop.port_number())? {
            return Ok(Err(code));
        }
    }
    Ok(Ok(()))
}

/// The text itself, or every text of a map of them.
fn text_of(input: &Value) -> Option<String> {
    match input {
        Value::String(text) => Some(text.clone()),
        Value::Object(members) => {
            let texts: Vec<_> = members.values().filter_map(Value::as_str).collect();
            (!texts.is_empty()).then(|| texts.join("\n\n"))
        }
        _ => None,
    }
}

pub fn rendered(policy: &Value, input: &Value) -> Decided {
    let rendered = Rendered {
        images: rule(policy, "image_hosts")?,
        links: rule(policy, "link_hosts")?,
    };
    let text = text_of(input).ok_or("the input is not a text")?;
    Ok(said(rendered.judge_text(&text)))
}
