//! Every URL in a text, found so that what is judged is what any reader of the text would open.
//!
//! Found are absolute URLs of every scheme, with any number and kind of slashes, scheme-relative `//host`, and `www.` names
//! without a scheme. Only the authority decides where a URL leads, so only its end matters: it is cut at white space,
//! slashes, quotes and angle brackets; trailing punctuation of the sentence or of Markdown is dropped; anything else in it
//! is unreadable, since a reader that takes a longer piece would go elsewhere.

use super::target::{Refusal, Target, network, read_authority};

/// What was found: where it leads, or why that cannot be told.
pub type Found = Result<Target, Refusal>;

const SLASHES: Refusal = Refusal::Unreadable("not exactly two slashes after the scheme");
const BACKSLASH: Refusal = Refusal::Unreadable("a backslash in the authority");
const CONTINUED: Refusal = Refusal::Unreadable("the URL may go on after white space");
const GLUED: Refusal = Refusal::Unreadable("punctuation in the host");

/// Bytes of an authority that are read; a longer one is cut and then too long for a name.
const MAX_AUTHORITY: usize = 1024;

/// Schemes that open no connection to a host of their own; mail and telephone are the recipients' concern.
const HARMLESS: [&str; 11] = [
    "mailto", "tel", "sms", "urn", "cid", "mid", "about", "geo", "magnet", "xmpp", "sip",
];

/// Whether the scheme opens no connection of its own.
pub(super) fn is_harmless(scheme: &str) -> bool {
    HARMLESS
        .iter()
        .any(|name| name.eq_ignore_ascii_case(scheme))
}

/// Every URL in `text`, in order.
pub fn find(text: &str) -> Vec<Found> {
    let mut found = Vec::new();
    let start = text.len() - text.trim_start_matches(is_trimmed).len();
    if hides_scheme(text.get(start..).unwrap_or_default()) {
        found.push(Err(CONTINUED));
    }
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let next = match byte {
            b':' => after_scheme(text, start, at, &mut found),
            b'/' | b'\\' => relative(text, start, at, &mut found),
            b'w' | b'W' => without_scheme(text, start, at, &mut found),
            _ => None,
        };
        at = next.unwrap_or(at + 1).max(at + 1);
    }
    found
}

/// What URL readers drop at the start of a string.
fn is_trimmed(c: char) -> bool {
    c <= ' ' || c.is_whitespace()
}

/// Readers drop tabs and line ends wherever they stand: `java<TAB>script:` is a scheme.
fn hides_scheme(text: &str) -> bool {
    let Some((head, _)) = text.split_once(':') else {
        return false;
    };
    if !head.contains(['\t', '\r', '\n']) || head.len() > 64 {
        return false;
    }
    let scheme = head.replace(['\t', '\r', '\n'], "");
    network(&scheme).is_some() || is_active(&scheme) || scheme.eq_ignore_ascii_case("file")
}

/// Whether the scheme holds code or data instead of a place.
pub(super) fn is_active(scheme: &str) -> bool {
    ["javascript", "vbscript", "data"]
        .iter()
        .any(|name| name.eq_ignore_ascii_case(scheme))
}

