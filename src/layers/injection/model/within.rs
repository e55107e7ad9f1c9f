//! What kind of document a window stands in: ordinary documents of each kind reach other heights.

/// Bytes of a document that its shape is read from.
const HEAD: usize = 4096;

/// The shape of a document, by its looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Shape {
    /// Running text.
    Plain,
    /// Header lines of a mail, or a calendar entry.
    Mail,
    /// JSON, YAML or the like.
    Record,
    /// HTML or XML.
    Markup,
    /// Markdown.
    Markdown,
    /// Rows of equal columns.
    Table,
    /// Lines that begin with a time.
    Log,
    /// Program text.
    Code,
    /// Running text, a mail or Markdown in another language than English.
    Foreign,
}

/// Every shape, in the order of the weights' file.
pub const SHAPES: [Shape; 9] = [
    Shape::Plain,
    Shape::Mail,
    Shape::Record,
    Shape::Markup,
    Shape::Markdown,
    Shape::Table,
    Shape::Log,
    Shape::Code,
    Shape::Foreign,
];

/// Upper ends of the length bands, in bytes; a longer document is in the last one.
pub const BANDS: [usize; 3] = [400, 2_000, 10_000];

/// The document that a window is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Within {
    /// Its shape.
    pub shape: Shape,
    /// Its length band: index of the first of [`BANDS`] that it is not longer than.
    pub band: usize,
}

impl Within {
    /// Reads shape and length of a document. Looks at its first 4 KiB only.
    pub fn of(document: &str) -> Self {
        let band = BANDS.iter().position(|most| document.len() <= *most);
        let head = document
            .get(..document.floor_char_boundary(HEAD))
            .unwrap_or(document);
        let shape = match shape(head.trim_start_matches('\u{feff}').trim()) {
            Shape::Plain | Shape::Mail | Shape::Markdown if is_foreign(head) => Shape::Foreign,
            shape => shape,
        };
        Self {
            shape,
            band: band.unwrap_or(BANDS.len()),
        }
    }

    /// Place of this kind in a list of all kinds, by shape and then by band.
    pub fn index(self) -> usize {
        let shape = SHAPES.iter().position(|shape| *shape == self.shape);
        shape.unwrap_or_default() * (BANDS.len() + 1) + self.band
    }

    /// How many kinds there are.
    pub const COUNT: usize = SHAPES.len() * (BANDS.len() + 1);
}

fn shape(head: &str) -> Shape {
    let lines: Vec<&str> = head
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .take(40)
        .collect();
    let share = |holds: &dyn Fn(&str) -> bool| {
        lines.iter().filter(|line| holds(line)).count() * 2 > lines.len()
    };
    if head.starts_with('<') {
        return Shape::Markup;
    }
    if head.starts_with(['{', '[']) && head.contains([':', '"']) {
        return Shape::Record;
    }
    let headers = lines.iter().take(8).filter(|line| is_header(line)).count();
    if headers >= 2 || lines.first().is_some_and(|line| is_subject(line)) {
        return Shape::Mail;
    }
    if share(&is_dated) && lines.len() > 2 {
        return Shape::Log;
    }
    if lines.len() > 1 && is_table(&lines) {
        return Shape::Table;
    }
    if share(&is_code) {
        return Shape::Code;
    }
    if share(&is_pair) && lines.len() > 2 {
        return Shape::Record;
    }
    if lines.iter().any(|line| is_markdown(line)) {
        return Shape::Markdown;
    }
    Shape::Plain
}

/// English is one word in three of these; a text of other scripts has no words to count.
fn is_foreign(head: &str) -> bool {
    const ENGLISH: [&str; 26] = [
        "the", "of", "and", "to", "a", "in", "is", "it", "for", "that", "with", "this", "on",
        "you", "are", "be", "or", "as", "your", "i", "by", "from", "not", "can", "will", "we",
    ];
    let letters = head.chars().filter(|letter| letter.is_alphabetic());
    let (ascii, other) = letters.fold((0_usize, 0_usize), |(ascii, other), letter| {
        if letter.is_ascii() {
            (ascii + 1, other)
        } else {
            (ascii, other + 1)
        }
    });
    let words: Vec<&str> = head
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let english = words
        .iter()
        .filter(|word| ENGLISH.iter().any(|known| word.eq_ignore_ascii_case(known)))
        .count();
    other > ascii || (words.len() >= 12 && english * 12 < words.len())
}

