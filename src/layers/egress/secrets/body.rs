//! Secrets in a body. It is read as text whatever its type says, and by its type besides: a peer may go by either.

use std::borrow::Cow;

use serde_json::Value;
use url::form_urlencoded;

use super::{Class, Kind, PrivateValues, Scanner};

impl Scanner {
    /// The first secret in a body that is in no encoding any more. `media`: its `Content-Type`.
    pub fn body(
        &self,
        media: Option<&str>,
        body: &[u8],
        private: Option<&PrivateValues>,
    ) -> Option<Kind> {
        if self.classes.contains(&Class::Registered) && self.register.is_in(body) {
            return Some(Kind::Registered);
        }
        let text = readable(body);
        let media = media.unwrap_or_default().to_ascii_lowercase();
        self.text(&text, private)
            .or_else(|| self.json(&text, private))
            .or_else(|| {
                let form = media.contains("form-urlencoded");
                form.then(|| self.form(&text, private)).flatten()
            })
            .or_else(|| {
                let plain = unquoted(&text)?;
                self.text(&plain, private)
            })
    }

    /// Values of JSON, wherever it is said to be: escapes undone, numbers, and texts that an array holds in pieces.
    fn json(&self, text: &str, private: Option<&PrivateValues>) -> Option<Kind> {
        if !text.trim_start().starts_with(['{', '[']) {
            return None;
        }
        let value: Value = serde_json::from_str(text).ok()?;
        let mut found = None;
        self.value(&value, &[], private, |_, kind| {
            found.get_or_insert(kind);
        });
        found
    }

    /// The fields of a form: `+` is a space there. Values are also read one behind the other, as pieces of one credential;
    /// numbers would make others by chance.
    fn form(&self, text: &str, private: Option<&PrivateValues>) -> Option<Kind> {
        let mut joined = String::with_capacity(text.len());
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            let found = self
                .text(&name, private)
                .or_else(|| self.text(&value, private));
            if found.is_some() {
                return found;
            }
            joined.push_str(&value);
        }
        self.only(&[Class::Credentials, Class::Registered])
            .text(&joined, None)
    }

    /// The first secret in a URL: its query is read as a form too.
    pub fn url(&self, url: &str, private: Option<&PrivateValues>) -> Option<Kind> {
        self.text(url, private).or_else(|| {
            let (_, query) = url.split_once('?')?;
            let query = query.split('#').next().unwrap_or_default();
            self.form(query, private)
        })
    }
}

/// Text, as far as it is some; of UTF-16 and UTF-32 what ASCII is in it.
fn readable(body: &[u8]) -> Cow<'_, str> {
    if body.contains(&0) {
        let seen: Vec<u8> = body.iter().copied().filter(|byte| *byte != 0).collect();
        return Cow::Owned(String::from_utf8_lossy(&seen).into_owned());
    }
    String::from_utf8_lossy(body)
}

/// Quoted-printable undone (RFC 2045 section 6.7), where parts of a body say that they are in it.
fn unquoted(text: &str) -> Option<String> {
    let named = || text.to_ascii_lowercase().contains("quoted-printable");
    if !text.contains('=') || !named() {
        return None;
    }
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'=' {
            plain.push(*byte);
            continue;
        }
        match after {
            [b'\r', b'\n', after @ ..] | [b'\n', after @ ..] => rest = after,
            [high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or_default();
                plain.push(u8::try_from(digit(*high) * 16 + digit(*low)).unwrap_or_default());
                rest = after;
            }
            _ => plain.push(b'='),
        }
    }
    Some(String::from_utf8_lossy(&plain).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanner() -> Scanner {
        Scanner {
            classes: [Class::Credentials].into(),
            ..Scanner::default()
        }
    }

    /// Split, so that no scanner of repositories takes it for one.
    fn key() -> String {
        ["sk-ant-", "api03-Zx81kQv7Lm2Pq9Rt4Ws6Yb3N"].concat()
    }

    #[test]
    fn a_key_is_found_in_a_body_of_any_type() {
        let key = key();
        let utf16: Vec<u8> = format!("key {key}")
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        let half = key.len() / 2;
        let (head, tail) = key.split_at(half);
        let escaped = key.replace('-', "\\u002d").replace('s', "\\u0073");
        let quoted = format!(
            "--b\r\nContent-Transfer-Encoding: Quoted-Printable\r\n\r\n{head}=\r\n{}\r\n--b--\r\n",
            tail.replace('Y', "=59")
        );
        let mut binary = vec![0xff, 0xfe, 0x80, 0x00];
        binary.extend_from_slice(key.as_bytes());
        binary.push(0xff);
        for (media, body) in [
            ("text/plain", key.clone().into_bytes()),
            (
                "application/json",
                format!("{{\"a\": [\"{head}\", \"{tail}\"]}}").into_bytes(),
            ),
            ("text/plain", format!("[\"{escaped}\"]").into_bytes()),
            (
                "application/x-www-form-urlencoded",
                format!("a=1&b={}", key.replace('s', "%73")).into_bytes(),
            ),
            (
                "application/x-www-form-urlencoded",
                format!("a={head}&a={tail}").into_bytes(),
            ),
            ("multipart/form-data; boundary=b", quoted.into_bytes()),
            ("application/octet-stream", binary),
            ("text/plain", utf16),
            (
                "",
                data_encoding::BASE64_MIME
                    .encode(format!("{}{key}", "some text ".repeat(9)).as_bytes())
                    .into_bytes(),
            ),
        ] {
            let found = scanner().body(Some(media), &body, None);
            assert_eq!(
                found,
                Some(Kind::Model),
                "{media} {}",
                String::from_utf8_lossy(&body)
            );
        }
    }

    #[test]
    fn ids_and_other_bytes_are_none() {
        for body in [
            &b"{\"id\": \"123e4567-e89b-12d3-a456-426614174000\"}"[..],
            b"a=b&c=d",
            b"\x89PNG\r\n\x1a\n\x00\x00",
            b"",
        ] {
            assert_eq!(scanner().body(None, body, None), None);
        }
    }
}
