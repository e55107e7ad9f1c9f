//! A problem in something an operator wrote, and how it is shown.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Severity {
    /// Nothing runs before it is mended.
    #[default]
    Error,
    /// It runs, but perhaps not as meant.
    Warning,
}

/// Bytes of a file.
pub type Spot = (Arc<SourceFile>, Range<usize>);

/// One problem: what is wrong, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Error or warning.
    pub severity: Severity,
    /// What is wrong, one line.
    pub message: String,
    /// What to do, one line.
    pub help: Option<String>,
    /// The file, its text and the bytes in question; `None` where no file is at fault.
    pub at: Option<Spot>,
    /// Other bytes of the same file that explain it, each with a few words.
    pub related: Vec<(Range<usize>, String)>,
}

/// A file as it was read.
#[derive(Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// As the user named it.
    pub path: String,
    /// Its whole text.
    pub text: String,
}

impl SourceFile {
    /// Line and column of a byte, both from 1; columns count characters.
    pub fn line_column(&self, byte: usize) -> (usize, usize) {
        let before = &self.text.as_bytes().get(..byte).unwrap_or_default();
        let line = before.split(|b| *b == b'\n').count();
        let start = self.line_start(byte);
        let column = self
            .text
            .get(start..byte)
            .map_or(0, |text| text.chars().count());
        (line, column + 1)
    }

    fn line_start(&self, byte: usize) -> usize {
        let before = self.text.get(..byte).unwrap_or_default();
        before.rfind('\n').map_or(0, |newline| newline + 1)
    }

    fn line_end(&self, byte: usize) -> usize {
        let after = self.text.get(byte..).unwrap_or_default();
        byte + after.find('\n').unwrap_or(after.len())
    }
}

impl Problem {
    /// An error without a place.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            message: message.into(),
            help: None,
            at: None,
            related: Vec::new(),
        }
    }

    /// Adds what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Sets the place.
    #[must_use]
    pub fn at(mut self, spot: Spot) -> Self {
        self.at = Some(spot);
        self
    }

    /// Points at other bytes of the same file.
    #[must_use]
    pub fn related(mut self, bytes: Range<usize>, label: impl Into<String>) -> Self {
        self.related.push((bytes, label.into()));
        self
    }

    /// Makes it a warning.
    #[must_use]
    pub fn warning(mut self) -> Self {
        self.severity = Severity::Warning;
        self
    }

    fn render(&self, renderer: &Renderer) -> String {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let title = level.primary_title(&self.message);
        let mut group = match &self.at {
            Some((file, bytes)) => title.element(self.snippet(file, bytes)),
            None => Group::with_title(title),
        };
        if let Some(help) = &self.help {
            group = group.element(Level::HELP.message(help));
        }
        renderer.render(&[group])
    }

    /// Only the lines that are pointed at: a long file costs nothing.
    fn snippet<'a>(
        &'a self,
        file: &'a SourceFile,
        bytes: &Range<usize>,
    ) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
        let shown = |bytes: &Range<usize>| {
            let end = bytes.end.min(file.line_end(bytes.start));
            bytes.start..end.max(bytes.start)
        };
        let primary = shown(bytes);
        let related: Vec<_> = self.related.iter().map(|(b, l)| (shown(b), l)).collect();
        let all = || std::iter::once(&primary).chain(related.iter().map(|(bytes, _)| bytes));
        let first = all().map(|bytes| bytes.start).min().unwrap_or_default();
        let last = all().map(|bytes| bytes.end).max().unwrap_or_default();
        let start = file.line_start(first);
        let text = file.text.get(start..file.line_end(last));
        let within = |bytes: &Range<usize>| bytes.start - start..bytes.end - start;
        let mut snippet = Snippet::source(text.unwrap_or_default())
            .path(&file.path)
            .line_start(file.line_column(first).0)
            .annotation(AnnotationKind::Primary.span(within(&primary)));
        for (bytes, label) in &related {
            let note = AnnotationKind::Context.span(within(bytes));
            snippet = snippet.annotation(note.label(label.as_str()));
        }
        snippet
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(&Renderer::plain()))
    }
}

/// Most problems that are shown: more do not help anybody, and each costs a look through its file.
const SHOWN: usize = 50;

/// All problems found, never empty where it is an error.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// Whether one of them is an error.
    pub fn has_errors(&self) -> bool {
        self.0
            .iter()
            .any(|problem| problem.severity == Severity::Error)
    }

    /// Whether there are none at all.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In the order of the files and their lines; those without a place last.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        let mut files: Vec<String> = Vec::new();
        self.0.sort_by_cached_key(|problem| {
            let Some((file, bytes)) = &problem.at else {
                return (usize::MAX, 0);
            };
            let known = files.iter().position(|path| *path == file.path);
            let index = known.unwrap_or_else(|| {
                files.push(file.path.clone());
                files.len() - 1
            });
            (index, bytes.start)
        });
        self
    }

    /// As text for a person: one block per problem, with colours where `styled`.
    pub fn render(&self, styled: bool) -> String {
        let renderer = if styled {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        let shown = self.0.iter().take(SHOWN);
        let mut blocks: Vec<_> = shown.map(|p| p.render(&renderer)).collect();
        if let Some(more @ 1..) = self.0.len().checked_sub(SHOWN) {
            let more = Problem::new(format!("{more} more problems are not shown"));
            blocks.push(more.help("mend these first").render(&renderer));
        }
        blocks.join("\n\n")
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

impl Extend<Problem> for Problems {
    fn extend<I: IntoIterator<Item = Problem>>(&mut self, problems: I) {
        self.0.extend(problems);
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Problems {}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Arc<SourceFile> {
        Arc::new(SourceFile {
            path: "p.yaml".into(),
            text: text.into(),
        })
    }

    #[test]
    fn file_line_column_caret_and_help() {
        let problem = Problem::new("unknown key `lissts`")
            .help("did you mean `lists`?")
            .at((file("version: 1\nlissts: {}\n"), 11..17));
        insta::assert_snapshot!(problem, @r"
        error: unknown key `lissts`
         --> p.yaml:2:1
          |
        2 | lissts: {}
          | ^^^^^^
          |
          = help: did you mean `lists`?
        ");
    }

    #[test]
    fn a_span_over_lines_shows_its_first_line_and_the_end_of_a_file_is_a_place() {
        let text = "a:\n  b: 1\n  c: 2\n";
        let problem = Problem::new("x").at((file(text), 5..text.len()));
        insta::assert_snapshot!(problem, @r"
        error: x
         --> p.yaml:2:3
          |
        2 |   b: 1
          |   ^^^^
        ");
        let end = Problem::new("x").at((file(text), text.len()..text.len()));
        assert!(end.to_string().contains("p.yaml:4:1"), "{end}");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let problem = Problem::new("bad \u{1b}[2J").at((file("a: \u{1b}[31m\n"), 3..4));
        assert!(!problem.to_string().contains('\u{1b}'));
    }

    #[test]
    fn a_flood_of_problems_is_cut() {
        let many = |count: usize| {
            let problems = (0..count).map(|n| Problem::new(format!("fault {n}.")));
            Problems(problems.collect()).to_string()
        };
        assert!(!many(50).contains("more problems"));
        let said = many(52);
        assert!(said.contains("fault 49.") && !said.contains("fault 50."));
        assert!(said.contains("2 more problems are not shown"), "{said}");
    }
}