/// The letters before the colon, if they make a scheme.
fn scheme_before(text: &str, colon: usize) -> Option<(usize, &str)> {
    let head = text.get(..colon)?;
    let run = head.len()
        - head
            .trim_end_matches(|c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
            .len();
    let run = head.get(head.len() - run..)?;
    let scheme = run.trim_start_matches(|c: char| !c.is_ascii_alphabetic());
    // One letter is a drive or a label, not a scheme.
    (scheme.len() > 1).then_some((colon - scheme.len(), scheme))
}

fn after_scheme(text: &str, start: usize, colon: usize, found: &mut Vec<Found>) -> Option<usize> {
    let (begin, scheme) = scheme_before(text, colon)?;
    let rest = text.get(colon + 1..)?;
    let after = rest.trim_start_matches(['/', '\\', '\t', '\r', '\n']);
    let slashes = rest.get(..rest.len() - after.len())?;
    let at = text.len() - after.len();
    let follows = after.chars().next().filter(|c| starts_host(*c));
    if is_active(scheme) {
        let opaque = rest.chars().next().is_some_and(|c| !c.is_whitespace());
        if opaque && (!scheme.eq_ignore_ascii_case("data") || is_data(rest)) {
            found.push(Err(Refusal::Scheme));
        }
        return None;
    }
    let count = slashes.chars().filter(|c| matches!(c, '/' | '\\')).count();
    let Some(known) = network(scheme) else {
        let local = scheme.eq_ignore_ascii_case("file");
        let opens = slashes.starts_with(['/', '\\'])
            && if local {
                !after.is_empty() || count > 1
            } else {
                count > 1 && follows.is_some()
            };
        if opens
            && !HARMLESS
                .iter()
                .any(|name| name.eq_ignore_ascii_case(scheme))
        {
            found.push(Err(Refusal::Scheme));
        }
        return None;
    };
    let follows = follows?;
    let refusal = match slashes {
        "//" => None,
        "" if follows.is_ascii_digit() => return None,
        // A colon at the end of a line, and a new line that is no URL's rest.
        _ if count == 0 && slashes.contains(['\t', '\r', '\n']) => return None,
        _ if slashes.contains('\\') => Some(BACKSLASH),
        _ => Some(SLASHES),
    };
    if let Some(refusal) = refusal {
        found.push(Err(refusal));
        return Some(at);
    }
    let (reading, _) = authority(text, known, at);
    let reading = reading.and_then(|target| undisputed(text, start, begin, at, target));
    found.push(reading);
    // Not past the authority: another URL may be glued to this one.
    Some(at)
}

/// RFC 2397: a media type or nothing, then a comma.
fn is_data(rest: &str) -> bool {
    let near = rest
        .get(..rest.floor_char_boundary(MAX_AUTHORITY))
        .unwrap_or_default();
    let token = near.split(char::is_whitespace).next().unwrap_or_default();
    token
        .split_once(',')
        .is_some_and(|(kind, _)| kind.is_empty() || kind.contains(['/', ';']))
}

fn starts_host(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '[' | '.' | '-' | '_' | '@' | '%' | ':' | '~')
}

/// `//host`, `\\host` and mixtures, where a link could stand.
fn relative(text: &str, start: usize, at: usize, found: &mut Vec<Found>) -> Option<usize> {
    let rest = text.get(at..)?;
    let after = rest.trim_start_matches(['/', '\\']);
    let slashes = rest.get(..rest.len() - after.len())?;
    let host = text.len() - after.len();
    let before = text.get(..at).and_then(|head| head.chars().next_back());
    let skip = Some(host);
    if slashes.len() < 2 || before.is_some_and(|c| c.is_alphanumeric() || ":.-_~%".contains(c)) {
        return skip;
    }
    if !after.starts_with(|c: char| c.is_alphanumeric() || c == '[') {
        return skip;
    }
    let first = at == start;
    let (reading, end) = authority(text, "https", host);
    let name = text.get(host..end).unwrap_or_default();
    let slash_follows = text
        .get(end..)
        .is_some_and(|tail| tail.starts_with(['/', '\\']));
    // `//comment` and `\\command` are not links; a name with a dot, or a path behind it, is.
    let link = first || before.is_some_and(|c| "(\"'=<".contains(c));
    let looks = is_dotted(name) || name.starts_with('[');
    let bare = slashes == "//" && link && slash_follows || first && slash_follows;
    if !looks && !bare {
        return skip;
    }
    if slashes.contains('\\') {
        found.push(Err(BACKSLASH));
    } else if slashes.len() > 2 {
        if link {
            found.push(Err(SLASHES));
        }
    } else {
        found.push(reading);
    }
    skip
}

fn is_dotted(name: &str) -> bool {
    let name = name.trim_end_matches(|c: char| !c.is_alphanumeric());
    name.split_once('.')
        .is_some_and(|(first, _)| !first.is_empty())
}

/// `www.name`, which every client turns into a link.
fn without_scheme(text: &str, start: usize, at: usize, found: &mut Vec<Found>) -> Option<usize> {
    let rest = text.get(at..)?;
    let www = rest.get(..4)?;
    if !www.eq_ignore_ascii_case("www.") {
        return None;
    }
    let before = text.get(..at).and_then(|head| head.chars().next_back());
    if before.is_some_and(|c| c.is_alphanumeric() || ".-_@/\\".contains(c)) {
        return None;
    }
    if !rest.get(4..)?.starts_with(char::is_alphanumeric) {
        return None;
    }
    let (reading, _) = authority(text, "http", at);
    let reading = reading.and_then(|target| undisputed(text, start, at, at, target));
    found.push(reading);
    Some(at + 4)
}

