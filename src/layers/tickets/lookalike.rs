//! Letters and signs that can be taken for ASCII ones (UTS 39), where nothing around them says that they are not.

use unicode_script::{Script, UnicodeScript};
use unicode_security::skeleton;

/// For each character of the text, whether a reader could take it for one of ASCII.
///
/// A letter of another alphabet counts where its word also has ASCII letters, or where no other letter of the text shows the
/// alphabet; a sign where it stands inside a word; and digits and letters of other styles (full width, mathematical) always.
/// Latin letters with an accent or a letter of their own up to U+024F do not: they differ to the eye.
pub(super) fn lookalikes(text: &str) -> Vec<bool> {
    let chars: Vec<char> = text.chars().collect();
    if text.is_ascii() {
        return vec![false; chars.len()];
    }
    let looks: Vec<Option<Look>> = chars.iter().map(|c| look(*c)).collect();
    let shown = shown_scripts(&chars, &looks);
    let mut found = Vec::with_capacity(chars.len());
    for word in words(&chars) {
        let latin = word.iter().any(char::is_ascii_alphanumeric);
        let mut before = None;
        let from = found.len();
        for (at, c) in word.iter().enumerate() {
            let taken = match looks.get(from + at).copied().flatten() {
                None => false,
                Some(Look::Styled) => true,
                Some(Look::Sign) => before.is_some() && at + 1 < word.len(),
                Some(Look::Letter) => latin || !shown.contains(&c.script()),
            };
            found.push(taken);
            before = (taken || c.is_ascii_graphic()).then_some(());
        }
    }
    found
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// An ASCII letter or digit in another style.
    Styled,
    /// A sign of ASCII.
    Sign,
    /// A letter or digit of another alphabet.
    Letter,
}

fn look(c: char) -> Option<Look> {
    if c.is_ascii() || matches!(c, '\u{c0}'..='\u{24f}') {
        return None;
    }
    let mut buffer = [0; 4];
    let mut like = skeleton(c.encode_utf8(&mut buffer)).peekable();
    like.peek()?;
    let (mut ascii, mut word, mut quote) = (true, true, true);
    for c in like {
        ascii &= c.is_ascii();
        word &= c.is_ascii_alphanumeric();
        quote &= matches!(c, '\'' | '"' | '`');
    }
    let other_digit =
        c.is_numeric() && !matches!(c, '\u{ff10}'..='\u{ff19}' | '\u{1d7ce}'..='\u{1d7ff}');
    match c.script() {
        _ if !ascii || quote => None,
        Script::Common | Script::Inherited | Script::Latin if other_digit => Some(Look::Letter),
        Script::Common | Script::Inherited | Script::Latin if word => Some(Look::Styled),
        Script::Common | Script::Inherited | Script::Latin => Some(Look::Sign),
        _ => Some(Look::Letter),
    }
}

/// Alphabets of which the text has a letter that cannot be taken for ASCII.
fn shown_scripts(chars: &[char], looks: &[Option<Look>]) -> Vec<Script> {
    let mut shown = Vec::new();
    for (c, look) in chars.iter().zip(looks) {
        if !c.is_ascii() && look.is_none() && c.is_alphabetic() && !shown.contains(&c.script()) {
            shown.push(c.script());
        }
    }
    if !shown.is_empty() {
        // Digits belong to no alphabet: any other letter shows that they may be another's.
        shown.push(Script::Common);
    }
    shown
}

/// The text in pieces that begin after white space; together they are the text.
fn words(chars: &[char]) -> impl Iterator<Item = &[char]> {
    chars.chunk_by(|a, b| a.is_whitespace() == b.is_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(text: &str) -> String {
        let found = lookalikes(text);
        assert_eq!(found.len(), text.chars().count());
        let chars = text.chars().zip(found);
        chars.filter(|(_, taken)| *taken).map(|(c, _)| c).collect()
    }

    #[test]
    fn a_foreign_letter_in_an_ascii_word_is_taken_for_one() {
        assert_eq!(taken("p\u{430}ypal.example"), "\u{430}");
        assert_eq!(taken("\u{3c1}ay ok"), "\u{3c1}");
        assert_eq!(
            taken("\u{440}\u{430}\u{443}\u{440}@bank.example"),
            "\u{440}\u{430}\u{443}\u{440}"
        );
        // All of the value looks like ASCII.
        assert_eq!(taken("\u{430}\u{440}\u{435}"), "\u{430}\u{440}\u{435}");
    }

    #[test]
    fn words_of_other_languages_stay_as_they_are() {
        for text in [
            "Возврат за заказ А и Б, срочно",
            "Rückerstattung für Größe Ł, façade, İstanbul, ılık",
            "l’ordre – 20 €…",
            "注文 A-1001 の返金：テスト",
            "αλφα και ο φίλος",
            "مرحبا بالعالم",
            "naïve “quotes” ok",
        ] {
            assert_eq!(taken(text), "", "{text}");
        }
    }

    #[test]
    fn styled_letters_and_signs_inside_words_are_taken() {
        assert_eq!(taken("\u{ff41}\u{1d5c9}x"), "\u{ff41}\u{1d5c9}");
        assert_eq!(taken("A\u{2010}1001"), "\u{2010}");
        assert_eq!(taken("https:\u{2044}\u{2044}evil"), "\u{2044}\u{2044}");
        assert_eq!(taken("a – b"), "");
    }
}
