//! Secrets that are told by the form around them: keys in armour, tokens with parts, passwords in URLs and files.

use std::sync::LazyLock;

use regex::Regex;

use super::check;
use super::kind::Kind;
use super::text::{
    self, base62, base64, begins, is_placeholder, is_random, run, token, url_safe, value_at,
};

/// What reads a form whose anchor stands at `start..end`: the kind and where it ends.
pub(super) type Read = fn(&str, usize, usize) -> Option<(Kind, usize)>;

/// Anchors that are compared with case, and their readers.
pub(super) const FORMED: [(&str, Read); 36] = [
    ("-----BEGIN ", armour),
    ("PuTTY-User-Key-File-", putty),
    ("AGE-SECRET-KEY-1", age),
    ("eyJ", jwt),
    ("T3BlbkFJ", openai),
    ("7Q~", azure_client),
    ("8Q~", azure_client),
    ("://", userinfo),
    (":AA", telegram),
    ("MD", discord),
    ("MT", discord),
    ("Mj", discord),
    ("Mz", discord),
    ("ND", discord),
    ("NT", discord),
    ("Nj", discord),
    ("Nz", discord),
    ("OD", discord),
    ("OT", discord),
    ("hooks.slack.com/", slack_hook),
    ("/api/webhooks/", discord_hook),
    (":$1$", shadow),
    (":$5$", shadow),
    (":$6$", shadow),
    (":$7$", shadow),
    (":$y$", shadow),
    (":$gy$", shadow),
    (":$2a$", shadow),
    (":$2b$", shadow),
    (":$2y$", shadow),
    ("\"auth\"", docker),
    ("client-key-data", kube),
    ("sig=", azure_signature),
    ("machine ", netrc),
    ("machine\\n", netrc),
    ("machine\n", netrc),
];

/// Anchors in lower case, found whatever the case.
pub(super) const FORMED_LOWER: [(&str, Read); 9] = [
    ("secret_access_key", aws_secret),
    ("secretaccesskey", aws_secret),
    ("accountkey=", azure_account),
    ("sharedaccesskey=", azure_shared),
    ("bearer ", bearer),
    ("basic ", basic),
    ("password=", connection),
    ("pwd=", connection),
    ("bearer%20", bearer),
];

/// Shortest body of a key in armour: a shorter one is an ellipsis.
const KEY_BODY: usize = 64;

fn armour(all: &str, start: usize, end: usize) -> Option<(Kind, usize)> {
    let rest = all.get(end..)?;
    let near = rest.get(..rest.floor_char_boundary(64))?;
    let label = near.get(..near.find("-----")?)?;
    if !label.contains("PRIVATE KEY") {
        return None;
    }
    let from = end + label.len() + 5;
    let body = all.get(from..)?;
    let foot = body.find("-----").unwrap_or(body.len());
    let body = body.get(..foot)?;
    let key = body.bytes().filter(|b| base64(*b)).count();
    let said = is_placeholder(body) && body.contains("...");
    (key >= KEY_BODY && !said && start < from).then_some((Kind::PrivateKey, from + foot))
}

fn putty(all: &str, _: usize, end: usize) -> Option<(Kind, usize)> {
    let rest = all.get(end..)?;
    let lines = rest.find("Private-Lines:")?;
    Some((Kind::PrivateKey, end + lines))
}

fn age(all: &str, start: usize, end: usize) -> Option<(Kind, usize)> {
    let body = run(all, end, text::upper, 64);
    (begins(all, start) && body.len() == 58 && !is_placeholder(body))
        .then_some((Kind::PrivateKey, end + body.len()))
}

/// Three parts with dots between; the first two are JSON.
fn jwt(all: &str, start: usize, _: usize) -> Option<(Kind, usize)> {
    if text::before(all, start).is_some_and(url_safe) {
        return None;
    }
    let head = run(all, start, url_safe, 8192);
    let at = start + head.len() + 1;
    let body = run(all, at, url_safe, 65_536);
    let signed = at + body.len() + 1;
    let dots =
        all.as_bytes().get(at - 1) == Some(&b'.') && all.as_bytes().get(signed - 1) == Some(&b'.');
    let signature = run(all, signed, url_safe, 4096);
    let holds = dots
        && signature.len() >= 20
        && check::json_part(head, Some("alg"))
        && check::json_part(body, None)
        && !is_placeholder(signature);
    holds.then_some((Kind::Jwt, signed + signature.len()))
}

