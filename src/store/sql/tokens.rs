//! Named parameters in SQL text: `:order_id` becomes `$1` or `?`, outside strings, quoted names and comments.
//!
//! It knows as much of a dialect as that takes, and refuses what it would have to guess. The server counts the placeholders
//! again when it prepares the statement, so a reading that differs from the server's is found at load.

use std::fmt::Write as _;

use super::SqlError;

/// How the server writes strings, names, comments and placeholders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `$1`; `E''` and `$tag$` strings, nested comments, `::` casts. `standard_conforming_strings` is on.
    Postgres,
    /// `?`; `"` and `'` strings with backslashes, backtick names, `#` comments. The `sql_mode` is the connection's own.
    MySql,
}

/// A statement with placeholders of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Translated {
    /// What is sent.
    pub(crate) sql: String,
    /// Name of each placeholder, in order. In PostgreSQL each name once, in MySQL once per use.
    pub(crate) placeholders: Vec<String>,
}

impl Translated {
    /// Each name once, in order of first use.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for name in &self.placeholders {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }
}

/// Words of statements that write, or lock rows. As a column's name they are quoted.
const WRITES: [&str; 5] = ["INTO", "INSERT", "UPDATE", "DELETE", "MERGE"];

/// Words that begin a query.
const BEGINS: [&str; 4] = ["SELECT", "WITH", "VALUES", "TABLE"];

/// Reads one query.
///
/// # Errors
/// [`SqlError::Statement`] where it is no query, more than one, or has a placeholder without name.
pub(crate) fn translate(sql: &str, dialect: Dialect) -> Result<Translated, SqlError> {
    read(sql, dialect, false)
}

/// Reads one statement of any kind: eval's tools write.
///
/// # Errors
/// [`SqlError::Statement`] where it is none, more than one, or has a placeholder without name.
pub(crate) fn translate_any(sql: &str, dialect: Dialect) -> Result<Translated, SqlError> {
    read(sql, dialect, true)
}

fn read(sql: &str, dialect: Dialect, writes: bool) -> Result<Translated, SqlError> {
    let mut reader = Reader {
        rest: sql,
        dialect,
        writes,
        out: String::with_capacity(sql.len() + 16),
        placeholders: Vec::new(),
        first: None,
        ended: false,
    };
    while let Some(next) = reader.rest.chars().next() {
        reader.step(next)?;
    }
    if reader.first.is_none() {
        let what = if writes { "statement" } else { "SELECT" };
        return Err(bad(format!("it is not a {what}")));
    }
    Ok(Translated {
        sql: reader.out,
        placeholders: reader.placeholders,
    })
}

fn bad(cause: impl Into<String>) -> SqlError {
    SqlError::Statement {
        cause: cause.into(),
    }
}

struct Reader<'s> {
    rest: &'s str,
    dialect: Dialect,
    /// Statements that write are read, too.
    writes: bool,
    out: String,
    placeholders: Vec<String>,
    first: Option<()>,
    ended: bool,
}

const fn starts_name(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || !c.is_ascii()
}

const fn in_name(c: char) -> bool {
    starts_name(c) || c.is_ascii_digit() || c == '$'
}

