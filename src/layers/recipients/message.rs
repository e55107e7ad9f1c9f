//! Whole messages (RFC 5322): every recipient of the header, however many lines it has.
//!
//! What two mail programs could take for different headers is refused: line ends of both kinds, bare carriage returns, lines
//! that are no field, fields that may stand once and stand twice. The body is never looked at.

use data_encoding::{BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD};

use super::code::{Code, Fault};
use super::email::{Address, check_hidden, is_line_break, read_list};

/// Longest header that is read, in bytes.
const HEADER: usize = 256 << 10;

/// Fields whose addresses get the message, or what is answered to it. The originator's fields are no recipients.
const RECIPIENTS: [&str; 15] = [
    "to",
    "cc",
    "bcc",
    "resent-to",
    "resent-cc",
    "resent-bcc",
    "reply-to",
    "resent-reply-to",
    "mail-reply-to",
    "mail-followup-to",
    "apparently-to",
    "disposition-notification-to",
    "return-receipt-to",
    "errors-to",
    "return-path",
];

/// Those of them that say who gets the message.
const DELIVERED: [&str; 7] = [
    "to",
    "cc",
    "bcc",
    "resent-to",
    "resent-cc",
    "resent-bcc",
    "apparently-to",
];

/// Whether a field of this name, in lower case, names who gets the message or what is answered to it.
pub(super) fn names_recipients(name: &str) -> bool {
    RECIPIENTS.contains(&name)
}

/// Whether it names who gets the message.
pub(super) fn delivers(name: &str) -> bool {
    DELIVERED.contains(&name)
}

/// Fields that may stand once (RFC 5322 section 3.6, RFC 2045).
const ONCE: [&str; 14] = [
    "to",
    "cc",
    "bcc",
    "reply-to",
    "from",
    "sender",
    "date",
    "subject",
    "message-id",
    "in-reply-to",
    "references",
    "mime-version",
    "content-type",
    "content-transfer-encoding",
];

/// The recipients of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recipients {
    /// Who gets it.
    pub delivered: Vec<Address>,
    /// Who gets answers, receipts and failures.
    pub answered: Vec<Address>,
}

/// Every recipient of a message: base64url or base64, padded or not, or the message as it stands. A blank text has none.
///
/// # Errors
/// The first thing that is not plain.
pub fn read_message(text: &str) -> Result<Recipients, Fault> {
    if text.trim().is_empty() {
        return Ok(Recipients::default());
    }
    match decoded(text)? {
        Some(bytes) => read_bytes(&bytes),
        None => read_bytes(text.as_bytes()),
    }
}

/// The bytes behind base64; `None` where the text is none, since a field needs a colon.
fn decoded(text: &str) -> Result<Option<Vec<u8>>, Fault> {
    let coded = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'-' | b'_' | b'=');
    if !text.bytes().all(coded) {
        return Ok(None);
    }
    let padded = text.ends_with('=');
    let url = text.contains(['-', '_']);
    let encoding = match (url, padded) {
        (true, true) => BASE64URL,
        (true, false) => BASE64URL_NOPAD,
        (false, true) => BASE64,
        (false, false) => BASE64_NOPAD,
    };
    encoding
        .decode(text.as_bytes())
        .map(Some)
        .map_err(|_| Fault::malformed("no message: base64 that readers decode differently"))
}

fn read_bytes(bytes: &[u8]) -> Result<Recipients, Fault> {
    let mut found = Recipients::default();
    let mut seen: Vec<String> = Vec::new();
    for (name, value) in fields(&header(bytes)?)? {
        if ONCE.contains(&name.as_str()) && seen.contains(&name) {
            return Err(Fault::malformed("a header field that stands twice"));
        }
        check_value(&value)?;
        if RECIPIENTS.contains(&name.as_str()) {
            let value = match name.as_str() {
                // `<>` is the null path: nobody.
                "return-path" if value.trim() == "<>" => "",
                _ => value.as_str(),
            };
            let addresses = read_list(value)?;
            if DELIVERED.contains(&name.as_str()) {
                found.delivered.extend(addresses);
            } else {
                found.answered.extend(addresses);
            }
        }
        seen.push(name);
    }
    Ok(found)
}

/// The header as text with `\n` at the ends of lines.
fn header(bytes: &[u8]) -> Result<String, Fault> {
    let crlf = match bytes.iter().position(|b| *b == b'\n') {
        Some(first) if first > 0 => bytes.get(first - 1) == Some(&b'\r'),
        _ => false,
    };
    let end = if crlf { "\r\n\r\n" } else { "\n\n" }.as_bytes();
    let length = bytes.windows(end.len()).position(|window| window == end);
    let head = bytes.get(..length.unwrap_or(bytes.len())).unwrap_or(bytes);
    if head.len() > HEADER {
        return Err(Fault::malformed("a header that is too long"));
    }
    let head =
        std::str::from_utf8(head).map_err(|_| Fault::malformed("a header that is not UTF-8"))?;
    if crlf {
        // A reader of the other kind of line end stops at the same place: `\r\n\r\n` is a blank line to it as well.
        let lines = head.replace("\r\n", "\n");
        let bare =
            lines.contains('\r') || head.matches('\n').count() != head.matches("\r\n").count();
        return if bare { Err(MIXED) } else { Ok(lines) };
    }
    // A reader that knows CRLF alone would read on to the first of them.
    if bytes.contains(&b'\r') {
        return Err(MIXED);
    }
    Ok(head.to_owned())
}