/// Keys of the older form have this in their middle.
fn openai(all: &str, start: usize, end: usize) -> Option<(Kind, usize)> {
    let first = all.get(..start)?.as_bytes();
    let head = first.iter().rev().take_while(|b| base62(**b)).count();
    let tail = run(all, end, base62, 200);
    let mark = all.get(..start.checked_sub(head)?)?;
    let holds = head >= 20
        && tail.len() >= 20
        && (mark.ends_with("sk-") || mark.ends_with('-') || mark.ends_with('_'));
    holds.then_some((Kind::Model, end + tail.len()))
}

/// `abc8Q~` and then 34 characters.
fn azure_client(all: &str, start: usize, end: usize) -> Option<(Kind, usize)> {
    let is = |b: u8| url_safe(b) || b == b'~' || b == b'.';
    let head = start.checked_sub(3)?;
    let before = all.get(head..start)?;
    let body = run(all, end, is, 40);
    let holds = before.bytes().all(is) && (31..=34).contains(&body.len()) && begins(all, head);
    (holds && is_random(body)).then_some((Kind::Azure, end + body.len()))
}

fn azure_account(all: &str, _: usize, end: usize) -> Option<(Kind, usize)> {
    let key = run(all, end, base64, 100);
    (key.len() == 88 && is_random(key)).then_some((Kind::Azure, end + key.len()))
}

fn azure_shared(all: &str, _: usize, end: usize) -> Option<(Kind, usize)> {
    let key = run(all, end, base64, 100);
    (key.len() >= 43 && is_random(key)).then_some((Kind::Azure, end + key.len()))
}

/// The signature of a shared access URL, beside its version.
fn azure_signature(all: &str, start: usize, end: usize) -> Option<(Kind, usize)> {
    let is = |b: u8| base64(b) || b == b'%';
    let signature = run(all, end, is, 120);
    let from = all.floor_char_boundary(start.saturating_sub(512));
    let to = all.floor_char_boundary((end + 512).min(all.len()));
    let near = all.get(from..to)?;
    let shared = near.contains("sv=20") && near.contains("se=20");
    (shared && signature.len() >= 43 && is_random(signature))
        .then_some((Kind::Azure, end + signature.len()))
}

/// `user:password@` before a host.
fn userinfo(all: &str, start: usize, end: usize) -> Option<(Kind, usize)> {
    let scheme = all.get(..start)?.as_bytes();
    let scheme = scheme
        .iter()
        .rev()
        .take_while(|b| b.is_ascii_alphanumeric() || **b == b'+')
        .count();
    let rest = all.get(end..)?;
    let near = rest.get(..rest.floor_char_boundary(512))?;
    let stop = |c: char| c.is_whitespace() || "/?#\"'<>`,;()".contains(c);
    let authority = near.get(..near.find(stop).unwrap_or(near.len()))?;
    let (login, host) = authority.rsplit_once('@')?;
    if scheme == 0 || host.is_empty() {
        return None;
    }
    let holds = match login.split_once(':') {
        Some((user, password)) => is_password(user, password),
        None => login.len() >= 20 && is_random(login),
    };
    holds.then_some((Kind::UrlPassword, end + login.len()))
}

/// Passwords that documentation writes where one belongs.
const NO_PASSWORDS: [&str; 12] = [
    "password",
    "passwd",
    "pass",
    "pwd",
    "secret",
    "token",
    "x-oauth-basic",
    "x-token-auth",
    "root",
    "admin",
    "test",
    "null",
];

fn is_password(user: &str, password: &str) -> bool {
    let lower = password.to_ascii_lowercase();
    password.len() >= 4
        && !NO_PASSWORDS.contains(&lower.as_str())
        && !password.eq_ignore_ascii_case(user)
        && !password.starts_with(['$', '{', '[', '%'])
        && !password.ends_with(['}', ']'])
        && !is_placeholder(password)
}

fn telegram(all: &str, start: usize, end: usize) -> Option<(Kind, usize)> {
    let head = all.get(..start)?.as_bytes();
    let digits = head.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let body = run(all, end, url_safe, 40);
    ((8..=10).contains(&digits) && body.len() == 33 && is_random(body))
        .then_some((Kind::Messaging, end + body.len()))
}

/// The first part is a number in base64, the second six characters, the third a signature.
fn discord(all: &str, start: usize, _: usize) -> Option<(Kind, usize)> {
    if text::before(all, start).is_some_and(|b| url_safe(b) || b == b'.') {
        return None;
    }
    let id = run(all, start, base62, 40);
    if !(23..=28).contains(&id.len()) {
        return None;
    }
    let time = start + id.len() + 1;
    let stamp = run(all, time, url_safe, 8);
    let signed = time + stamp.len() + 1;
    let signature = run(all, signed, url_safe, 64);
    let dot = |at: usize| all.as_bytes().get(at - 1) == Some(&b'.');
    let number = check::decoded(id).is_some_and(|bytes| bytes.iter().all(u8::is_ascii_digit));
    let holds =
        stamp.len() == 6 && dot(time) && dot(signed) && (27..=45).contains(&signature.len());
    (holds && number).then_some((Kind::Messaging, signed + signature.len()))
}

