//! Scripts for servers, statement by statement, so that what fails is told at its place.

use std::ops::Range;
use std::sync::Arc;

use crate::eval::sql::Dialect;
use crate::source::{Problem, SourceFile};

/// Where each statement of a script stands, without the `;` behind it.
pub(super) fn statements(text: &str, dialect: Dialect) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start: Option<usize> = None;
    let mut words = Words::default();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let (token, length) = token(rest, dialect);
        match token {
            Token::Blank => {}
            Token::End if words.depth == 0 => {
                found.extend(start.take().map(|from| from..at));
                words = Words::default();
            }
            Token::Word => {
                start.get_or_insert(at);
                words.read(rest.get(..length).unwrap_or_default());
            }
            Token::End | Token::Other => {
                start.get_or_insert(at);
            }
        }
        at += length;
    }
    found.extend(start.map(|from| from..text.len()));
    found
}

/// The problem of a statement.
pub(super) fn problem(file: &Arc<SourceFile>, at: Range<usize>, said: &str) -> Problem {
    Problem::new(format!("wrong SQL: {said}")).at((Arc::clone(file), at))
}

/// `CREATE .. BEGIN .. END`: the body's statements are part of it.
#[derive(Default)]
struct Words {
    creates: bool,
    any: bool,
    depth: usize,
}

impl Words {
    fn read(&mut self, word: &str) {
        let is = |other: &str| word.eq_ignore_ascii_case(other);
        if !self.any {
            self.any = true;
            self.creates = is("CREATE");
        }
        if !self.creates {
            return;
        }
        if is("BEGIN") || (self.depth > 0 && is("CASE")) {
            self.depth += 1;
        } else if is("END") {
            self.depth = self.depth.saturating_sub(1);
        }
    }
}

enum Token {
    Blank,
    Word,
    End,
    Other,
}

/// The first token of a text that is not empty, and its length in bytes: 1 at least.
fn token(text: &str, dialect: Dialect) -> (Token, usize) {
    let Some(first) = text.chars().next() else {
        return (Token::Blank, 1);
    };
    let until = |end: Option<usize>| end.unwrap_or(text.len());
    let mysql = dialect == Dialect::Mysql;
    if first.is_whitespace() {
        return (Token::Blank, first.len_utf8());
    }
    if text.starts_with("--") || (mysql && first == '#') {
        return (Token::Blank, until(text.find('\n')));
    }
    if text.starts_with("/*") {
        return (Token::Blank, until(text.find("*/").map(|end| end + 2)));
    }
    match first {
        ';' => (Token::End, 1),
        '\'' | '"' | '`' => (Token::Other, quoted(text, first, mysql && first != '`')),
        '$' if dialect == Dialect::Postgres => (Token::Other, dollars(text)),
        c if c.is_alphabetic() || c == '_' => {
            let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'));
            (Token::Word, until(end))
        }
        c => (Token::Other, c.len_utf8()),
    }
}

fn quoted(text: &str, quote: char, backslashes: bool) -> usize {
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        if c == '\\' && backslashes {
            chars.next();
        } else if c == quote {
            // A doubled quote begins the next token, which goes on with the same text.
            return at + c.len_utf8();
        }
    }
    text.len()
}

fn dollars(text: &str) -> usize {
    let after = text.get(1..).unwrap_or_default();
    let name = after.find(|c: char| !(c.is_alphanumeric() || c == '_'));
    let name = name.unwrap_or(after.len());
    if !after.get(name..).is_some_and(|rest| rest.starts_with('$')) {
        return 1;
    }
    let mark = text.get(..name + 2).unwrap_or_default();
    let body = text.get(mark.len()..).unwrap_or_default();
    body.find(mark)
        .map_or(text.len(), |end| mark.len() + end + mark.len())
}

#[cfg(test)]
#[expect(clippy::string_slice, reason = "ranges of the code under test")]
mod tests {
    use super::*;

    fn split(text: &str, dialect: Dialect) -> Vec<&str> {
        let found = statements(text, dialect).into_iter();
        found.map(|at| text[at].trim_end()).collect()
    }

    #[test]
    fn a_semicolon_inside_of_something_ends_nothing() {
        assert_eq!(
            split(
                "-- a; b\nSELECT ';', 'it''s;', \";\" /* ; */;\n\nSELECT 2 ; -- c\n",
                Dialect::Postgres
            ),
            ["SELECT ';', 'it''s;', \";\" /* ; */", "SELECT 2"]
        );
        assert_eq!(
            split(
                "CREATE FUNCTION f() AS $b$ BEGIN; x; END $b$; SELECT $1;SELECT 3",
                Dialect::Postgres
            ),
            [
                "CREATE FUNCTION f() AS $b$ BEGIN; x; END $b$",
                "SELECT $1",
                "SELECT 3"
            ]
        );
        assert_eq!(
            split(
                "CREATE TRIGGER t BEFORE INSERT ON x FOR EACH ROW BEGIN SET a = 'it\\';'; SET b = CASE WHEN 1 THEN 2 END; END;\n# c;\nSELECT `;`",
                Dialect::Mysql
            ),
            [
                "CREATE TRIGGER t BEFORE INSERT ON x FOR EACH ROW BEGIN SET a = 'it\\';'; SET b = CASE WHEN 1 THEN 2 END; END",
                "SELECT `;`"
            ]
        );
        assert_eq!(split(" ;; -- nothing", Dialect::Mysql), Vec::<&str>::new());
    }
}
