//! Words of others as HTML: escapes that the eye tells from the text, gaps and repeats counted, nothing that reorders a line.

use maud::{Markup, html};

use crate::layers::tickets::show::{Piece, pieces, shown};

/// Equal escapes, or spaces, of which so many follow each other are told once, with their number.
const RUN: usize = 4;

/// A text of any length: a long one as its start, its end, its length and its hash.
pub(super) fn short(text: &str) -> Markup {
    let shown = shown(text);
    html! {
        bdi.v dir="ltr" { (marked(&shown.head)) }
        @if let Some(folded) = shown.folded {
            span.cut { " … " }
            bdi.v dir="ltr" { (marked(&folded.tail)) }
            span.cut { " (" (count(folded.length, "character")) ", sha256 " (folded.sha256) "…)" }
        }
    }
}

/// All of the text.
pub(super) fn whole(text: &str) -> Markup {
    html! { bdi.v dir="ltr" { (marked(&pieces(text))) } }
}

/// A text in a place of one line, such as a name, without the look of a value.
pub(in crate::approvals) fn plain(text: &str) -> Markup {
    let shown = shown(text);
    html! {
        bdi dir="ltr" { (marked(&shown.head)) }
        @if let Some(folded) = shown.folded {
            " … " bdi dir="ltr" { (marked(&folded.tail)) } " (" (count(folded.length, "character")) ")"
        }
    }
}

/// All of the text with every character beyond ASCII as an escape; `None` where [`whole`] shows it so already.
pub(super) fn ascii(text: &str) -> Option<Markup> {
    let shown = pieces(text);
    let beyond = |piece: &Piece| matches!(piece, Piece::Plain(text) if !text.is_ascii());
    if !shown.iter().any(beyond) {
        return None;
    }
    let mut all = Vec::new();
    for piece in shown {
        match piece {
            Piece::Plain(text) => {
                for run in text.split_inclusive(|c: char| !c.is_ascii()) {
                    let last = run.chars().next_back().filter(|c| !c.is_ascii());
                    all.push(Piece::Plain(
                        run.trim_end_matches(|c: char| !c.is_ascii()).to_owned(),
                    ));
                    all.extend(last.map(|c| Piece::Escape(format!("\\u{{{:x}}}", u32::from(c)))));
                }
            }
            escape @ Piece::Escape(_) => all.push(escape),
        }
    }
    all.retain(|piece| !piece.as_str().is_empty());
    Some(html! { bdi.v dir="ltr" { (marked(&all)) } })
}

fn marked(pieces: &[Piece]) -> Markup {
    html! {
        @for run in pieces.chunk_by(|a, b| a == b && matches!(a, Piece::Escape(_))) {
            @match run {
                [Piece::Plain(text)] => (spaced(text)),
                [Piece::Escape(first), ..] if run.len() >= RUN => span.esc { (first) " ×" (run.len()) },
                _ => @for piece in run { span.esc { (piece.as_str()) } },
            }
        }
    }
}

fn spaced(text: &str) -> Markup {
    let letters: Vec<char> = text.chars().collect();
    html! {
        @for run in letters.chunk_by(|a, b| (*a == ' ') == (*b == ' ')) {
            @if run.first() == Some(&' ') && run.len() >= RUN {
                span.esc { (run.len()) " spaces" }
            } @else {
                (run.iter().collect::<String>())
            }
        }
    }
}

/// A text that is escaped already, such as a summary.
pub(super) fn written(text: &str) -> Markup {
    let mut found = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        let (escape, after) = escaped(after);
        if let Some(escape) = escape {
            found.push(Piece::Plain(std::mem::take(&mut plain)));
            found.push(Piece::Escape(format!("\\{escape}")));
        } else {
            plain.push('\\');
            let mut next = after.chars();
            plain.extend(next.next());
            rest = next.as_str();
            continue;
        }
        rest = after;
    }
    plain.push_str(rest);
    found.push(Piece::Plain(plain));
    html! { span.written dir="ltr" { (marked(&found)) } }
}

/// What follows a backslash, if it is an escape, and the text behind it.
fn escaped(after: &str) -> (Option<&str>, &str) {
    let split = match after.chars().next() {
        Some('n' | 'r' | 't') => 1,
        Some('u') if after.starts_with("u{") => after.find('}').map_or(0, |end| end + 1),
        _ => 0,
    };
    match after.split_at_checked(split) {
        Some((escape, rest)) if split > 0 => (Some(escape), rest),
        _ => (None, after),
    }
}

/// How many characters of the text are shown as escapes: what it hides.
pub(super) fn hidden(text: &str) -> usize {
    if text.bytes().all(|b| matches!(b, b' '..=b'~' | b'\n')) {
        return 0;
    }
    let is_hidden = |piece: &&Piece| matches!(piece, Piece::Escape(e) if !matches!(e.as_str(), "\\n" | "\\r" | "\\t"));
    pieces(text).iter().filter(is_hidden).count()
}

/// `1 argument`, `1,204 arguments`.
pub(super) fn count(number: usize, of: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{} {of}{s}", grouped(number))
}

fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let lead = digits.len() % 3;
    digits
        .chars()
        .enumerate()
        .fold(String::new(), |mut text, (at, digit)| {
            if at > 0 && at % 3 == lead {
                text.push(',');
            }
            text.push(digit);
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_and_repeats_are_counted() {
        let html = short(&format!("a{}b\n\n\n\n\n<c>", " ".repeat(57))).into_string();
        assert!(html.contains(">57 spaces</span>b"), "{html}");
        assert!(html.contains(r"\n ×5"), "{html}");
        assert!(html.contains("&lt;c&gt;"), "{html}");
    }

    #[test]
    fn hidden_characters_are_escapes_and_counted() {
        let html = short("pay\u{202e}x").into_string();
        assert!(
            html.contains(r#"<span class="esc">\u{202e}</span>"#),
            "{html}"
        );
        assert_eq!(hidden("pay\u{202e}x\n\u{200b}"), 2);
        assert_eq!(hidden("naïve\n\ttext"), 0);
    }

    #[test]
    fn escapes_of_a_summary_are_told_from_its_words() {
        let html = written(r#"Pay "a\\u{41}\u{202e}\n" C:\\new"#).into_string();
        assert!(
            html.contains(r#"a\\u{41}<span class="esc">\u{202e}</span>"#),
            "{html}"
        );
        assert!(
            html.contains(r#"<span class="esc">\n</span>&quot; C:\\new"#),
            "{html}"
        );
    }

    #[test]
    fn what_is_beyond_ascii_can_be_shown_as_escapes() {
        let html = ascii("né漢\u{202e}x    y").unwrap().into_string();
        let bare = html
            .replace(r#"<span class="esc">"#, "")
            .replace("</span>", "");
        assert!(
            bare.contains(r"n\u{e9}\u{6f22}\u{202e}x4 spacesy"),
            "{html}"
        );
        assert!(ascii("plain\u{202e}").is_none());
    }

    #[test]
    fn numbers_are_grouped() {
        let words = [1, 12, 123, 1234, 12_345, 1_234_567].map(|n| count(n, "x"));
        assert_eq!(
            words,
            [
                "1 x",
                "12 xs",
                "123 xs",
                "1,234 xs",
                "12,345 xs",
                "1,234,567 xs"
            ]
        );
    }
}