fn slack_hook(all: &str, _: usize, end: usize) -> Option<(Kind, usize)> {
    let path = run(all, end, |b| base62(b) || b == b'/', 128);
    let mut parts = path.split('/').rev();
    let holds = parts
        .next()
        .is_some_and(|key| key.len() >= 20 && is_random(key));
    (holds && parts.count() >= 3).then_some((Kind::Slack, end + path.len()))
}

fn discord_hook(all: &str, _: usize, end: usize) -> Option<(Kind, usize)> {
    let id = run(all, end, |b| b.is_ascii_digit(), 24);
    let at = end + id.len() + 1;
    let key = run(all, at, url_safe, 100);
    (id.len() >= 17 && key.len() >= 60 && is_random(key))
        .then_some((Kind::Messaging, at + key.len()))
}

/// `user:$6$salt$hash:`
fn shadow(all: &str, start: usize, end: usize) -> Option<(Kind, usize)> {
    let named = text::before(all, start).is_some_and(|b| url_safe(b) || b == b'.');
    let body = run(all, end, |b| base62(b) || b"./$=,".contains(&b), 256);
    let hash = body.rsplit('$').next().unwrap_or_default();
    (named && hash.len() >= 20 && !is_placeholder(hash)).then_some((Kind::Shadow, end + body.len()))
}

fn docker(all: &str, _: usize, end: usize) -> Option<(Kind, usize)> {
    let at = value_at(all, end, 8);
    let login = run(all, at, base64, 1024);
    let password = (login.len() >= 12).then(|| check::login(login))??;
    (!is_placeholder(&password)).then_some((Kind::LoginFile, at + login.len()))
}

fn kube(all: &str, _: usize, end: usize) -> Option<(Kind, usize)> {
    let at = value_at(all, end, 8);
    let key = run(all, at, base64, 8192);
    (key.len() >= 100 && is_random(key)).then_some((Kind::LoginFile, at + key.len()))
}

static NETRC: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let gap = r"(?:\s|\\n|\\t)+";
    Regex::new(&format!(
        r"^machine{gap}(?:localhost|[\w-]+\.[\w.-]+){gap}login{gap}\S+{gap}password{gap}([^\s\\]+)"
    ))
    .ok()
});

fn netrc(all: &str, start: usize, _: usize) -> Option<(Kind, usize)> {
    let rest = all.get(start..)?;
    let near = rest.get(..rest.floor_char_boundary(512))?;
    let found = NETRC.as_ref()?.captures(near)?;
    let password = found.get(1)?;
    is_password("", password.as_str()).then_some((Kind::LoginFile, start + password.end()))
}

fn aws_secret(all: &str, _: usize, end: usize) -> Option<(Kind, usize)> {
    let at = value_at(all, end, 12);
    let key = run(all, at, base64, 48);
    (key.len() == 40 && is_random(key)).then_some((Kind::Aws, at + key.len()))
}

fn bearer(all: &str, start: usize, end: usize) -> Option<(Kind, usize)> {
    let value = run(all, end, token, 8192);
    let value = value.trim_end_matches(['.', '=']);
    (begins(all, start) && value.len() >= 20 && is_random(value))
        .then_some((Kind::Authorization, end + value.len()))
}

fn basic(all: &str, start: usize, end: usize) -> Option<(Kind, usize)> {
    let login = run(all, end, base64, 1024);
    let password = (begins(all, start) && login.len() >= 8).then(|| check::login(login))??;
    is_password("", &password).then_some((Kind::Authorization, end + login.len()))
}

/// A password in a connection string: a server is named beside it.
fn connection(all: &str, start: usize, end: usize) -> Option<(Kind, usize)> {
    let from = all.floor_char_boundary(start.saturating_sub(256));
    let to = all.floor_char_boundary((end + 256).min(all.len()));
    let before = all.get(from..start)?.rsplit('\n').next()?;
    let after = all.get(end..to)?.split('\n').next()?;
    let is_server = |text: &str| {
        let lower = text.to_ascii_lowercase();
        ["server=", "data source=", "host=", "uid=", "user id="]
            .iter()
            .any(|key| lower.contains(key))
    };
    let named =
        before.contains(';') && is_server(before) || after.contains(';') && is_server(after);
    let stop = |c: char| c.is_whitespace() || ";\"'&<>`".contains(c);
    let password = after.split(stop).next()?;
    (named && is_password("", password)).then_some((Kind::ConnectionString, end + password.len()))
}
