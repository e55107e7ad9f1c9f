//! Each place of an argument is judged, forwarded as it came, and read in one way or refused.

use crate::desk::{Desk, EVIL, FINE, FORM, multipart_type, named, parts};
use crate::support::client::request;

fn encoded(text: &str) -> String {
    text.replace(':', "%3A").replace('/', "%2F")
}

#[tokio::test]
async fn an_argument_is_judged_wherever_it_stands() {
    let desk = Desk::egress().await;
    for (url, fine) in [(EVIL, false), (FINE, true)] {
        let json = format!("{{\"n\": [{{\"url\": \"{url}\"}}]}}");
        let form = format!("a=1&link={}&more=b+c", encoded(url));
        let content_type = multipart_type();
        let text = parts(&[(&named("note"), url)]);
        let typed = parts(&[(
            &format!("{}\r\nContent-Type: application/json", named("meta")),
            &json,
        )]);
        let document = parts(&[(
            &crate::desk::file("doc", "a.txt", "application/octet-stream"),
            url,
        )]);
        let query = format!("/desk/find/it?at=x&at={}", encoded(url));
        let multipart = [("content-type", content_type.as_str())];
        let requests = [
            request("GET", &query, &[], ""),
            request("POST", "/desk/send", &[], &json),
            request("POST", "/desk/send", &[("x-account", url)], "{}"),
            request("POST", "/desk/send", &[FORM], &form),
            request("POST", "/desk/send", &multipart, &text),
            request("POST", "/desk/send", &multipart, &typed),
            request("POST", "/desk/folders/f", &multipart, &document),
        ];
        for sent in requests {
            if fine {
                assert_eq!(desk.rig.ask(&sent).await.status, 200, "{sent:?}");
                let received = desk.upstream.received().pop().unwrap();
                let at = sent
                    .windows(4)
                    .position(|four| four == b"\r\n\r\n")
                    .unwrap();
                assert_eq!(received.body, sent[at + 4..], "unedited");
            } else {
                let (status, code) = desk.refused(&sent).await;
                let sent = String::from_utf8_lossy(&sent);
                assert_eq!((status, code.as_str()), (403, "host_not_allowed"), "{sent}");
            }
        }
    }
}

#[tokio::test]
async fn a_name_in_two_places_or_spellings_is_refused() {
    let desk = Desk::egress().await;
    let content_type = multipart_type();
    let multipart = [("content-type", content_type.as_str())];
    let one = |name: &str| parts(&[(&named(name), "1")]);
    let two = |a: &str, b: &str| parts(&[(a, "1"), (b, "2")]);
    let json = format!("{}\r\nContent-Type: application/json", named("to"));
    let file = crate::desk::file("to", "a.txt", "text/plain");
    let description = "{\"filename\":\"a\",\"size\":1,\"sha256\":\"x\",\"content_type\":\"y\"}";
    let post =
        |target: &str, headers: &[(&str, &str)], body: &str| request("POST", target, headers, body);
    for ambiguous in [
        request("GET", "/desk/find/it?what=2", &[], ""),
        request("GET", "/desk/find/it?What=2", &[], ""),
        request("GET", "/desk/find/it?to=1&To=2", &[], ""),
        post("/desk/send?to=1", &[], "{\"to\":1}"),
        post("/desk/send?to=1", &[FORM], "to=2"),
        post("/desk/send?to=1", &multipart, &one("to")),
        post("/desk/folders/f", &multipart, &one("folder")),
        post("/desk/send", &[FORM], "to=1&TO=2"),
        post("/desk/send", &[FORM], "reply_to=1&replyTo=2"),
        post("/desk/send", &multipart, &two(&named("to"), &named("tO"))),
        post("/desk/send", &multipart, &two(&named("to"), &json)),
        post("/desk/send", &multipart, &two(&json, &json)),
        post("/desk/send", &multipart, &two(&named("to"), &file)),
        // A ticket for the file would be good for its description.
        post("/desk/send", &[], &format!("{{\"to\":{description}}}")),
        post(
            "/desk/send",
            &multipart,
            &parts(&[(json.as_str(), description)]),
        ),
        post("/desk/send", &[("x-account", "1")], "{\"X-Account\":\"2\"}"),
        post("/desk/send", &[("x-account", "1")], "{\"x_account\":\"2\"}"),
        post(
            "/desk/send",
            &[("x-account", "1"), ("X-Account", "2")],
            "{}",
        ),
        post(
            "/desk/send",
            &[("x-account", "1"), ("x_account", "2")],
            "{}",
        ),
        post("/desk/send", &[("x_account", "2")], "{}"),
    ] {
        let (status, code) = desk.refused(&ambiguous).await;
        assert_eq!(
            (status, code.as_str()),
            (400, "argument_ambiguous"),
            "{}",
            String::from_utf8_lossy(&ambiguous)
        );
    }
}

