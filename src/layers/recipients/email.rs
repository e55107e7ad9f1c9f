//! Mailbox lists, read by a grammar stricter than RFC 5322: what two mail programs could split differently is refused.
//!
//! Taken: `addr`, `<addr>`, `Name <addr>`, `"Name" <addr>`, separated by commas. Refused: comments, groups, routes, quoted
//! local parts, encoded words, address literals, `%` and `!` paths, control and invisible characters.

use std::str::FromStr;

use email_address::EmailAddress;
use unicode_normalization::char::decompose_compatible;

use super::code::{Code, Fault};
use crate::layers::egress::read_domain;
use crate::policy::{List, Plus};
use crate::unicode::{is_annotation, is_ignorable, is_separator};

/// An address as it is compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// Before the `@`, lower-cased in ASCII; other letters stay as they are.
    pub local: String,
    /// After it, as A-labels.
    pub domain: String,
}

impl Address {
    /// `local@domain`, as lists hold it.
    pub fn to_key(&self) -> String {
        format!("{}@{}", self.local, self.domain)
    }

    /// The same without what follows a plus; `None` where there is none, or nothing before it.
    fn folded(&self) -> Option<Self> {
        let (bare, _) = self.local.split_once('+')?;
        (!bare.is_empty()).then(|| Self {
            local: bare.to_owned(),
            domain: self.domain.clone(),
        })
    }

    /// Whether the list allows it: by its whole address, or, where that is ASCII, by its domain.
    pub(super) fn is_on(&self, list: &List, plus: Plus) -> bool {
        if list.emails.contains(&self.to_key()) {
            return true;
        }
        if !self.local.is_ascii() {
            // Mail programs differ on what such a local part is: only what is listed byte for byte.
            return false;
        }
        let folded = match plus {
            Plus::Fold => self.folded(),
            Plus::Distinct => None,
        };
        folded.is_some_and(|bare| list.emails.contains(&bare.to_key()))
            || list.email_domains.contains(&self.domain)
            || is_below(&self.domain, list)
    }
}

fn is_below(domain: &str, list: &List) -> bool {
    let mut rest = domain;
    while let Some((_, parent)) = rest.split_once('.') {
        if list.email_subdomains_of.contains(parent) {
            return true;
        }
        rest = parent;
    }
    false
}

/// Every address of a mailbox list. An empty or blank text has none.
///
/// # Errors
/// The first thing that is not plain.
pub fn read_list(text: &str) -> Result<Vec<Address>, Fault> {
    check_hidden(text)?;
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    split(text)?.into_iter().map(read_mailbox).collect()
}

/// No line break, and nothing that a person does not see.
pub(super) fn check_hidden(text: &str) -> Result<(), Fault> {
    if text.contains(is_line_break) {
        return Err(Fault::new(Code::HeaderInjection, "a line break"));
    }
    if text.contains(is_hidden) {
        return Err(Fault::malformed("a control or invisible character"));
    }
    Ok(())
}

/// What some reader takes for the end of a line.
pub(super) const fn is_line_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}') || is_separator(c)
}

/// Characters that a person does not see and a mail program may act on.
fn is_hidden(c: char) -> bool {
    c.is_control() || is_ignorable(c) || is_annotation(c) || is_separator(c)
}

/// Splits at the commas outside quotes.
fn split(text: &str) -> Result<Vec<&str>, Fault> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut quoted = false;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ',' if !quoted => {
                parts.push(text.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    if quoted {
        return Err(Fault::malformed("an open quote"));
    }
    parts.push(text.get(start..).unwrap_or_default());
    Ok(parts)
}

fn read_mailbox(text: &str) -> Result<Address, Fault> {
    let text = text.trim_matches(' ');
    if text.is_empty() {
        return Err(Fault::malformed("an empty element"));
    }
    let Some(inner) = text.strip_suffix('>') else {
        return read_address(text);
    };
    let (name, address) = inner
        .rsplit_once('<')
        .ok_or(Fault::malformed("a bracket without its other half"))?;
    check_name(name.trim_matches(' '))?;
    read_address(address)
}

/// A display name is never compared, only looked at for what could be an address to another reader.
fn check_name(name: &str) -> Result<(), Fault> {
    if name.contains("=?") {
        return Err(Fault::unsupported("an encoded word"));
    }
    if let Some(rest) = name.strip_prefix('"') {
        let inner = rest
            .strip_suffix('"')
            .ok_or(Fault::malformed("text around a quoted name"))?;
        // Not `"a" <x@evil> "b"`: an inner quote must be escaped.
        let mut escaped = false;
        for c in inner.chars() {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => return Err(Fault::malformed("text around a quoted name")),
                _ => {}
            }
        }
        return if escaped {
            Err(Fault::malformed("an open quote"))
        } else {
            Ok(())
        };
    }
    if name.contains(|c: char| "\"()<>[]:;@\\,".contains(c)) {
        return Err(Fault::unsupported("special characters in an unquoted name"));
    }
    Ok(())
}

