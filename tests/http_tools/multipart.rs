//! Multipart bodies: what clients write passes as it came, what two readers could read apart does not.

use crate::desk::{BOUNDARY, Desk, file, multipart_type, named, parts};
use crate::support::client::request;

fn post(content_type: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    request(
        "POST",
        "/desk/folders/f",
        &[("content-type", content_type)],
        body,
    )
}

fn with(content_type: &str, boundary: &str) -> Vec<u8> {
    post(
        content_type,
        parts(&[(&named("a"), "1")]).replace(BOUNDARY, boundary),
    )
}

#[tokio::test]
async fn what_clients_write_passes_as_it_came() {
    let desk = Desk::egress().await;
    for (boundary, quoted) in [
        (BOUNDARY, false),
        (
            "---------------------------735323031399963166993862150",
            false,
        ),
        ("----geckoformboundary5f2a", false),
        ("6f4f1c0d4e9b4a5c8f1d2e3a4b5c6d7e", false),
        ("------------------------d74496d66958873e", false),
        ("----formdata-undici-012345678901", false),
        ("axios-1.7.9-boundary-Ab_9", false),
        ("7f1c2b3a-0d4e-4a5c-8f1d-2e3a4b5c6d7e", true),
        ("===============1234567890==", true),
    ] {
        let quote = if quoted { "\"" } else { "" };
        let content_type = format!("multipart/form-data; boundary={quote}{boundary}{quote}");
        let sent = with(&content_type, boundary);
        assert_eq!(desk.rig.ask(&sent).await.status, 200, "{boundary}");
        let received = desk.upstream.received().pop().unwrap();
        assert!(sent.ends_with(&received.body) && !received.body.is_empty());
        assert_eq!(received.header("content-type"), [content_type.as_str()]);
    }
    let plain = parts(&[
        (&named("note"), "two\r\nlines, a -- and a --boundary"),
        (&named("empty"), ""),
        (&named("tag"), "a"),
        (&named("tag"), "b"),
        (
            "content-disposition: Form-Data; name=\"doc\"; filename=\"r\u{e9}sum\u{e9} 100%.txt\"\r\ncontent-type: text/plain; charset=UTF-8",
            "hello",
        ),
        (
            &format!(
                "{}\r\nContent-Transfer-Encoding: binary\r\nContent-Length: 4",
                file("pic", "a.png", "image/png")
            ),
            "\u{0}PNG",
        ),
    ]);
    let sent = post(&multipart_type(), &plain);
    assert_eq!(desk.rig.ask(&sent).await.status, 200);
    assert_eq!(
        desk.upstream.received().pop().unwrap().body,
        plain.as_bytes()
    );
    let empty = format!("--{BOUNDARY}--");
    assert_eq!(
        desk.rig.ask(post(&multipart_type(), empty)).await.status,
        200
    );
}

/// Bodies that are read in several ways by the readers that there are.
fn tricks() -> Vec<(&'static str, String)> {
    let one = |head: &str| parts(&[(head, "1")]);
    let plain = parts(&[(&named("a"), "1")]);
    let mut tricks = vec![
        ("a preamble", format!("hello\r\n{plain}")),
        ("a line before the first part", format!("\r\n{plain}")),
        ("an epilogue", format!("{plain}bye")),
        ("a part after the end", format!("{plain}{plain}")),
        ("no end", plain.trim_end().trim_end_matches('-').to_owned()),
        ("bare line feeds", plain.replace("\r\n", "\n")),
        (
            "a bare line feed before a boundary",
            plain.replace("1\r\n", "1\n"),
        ),
        (
            "white space behind a boundary",
            plain.replacen(BOUNDARY, &format!("{BOUNDARY} "), 1),
        ),
        (
            "a boundary within a line",
            parts(&[(&named("a"), &format!("x --{BOUNDARY}\r\n"))]),
        ),
        (
            "a boundary behind a bare line feed",
            parts(&[(
                &named("a"),
                &format!("x\n--{BOUNDARY}\nContent-Disposition: form-data; name=\"b\"\n\n2"),
            )]),
        ),
        (
            "a boundary that goes on",
            parts(&[(&named("a"), &format!("x\r\n--{BOUNDARY}x\r\n"))]),
        ),
        (
            "no headers",
            format!("--{BOUNDARY}\r\n\r\n1\r\n--{BOUNDARY}--\r\n"),
        ),
        (
            "no blank line",
            format!("--{BOUNDARY}\r\n{}\r\n--{BOUNDARY}--\r\n", named("a")),
        ),
        ("more parts than are read", {
            let heads: Vec<_> = (0..257).map(|n| named(&format!("a{n}"))).collect();
            let all: Vec<_> = heads.iter().map(|head| (head.as_str(), "")).collect();
            parts(&all)
        }),
        (
            "a head without end",
            one(&format!("{}; x=\"{}\"", named("a"), "y".repeat(5000))),
        ),
    ];
    let disposition = |rest: &str| one(&format!("Content-Disposition: {rest}"));
    for head in [
        "form-data",
        "form-data; filename=\"a\"",
        "attachment; name=\"a\"",
        "form-data; name=a",
        "form-data; name='a'",
        "form-data; Name=\"a\"",
        "form-data; name=\"a\"; name=\"b\"",
        "form-data; filename=\"x\"; name=\"a\"",
        "form-data; name=\"a\"; filename=\"x\"; filename=\"y\"",
        "form-data; name=\"a\"; filename*=UTF-8''x",
        "form-data; name*=UTF-8''a",
        "form-data; name*0=\"a\"",
        "form-data; name=\"a\\\"b\"",
        "form-data; name=\"a%22b\"",
        "form-data; name=\"=?utf-8?b?dG8=?=\"",
        "form-data; name=\"=?UTF-8?Q?to?=\"",
        "form-data; name=\"a\"; filename=\"=?utf-8?b?Li4vLi4vZXRjL3Bhc3N3ZA==?=\"",
        "form-data; name=\"a\"b\"",
        "form-data; name=\"a; name=b\"",
        "form-data; name=\"\"",
        "form-data; name=\"a[]\"",
        "form-data; name=\"_method\"",
        "form-data; name=\"_charset_\"",
        "form-data; name=\" a\"",
        "form-data; name=\"a\"; filename=\"\"",
        "form-data; name=\"a\"; filename=\"../etc/passwd\"",
        "form-data; name=\"a\"; filename=\"..\"",
        "form-data; name=\"a\"; filename=\"C:\\\\x\"",
        "form-data; name=\"a\"; filename=\"a%2fb\"",
        "form-data; name=\"a\"; filename=\"a;b\"",
        "form-data; name=\"a\"; filename=\"a \"",
        "form-data; name=\"a\" ; x=\"y\"",
        "form-data; name =\"a\"",
        "form-data, name=\"a\"",
        "form-data;\r\n name=\"a\"",
        "form-data; name=\"a\t\"",
    ] {
        tricks.push((head, disposition(head)));
    }
    let then = |more: &str| one(&format!("{}\r\n{more}", named("a")));
    for more in [
        "Content-Disposition: form-data; name=\"b\"",
        "Content-Type: text/plain\r\nContent-Type: application/json",
        "Content-Type: multipart/mixed; boundary=x",
        "Content-Type: message/rfc822",
        "Content-Type: text/plain; charset=utf-7",
        "Content-Type:",
        "Content-Transfer-Encoding: base64",
        "Content-Transfer-Encoding: quoted-printable",
        "Content-Length: 2",
        "Content-Location: /x",
        "Content-Type : text/plain",
        "X",
        " folded",
        "Content-Type: application/json",
    ] {
        let body = then(more);
        let body = if more == "Content-Type: application/json" {
            body.replace("\r\n\r\n1\r\n", "\r\n\r\n{\"a\":1,\"a\":2}\r\n")
        } else {
            body
        };
        tricks.push((more, body));
    }
    tricks
}

