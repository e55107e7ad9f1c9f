//! Characters as rules read them: without accents and in lower case, in the form that they are compatible with, and letters that
//! look like Latin ones.

use unicode_normalization::char::{
    canonical_combining_class, decompose_canonical, decompose_compatible,
};
use unicode_security::confusable_detection::skeleton;

/// The ASCII character of a tag character.
pub(super) fn tag(c: char) -> Option<u8> {
    let code = u32::from(c);
    (0xe0020..=0xe007e)
        .contains(&code)
        .then(|| u8::try_from(code - 0xe0000).unwrap_or(b' '))
}

pub(super) fn is_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20ff}' | '\u{fe20}'..='\u{fe2f}')
}

pub(super) fn is_latin(c: char) -> bool {
    c.is_ascii_alphabetic() || matches!(c, '\u{c0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}')
}

/// Scripts that have letters which look like Latin ones: IPA, Greek, Cyrillic, Armenian, Cherokee, Coptic, Lisu, letter-like signs.
pub(super) fn is_alike_script(c: char) -> bool {
    matches!(c, '\u{250}'..='\u{2af}' | '\u{370}'..='\u{58f}' | '\u{13a0}'..='\u{13ff}' | '\u{1c80}'..='\u{1c8f}' | '\u{1d00}'..='\u{1d7f}' | '\u{1f00}'..='\u{1fff}'
        | '\u{2c80}'..='\u{2cff}' | '\u{a640}'..='\u{a69f}' | '\u{a4d0}'..='\u{a4ff}' | '\u{ab70}'..='\u{abbf}')
}

/// The Latin letter that a letter of another script looks like.
pub(super) fn alike(c: char) -> Option<u8> {
    let own = match c {
        'т' | 'Т' | 'τ' | 'Τ' | 'ᴛ' => b't',
        'м' | 'М' | 'Μ' | 'ᴍ' => b'm',
        'н' | 'Н' | 'Η' | 'ʜ' => b'h',
        'к' | 'К' | 'κ' | 'Κ' | 'ᴋ' => b'k',
        'п' | 'η' | 'ո' | 'ռ' | 'ɴ' => b'n',
        'г' | 'ᴦ' | 'ʀ' => b'r',
        'и' | 'υ' | 'μ' | 'ս' => b'u',
        'в' | 'В' | 'ь' | 'β' | 'Β' | 'ʙ' => b'b',
        'α' | 'Α' | 'а' | 'А' | 'ᴀ' | 'ɑ' => b'a',
        'ε' | 'Ε' | 'е' | 'Е' | 'є' | 'э' | 'ё' | 'ᴇ' | 'ɛ' | 'з' => b'e',
        'ι' | 'Ι' | 'і' | 'І' | 'ї' | 'ɪ' | 'ı' => b'i',
        'ν' => b'v',
        'ω' | 'ш' | 'ԝ' => b'w',
        'γ' | 'у' | 'У' | 'ү' | 'Υ' | 'ʏ' => b'y',
        'σ' | 'ο' | 'Ο' | 'о' | 'О' | 'օ' => b'o',
        'д' => b'd',
        'ѕ' | 'Ѕ' => b's',
        'ɡ' | 'ց' | 'ɢ' => b'g',
        'ʟ' => b'l',
        'ꜰ' => b'f',
        _ => 0,
    };
    if own != 0 {
        return Some(own);
    }
    let mut buffer = [0; 4];
    let mut letters = skeleton(c.encode_utf8(&mut buffer));
    let (first, second) = (letters.next()?, letters.next());
    let lower = first.to_ascii_lowercase();
    (second.is_none() && lower.is_ascii_alphabetic()).then(|| u8::try_from(lower).unwrap_or(b'?'))
}

/// A character without its accents, in lower case, and in the form that it is compatible with.
pub(super) fn fold(c: char, emit: &mut impl FnMut(char)) {
    match c {
        // Kana, Han, Hangul: composed forms are the words' own.
        // And Cyrillic without accents: most of it.
        '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7a3}'
        | 'а'..='и'
        | 'к'..='я' => emit(c),
        'А'..='И' | 'К'..='Я' => emit(char::from_u32(u32::from(c) + 0x20).unwrap_or(c)),
        'ß' => {
            emit('s');
            emit('s');
        }
        'ø' | 'Ø' => emit('o'),
        'ł' | 'Ł' => emit('l'),
        'đ' | 'Đ' | 'ð' | 'Ð' => emit('d'),
        'ı' | 'İ' => emit('i'),
        'ħ' | 'Ħ' => emit('h'),
        'æ' | 'Æ' => {
            emit('a');
            emit('e');
        }
        'œ' | 'Œ' => {
            emit('o');
            emit('e');
        }
        '\u{2018}' | '\u{2019}' | '\u{201b}' | '\u{2bc}' | '\u{b4}' => emit('\''),
        '\u{201c}'..='\u{201f}' | '\u{ab}' | '\u{bb}' => emit('"'),
        '\u{2010}'..='\u{2015}' | '\u{2212}' => emit('-'),
        // Letters in squares and circles without a compatible form, and the halves of flags.
        '\u{1f1e6}'..='\u{1f1ff}' => emit_letter(c, 0x1_f1e6, emit),
        '\u{1f150}'..='\u{1f169}' => emit_letter(c, 0x1_f150, emit),
        '\u{1f170}'..='\u{1f189}' => emit_letter(c, 0x1_f170, emit),
        '\u{c0}'..='\u{24f}' | '\u{370}'..='\u{52f}' | '\u{1e00}'..='\u{1fff}' => {
            decompose_canonical(c, |part| {
                if canonical_combining_class(part) == 0 && !is_mark(part) {
                    lower(part, emit);
                }
            });
        }
        '\u{1d00}'..='\u{1d7f}' | '\u{250}'..='\u{2af}' => lower(c, emit),
        _ => decompose_compatible(c, |part| {
            if !is_mark(part) {
                lower(part, emit);
            }
        }),
    }
}

fn emit_letter(c: char, first: u32, emit: &mut impl FnMut(char)) {
    let letter = u32::from(b'a') + (u32::from(c) - first);
    emit(char::from_u32(letter).unwrap_or(c));
}

fn lower(c: char, emit: &mut impl FnMut(char)) {
    if c.is_ascii() {
        emit(c.to_ascii_lowercase());
    } else {
        c.to_lowercase().filter(|c| !is_mark(*c)).for_each(emit);
    }
}

/// A word of the rules as it stands in a view, in lower case and without apostrophes.
pub(super) fn folded(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    for c in word.chars() {
        if c.is_ascii() {
            if c != '\'' {
                out.push(c.to_ascii_lowercase());
            }
        } else if !is_mark(c) {
            fold(c, &mut |folded| out.push(folded));
        }
    }
    out
}
