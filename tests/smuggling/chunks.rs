//! Chunked bodies with more than one reading, and bodies in encodings.

use crate::raw::Field;
use crate::raw::Outcome::{Clean, Refused};

fn chunked(body: &str) -> String {
    format!(
        "POST /shop/send HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         connection: close\r\ntransfer-encoding: chunked\r\n\r\n{body}"
    )
}

#[tokio::test]
async fn sizes_that_are_no_plain_hexadecimal_number() {
    let field = Field::new().await;
    for (body, outcome) in [
        ("2\r\n{}\r\n0\r\n\r\n", Clean("{}")),
        ("02\r\n{}\r\n000\r\n\r\n", Clean("{}")),
        (
            "b\r\n{\"url\":\"x\"}\r\n0\r\n\r\n",
            Clean("{\"url\":\"x\"}"),
        ),
        (
            "B\r\n{\"url\":\"x\"}\r\n0\r\n\r\n",
            Clean("{\"url\":\"x\"}"),
        ),
        ("1\r\n{\r\n1\r\n}\r\n0\r\n\r\n", Clean("{}")),
        ("2;name=value\r\n{}\r\n0;last\r\n\r\n", Clean("{}")),
        ("0x2\r\n{}\r\n0\r\n\r\n", Refused),
        ("+2\r\n{}\r\n0\r\n\r\n", Refused),
        ("-2\r\n{}\r\n0\r\n\r\n", Refused),
        ("2h\r\n{}\r\n0\r\n\r\n", Refused),
        ("\r\n{}\r\n0\r\n\r\n", Refused),
        (";x\r\n{}\r\n0\r\n\r\n", Refused),
        ("2,\r\n{}\r\n0\r\n\r\n", Refused),
        ("2 2\r\n{}\r\n0\r\n\r\n", Refused),
        ("10000000000000002\r\n{}\r\n0\r\n\r\n", Refused),
        ("ffffffffffffffff\r\n{}\r\n0\r\n\r\n", Refused),
        ("2\0\r\n{}\r\n0\r\n\r\n", Refused),
        ("2;x\0y\n{}\r\n0\r\n\r\n", Refused),
        ("2;x\ny\r\n{}\r\n0\r\n\r\n", Refused),
        ("2\n{}\n0\n\n", Refused),
        ("2\r{}\r0\r\r", Refused),
        ("2\r\n{}0\r\n\r\n", Refused),
        ("2\r\n{} \r\n0\r\n\r\n", Refused),
        ("1\r\n{}\r\n0\r\n\r\n", Refused),
        ("3\r\n{}\r\n0\r\n\r\n", Refused),
        ("2\r\n{}\r\n", Refused),
    ] {
        field.check(chunked(body), outcome).await;
    }
    let long = format!("2;{}\r\n{{}}\r\n0\r\n\r\n", "x".repeat(100_000));
    field.check(chunked(&long), Refused).await;
}

#[tokio::test]
async fn trailers_stay_behind() {
    let field = Field::new().await;
    for trailers in [
        "authorization: Bearer stolen\r\n",
        "content-length: 60\r\n",
        "host: evil.example\r\n",
        "transfer-encoding: chunked\r\n",
        "x: y\r\nmcp-session-id: stolen\r\n",
    ] {
        let body = format!("2\r\n{{}}\r\n0\r\n{trailers}\r\n");
        field.check(chunked(&body), Clean("{}")).await;
    }
    for trailers in ["no colon\r\n", "na me: x\r\n", " folded: x\r\n"] {
        let body = format!("2\r\n{{}}\r\n0\r\n{trailers}\r\n");
        field.check(chunked(&body), Refused).await;
    }
}

#[tokio::test]
async fn a_body_that_is_shorter_or_longer_than_announced() {
    let field = Field::new().await;
    let sized = |length: usize, body: &str| {
        format!(
            "POST /shop/send HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    };
    field.check(sized(2, "{}"), Clean("{}")).await;
    // What follows is no part of it, and with `connection: close` no request either.
    field.check(sized(2, "{}{\"url\": 1}"), Clean("{}")).await;
    // It takes the next request's bytes for its own, so it is no JSON.
    field.check(sized(30, "{}"), Refused).await;
    field.check(sized(3000, "{}"), Refused).await;
}