#[tokio::test]
async fn what_two_readers_could_read_apart_is_refused() {
    let desk = Desk::egress().await;
    for (what, body) in tricks() {
        let (status, code) = desk.refused(post(&multipart_type(), body)).await;
        assert_eq!(
            (status, code.as_str()),
            (400, "argument_unreadable"),
            "{what}"
        );
    }
    let bytes = parts(&[(&named("a"), "xx")]).replace("xx", "\u{e9}");
    let mut latin = bytes.into_bytes();
    let at = latin.windows(2).position(|two| two == b"\xc3\xa9").unwrap();
    latin.remove(at);
    let (_, code) = desk.refused(post(&multipart_type(), latin)).await;
    assert_eq!(code, "argument_unreadable", "text that is not UTF-8");
}

#[tokio::test]
async fn a_boundary_is_plain_or_refused() {
    let desk = Desk::egress().await;
    let long = "b".repeat(71);
    for (content_type, boundary) in [
        ("multipart/form-data".to_owned(), "x"),
        ("multipart/form-data; boundary=".to_owned(), ""),
        ("multipart/form-data; boundary=\"\"".to_owned(), ""),
        (
            "multipart/form-data; boundary=x; boundary=y".to_owned(),
            "x",
        ),
        (
            "multipart/form-data; boundary=x; boundary=x".to_owned(),
            "x",
        ),
        ("multipart/form-data; boundary*=utf-8''x".to_owned(), "x"),
        ("multipart/form-data; boundary*0=x".to_owned(), "x"),
        ("multipart/form-data; boundary=\"x".to_owned(), "x"),
        ("multipart/form-data; boundary=\"x\\y\"".to_owned(), "xy"),
        ("multipart/form-data; boundary=\"x y\"".to_owned(), "x y"),
        ("multipart/form-data; boundary=x,y".to_owned(), "x"),
        ("multipart/form-data; boundary=x=".to_owned(), "x="),
        ("multipart/form-data; boundary=x--".to_owned(), "x--"),
        ("multipart/form-data; boundary =x".to_owned(), "x"),
        (
            "multipart/form-data; x=\"boundary=y\"; boundary=x".to_owned(),
            "x",
        ),
        (
            format!("multipart/form-data; boundary={long}"),
            long.as_str(),
        ),
    ] {
        let (status, code) = desk.refused(with(&content_type, boundary)).await;
        assert_eq!(
            (status, code.as_str()),
            (400, "argument_unreadable"),
            "{content_type}"
        );
    }
}

#[tokio::test]
async fn what_is_no_text_is_counted() {
    let desk = Desk::egress().await;
    let mut body = parts(&[
        (&named("note"), "hello"),
        (&file("pic", "a.png", "image/png"), "@@@@@@@@@@"),
    ])
    .into_bytes();
    let at = body
        .windows(10)
        .position(|ten| ten == b"@@@@@@@@@@")
        .unwrap();
    body[at..at + 10].fill(0xff);
    let sent = post(&multipart_type(), &body);
    assert_eq!(desk.rig.ask(&sent).await.status, 200);
    assert_eq!(desk.upstream.only().body, body);
    let scrape = desk.rig.scrape().await;
    let line = "holdpoint_unscanned_bytes_total{reason=\"binary\",route=\"desk\"} 10";
    assert!(scrape.contains(line), "{scrape}");
}
