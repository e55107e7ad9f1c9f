//! Logging in: local accounts and a real identity provider, sessions, and what other sites can make of them.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::json;

use crate::desk::{Desk, PASSWORD, PRINCIPAL, code, encoded, set_cookie};
use crate::provider::{NOON, Provider};
use crate::support::client::Answer;
use crate::world::{Call, refund};

const SESSION: &str = "__Host-holdpoint";
const PENDING: &str = "__Host-holdpoint-login";

const ACCOUNTS: &str = "
  accounts: [{name: carol, subject: c.jones, password_hash_env: CAROL_HASH, roles: [finance]}]
  sessions: {idle: 30m, absolute: 2h, fresh: 10m}
";

async fn log_in(desk: &Desk, password: &str, next: &str) -> Answer {
    let fields = [("name", "carol"), ("password", password), ("next", next)];
    desk.form("/login", "", &fields).await
}

async fn cookie(desk: &Desk) -> String {
    let answer = log_in(desk, PASSWORD, "/").await;
    assert_eq!(answer.status, 303, "{}", answer.text());
    set_cookie(&answer, SESSION).unwrap()
}

/// The token that a page puts into its forms.
fn csrf(page: &Answer) -> String {
    let text = page.text();
    let at = text.find("name=\"csrf\"").unwrap();
    let value = text[at..].split("value=\"").nth(1).unwrap();
    value.split('"').next().unwrap().to_owned()
}

fn is_inside(answer: &Answer) -> bool {
    answer.status == 200
}

