//! Heads of HTTP/1.1 with more than one reading.

use crate::raw::Field;
use crate::raw::Outcome::{Clean, Refused};

/// A POST of `{}`, its head up to the lines that differ.
fn post(lines: &str, rest: &str) -> String {
    format!(
        "POST /shop/send HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         connection: close\r\n{lines}\r\n{rest}"
    )
}

#[tokio::test]
async fn two_framings() {
    let field = Field::new().await;
    let chunked = "2\r\n{}\r\n0\r\n\r\n";
    for (lines, rest, outcome) in [
        ("content-length: 2\r\n", "{}", Clean("{}")),
        ("transfer-encoding: chunked\r\n", chunked, Clean("{}")),
        ("Transfer-Encoding: \t Chunked \t\r\n", chunked, Clean("{}")),
        (
            "content-length: 2\r\ntransfer-encoding: chunked\r\n",
            chunked,
            Refused,
        ),
        (
            "transfer-encoding: chunked\r\ncontent-length: 2\r\n",
            chunked,
            Refused,
        ),
        (
            "TRANSFER-ENCODING: chunked\r\nContent-Length: 0\r\n",
            chunked,
            Refused,
        ),
        (
            "content-length: 2\r\ntransfer-encoding: identity\r\n",
            "{}",
            Refused,
        ),
        (
            "content-length: 2\r\ntransfer-encoding: xchunked\r\n",
            "{}",
            Refused,
        ),
        ("content-length: 2\r\ntransfer-encoding:\r\n", "{}", Refused),
        ("transfer-encoding: gzip, chunked\r\n", chunked, Refused),
        ("transfer-encoding: chunked, gzip\r\n", chunked, Refused),
        ("transfer-encoding: chunked, chunked\r\n", chunked, Refused),
        ("transfer-encoding: identity, chunked\r\n", chunked, Refused),
        ("transfer-encoding: chunked, identity\r\n", chunked, Refused),
        (
            "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
            chunked,
            Refused,
        ),
        (
            "transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n",
            chunked,
            Refused,
        ),
        (
            "transfer-encoding: chunked\r\ntransfer-encoding: gzip\r\n",
            chunked,
            Refused,
        ),
        ("transfer-encoding: \"chunked\"\r\n", chunked, Refused),
        ("transfer-encoding: chunked;q=1\r\n", chunked, Refused),
        ("transfer-encoding: ,chunked\r\n", chunked, Refused),
        ("transfer-encoding: chunked,\r\n", chunked, Refused),
        ("transfer-encoding: \x0bchunked\r\n", chunked, Refused),
        ("transfer-encoding: chun\0ked\r\n", chunked, Refused),
        ("transfer-encoding : chunked\r\n", chunked, Refused),
        ("transfer-encoding\t: chunked\r\n", chunked, Refused),
        (" transfer-encoding: chunked\r\n", chunked, Refused),
        ("transfer-encoding:\r\n chunked\r\n", chunked, Refused),
        ("x: y\r\n\ttransfer-encoding: chunked\r\n", chunked, Refused),
        ("x: y\rtransfer-encoding: chunked\r\n", chunked, Refused),
        // A header of no meaning to HTTP, which CGI takes for another: it stays here.
        (
            "content-length: 2\r\ntransfer_encoding: chunked\r\n",
            "{}",
            Clean("{}"),
        ),
        (
            "content-length: 2\r\ncontent_length: 60\r\n",
            "{}",
            Clean("{}"),
        ),
    ] {
        field.check(post(lines, rest), outcome).await;
    }
}

#[tokio::test]
async fn lengths_that_are_no_plain_number() {
    let field = Field::new().await;
    for (lines, outcome) in [
        ("content-length:\t2 \r\n", Clean("{}")),
        ("content-length: 2\r\ncontent-length: 2\r\n", Refused),
        ("content-length: 2\r\ncontent-length: 60\r\n", Refused),
        ("content-length: 60\r\nContent-Length: 2\r\n", Refused),
        ("content-length: 2, 2\r\n", Refused),
        ("content-length: 2, 60\r\n", Refused),
        ("content-length: +2\r\n", Refused),
        ("content-length: -2\r\n", Refused),
        ("content-length: 0x2\r\n", Refused),
        ("content-length: 2 0\r\n", Refused),
        ("content-length: 2.0\r\n", Refused),
        ("content-length: 2;\r\n", Refused),
        ("content-length: \"2\"\r\n", Refused),
        ("content-length: \u{0662}\r\n", Refused),
        ("content-length:\r\n", Refused),
        ("content-length: 18446744073709551618\r\n", Refused),
        ("content-length : 2\r\n", Refused),
    ] {
        field.check(post(lines, "{}"), outcome).await;
    }
    let old = |lines: &str, rest: &str| post(lines, rest).replace("HTTP/1.1", "HTTP/1.0");
    field
        .check(old("content-length: 2\r\n", "{}"), Clean("{}"))
        .await;
    let chunked = old("transfer-encoding: chunked\r\n", "2\r\n{}\r\n0\r\n\r\n");
    field.check(chunked, Refused).await;
}