fn is_header(line: &str) -> bool {
    const HEADERS: [&str; 11] = [
        "from:",
        "to:",
        "cc:",
        "date:",
        "subject:",
        "reply-to:",
        "message-id:",
        "received:",
        "begin:vcalendar",
        "mime-version:",
        "sent:",
    ];
    starts(line, &HEADERS)
}

fn is_subject(line: &str) -> bool {
    starts(line, &["subject:", "subject of the email:", "begin:v"])
}

fn starts(line: &str, with: &[&str]) -> bool {
    with.iter().any(|start| {
        line.get(..start.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(start))
    })
}

/// A line of a log begins with a date, a time or a level.
fn is_dated(line: &str) -> bool {
    let digits = line.bytes().take(24).filter(u8::is_ascii_digit).count();
    let begins = line.starts_with(|first: char| first.is_ascii_digit() || first == '[')
        || starts(line, &["info", "warn", "error", "debug"]);
    (begins && digits >= 6) || starts(line, &["info ", "warn ", "error ", "debug "])
}

/// Most lines have as many commas (or tabs, bars, semicolons) as the first, and at least two.
fn is_table(lines: &[&str]) -> bool {
    [',', '\t', '|', ';'].into_iter().any(|mark| {
        let first = lines.first().map_or(0, |line| line.matches(mark).count());
        let alike = lines
            .iter()
            .filter(|line| line.matches(mark).count() == first)
            .count();
        first >= 2 && alike * 3 > lines.len() * 2
    })
}

fn is_code(line: &str) -> bool {
    line.ends_with(['{', '}', ';', '(', ','])
        || starts(
            line,
            &[
                "//", "#include", "def ", "import ", "use ", "fn ", "class ", "return ", "/*", "* ",
            ],
        )
}

/// `key: value`, also as an item of a list.
fn is_pair(line: &str) -> bool {
    let key = line
        .trim_start_matches("- ")
        .split_once(':')
        .map(|(key, _)| key);
    key.is_some_and(|key| !key.is_empty() && key.len() < 30 && !key.contains(' '))
}

fn is_markdown(line: &str) -> bool {
    starts(line, &["# ", "## ", "### ", "```", "- [", "* [", "> "]) || line.contains("](")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_by_their_looks() {
        for (text, shape) in [
            ("Dear Sir, the parcel is here.", Shape::Plain),
            ("From: a@b.example\nTo: c@d.example\n\nHello", Shape::Mail),
            (
                "La réunion a eu lieu mardi et s'est terminée à quatre heures, sans autre décision.",
                Shape::Foreign,
            ),
            ("会議は火曜日に開かれ、四時に終わりました。", Shape::Foreign),
            ("Subject: hello\n\nHello", Shape::Mail),
            ("{\"a\": 1}", Shape::Record),
            (
                "- id: 4\n  sender: x\n  body: hello\n  read: false",
                Shape::Record,
            ),
            ("<!doctype html><p>x", Shape::Markup),
            ("# Title\n\nText of it.", Shape::Markdown),
            ("a,b,c\n1,2,3\n4,5,6", Shape::Table),
            (
                "2026-01-02T03:04:05Z INFO up\n2026-01-02T03:04:06Z WARN x\n2026-01-02T03:04:07Z WARN y",
                Shape::Log,
            ),
            ("fn main() {\n    run();\n}", Shape::Code),
        ] {
            assert_eq!(Within::of(text).shape, shape, "{text}");
        }
    }

    #[test]
    fn every_kind_has_a_place_of_its_own() {
        let mut seen = [false; Within::COUNT];
        for shape in SHAPES {
            for band in 0..=BANDS.len() {
                let at = Within { shape, band }.index();
                assert!(!std::mem::replace(&mut seen[at], true));
            }
        }
    }
}
