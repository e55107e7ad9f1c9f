//! Words of a text and the hashed n-grams they are made into: what the trainer and the model must agree on to the bit.

/// Bits of an index: each table has `1 << BITS` weights.
pub const BITS: u32 = 18;

/// Words of a window, and how far the next one starts.
pub const WINDOW: usize = 32;
/// See [`WINDOW`].
pub const STRIDE: usize = 16;

/// Most letters of a word that count.
const LETTERS: usize = 24;

/// Stand-ins for what is different in every text.
const URL: char = '\u{1}';
const MAIL: char = '\u{2}';
const NUMBER: char = '0';

/// A word: lower-case letters, every number the same, every address the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word(Vec<char>);

/// Splits a text into words. A sign of a script without spaces is a word of its own.
pub fn words(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    for chunk in text.split_whitespace() {
        if chunk.contains("://") || chunk.starts_with("www.") {
            words.push(Word(vec![URL]));
        } else if chunk.contains('@') && chunk.contains('.') {
            words.push(Word(vec![MAIL]));
        } else {
            split(chunk, &mut words);
        }
    }
    words
}

fn split(chunk: &str, words: &mut Vec<Word>) {
    let mut word = Vec::new();
    let mut end = |word: &mut Vec<char>| {
        if !word.is_empty() {
            words.push(Word(std::mem::take(word)));
        }
    };
    for letter in chunk.chars().flat_map(char::to_lowercase) {
        if letter.is_numeric() {
            if word.last() != Some(&NUMBER) {
                word.push(NUMBER);
            }
        } else if !letter.is_alphanumeric() && letter != '\'' && letter != '’' {
            end(&mut word);
        } else if unspaced(letter) {
            end(&mut word);
            word.push(letter);
            end(&mut word);
        } else if word.len() < LETTERS {
            word.push(letter);
        }
    }
    end(&mut word);
}

/// Whether words of the letter's script are not set apart by spaces: Han, kana, Thai, Lao, Khmer, Burmese.
fn unspaced(letter: char) -> bool {
    matches!(letter, '\u{0E00}'..='\u{0EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}'
        | '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{9FFF}' | '\u{20000}'..='\u{2FFFF}')
}

/// Indices of the n-grams of one word position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grams {
    /// Of 1, 2 and 3 words that begin here; fewer at the end of the text.
    pub words: Vec<usize>,
    /// Of 3 to 5 letters of the word and the gaps around it.
    pub letters: Vec<usize>,
}

/// The n-grams at each word, in order.
pub fn grams(words: &[Word]) -> Vec<Grams> {
    (0..words.len())
        .map(|at| Grams {
            words: of_words(words.get(at..).unwrap_or_default()),
            letters: words.get(at).map(of_letters).unwrap_or_default(),
        })
        .collect()
}

/// N-grams of a window, of words and of letters, each once: a row of equal numbers says no more than one of them.
pub fn indices(window: &[Grams]) -> [Vec<usize>; 2] {
    let once = |of: fn(&Grams) -> &Vec<usize>| {
        let mut indices: Vec<usize> = window.iter().flat_map(of).copied().collect();
        indices.sort_unstable();
        indices.dedup();
        indices
    };
    [once(|gram| &gram.words), once(|gram| &gram.letters)]
}

fn of_words(rest: &[Word]) -> Vec<usize> {
    let mut hash = SEED;
    rest.iter()
        .take(3)
        .map(|word| {
            hash = word.0.iter().fold(mix(hash, 0x20), |hash, letter| {
                mix(hash, u64::from(*letter))
            });
            index(hash)
        })
        .collect()
}

fn of_letters(word: &Word) -> Vec<usize> {
    let padded: Vec<char> = std::iter::once(' ')
        .chain(word.0.iter().copied())
        .chain(std::iter::once(' '))
        .collect();
    let mut found = Vec::with_capacity(padded.len() * 3);
    for length in 3..=5 {
        for gram in padded.windows(length) {
            let hash = gram
                .iter()
                .fold(SEED ^ 0xC0FF, |hash, letter| mix(hash, u64::from(*letter)));
            found.push(index(hash));
        }
    }
    found
}

const SEED: u64 = 0x51_7C_C1_B7_27_22_0A_95;

const fn mix(hash: u64, value: u64) -> u64 {
    (hash.rotate_left(5) ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// The top bits after a last mixing: the lower ones of a product are weak.
fn index(hash: u64) -> usize {
    let mixed = (hash ^ (hash >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    usize::try_from(mixed >> (u64::BITS - BITS)).unwrap_or_default()
}

/// Where windows begin and end, in words: every word is in one, and the last window is full where the text is long enough.
pub fn windows(words: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let last = words.saturating_sub(WINDOW);
    let starts = (0..last).step_by(STRIDE).chain(std::iter::once(last));
    starts.map(move |start| start..(start + WINDOW).min(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(text: &str) -> Vec<String> {
        words(text)
            .into_iter()
            .map(|word| word.0.into_iter().collect())
            .collect()
    }

    #[test]
    fn numbers_and_addresses_are_alike_and_unspaced_scripts_are_split() {
        assert_eq!(spelled("Send 1,200 EUR"), ["send", "0", "0", "eur"]);
        assert_eq!(spelled("to a.b@c.example!"), ["to", "\u{2}"]);
        assert_eq!(
            spelled("see https://c.example/x now"),
            ["see", "\u{1}", "now"]
        );
        assert_eq!(spelled("忽略指令 ok"), ["忽", "略", "指", "令", "ok"]);
        assert_eq!(spelled("send_email(x1)"), ["send", "email", "x0"]);
    }

    #[test]
    fn windows_cover_every_word() {
        for count in 0..200 {
            let mut covered = vec![false; count];
            for window in windows(count) {
                assert!(window.len() <= WINDOW && window.end <= count);
                assert!(window.len() == WINDOW.min(count));
                covered[window].fill(true);
            }
            assert!(covered.iter().all(|covered| *covered), "{count}");
        }
    }

    #[test]
    fn a_change_of_hashing_would_make_the_weights_nonsense() {
        let grams = grams(&words("ignore the rules"));
        assert_eq!(
            grams
                .iter()
                .map(|gram| gram.words.len())
                .collect::<Vec<_>>(),
            [3, 2, 1]
        );
        assert_eq!(grams[0].letters.len(), 6 + 5 + 4);
        assert!(
            grams
                .iter()
                .flat_map(|gram| &gram.words)
                .all(|at| *at < 1 << BITS)
        );
    }
}