#[tokio::test]
async fn hosts_and_targets_that_differ() {
    let field = Field::new().await;
    let get = |target: &str, lines: &str| {
        format!("GET {target} HTTP/1.1\r\n{lines}connection: close\r\n\r\n")
    };
    let path = "/shop/orders/1";
    for (target, lines, outcome) in [
        (path, "host: localhost\r\n", Clean("")),
        (
            "http://localhost/shop/orders/1",
            "host: localhost\r\n",
            Clean(""),
        ),
        (
            "http://LOCALHOST:80/shop/orders/1",
            "host: localhost:80\r\n",
            Clean(""),
        ),
        (path, "", Refused),
        (path, "host:\r\n", Refused),
        (path, "host: localhost\r\nhost: localhost\r\n", Refused),
        (path, "host: localhost\r\nHost: evil.example\r\n", Refused),
        (path, "host: localhost, evil.example\r\n", Refused),
        (path, "host: localhost evil.example\r\n", Refused),
        (path, "host: evil.example\r\n", Refused),
        (path, "host: localhost@evil.example\r\n", Refused),
        (path, "host: user@localhost\r\n", Refused),
        (path, "host: localhost/x\r\n", Refused),
        (path, "host: localhost:80:80\r\n", Refused),
        (path, "host: http://localhost\r\n", Refused),
        (path, "host : localhost\r\n", Refused),
        (path, " host: localhost\r\n", Refused),
        (path, "x: y\r\n host: localhost\r\n", Refused),
        (
            "http://evil.example/shop/orders/1",
            "host: localhost\r\n",
            Refused,
        ),
        (
            "http://localhost:81/shop/orders/1",
            "host: localhost\r\n",
            Refused,
        ),
        (
            "http://user@localhost/shop/orders/1",
            "host: localhost\r\n",
            Refused,
        ),
        (
            "//evil.example/shop/orders/1",
            "host: localhost\r\n",
            Refused,
        ),
        ("shop/orders/1", "host: localhost\r\n", Refused),
        (
            "/shop/orders/1 /shop/orders/2",
            "host: localhost\r\n",
            Refused,
        ),
        ("/shop/orders/\t1", "host: localhost\r\n", Refused),
        ("/shop/orders/../admin", "host: localhost\r\n", Refused),
        ("/shop/orders/%2e%2e/admin", "host: localhost\r\n", Refused),
        (
            "/shop/orders/1%2f..%2fadmin",
            "host: localhost\r\n",
            Refused,
        ),
        (
            "/shop/orders/1%5c..%5cadmin",
            "host: localhost\r\n",
            Refused,
        ),
        ("/shop/orders/1%252f", "host: localhost\r\n", Refused),
        ("/shop/orders/1%00", "host: localhost\r\n", Refused),
        ("/shop/orders/1%0d%0ax:y", "host: localhost\r\n", Refused),
        // A fragment is nobody's but the client's: it is dropped.
        ("/shop/orders/1#x", "host: localhost\r\n", Clean("")),
        ("*", "host: localhost\r\n", Refused),
        ("localhost:80", "host: localhost:80\r\n", Refused),
    ] {
        field.check(get(target, lines), outcome).await;
    }
    for line in [
        "CONNECT localhost:80 HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "get /shop/orders/1 HTTP/1.1",
        "GET /shop/orders/1",
        "GET /shop/orders/1 HTTP/1.2",
        "GET /shop/orders/1 HTTP/2.0",
        "GET /shop/orders/1 http/1.1",
        "GET\t/shop/orders/1\tHTTP/1.1",
        "GET  /shop/orders/1 HTTP/1.1",
        "GET /shop/orders/1  HTTP/1.1",
        " GET /shop/orders/1 HTTP/1.1",
        "GE\0T /shop/orders/1 HTTP/1.1",
        "TRACE /shop/orders/1 HTTP/1.1",
    ] {
        let raw = format!("{line}\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        field.check(raw, Refused).await;
    }
}

#[tokio::test]
async fn headers_that_are_taken_away_doubled_or_not_for_upstreams() {
    let field = Field::new().await;
    for (lines, outcome) in [
        (
            "connection: authorization\r\nauthorization: Bearer x\r\n",
            Refused,
        ),
        ("connection: x-other, Host\r\n", Refused),
        (
            "connection: Mcp-Session-Id\r\nmcp-session-id: 1\r\n",
            Refused,
        ),
        ("connection: content-length\r\n", Refused),
        ("connection: x-api-key\r\n", Refused),
        ("connection: anthropic-version\r\n", Refused),
        ("connection: holdpoint-session\r\n", Refused),
        (
            "connection: x-other\r\nx-other: transfer-encoding: chunked\r\n",
            Clean("{}"),
        ),
        ("content-type: application/json\r\n", Refused),
        (
            "content-encoding: identity\r\ncontent-encoding: identity\r\n",
            Refused,
        ),
        ("authorization: a\r\nauthorization: b\r\n", Refused),
        ("mcp-name: a\r\nMcp-Name: b\r\n", Refused),
        ("mcp-session-id: a\r\nmcp-session-id: a\r\n", Refused),
        (
            "origin: http://localhost\r\norigin: http://localhost\r\n",
            Refused,
        ),
        ("origin: http://evil.example\r\n", Refused),
        ("origin: null\r\n", Refused),
        ("origin: http://localhost:3000\r\n", Clean("{}")),
        ("te: trailers\r\ntrailer: x\r\n", Clean("{}")),
        (
            "upgrade: h2c\r\nconnection: upgrade, http2-settings\r\nhttp2-settings: AAMAAABkAAQ\r\n",
            Clean("{}"),
        ),
        ("upgrade: websocket\r\nconnection: upgrade\r\n", Refused),
        (
            "keep-alive: timeout=5\r\nproxy-connection: keep-alive\r\n",
            Clean("{}"),
        ),
        ("na me: x\r\n", Refused),
        ("na(me: x\r\n", Refused),
        ("n\0ame: x\r\n", Refused),
        (": x\r\n", Refused),
        ("name\r\n", Refused),
        ("name: x\0y\r\n", Refused),
        ("name: x\ry\r\n", Refused),
    ] {
        let lines = format!("content-length: 2\r\n{lines}");
        field.check(post(&lines, "{}"), outcome).await;
    }
    // Lines that end with LF alone are read as they look, and written anew.
    let bare = post("content-length: 2\r\nx: y\r\n", "{}").replace("\r\n", "\n");
    field.check(bare, Clean("{}")).await;
}

#[tokio::test]
async fn heads_beyond_their_bounds() {
    let field = Field::new().await;
    let many = "x: y\r\n".repeat(100);
    let large = |name: &str, length| format!("{name}: {}\r\n", "v".repeat(length));
    for (lines, outcome) in [
        ("x: y\r\n".repeat(80), Clean("{}")),
        (many, Refused),
        (large("x", 16 << 10), Clean("{}")),
        (large("x", (16 << 10) + 1), Refused),
        (large("mcp-param-a", 4 << 10), Clean("{}")),
        (large("mcp-param-a", (4 << 10) + 1), Refused),
        (large("x", 15 << 10).repeat(5), Refused),
        (large("x", 100 << 10), Refused),
        (large(&"n".repeat(70_000), 1), Refused),
    ] {
        let lines = format!("content-length: 2\r\n{lines}");
        field.check(post(&lines, "{}"), outcome).await;
    }
}

#[tokio::test]
async fn a_get_with_a_body_goes_to_no_model() {
    let field = Field::new().await;
    let get = |route: &str, framing: &str| {
        format!(
            "GET {route} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-type: application/json\r\n{framing}"
        )
    };
    let models = "/openai/v1/models";
    field.check(get(models, "\r\n"), Clean("")).await;
    field
        .check(get(models, "content-length: 0\r\n\r\n"), Clean(""))
        .await;
    for framing in [
        "content-length: 2\r\n\r\n{}",
        "transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    ] {
        field.check(get(models, framing), Refused).await;
        let head = get(models, framing).replacen("GET", "HEAD", 1);
        field.check(head, Refused).await;
    }
}