#[tokio::test]
async fn what_a_backend_may_read_otherwise_is_refused() {
    let desk = Desk::egress().await;
    let get = |query: &str| request("GET", &format!("/desk/find/it?{query}"), &[], "");
    let form = |body: &str| request("POST", "/desk/send", &[FORM], body);
    let json = |body: &str| request("POST", "/desk/send", &[], body);
    let mut unreadable = vec![
        request("POST", "/desk/send", &[("x-account", "caf\u{e9}")], "{}"),
        json("{\"_method\":\"DELETE\"}"),
        json("{\"to\\u0000\":\"a\"}"),
        json("[1]"),
    ];
    for pairs in [
        "to[]=a",
        "to%5B0%5D=a",
        "to%00=a",
        "to%0A=a",
        "+to=a",
        "a=1;b=2",
        "a=%zz",
        "a=%e9",
        "a=%c0%af",
        "a=%ed%a0%80",
        "_method=DELETE",
        "_Method=DELETE",
        "x-http-method-override=DELETE",
        "_charset_=utf-7",
    ] {
        unreadable.push(get(pairs));
        unreadable.push(form(pairs));
    }
    let mut raw = form("a=xx");
    let end = raw.len();
    raw[end - 2..].copy_from_slice(b"\xc3(");
    unreadable.push(raw);
    for sent in unreadable {
        let (status, code) = desk.refused(&sent).await;
        assert_eq!(
            (status, code.as_str()),
            (400, "argument_unreadable"),
            "{}",
            String::from_utf8_lossy(&sent)
        );
    }
    let named = request(
        "POST",
        "/desk/send",
        &[("x-account", "1"), ("connection", "close, X-Account")],
        "{}",
    );
    assert_eq!(desk.refused(&named).await.1, "connection_invalid");
}

#[tokio::test]
async fn a_body_comes_in_a_kind_that_the_tool_takes() {
    let desk = Desk::egress().await;
    let form = "a=1";
    let typed = |method: &str, target: &str, content_type: &str, body: &str| {
        request(method, target, &[("content-type", content_type)], body)
    };
    let multipart = parts(&[(&named("a"), "1")]);
    for sent in [
        typed("PUT", "/desk/log", &multipart_type(), &multipart),
        typed("POST", "/desk/folders/f", "application/json", "{}"),
        typed("POST", "/desk/folders/f", FORM.1, form),
        typed("POST", "/desk/send", "text/plain", form),
        typed(
            "POST",
            "/desk/send",
            "multipart/mixed; boundary=x",
            &multipart,
        ),
        typed(
            "POST",
            "/desk/send",
            "application/json, application/x-www-form-urlencoded",
            "{}",
        ),
        typed(
            "POST",
            "/desk/send",
            "application/x-www-form-urlencoded; charset=utf-16",
            form,
        ),
        typed(
            "POST",
            "/desk/send",
            "application/x-www-form-urlencoded; x=multipart/form-data",
            form,
        ),
        typed(
            "POST",
            "/desk/send",
            "application/json; x=application/x-www-form-urlencoded",
            "{}",
        ),
        typed("POST", "/desk/send", "", form),
    ] {
        let (status, code) = desk.refused(&sent).await;
        assert_eq!((status, code.as_str()), (415, "unsupported_media_type"));
    }
    let twice = [
        ("content-type", "application/json"),
        ("content-type", "application/x-www-form-urlencoded"),
    ];
    let twice = request("POST", "/desk/send", &twice, "{}");
    assert_eq!(desk.refused(&twice).await.1, "header_duplicate");
    for sent in [
        typed(
            "PUT",
            "/desk/log",
            "application/x-www-form-urlencoded; charset=UTF-8",
            form,
        ),
        typed(
            "PUT",
            "/desk/log",
            "application/vnd.api+json; profile=\"https://x\"",
            "{}",
        ),
        request("PUT", "/desk/log", &[], ""),
    ] {
        assert_eq!(desk.rig.ask(sent).await.status, 200);
    }
}