fn read_address(text: &str) -> Result<Address, Fault> {
    let plain = |why| {
        let unusual = |c: char| "()<>[]:;\"\\,".contains(c);
        if text.contains(unusual) {
            Fault::unsupported("a comment, group, route, quoted part or literal")
        } else {
            Fault::malformed(why)
        }
    };
    if text.contains("=?") {
        // Its characters are plain ones, and some mail programs decode it all the same: to another address.
        return Err(Fault::unsupported("an encoded word"));
    }
    let (local, domain) = text.split_once('@').ok_or(plain("no address"))?;
    let atom = |atom: &str| !atom.is_empty() && atom.chars().all(is_atext);
    if !local.split('.').all(atom) {
        return Err(plain("a local part that is not plain"));
    }
    if local.contains(['%', '!']) {
        return Err(Fault::unsupported("a path in the local part"));
    }
    if domain.ends_with('.') {
        return Err(Fault::malformed("a dot after the domain"));
    }
    let address = Address {
        local: local.to_ascii_lowercase(),
        domain: read_domain(domain).map_err(|_| plain("a domain that is not plain"))?,
    };
    // A second opinion: lengths and whatever else the standard asks for.
    EmailAddress::from_str(&address.to_key()).map_err(|_| plain("not an address"))?;
    Ok(address)
}

/// RFC 5322 section 3.2.3 and RFC 6532, but for forms of ASCII's punctuation, such as a wide `＠` or `，`: a mail program
/// that normalises reads two addresses there.
fn is_atext(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c);
    }
    let mut plain = !c.is_whitespace();
    decompose_compatible(c, |part| {
        plain &= !part.is_ascii() || part.is_ascii_alphanumeric();
    });
    plain
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys(text: &str) -> Vec<String> {
        read_list(text)
            .unwrap()
            .iter()
            .map(Address::to_key)
            .collect()
    }

    #[test]
    fn plain_lists_are_read() {
        for (text, expected) in [
            ("ann@shop.example", "ann@shop.example"),
            ("ANN.Smith+x@Shop.Example", "ann.smith+x@shop.example"),
            ("<ann@shop.example>", "ann@shop.example"),
            ("Ann Smith <ann@shop.example>", "ann@shop.example"),
            ("\"Smith, Ann\" <ann@shop.example>", "ann@shop.example"),
            (
                "\"bob@shop.example\" <eve@evil.example>",
                "eve@evil.example",
            ),
            (
                "\"a \\\" <bob@shop.example>, \" <eve@evil.example>",
                "eve@evil.example",
            ),
            ("o'brien@shop.example", "o'brien@shop.example"),
            ("ann@b\u{fc}cher.example", "ann@xn--bcher-kva.example"),
            ("j\u{f6}rg@shop.example", "j\u{f6}rg@shop.example"),
        ] {
            assert_eq!(keys(text), [expected], "{text}");
        }
        assert_eq!(
            keys("a@x.example, \"B, C\" <b@x.example> ,c@x.example"),
            ["a@x.example", "b@x.example", "c@x.example"]
        );
        assert_eq!(keys("  "), [] as [&str; 0]);
    }

    #[test]
    fn what_mail_programs_read_differently_is_refused() {
        for text in [
            "bob@x.example eve@evil.example",
            "eve\u{ff20}evil.example\u{ff0c}bob@x.example",
            "\u{ff1c}bob@x.example",
            "bob\u{fe54}@x.example",
            "bob@x.example; eve@evil.example",
            "bob@x.example,",
            ",bob@x.example",
            "a@b@c.example",
            "\"a,b\"@x.example",
            "\"bob\"@x.example",
            "bob@x.example\r\nBcc: eve@evil.example",
            "bob@x.example\u{2028}eve@evil.example",
            "bob@x.exam\u{200b}ple",
            "All: bob@x.example, eve@evil.example;",
            "bob@x.example (eve@evil.example)",
            "bob(c)@x.example",
            "<@evil.example:bob@x.example>",
            "eve%evil.example@x.example",
            "evil.example!eve@x.example",
            "=?utf-8?q?a?= <bob@x.example>",
            "bob@[192.0.2.7]",
            "bob@192.0.2.7",
            "bob@x.example.",
            "bob@x..example",
            ".bob@x.example",
            "bob.@x.example",
            "b..ob@x.example",
            "bob@x.example> <eve@evil.example",
            "bob@x.example <eve@evil.example>",
            "\"a\" <bob@x.example> \"b\" <eve@evil.example>",
            "Bob <bob@x.example> Eve <eve@evil.example>",
            "<bob@x.example",
            "bob@x.example>",
            "\"Bob <bob@x.example>",
            "bob",
            "@x.example",
            "bob@",
            "mailto:bob@x.example",
            "bob@x\u{ff0e}example",
            "bob @x.example",
        ] {
            assert!(read_list(text).is_err(), "{text:?} {:?}", read_list(text));
        }
        let long = format!("{}@x.example", "a".repeat(65));
        assert!(read_list(&long).is_err());
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in "\\PC{0,60}") {
            let _ = read_list(&text);
        }

        #[test]
        fn no_address_is_lost(
            parts in proptest::collection::vec(
                prop_oneof![
                    Just("bob@x.example"), Just("eve@evil.example"), Just(","), Just(" "), Just("\""), Just("<"), Just(">"),
                    Just("\\"), Just("Bob"), Just(";"), Just("(")
                ],
                0..8,
            )
        ) {
            let text = parts.concat();
            // Either refused, or every address outside quotes is in the answer.
            if let Ok(found) = read_list(&text)
                && !text.contains('"')
            {
                let at = text.matches('@').count();
                prop_assert_eq!(found.len(), at, "{}", text);
            }
        }
    }
}