#[tokio::test]
async fn a_person_logs_in_looks_and_logs_out() {
    let desk = Desk::new(ACCOUNTS).await;
    let asked = desk.page("/", "").await;
    assert_eq!(asked.status, 303);
    assert_eq!(asked.header("location"), Some("/login?next=%2F"));
    let form = desk.page("/login?next=%2Fhistory", "").await;
    assert!(
        form.text().contains(r#"name="next" value="/history""#),
        "{}",
        form.text()
    );

    let answer = log_in(&desk, PASSWORD, "/history").await;
    assert_eq!(
        (answer.status, answer.header("location")),
        (303, Some("/history"))
    );
    let set = answer.header("set-cookie").unwrap();
    for part in [
        "; Path=/",
        "; Secure",
        "; HttpOnly",
        "; SameSite=Strict",
        "; Max-Age=7200",
    ] {
        assert!(set.contains(part), "{set}");
    }
    assert!(!set.to_lowercase().contains("domain"), "{set}");
    let cookie = set_cookie(&answer, SESSION).unwrap();
    let page = desk.page("/", &cookie).await;
    assert!(is_inside(&page), "{}", page.text());
    assert!(desk.counted("holdpoint_approver_logins_total{method=\"local\",outcome=\"ok\"} 1"));

    let out = desk
        .form("/logout", &cookie, &[("csrf", &csrf(&page))])
        .await;
    assert_eq!((out.status, out.header("location")), (303, Some("/login")));
    assert!(out.header("set-cookie").unwrap().contains("Max-Age=0"));
    assert_eq!(
        desk.page("/", &cookie).await.status,
        303,
        "the session is gone"
    );
}

#[tokio::test]
async fn every_answer_forbids_frames_scripts_of_others_and_caches() {
    let desk = Desk::new(ACCOUNTS).await;
    let cookie = cookie(&desk).await;
    for (path, cookie) in [
        ("/", cookie.as_str()),
        ("/login", ""),
        ("/v1/tickets", ""),
        ("/none", ""),
    ] {
        let answer = desk.page(path, cookie).await;
        let policy = answer.header("content-security-policy").unwrap();
        for part in [
            "default-src 'none'",
            "frame-ancestors 'none'",
            "form-action 'self'",
            "base-uri 'none'",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-frame-options"), Some("DENY"), "{path}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("same-origin"));
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
    }
}

#[tokio::test]
async fn a_session_ends_by_idling_and_by_its_age() {
    let desk = Desk::new(ACCOUNTS).await;
    let idle = cookie(&desk).await;
    desk.world.clock.forward(Duration::from_mins(29));
    assert!(is_inside(&desk.page("/", &idle).await));
    desk.world.clock.forward(Duration::from_mins(31));
    assert_eq!(desk.page("/", &idle).await.status, 303);
    let old = cookie(&desk).await;
    for _ in 0..4 {
        desk.world.clock.forward(Duration::from_mins(25));
        assert!(is_inside(&desk.page("/", &old).await));
    }
    desk.world.clock.forward(Duration::from_mins(25));
    assert_eq!(
        desk.page("/", &old).await.status,
        303,
        "older than two hours"
    );
}

#[tokio::test]
async fn logging_in_again_gives_a_new_cookie_and_ends_the_old_one() {
    let desk = Desk::new(ACCOUNTS).await;
    let first = cookie(&desk).await;
    let fields = [("name", "carol"), ("password", PASSWORD)];
    let again = desk.form("/login", &first, &fields).await;
    let second = set_cookie(&again, SESSION).unwrap();
    assert_ne!(first, second);
    assert_eq!(desk.page("/", &first).await.status, 303);
    assert!(is_inside(&desk.page("/", &second).await));
    // A cookie that somebody else has chosen is no session.
    let planted = format!("{SESSION}={}", "A".repeat(43));
    assert_eq!(desk.page("/", &planted).await.status, 303);
    let both = format!("{second}; {planted}");
    assert_eq!(desk.page("/", &both).await.status, 303, "one of two");
}

#[tokio::test]
async fn another_site_can_neither_log_in_nor_out_nor_send_a_form() {
    let desk = Desk::new(ACCOUNTS).await;
    let cookie = cookie(&desk).await;
    let token = csrf(&desk.page("/", &cookie).await);
    let origin = desk.origin();
    let form = "application/x-www-form-urlencoded";
    let body = encoded(&[("csrf", &token)]);
    for headers in [
        vec![("content-type", form), ("origin", "https://evil.example")],
        vec![("content-type", form), ("origin", "null")],
        vec![("content-type", form)],
        vec![
            ("content-type", form),
            ("origin", origin.as_str()),
            ("sec-fetch-site", "cross-site"),
        ],
        vec![("content-type", "text/plain"), ("origin", origin.as_str())],
        vec![
            ("content-type", "application/json"),
            ("origin", origin.as_str()),
        ],
    ] {
        let mut all = headers.clone();
        all.push(("cookie", cookie.as_str()));
        let answer = desk.ask("POST", "/logout", &all, &body).await;
        assert!(
            matches!(answer.status, 400 | 403),
            "{headers:?}: {}",
            answer.status
        );
        let login = encoded(&[("name", "carol"), ("password", PASSWORD)]);
        let answer = desk.ask("POST", "/login", &headers, &login).await;
        assert!(
            matches!(answer.status, 400 | 403),
            "{headers:?}: {}",
            answer.status
        );
        assert!(set_cookie(&answer, SESSION).is_none());
    }
    for fields in [
        vec![],
        vec![("csrf", "")],
        vec![("csrf", "wrong")],
        vec![("csrf", token.as_str()), ("csrf", token.as_str())],
    ] {
        let answer = desk.form("/logout", &cookie, &fields).await;
        assert!(matches!(answer.status, 400 | 403), "{fields:?}");
    }
    let other = self::cookie(&desk).await;
    let foreign = desk.form("/logout", &other, &[("csrf", &token)]).await;
    assert_eq!(foreign.status, 403, "the token of another session");
    assert!(
        is_inside(&desk.page("/", &cookie).await),
        "nobody logged out"
    );
    let read = desk.page("/logout", &cookie).await;
    assert_eq!(read.status, 405, "a link changes nothing");
}

#[tokio::test]
async fn a_name_that_is_not_ours_shows_nothing() {
    let desk = Desk::new(ACCOUNTS).await;
    let cookie = cookie(&desk).await;
    for host in ["evil.example", "rebound.example:8081"] {
        let request = format!(
            "GET / HTTP/1.1\r\nhost: {host}\r\naccept: text/html\r\ncookie: {cookie}\r\nconnection: close\r\n\r\n"
        );
        let answer = crate::support::client::ask(desk.address, request).await;
        assert_eq!(answer.status, 421, "{host}");
    }
}

/// The cookie stays at home when another site links here; the answer leads on from our own page.
#[tokio::test]
async fn a_link_elsewhere_finds_the_log_in() {
    let desk = Desk::new(ACCOUNTS).await;
    let headers = [("accept", "text/html"), ("sec-fetch-site", "cross-site")];
    let answer = desk.ask("GET", "/?a='x'&b=1", &headers, "").await;
    assert_eq!(answer.status, 200);
    let text = answer.text();
    assert!(
        text.contains("http-equiv=\"refresh\" content=\"0;url=/?a='x'&amp;b=1\""),
        "{text}"
    );
    // Led on, the browser says where it comes from, and is not sent round in a ring.
    let headers = [("accept", "text/html"), ("sec-fetch-site", "same-origin")];
    let answer = desk.ask("GET", "/?a='x'&b=1", &headers, "").await;
    assert_eq!(answer.status, 303);
    assert!(
        answer
            .header("location")
            .unwrap()
            .starts_with("/login?next=")
    );
}

#[tokio::test]
async fn failures_are_counted_and_too_many_wait() {
    let desk = Desk::new(ACCOUNTS).await;
    for password in ["", "wrong", "Correct horse battery", "x", "y"] {
        let answer = log_in(&desk, password, "/").await;
        assert_eq!(answer.status, 403, "{password}");
        assert!(answer.text().contains("The name or the password is wrong"));
        assert!(set_cookie(&answer, SESSION).is_none());
    }
    // Who guesses on learns nothing, not even that the guess was right.
    let right = log_in(&desk, PASSWORD, "/").await;
    assert_eq!(right.status, 429);
    assert_eq!(right.header("retry-after"), Some("900"));
    assert!(set_cookie(&right, SESSION).is_none());
    let nobody = [("name", "nobody"), ("password", "x")];
    let answer = desk.form("/login", "", &nobody).await;
    assert_eq!(answer.status, 403);
    assert!(answer.text().contains("The name or the password is wrong"));
    desk.world.clock.forward(Duration::from_mins(15));
    assert_eq!(log_in(&desk, PASSWORD, "/").await.status, 303);
    assert!(desk.counted("holdpoint_approver_logins_total{method=\"local\",outcome=\"wrong\"} 6"));
    assert!(
        desk.counted("holdpoint_approver_logins_total{method=\"local\",outcome=\"throttled\"} 1")
    );
}

#[tokio::test]
async fn a_fresh_log_in_is_asked_for_once_it_is_old() {
    let desk = Desk::new(ACCOUNTS).await;
    let cookie = cookie(&desk).await;
    let fresh = "/login?fresh=1&next=%2Ftickets%2Ftkt_1";
    let answer = desk.page(fresh, &cookie).await;
    assert_eq!(
        (answer.status, answer.header("location")),
        (303, Some("/tickets/tkt_1"))
    );
    desk.world.clock.forward(Duration::from_mins(11));
    let answer = desk.page(fresh, &cookie).await;
    assert_eq!(answer.status, 200);
    assert!(answer.text().contains("show once more who you are"));
    let plain = desk.page("/login", &cookie).await;
    assert_eq!(plain.status, 303, "still logged in");
}

fn oidc(provider: &Provider, more: &str) -> String {
    format!(
        "
  url: \"http://{{HERE}}\"
  oidc:
    issuer: \"{}\"
    client_id: holdpoint
    client_secret_env: OIDC_SECRET
    scopes: [groups]
    claims: {{roles: groups, tenants: org}}
    {more}
",
        provider.url()
    )
}

/// What the browser brings to us from the provider, and the cookie that it has.
async fn begun(desk: &Desk, provider: &Provider, path: &str) -> (String, HashMap<String, String>) {
    let answer = desk.page(path, "").await;
    assert_eq!(answer.status, 303, "{}", answer.text());
    let set = answer.header("set-cookie").unwrap();
    assert!(set.contains("SameSite=Lax") && set.contains("HttpOnly") && set.contains("Secure"));
    let pending = set_cookie(&answer, PENDING).unwrap();
    (
        pending,
        provider.consent(answer.header("location").unwrap()),
    )
}

async fn back(desk: &Desk, pending: &str, query: &HashMap<String, String>) -> Answer {
    let pairs: Vec<_> = ["code", "state", "iss", "error"]
        .into_iter()
        .filter_map(|name| Some((name, query.get(name)?.as_str())))
        .collect();
    let path = format!("/login/callback?{}", encoded(&pairs));
    let headers = [
        ("accept", "text/html"),
        ("cookie", pending),
        ("sec-fetch-site", "cross-site"),
    ];
    desk.ask("GET", &path, &headers, "").await
}

#[tokio::test]
async fn a_person_of_the_identity_provider_logs_in() {
    let provider = Provider::start().await;
    let desk = Desk::with(&oidc(&provider, ""), PRINCIPAL).await;
    let page = desk.page("/login?next=%2Fhistory", "").await;
    assert!(
        page.text().contains("href=\"/login/oidc?next=%2Fhistory\""),
        "{}",
        page.text()
    );
    let (pending, query) = begun(&desk, &provider, "/login/oidc?next=%2Fhistory").await;
    let answer = back(&desk, &pending, &query).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(
        answer.text().contains("content=\"0;url=/history\""),
        "{}",
        answer.text()
    );
    let cookie = set_cookie(&answer, SESSION).unwrap();
    let inside = desk.page("/", &cookie).await;
    assert!(is_inside(&inside));
    assert!(!inside.text().contains("<script>"), "the name is text");

    // The code is spent, and so is the cookie of the way there.
    let again = back(&desk, &pending, &query).await;
    assert_eq!(again.status, 403);
    assert!(set_cookie(&again, SESSION).is_none());
    assert!(desk.counted("holdpoint_approver_logins_total{method=\"oidc\",outcome=\"ok\"} 1"));
}

#[tokio::test]
async fn an_answer_that_is_not_the_one_asked_for_lets_nobody_in() {
    let provider = Provider::start().await;
    let desk = Desk::with(&oidc(&provider, ""), PRINCIPAL).await;
    let with = |query: &HashMap<String, String>, name: &str, value: &str| {
        let mut changed = query.clone();
        changed.insert(name.to_owned(), value.to_owned());
        changed
    };
    let (pending, query) = begun(&desk, &provider, "/login/oidc").await;
    let (other, _) = begun(&desk, &provider, "/login/oidc").await;
    for (what, cookie, query) in [
        ("no cookie", "", query.clone()),
        (
            "the cookie of another browser",
            other.as_str(),
            query.clone(),
        ),
        (
            "a touched cookie",
            &pending[..pending.len() - 2],
            query.clone(),
        ),
        ("another state", &pending, with(&query, "state", "x")),
        (
            "another issuer",
            &pending,
            with(&query, "iss", "https://evil.example"),
        ),
        ("an error", &pending, with(&query, "error", "access_denied")),
        ("another code", &pending, with(&query, "code", "guessed")),
        (
            "no code",
            &pending,
            HashMap::from([("state".to_owned(), query["state"].clone())]),
        ),
    ] {
        let answer = back(&desk, cookie, &query).await;
        assert_eq!(answer.status, 403, "{what}");
        assert!(set_cookie(&answer, SESSION).is_none(), "{what}");
    }
    desk.world.clock.forward(Duration::from_mins(11));
    let late = back(&desk, &pending, &query).await;
    assert_eq!(late.status, 403, "too late");
}

#[tokio::test]
async fn a_token_that_says_something_else_lets_nobody_in() {
    let provider = Provider::start().await;
    let desk = Desk::with(&oidc(&provider, "require: [finance]"), PRINCIPAL).await;
    for change in [
        json!({"nonce": "another"}),
        json!({"nonce": null}),
        json!({"aud": "somebody"}),
        json!({"aud": ["holdpoint", "somebody"]}),
        json!({"azp": "somebody"}),
        json!({"iss": "https://evil.example"}),
        json!({"exp": NOON - 3600}),
        json!({"iat": NOON + 3600}),
        json!({"sub": null}),
        json!({"sub": 7}),
        json!({"org": null}),
        json!({"org": 7}),
        json!({"groups": ["other"]}),
        json!({"groups": null}),
    ] {
        provider.claims(change.clone());
        let (pending, query) = begun(&desk, &provider, "/login/oidc").await;
        let answer = back(&desk, &pending, &query).await;
        assert_eq!(answer.status, 403, "{change}");
        assert!(set_cookie(&answer, SESSION).is_none(), "{change}");
    }
    provider.claims(json!({"aud": ["holdpoint", "somebody"], "azp": "holdpoint"}));
    let (pending, query) = begun(&desk, &provider, "/login/oidc").await;
    assert_eq!(back(&desk, &pending, &query).await.status, 200);
}

#[tokio::test]
async fn only_the_provider_can_say_that_a_log_in_is_fresh() {
    let provider = Provider::start().await;
    let desk = Desk::with(&oidc(&provider, ""), PRINCIPAL).await;
    let fresh = "/login?fresh=1&next=%2F";
    for (claims, is_fresh) in [
        (json!({}), false),
        (json!({"auth_time": NOON - 3600}), false),
        (json!({"auth_time": NOON - 30}), true),
    ] {
        provider.claims(claims.clone());
        let (pending, query) = begun(&desk, &provider, "/login/oidc?fresh=1").await;
        assert_eq!(
            (query["prompt"].as_str(), query["max_age"].as_str()),
            ("login", "600")
        );
        let answer = back(&desk, &pending, &query).await;
        let cookie = set_cookie(&answer, SESSION).unwrap();
        let asked = desk.page(fresh, &cookie).await;
        assert_eq!(asked.status == 303, is_fresh, "{claims}");
    }
}

/// An end user sees and confirms what was asked for them, and nothing else exists.
#[tokio::test]
async fn who_is_no_approver_knows_their_own_requests_alone() {
    let provider = Provider::start().await;
    let config = oidc(
        &provider,
        "api_audience: approve\n    approver_roles: [finance]",
    );
    let desk = Desk::with(&config, PRINCIPAL).await;
    let of = |subject: &str, tool: &str| Call {
        issuer: provider.url(),
        subject: subject.to_owned(),
        tool: tool.to_owned(),
        ..refund()
    };
    let mut tickets = Vec::new();
    for call in [of("u-17", "subscribe"), of("u-18", "subscribe")] {
        let id = desk.world.send(&call).await.ticket();
        tickets.push(desk.world.store.get(id).await.unwrap().unwrap());
    }
    let token = |subject: &str, groups: serde_json::Value| {
        provider.token(&json!({
            "iss": provider.url(), "aud": "approve", "sub": subject, "groups": groups, "org": ["acme"],
            "iat": NOON, "exp": NOON + 600,
        }))
    };
    let user = token("u-17", json!([]));
    let listed = desk.get(&user, "/v1/tickets").await.json();
    let listed = listed["tickets"].as_array().unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0]["id"], tickets[0].id.as_str());
    let asked = desk.get(&user, "/v1/tickets?subject=u-18").await.json();
    assert_eq!(asked["tickets"][0]["id"], tickets[0].id.as_str());
    for path in [
        format!("/v1/tickets/{}", tickets[1].id),
        format!("/v1/tickets/{}/approve", tickets[1].id),
        format!("/v1/tickets/{}/deny", tickets[1].id),
    ] {
        let shown = json!({"digest_prefix": tickets[1].digest.to_string()});
        let answer = if path.ends_with("approve") || path.ends_with("deny") {
            desk.post(&user, &path, &shown).await
        } else {
            desk.get(&user, &path).await
        };
        assert_eq!(code(&answer), (404, "ticket_unknown".to_owned()), "{path}");
    }
    let audit = desk.get(&user, "/v1/audit").await;
    assert_eq!(code(&audit).0, 403);
    let path = format!("/v1/tickets/{}/approve", tickets[0].id);
    let shown = json!({"digest_prefix": tickets[0].digest.to_string()});
    let own = desk.post(&user, &path, &shown).await;
    assert_eq!(own.json()["state"], "approved", "{}", own.text());
    let approver = token("u-99", json!(["finance"]));
    let all = desk.get(&approver, "/v1/tickets").await.json();
    assert_eq!(all["tickets"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn the_api_takes_access_tokens_for_its_own_audience() {
    let provider = Provider::start().await;
    let config = oidc(&provider, "api_audience: approve");
    let desk = Desk::with(&config, PRINCIPAL).await;
    let ticket = desk.waiting().await;
    let good = json!({
        "iss": provider.url(), "aud": "approve", "sub": "u-17", "groups": ["finance"], "org": ["acme"],
        "iat": NOON, "exp": NOON + 600,
    });
    let shown = json!({"digest_prefix": ticket.digest.to_string()});
    for (name, value) in [
        ("aud", json!("holdpoint")),
        ("exp", json!(NOON - 600)),
        ("act", json!({"sub": "desk"})),
        ("org", json!(null)),
    ] {
        let mut claims = good.clone();
        claims[name] = value;
        let answer = desk.get(&provider.token(&claims), "/v1/tickets").await;
        assert_eq!(code(&answer), (403, "not_an_approver".to_owned()), "{name}");
    }
    let path = format!("/v1/tickets/{}/approve", ticket.id);
    let answer = desk.post(&provider.token(&good), &path, &shown).await;
    assert_eq!(answer.json()["state"], "approved", "{}", answer.text());
    assert_eq!(
        answer.json()["votes"][0]["by"],
        json!({"issuer": provider.url(), "subject": "u-17"})
    );
}