const MIXED: Fault = Fault::new(Code::HeaderInjection, "line ends of more than one kind");

/// Names, lower case, and unfolded values.
fn fields(header: &str) -> Result<Vec<(String, String)>, Fault> {
    let mut fields: Vec<(String, String)> = Vec::new();
    let header = header.strip_suffix('\n').unwrap_or(header);
    for line in header.split('\n') {
        if line.starts_with([' ', '\t']) {
            let (_, value) = fields
                .last_mut()
                .ok_or(Fault::malformed("a header that starts with a folded line"))?;
            if line.trim_matches([' ', '\t']).is_empty() {
                // To some readers the header ends here.
                return Err(Fault::malformed("a blank folded line in the header"));
            }
            value.push(' ');
            value.push_str(line.trim_start_matches([' ', '\t']));
            continue;
        }
        let (name, value) = line
            .split_once(':')
            .ok_or(Fault::malformed("a header line that is no field"))?;
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(Fault::malformed("a header field whose name is not plain"));
        }
        fields.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    for (_, value) in &mut fields {
        let spaced = value.replace('\t', " ");
        spaced.trim_matches(' ').clone_into(value);
    }
    Ok(fields)
}

/// No control character, and no encoded word that hides a line break: libraries that decode and write again would end the
/// line there.
fn check_value(value: &str) -> Result<(), Fault> {
    if value.contains(is_line_break) {
        return Err(Fault::new(Code::HeaderInjection, "a line break"));
    }
    if value.contains(char::is_control) {
        return Err(Fault::malformed("a control character in the header"));
    }
    check_words(value)
}