impl Reader<'_> {
    fn step(&mut self, next: char) -> Result<(), SqlError> {
        if next == '\0' {
            return Err(bad("it holds a NUL"));
        }
        if next.is_whitespace() {
            self.copy(next.len_utf8());
            return Ok(());
        }
        if self.comment()? {
            return Ok(());
        }
        if self.ended {
            return Err(bad("it is more than one statement"));
        }
        match (next, self.dialect) {
            (';', _) => {
                // Not sent: some servers would take it for the start of another statement.
                self.skip(1);
                self.ended = true;
                Ok(())
            }
            ('\'', _) => self.quoted('\'', self.dialect == Dialect::MySql),
            ('"', _) => self.quoted('"', self.dialect == Dialect::MySql),
            ('`', Dialect::MySql) => self.quoted('`', false),
            ('?', Dialect::MySql) => Err(bad("parameters are named, such as :principal")),
            ('$', Dialect::Postgres) => self.dollar(),
            (':', _) => self.colon(),
            (c, _) if starts_name(c) => self.word(),
            (c, _) if c.is_ascii_digit() => {
                self.copy_while(in_name);
                Ok(())
            }
            (c, _) => {
                self.copy(c.len_utf8());
                Ok(())
            }
        }
    }

    fn copy(&mut self, bytes: usize) {
        if let Some((copied, rest)) = self.rest.split_at_checked(bytes) {
            self.out.push_str(copied);
            self.rest = rest;
        } else {
            self.out.push_str(std::mem::take(&mut self.rest));
        }
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    fn copy_while(&mut self, keep: fn(char) -> bool) {
        let end = self.rest.find(|c| !keep(c)).unwrap_or(self.rest.len());
        self.copy(end);
    }

    /// Leaves a comment out; whether there was one. A blank takes its place.
    fn comment(&mut self) -> Result<bool, SqlError> {
        let postgres = self.dialect == Dialect::Postgres;
        let line = match self.rest.strip_prefix("--") {
            Some(_) if postgres => true,
            // To MySQL `a--1` is `a - -1`.
            Some(after) => after
                .chars()
                .next()
                .is_none_or(|c| c.is_whitespace() || c.is_control()),
            None => !postgres && self.rest.starts_with('#'),
        };
        if line {
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            self.skip(end);
            self.out.push(' ');
            return Ok(true);
        }
        if !self.rest.starts_with("/*") {
            return Ok(false);
        }
        let runs = ["/*!", "/*M!", "/*+"];
        if !postgres && runs.iter().any(|start| self.rest.starts_with(start)) {
            return Err(bad(
                "a comment that the server runs (`/*!`, `/*+`) is not read here",
            ));
        }
        let mut depth = 0_usize;
        loop {
            let open = self.rest.find("/*").filter(|_| depth == 0 || postgres);
            let Some(close) = self.rest.find("*/") else {
                return Err(bad("a comment does not end"));
            };
            match open {
                Some(open) if open < close => {
                    depth += 1;
                    self.skip(open + 2);
                }
                _ => {
                    depth = depth.saturating_sub(1);
                    self.skip(close + 2);
                }
            }
            if depth == 0 {
                self.out.push(' ');
                return Ok(true);
            }
        }
    }

    /// A string or a quoted name; a doubled quote stands for itself.
    fn quoted(&mut self, quote: char, backslashes: bool) -> Result<(), SqlError> {
        let mut chars = self.rest.char_indices().skip(1).peekable();
        while let Some((at, c)) = chars.next() {
            if c == '\0' {
                return Err(bad("it holds a NUL"));
            }
            if c == '\\' && backslashes {
                chars.next();
            } else if c == quote {
                if chars.peek().is_some_and(|(_, next)| *next == quote) {
                    chars.next();
                } else {
                    self.copy(at + quote.len_utf8());
                    return Ok(());
                }
            }
        }
        Err(bad(format!("what begins with {quote} does not end")))
    }

    /// `$tag$..$tag$`, or a numbered placeholder, which is refused.
    fn dollar(&mut self) -> Result<(), SqlError> {
        let after = self.rest.get(1..).unwrap_or_default();
        let length = after
            .find(|c: char| !in_name(c) || c == '$')
            .unwrap_or(after.len());
        let (tag, closed) = (after.get(..length).unwrap_or_default(), after.get(length..));
        let named = tag.is_empty() || tag.starts_with(starts_name);
        if !named || !closed.is_some_and(|rest| rest.starts_with('$')) {
            return Err(bad("parameters are named, such as :principal"));
        }
        let mark = format!("${tag}$");
        let body = self.rest.get(mark.len()..).unwrap_or_default();
        let Some(end) = body.find(&mark) else {
            return Err(bad(format!("what begins with {mark} does not end")));
        };
        self.copy(mark.len() + end + mark.len());
        Ok(())
    }

    /// A cast `::`, an assignment `:=`, or a parameter.
    fn colon(&mut self) -> Result<(), SqlError> {
        if self.rest.starts_with("::") || self.rest.starts_with(":=") {
            self.copy(2);
            return Ok(());
        }
        let after = self.rest.get(1..).unwrap_or_default();
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = after.find(|c| !plain(c)).unwrap_or(after.len());
        let name = after.get(..length).unwrap_or_default();
        let whole = after.get(length..).unwrap_or_default();
        if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            self.copy(1);
            return Ok(());
        }
        if whole.starts_with(in_name) {
            return Err(bad(format!(
                "the name of the parameter :{name}.. has other characters than letters, digits and _"
            )));
        }
        let name = name.to_owned();
        self.skip(1 + length);
        // A blank on both sides, so that it never joins what stands beside it.
        match self.dialect {
            Dialect::MySql => {
                self.placeholders.push(name);
                self.out.push_str(" ? ");
            }
            Dialect::Postgres => {
                let known = self.placeholders.iter().position(|known| *known == name);
                let index = known.unwrap_or_else(|| {
                    self.placeholders.push(name);
                    self.placeholders.len() - 1
                });
                let _ = write!(self.out, " ${} ", index + 1);
            }
        }
        Ok(())
    }

    fn word(&mut self) -> Result<(), SqlError> {
        let end = self.rest.find(|c| !in_name(c)).unwrap_or(self.rest.len());
        let word = self.rest.get(..end).unwrap_or_default().to_owned();
        if self.first.is_none() {
            let begins = BEGINS.iter().any(|begin| begin.eq_ignore_ascii_case(&word));
            if !begins && !self.writes {
                return Err(bad("it is not a SELECT"));
            }
            self.first = Some(());
        }
        let write = WRITES
            .iter()
            .find(|write| write.eq_ignore_ascii_case(&word));
        if let Some(write) = write.filter(|_| !self.writes) {
            return Err(bad(format!(
                "it says {write}, and only a SELECT is allowed here; quote the name of a column that is called so"
            )));
        }
        self.copy(end);
        // `E'..'` has backslashes; `U&'..'`, `N'..'`, `B'..'` and `X'..'` have none in PostgreSQL.
        if self.dialect == Dialect::Postgres
            && word.eq_ignore_ascii_case("e")
            && self.rest.starts_with('\'')
        {
            return self.quoted('\'', true);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn postgres(sql: &str) -> (String, Vec<String>) {
        let read = translate(sql, Dialect::Postgres).unwrap();
        (squeezed(&read.sql), read.placeholders)
    }

    fn mysql(sql: &str) -> (String, Vec<String>) {
        let read = translate(sql, Dialect::MySql).unwrap();
        (squeezed(&read.sql), read.placeholders)
    }

    fn squeezed(sql: &str) -> String {
        sql.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_name_becomes_the_placeholder_of_the_server() {
        let sql =
            "SELECT owner FROM orders WHERE id=:order_id AND (tenant = :tenant OR id = :order_id)";
        let (sent, bound) = postgres(sql);
        assert_eq!(
            sent,
            "SELECT owner FROM orders WHERE id= $1 AND (tenant = $2 OR id = $1 )"
        );
        assert_eq!(bound, names(&["order_id", "tenant"]));
        let (sent, bound) = mysql(sql);
        assert_eq!(
            sent,
            "SELECT owner FROM orders WHERE id= ? AND (tenant = ? OR id = ? )"
        );
        assert_eq!(bound, names(&["order_id", "tenant", "order_id"]));
    }

    #[test]
    fn what_looks_like_one_elsewhere_stays() {
        for sql in [
            "SELECT ':a', 'it''s :a', E'\\':a', U&':a', $$:a$$, $q$ :a $$ :a $q$, \":a\", x::text, y[1:2]",
            "SELECT '\\' FROM t WHERE x = ':a'",
        ] {
            assert_eq!(postgres(sql), (sql.to_owned(), Vec::new()));
        }
        for sql in [
            "SELECT ':a', 'it''s :a', 'it\\'s :a', \":a\", `:a`, @x := 1, 2--1",
            "SELECT '\\\\' FROM t WHERE x = ':a'",
        ] {
            assert_eq!(mysql(sql), (sql.to_owned(), Vec::new()));
        }
        assert_eq!(
            postgres("SELECT 1 -- :a\n + :b /* :c /* :d */ :e */ -- ;"),
            ("SELECT 1 + $1".to_owned(), names(&["b"]))
        );
        assert_eq!(
            mysql("SELECT 1 # :a\n + :b /* :c /* :d */ -- :e"),
            ("SELECT 1 + ?".to_owned(), names(&["b"]))
        );
        assert_eq!(postgres("SELECT :a::uuid").0, "SELECT $1 ::uuid");
    }

    #[test]
    fn what_is_not_one_query_is_refused() {
        for (sql, words) in [
            ("", "not a SELECT"),
            ("-- SELECT", "not a SELECT"),
            ("DELETE FROM t", "not a SELECT"),
            ("SELECT 1; SELECT 2", "more than one"),
            ("SELECT 1;;", "more than one"),
            (
                "WITH d AS (DELETE FROM t RETURNING x) SELECT x FROM d",
                "DELETE",
            ),
            ("SELECT x INTO y FROM t", "INTO"),
            ("SELECT x FROM t FOR UPDATE", "UPDATE"),
            ("SELECT 'x", "does not end"),
            ("SELECT /* x", "does not end"),
            ("SELECT :a\u{e9}", "other characters"),
            ("SELECT '\0'", "NUL"),
        ] {
            for dialect in [Dialect::Postgres, Dialect::MySql] {
                let error = translate(sql, dialect).unwrap_err().to_string();
                assert!(error.contains(words), "{sql:?} {dialect:?}: {error}");
            }
        }
        for (sql, dialect) in [
            ("SELECT $1", Dialect::Postgres),
            ("SELECT $q$ x", Dialect::Postgres),
            ("SELECT ?", Dialect::MySql),
            ("SELECT /*! 1 */", Dialect::MySql),
            ("SELECT /*M! 1 */", Dialect::MySql),
            ("SELECT /*+ SET_VAR(sql_mode='') */ 1", Dialect::MySql),
        ] {
            assert!(translate(sql, dialect).is_err(), "{sql}");
        }
    }

    proptest! {
        /// Whatever stands inside a string, a name or a comment binds nothing, and the parameter behind it is found.
        #[test]
        fn hidden_colons_bind_nothing(text in "[ :a-z;?$#/*-]{0,12}") {
            for (dialect, quotes) in [(Dialect::Postgres, "'\""), (Dialect::MySql, "'\"`")] {
                for quote in quotes.chars() {
                    let sql = format!("SELECT {quote}{text}{quote} , :p");
                    let read = translate(&sql, dialect).unwrap();
                    prop_assert_eq!(read.placeholders, names(&["p"]));
                }
                let line = format!("SELECT 1 -- {text}\n , :p");
                prop_assert_eq!(translate(&line, dialect).unwrap().placeholders, names(&["p"]));
            }
        }

        /// Any text is read or refused.
        #[test]
        fn no_text_breaks_it(text in "\\PC{0,40}") {
            for dialect in [Dialect::Postgres, Dialect::MySql] {
                let _ = translate(&text, dialect);
                let _ = translate(&format!("SELECT {text}"), dialect);
            }
        }
    }
}
