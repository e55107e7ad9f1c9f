//! The lines of a text so far: which of it is code that no reader of Markdown renders.
//!
//! A code block counts only where all readers agree on it. Where they may not, because it hangs on an indentation or on HTML
//! around it, nothing of the rest counts as one: it is judged like any text.

/// Longest start of a line that is kept, in bytes: indentation and the mark of a list.
const HEAD: usize = 40;

/// A code block that is open.
#[derive(Clone, Copy, Debug)]
struct Fence {
    mark: char,
    length: usize,
    indent: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Indent,
    /// A run of marks that may be a fence.
    Run,
    Words,
}

#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says one thing of the text so far, apart from the others"
)]
struct Line {
    phase: Phase,
    indent: usize,
    has_tabs: bool,
    mark: Option<char>,
    run: usize,
    /// There is something besides the run.
    has_words: bool,
    head: String,
    /// So far there are only marks of quotes and lists.
    is_outer: bool,
    /// Some clients set it behind the last line of another text.
    is_joined: bool,
}

impl Default for Line {
    fn default() -> Self {
        Self {
            phase: Phase::Indent,
            indent: 0,
            has_tabs: false,
            mark: None,
            run: 0,
            has_words: false,
            head: String::new(),
            is_outer: true,
            is_joined: false,
        }
    }
}

#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says one thing of the text so far, apart from the others"
)]
pub(super) struct Lines {
    line: Line,
    fence: Option<Fence>,
    /// The line that comes to its end opens it.
    opening: Option<Fence>,
    /// Readers may differ on whether a code block is open.
    is_unsure: bool,
    /// An element began in which blank lines end nothing.
    is_raw: bool,
    /// A line of this paragraph begins with a tag: readers of HTML see no Markdown in it.
    is_html: bool,
    /// Backticks of this paragraph have no partner that all readers agree on.
    is_odd: bool,
    /// An image of this paragraph may still get its destination.
    in_image: bool,
    /// Where the text of each list item begins that is open for certain, from the outermost.
    items: Vec<usize>,
    /// The line before is blank, or there is none.
    after_blank: bool,
    /// The last character ended a line, and a line feed would belong to it.
    is_returned: bool,
}

impl Default for Lines {
    fn default() -> Self {
        Self {
            line: Line::default(),
            fence: None,
            opening: None,
            is_unsure: false,
            is_raw: false,
            is_html: false,
            is_odd: false,
            in_image: false,
            items: Vec::new(),
            after_blank: true,
            is_returned: false,
        }
    }
}

impl Lines {
    /// Lines of another text that some clients set behind this one, and some apart.
    pub fn another(&self) -> Self {
        Self {
            line: Line {
                is_joined: !self.line.head.is_empty(),
                ..Line::default()
            },
            is_unsure: self.is_unsure || self.fence.is_some(),
            is_raw: self.is_raw,
            is_html: self.is_html,
            is_odd: self.is_odd,
            in_image: self.in_image,
            ..Self::default()
        }
    }

    /// Whether the next character stands in a code block.
    pub fn in_code(&self) -> bool {
        self.fence.is_some()
    }

    /// Whether it does not, this being the character: a line that stands further left than its code block may have ended it.
    pub fn leaves_code(&self, c: char) -> bool {
        let line = &self.line;
        let is_first = line.phase == Phase::Indent && !matches!(c, ' ' | '\t' | '\n' | '\r');
        let is_left =
            |fence: &Fence| line.indent < fence.indent || line.has_tabs && fence.indent > 0;
        is_first && self.fence.as_ref().is_some_and(is_left)
    }

    /// Whether backticks make code of what stands between them.
    pub fn has_spans(&self) -> bool {
        !(self.is_odd || self.is_html || self.is_raw)
    }

    /// Whether the line has nothing yet but marks of quotes and lists.
    pub fn is_outer(&self) -> bool {
        self.line.is_outer
    }

    /// Whether an image may still get its destination.
    pub fn in_image(&self) -> bool {
        self.in_image
    }

    pub fn open_image(&mut self) {
        self.in_image = true;
    }

    /// Backticks have no certain partner: none in this paragraph makes code.
    pub fn lose_spans(&mut self) {
        self.is_odd = true;
    }

    /// An element has begun in which nothing is Markdown, blank lines or not.
    pub fn begin_raw(&mut self) {
        self.is_raw = true;
    }

    /// Nobody knows any more whether a code block is open.
    pub fn lose_blocks(&mut self) {
        self.fence = None;
        self.opening = None;
        self.is_unsure = true;
    }