/// Encoded words (RFC 2047) of a header value hide no line break.
pub(super) fn check_words(value: &str) -> Result<(), Fault> {
    let mut rest = value;
    while let Some((_, word)) = rest.split_once("=?") {
        rest = word;
        let mut parts = word.splitn(3, '?');
        let (Some(_), Some(coding), Some(text)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let Some((text, _)) = text.split_once("?=") else {
            continue;
        };
        let breaks = match coding {
            "q" | "Q" => {
                let text = text.to_ascii_lowercase();
                text.contains("=0a") || text.contains("=0d")
            }
            "b" | "B" => {
                let bare = text.trim_end_matches('=');
                let mut encoding = BASE64_NOPAD.specification();
                encoding.check_trailing_bits = false;
                let bytes = encoding.encoding().map(|e| e.decode(bare.as_bytes()));
                // What cannot be decoded is no encoded word.
                matches!(bytes, Ok(Ok(bytes)) if bytes.iter().any(|b| matches!(b, b'\r' | b'\n')))
            }
            _ => false,
        };
        if breaks {
            return Err(Fault::new(
                Code::HeaderInjection,
                "a line break in an encoded word",
            ));
        }
    }
    Ok(())
}

/// A text that becomes a header line of a mail.
///
/// # Errors
/// A line break, plain or in an encoded word, or a NUL.
pub(super) fn check_header(text: &str) -> Result<(), Fault> {
    if text.contains(is_line_break) {
        return Err(Fault::new(
            Code::HeaderInjection,
            "a line break in a header field",
        ));
    }
    if text.contains('\0') {
        return Err(check_hidden(text)
            .err()
            .unwrap_or(Fault::malformed("a NUL")));
    }
    check_words(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys(text: &str) -> Vec<String> {
        let found = read_message(text).unwrap();
        let all = found.delivered.iter().chain(&found.answered);
        all.map(Address::to_key).collect()
    }

    #[test]
    fn every_recipient_of_the_header_is_found() {
        let message = "From: shop@x.example\r\nTo: Ann <ann@x.example>,\r\n\tbob@x.example\r\nBCC: c@x.example\r\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\n\
            Resent-To: d@x.example\r\nResent-To: e@x.example\r\nReply-To: f@x.example\r\n\r\nBcc: nobody@y.example\r\nbare\nline";
        let all = ["ann", "bob", "c", "d", "e", "f"].map(|name| format!("{name}@x.example"));
        assert_eq!(keys(message), all);
        let unix = message.replace("\r\n", "\n");
        assert_eq!(keys(&unix), all);
        for encoding in [BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD] {
            assert_eq!(keys(&encoding.encode(message.as_bytes())), all);
            assert_eq!(keys(&encoding.encode(unix.as_bytes())), all);
        }
        // No body and no blank line: every reader sees the same.
        assert_eq!(keys("To: ann@x.example\r\nCc:\r\n"), ["ann@x.example"]);
        assert_eq!(keys("To: ann@x.example"), ["ann@x.example"]);
        assert_eq!(
            keys("Return-Path: <>\nTo: ann@x.example\n\n"),
            ["ann@x.example"]
        );
        assert_eq!(keys("Subject: x\n\nTo: ann@x.example\n"), [] as [&str; 0]);
        assert_eq!(keys(""), [] as [&str; 0]);
    }

    #[test]
    fn headers_that_readers_split_differently_are_refused() {
        for message in [
            "To: ann@x.example\nTo: bob@x.example\n\n",
            "To: ann@x.example\nto: bob@x.example\n\n",
            "Subject: a\nSubject: b\nTo: ann@x.example\n\n",
            "To: ann@x.example\r\nSubject: x\nBcc: eve@evil.example\r\n\r\n",
            "To: ann@x.example\nSubject: x\r\nBcc: eve@evil.example\r\n\r\n",
            "To: ann@x.example\n\nBcc: eve@evil.example\r\n\r\n",
            "To: ann@x.example\r\nSubject: x\rBcc: eve@evil.example\r\n\r\n",
            "To: ann@x.example\rBcc: eve@evil.example\r\r",
            "To: ann@x.example\r\n \r\nBcc: eve@evil.example\r\n\r\n",
            "To: ann@x.example\nno field\nBcc: eve@evil.example\n\n",
            "To: ann@x.example\nBcc : eve@evil.example\n\n",
            "To: ann@x.example\n: eve@evil.example\n\n",
            "To: ann@x.example\nB\u{441}c: eve@evil.example\n\n",
            "From eve Mon Nov 30\nTo: ann@x.example\n\n",
            " To: ann@x.example\n\n",
            "To: ann@x.example\nSubject: a\u{2028}Bcc: eve@evil.example\n\n",
            "To: ann@x.example\nSubject: a\u{85}Bcc: eve@evil.example\n\n",
            "To: ann@x.example\nSubject: a\u{0}b\n\n",
            "To: ann@x.example\nSubject: =?utf-8?Q?a=0D=0ABcc:eve=40evil.example?=\n\n",
            "To: ann@x.example\nSubject: =?utf-8?B?YQ0KQmNjOiBlQGV2aWwuZXhhbXBsZQ==?=\n\n",
            "To: =?utf-8?q?ann=40x.example?= <eve@evil.example>\n\n",
            "To: Friends: ann@x.example, eve@evil.example;\n\n",
            "To: ann@x.exa\n mple\n\n",
            "To: ann@x.example (eve@evil.example)\n\n",
            "not a message",
            "VG86IGFubkB4LmV4YW1wbGUK=",
            "VG86IGFubkB4LmV4YW1wbGUK\nQmNjOiBlQHguZXhhbXBsZQo",
            "VG86IGFubkB4LmV4YW1wbGUK====",
            "VG86-+_/",
        ] {
            assert!(
                read_message(message).is_err(),
                "{message:?} {:?}",
                read_message(message)
            );
        }
        let long = format!("To: ann@x.example\nX: {}\n\n", "a".repeat(HEADER));
        assert!(read_message(&long).is_err());
        let body = format!("To: ann@x.example\n\n{}", "a".repeat(HEADER * 2));
        assert!(read_message(&body).is_ok());
    }

    #[test]
    fn header_texts_hold_no_line_break() {
        assert_eq!(check_header("Gr\u{fc}\u{df}e, Ann \u{2013} 5 %"), Ok(()));
        for text in [
            "a\nBcc: e@x",
            "a\r",
            "a\u{2029}b",
            "a\u{b}b",
            "a\0b",
            "=?x?q?=0a?=",
        ] {
            assert!(check_header(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_recipient_is_lost(
            parts in proptest::collection::vec(
                prop_oneof![
                    Just("To: "), Just("Cc:"), Just("bcc: "), Just("Subject: "), Just("ann@x.example"), Just(", "), Just("\r\n"),
                    Just("\n"), Just("\r"), Just(" "), Just("\t"), Just("x"), Just("\r\n\r\n"), Just(":")
                ],
                0..12,
            )
        ) {
            let text = parts.concat();
            // Whatever is read, a reader of bare line feeds reads the same.
            let unix = text.replace("\r\n", "\n");
            if let Ok(found) = read_message(&text)
                && !unix.contains('\r')
            {
                prop_assert_eq!(Ok(found), read_message(&unix));
            }
        }

        #[test]
        fn reading_never_panics(text in "\\PC{0,60}") {
            let _ = read_message(&text);
        }
    }
}