/// Reads the authority that begins at `from`; also says where it ends.
fn authority(text: &str, scheme: &'static str, from: usize) -> (Found, usize) {
    let rest = text.get(from..).unwrap_or_default();
    let near = rest
        .get(..rest.floor_char_boundary(MAX_AUTHORITY))
        .unwrap_or_default();
    let length = near.find(ends_authority).unwrap_or(near.len());
    let end = from + length;
    let run = rest.get(..length).unwrap_or_default();
    let tail = rest.get(length..).unwrap_or_default();
    (read_run(scheme, run, tail), end)
}

fn ends_authority(c: char) -> bool {
    c.is_whitespace() || c.is_control() || "/\\?#\"<>`".contains(c)
}

fn read_run(scheme: &'static str, run: &str, tail: &str) -> Found {
    if tail.starts_with('\\') {
        return Err(BACKSLASH);
    }
    let control = tail.chars().next().is_some_and(char::is_control);
    if control && goes_on(tail) {
        return Err(CONTINUED);
    }
    if run.contains(['@', '%']) {
        return read_authority(scheme, run);
    }
    // Of a URL with a path the authority is whole; of one without, the sentence's punctuation follows it.
    let pathless = !tail.starts_with(['/', '?', '#']);
    let core = if pathless {
        run.trim_end_matches(is_trailing)
    } else {
        run
    };
    let inner = core.find(|c: char| !is_host(c));
    let Some(inner) = inner else {
        return read_authority(scheme, core);
    };
    // `a.example,https://b.example` and `(a.example)[`: another URL begins behind the punctuation.
    let (head, glued) = run.split_at_checked(inner).unwrap_or((run, ""));
    if tail.starts_with("//") && begins_scheme(glued) {
        return read_authority(scheme, head.trim_end_matches(is_trailing));
    }
    Err(GLUED)
}

/// After a tab, a line end or another control character: what makes a URL out of both sides.
fn goes_on(tail: &str) -> bool {
    let line_ends = tail.starts_with(['\r', '\n']);
    let next = tail.trim_start_matches(char::is_control);
    next.starts_with(['.', '@', ':', '%', '\\']) && !next.starts_with("...")
        || !line_ends && next.starts_with(['/', '?', '#'])
}

/// What a host and port are made of; of other scripts the reader of the name decides.
fn is_host(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']') || !c.is_ascii()
}

/// Punctuation that ends a sentence, a quotation or a Markdown construct.
fn is_trailing(c: char) -> bool {
    if c.is_ascii() {
        !c.is_ascii_alphanumeric() && c != '-'
    } else {
        !c.is_alphanumeric()
    }
}

/// Punctuation and then `scheme:`, to its end.
fn begins_scheme(glued: &str) -> bool {
    let scheme = glued.trim_start_matches(is_trailing);
    scheme.strip_suffix(':').is_some_and(|name| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+')
    })
}

/// A string that begins with a URL may be opened whole. Readers then drop tabs and line ends and take spaces into the user
/// information: if that leads elsewhere, nobody knows where.
fn undisputed(text: &str, start: usize, begin: usize, from: usize, target: Target) -> Found {
    if begin != start {
        return Ok(target);
    }
    let rest = text.get(from..).unwrap_or_default();
    let whole = format!("{}://{rest}", target.scheme);
    let Ok(parsed) = url::Url::parse(&whole) else {
        return Ok(target);
    };
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return Err(CONTINUED);
    }
    let theirs = parsed.host_str().unwrap_or_default();
    let theirs = theirs.trim_end_matches('.');
    let ours = target.host.to_string();
    let dots = |name: &str| name.bytes().filter(|b| *b == b'.').count();
    let top = theirs.rsplit('.').next().unwrap_or_default();
    // Joined lines make a longer name; only one that could exist is a danger.
    let exists = top.len() > 1 && top.starts_with(|c: char| c.is_ascii_alphabetic());
    if theirs != ours && dots(theirs) > dots(&ours) && exists {
        return Err(CONTINUED);
    }
    Ok(target)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hosts(text: &str) -> Vec<String> {
        find(text)
            .into_iter()
            .map(|found| match found {
                Ok(target) => target.host.to_string(),
                Err(Refusal::Scheme) => "scheme".to_owned(),
                Err(Refusal::Unreadable(_)) => "unreadable".to_owned(),
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
            let seen = found.iter().any(|found| match found {
                Ok(target) => target.host.to_string() == "evil.example",
                Err(_) => true,
            });
            prop_assert!(seen, "{:?}", text);
        }
    }
}