    /// Whether the line, of which only indentation has come, opens a code block: `length` marks and then `info`.
    pub fn opens(&mut self, mark: char, length: usize, info: &str) -> bool {
        // One in a quotation ends with it.
        if self.is_unsure || self.line.head.contains('>') {
            return false;
        }
        let indent = self.line.indent;
        let item = self.items.iter().rev().find(|item| **item <= indent);
        let fits = indent <= 3 || item.is_some_and(|item| indent - item <= 3);
        let is_bare =
            self.line.phase == Phase::Indent && !self.line.has_tabs && !self.line.is_joined;
        if !is_bare || !fits || self.is_html || self.is_raw || !is_plain(info) {
            self.lose_blocks();
            return false;
        }
        self.opening = Some(Fence {
            mark,
            length,
            indent,
        });
        true
    }

    /// Takes the next character.
    pub fn feed(&mut self, c: char) {
        let belongs = std::mem::replace(&mut self.is_returned, c == '\r');
        if c == '\n' && belongs {
            return;
        }
        if is_line_end(c) {
            return self.end_line();
        }
        if self.line.head.len() < HEAD {
            self.line.head.push(c);
        }
        match (self.line.phase, c) {
            (Phase::Indent, ' ') => self.line.indent += 1,
            (Phase::Indent, '\t') => {
                self.line.indent += 4;
                self.line.has_tabs = true;
            }
            (Phase::Indent, '`' | '~') => {
                self.line.phase = Phase::Run;
                self.line.mark = Some(c);
                self.line.run = 1;
            }
            (Phase::Indent, _) => {
                self.line.phase = Phase::Words;
                self.line.has_words = true;
            }
            (Phase::Run, c) if self.line.mark == Some(c) => self.line.run += 1,
            (Phase::Run | Phase::Words, c) => {
                self.line.phase = Phase::Words;
                self.line.has_words |= !matches!(c, ' ' | '\t');
            }
        }
        if c == '<' && self.line.is_outer && self.fence.is_none() {
            self.is_html = true;
        }
        self.line.is_outer &= c.is_ascii_digit() || " \t>-+*.)".contains(c);
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if let Some(fence) = self.fence {
            self.after_blank = false;
            return self.end_code_line(&line, fence);
        }
        if line.phase == Phase::Indent {
            self.is_odd = false;
            self.is_html = false;
            self.in_image = false;
            self.after_blank = true;
            return;
        }
        if let Some(fence) = self.opening.take() {
            self.items.retain(|item| *item <= line.indent);
            self.fence = Some(fence);
        } else {
            self.end_words(&line);
        }
        self.after_blank = false;
    }

    fn end_code_line(&mut self, line: &Line, fence: Fence) {
        if line.mark != Some(fence.mark) || line.run < fence.length || line.has_words {
            return;
        }
        if fence.indent == 0 {
            if line.indent <= 3 {
                self.fence = None;
            }
        } else if line.indent == fence.indent && !line.has_tabs {
            self.fence = None;
        } else {
            self.lose_blocks();
        }
    }

    /// Keeps account of the list items that are open.
    fn end_words(&mut self, line: &Line) {
        if line.has_tabs {
            self.items.clear();
            return;
        }
        let open = self.items.len();
        self.items.retain(|item| *item <= line.indent);
        let is_sibling = self.items.len() < open;
        let parent = self.items.last().copied().unwrap_or(0);
        let Some(marker) = line.head.get(line.indent..).and_then(Marker::read) else {
            return;
        };
        let begins = self.after_blank || is_sibling || marker.interrupts;
        if begins && line.indent.saturating_sub(parent) <= 3 {
            self.items.push(line.indent + marker.width);
        }
    }
}

pub(super) fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r')
}

/// Whether the rest of a fence's line is the name of a language and such, in which nothing could be rendered.
fn is_plain(info: &str) -> bool {
    !info.contains(['<', '>', '[', ']', '&', '\\', '`'])
        && !info.contains("://")
        && !info.to_ascii_lowercase().contains("www.")
}

/// The mark of a list item.
struct Marker {
    /// With the blanks behind it.
    width: usize,
    /// It may follow a line of a paragraph.
    interrupts: bool,
}

impl Marker {
    /// Reads one before words that are not themselves a mark.
    fn read(text: &str) -> Option<Self> {
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (mark, interrupts) = match digits {
            0 if text.starts_with(['-', '+', '*']) => (1, true),
            1..=9 if text.get(digits..)?.starts_with(['.', ')']) => {
                (digits + 1, text.get(..digits)? == "1")
            }
            _ => return None,
        };
        let rest = text.get(mark..)?;
        let words = rest.trim_start_matches(' ');
        let blanks = rest.len() - words.len();
        let is_mark = |c: char| "-+*`~>#<|\t".contains(c);
        if !(1..=4).contains(&blanks) || words.is_empty() || words.starts_with(is_mark) {
            return None;
        }
        Some(Self {
            width: mark + blanks,
            interrupts,
        })
    }
}
