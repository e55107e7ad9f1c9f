//! What is found in texts of every kind, and what is not.

use proptest::prelude::*;

use super::*;
use crate::layers::egress::target::Url;

fn hosts(text: &str) -> Vec<String> {
    find(text)
        .into_iter()
        .map(|found| match found.url {
            Ok(url) => url.target.host.to_string(),
            Err(denied) if denied.code == Code::SchemeNotAllowed => "scheme".to_owned(),
            Err(_) => "unreadable".to_owned(),
        })
        .collect()
}

#[test]
fn urls_are_found_wherever_they_stand() {
    for (text, expected) in [
        ("see https://a.example/x.", "a.example"),
        ("see https://a.example.", "a.example"),
        ("HTTPS://A.Example!", "a.example"),
        ("(https://a.example)", "a.example"),
        ("[t](https://a.example) more", "a.example"),
        ("[t](https://a.example/p_(q)), more", "a.example"),
        ("![i][r]\n\n[r]: https://a.example/i.png", "a.example"),
        ("**https://a.example**", "a.example"),
        ("<https://a.example>", "a.example"),
        ("<img src=https://a.example/1.gif>", "a.example"),
        ("<a href='https://a.example'>x</a>", "a.example"),
        ("{\"u\":\"https://a.example\"}", "a.example"),
        ("url=https://a.example;", "a.example"),
        ("wget https://a.example/x.sh", "a.example"),
        ("https://a.example\nThanks. Bob", "a.example"),
        ("https://a.example\n\n1.5 million", "a.example"),
        ("https://a.example\n- item", "a.example"),
        ("https://a.example: the shop", "a.example"),
        ("https://a.example\u{3002}", "a.example"),
        ("\u{201c}https://a.example\u{201d}", "a.example"),
        ("www.a.example", "www.a.example"),
        ("visit WWW.a.example, now", "www.a.example"),
        ("//a.example/x", "a.example"),
        ("<script src=\"//a.example/x.js\">", "a.example"),
        ("go to //a.example", "a.example"),
        ("ws://a.example/socket", "a.example"),
        ("view-source:https://a.example/", "a.example"),
        (
            "h\u{200b}ttp\u{200b}s:/\u{200b}/a.ex\u{ad}ample/",
            "a.example",
        ),
        ("to%3Dhttps%3A%2F%2Fa.example%2F", "a.example"),
        ("https%253A%252F%252Fa.example", "a.example"),
        ("h\u{200b}ttps%3A//a.example", "a.example"),
    ] {
        assert_eq!(hosts(text), [expected], "{text}");
    }
    let two = ["a.example", "b.example"];
    for text in [
        "https://a.example,https://b.example",
        "https://a.example;https://b.example/",
        "[x](https://a.example),(https://b.example)",
        "https://a.example/|https://b.example",
        "https://a.example/?next=https://b.example",
        "https://a.example\nhttps://b.example\n",
        "<https://a.example><https://b.example>",
    ] {
        assert_eq!(hosts(text), two, "{text}");
    }
}

#[test]
fn what_a_longer_or_laxer_reading_would_send_elsewhere_is_unreadable() {
    for text in [
        "https://a.example@b.example/",
        "see https://a.example\\@b.example/",
        "https://a.example,x.b.example/",
        "https://a.example).b.example/",
        "https://a.example;@b.example/",
        "https://a.example @b.example/",
        "https://a.example\n@b.example/",
        "https://a.example\n.b.example/",
        "https://a.example\nx.b.example/",
        "https://a.example\t/",
        "see https://a.example\t.b.example",
        "https:a.example",
        "https:/a.example",
        "https:\\\\a.example",
        "https:///a.example",
        "https:\n//a.example",
        "ht\ntps://a.example",
        "\\\\a.example\\share",
        "\\\\server\\share",
        "/\\a.example/",
        "///a.example/",
        "https://a\u{ff0e}example/",
        "http://2130706433/",
        "http://0x7f.1/",
    ] {
        assert!(
            hosts(text).contains(&"unreadable".to_owned()),
            "{text:?} {:?}",
            hosts(text)
        );
    }
}

#[test]
fn schemes_that_connect_otherwise_are_named_and_mail_is_left_alone() {
    for text in [
        "file:///etc/passwd",
        "file:/etc/passwd",
        "javascript:alert(1)",
        "JavaScript:alert(1)",
        "data:text/html;base64,PGI+",
        "data:,x",
        "gopher://a.example/",
        "xhttps://a.example/",
    ] {
        assert_eq!(hosts(text), ["scheme"], "{text}");
    }
    for text in [
        "",
        "mailto:bob@a.example",
        "tel:+15550100",
        "at 10:30, ratio 3:4",
        "note: this",
        "https: it is secure",
        "use https:// always",
        "http:8080",
        "data: the rows",
        "data:3,4",
        "C:\\Users\\bob and C:/Users",
        "a // comment",
        "x = 1; //increment",
        "path//to//file",
        "\\\\alpha + \\\\beta",
        "a \\\\ b",
        "www. is a prefix",
        "std::fmt::Display",
        "key:/value",
        "awww.example",
    ] {
        assert_eq!(hosts(text), [] as [&str; 0], "{text}");
    }
}

#[test]
fn glued_urls_cost_no_more_than_their_text() {
    let many = "https://a.example/".repeat(5_000);
    let found = find(&many);
    assert_eq!(found.len(), 5_000);
    let read: usize = found
        .iter()
        .filter_map(|found| found.url.as_ref().ok())
        .map(|url| url.path().len())
        .sum();
    assert!(read < 6 * many.len(), "{read}");
    assert!(
        found
            .iter()
            .any(|found| found.url.as_ref().is_ok_and(Url::is_cut))
    );
}

proptest! {
    #[test]
    fn finding_never_panics(text in "\\PC{0,60}") {
        find(&text);
    }

    #[test]
    fn pieces_of_urls_never_panic(
        parts in proptest::collection::vec(
            prop_oneof![
                Just("https:"), Just("//"), Just("\\"), Just("a.example"), Just("@"), Just("www."), Just("\t"),
                Just("\n"), Just("[::1]"), Just("%2e"), Just("("), Just(")"), Just(","), Just("\u{3002}"), Just(":")
            ],
            0..12,
        )
    ) {
        find(&parts.concat());
    }

    #[test]
    fn a_host_off_the_list_is_never_overlooked(
        before in "[a-z(\\[<\"' \n]{0,8}",
        after in "[ \n\"<>/?#].{0,8}",
    ) {
        let text = format!("{before} https://evil.example{after}");
        let found = find(&text);
        let seen = found.iter().any(|found| match &found.url {
            Ok(url) => url.target.host.to_string() == "evil.example",
            Err(_) => true,
        });
        prop_assert!(seen, "{:?}", text);
    }
}
