//! What is known of a conversation, and where in it a value stands.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::leaves::Step;
use super::pasted::Rows;
use super::text::Text;
use super::texts::Texts;
use super::values::{comparable, whole};
use super::{Said, Speaker, ValueKind};
use crate::names::ToolName;

/// Longest name of a tool or a field that a finding shows: both are words of others.
const SHOWN: usize = 64;

/// Whose a text is.
#[derive(Clone, Debug)]
pub(super) enum Whose {
    User,
    Operator,
    Tool(Arc<Answer>),
}

/// What a tool's text answers.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) tool: Option<ToolName>,
    /// One for all texts of the answer to one call.
    pub(super) call: Option<Arc<Asked>>,
    /// As in [`Speaker::Tool`], as steps.
    pub(super) at: Option<Vec<Step>>,
    /// The key of a member of the object at `at`.
    pub(super) is_key: bool,
}

/// What a call was asked: every text of its arguments, where the call is known.
#[derive(Debug, Default)]
pub(super) struct Asked(Vec<Arc<Text>>);

impl Answer {
    pub(super) fn args(&self) -> &[Arc<Text>] {
        self.call
            .as_ref()
            .map(|call| &call.0[..])
            .unwrap_or_default()
    }
}

/// The calls of a conversation, by id, as they are asked and answered.
#[derive(Default)]
struct Calls {
    asked: HashMap<Arc<str>, Vec<Arc<str>>>,
    answered: HashMap<Arc<str>, Arc<Asked>>,
}

impl Calls {
    /// An id that comes again is another call.
    fn ask(&mut self, id: Arc<str>, text: Arc<str>) {
        self.answered.remove(&id);
        self.asked.entry(id).or_default().push(text);
    }

    fn answer(&mut self, id: Arc<str>, texts: &Texts) -> Arc<Asked> {
        let asked = self.answered.entry(id).or_insert_with_key(|id| {
            let args = self.asked.remove(id).unwrap_or_default();
            Arc::new(Asked(args.into_iter().map(|arg| texts.get(arg)).collect()))
        });
        Arc::clone(asked)
    }
}

/// One text with its speaker.
#[derive(Clone, Debug)]
pub(super) struct Passage {
    pub(super) whose: Whose,
    pub(super) text: Arc<Text>,
}

/// A conversation, or what is kept of a session, in order.
#[derive(Debug, Default)]
pub struct Evidence {
    passages: Vec<Passage>,
    /// What the user and the operator said themselves: found when it is first asked for.
    own: OnceLock<Vec<Passage>>,
    /// More was said than is known here.
    partial: bool,
}

/// What is known of who said a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The user or the operator.
    Said,
    /// Only tools.
    Tainted,
    /// Nobody.
    Unseen,
    /// Nobody of whom is known; but not everything is known that was said.
    Unknown,
}

impl Class {
    /// The word in policies and for approvers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Said => "said",
            Self::Tainted => "tainted",
            Self::Unseen => "unseen",
            Self::Unknown => "unknown",
        }
    }
}

/// Where a value stands.
#[derive(Debug, Default)]
pub struct Standing<'e> {
    /// The user said it.
    pub user: bool,
    /// The operator said it.
    pub operator: bool,
    /// In which texts of tools it stands, in order.
    pub outputs: Vec<Trace<'e>>,
}

/// A text of a tool in which a value stands.
#[derive(Clone, Debug)]
pub struct Trace<'e> {
    pub(super) passage: &'e Passage,
    pub(super) answer: &'e Answer,
    /// The fields in which it stands, and whether it is the whole value; none outside of structured output.
    pub(super) places: Vec<(&'e [Step], bool)>,
    /// The call had the value in its arguments: the tool only says it again.
    pub(super) echoed: bool,
}

impl Evidence {
    /// What was said, in the order of the conversation.
    pub fn of(said: impl IntoIterator<Item = Said>) -> Self {
        Self::over(said, &Texts::default())
    }

    /// The same, of texts most of which came before: what was found in them is known.
    pub fn known(said: impl IntoIterator<Item = Said>) -> Self {
        Self::over(said, Texts::of_process())
    }

    fn over(said: impl IntoIterator<Item = Said>, texts: &Texts) -> Self {
        let mut calls = Calls::default();
        let mut passages = Vec::new();
        for Said { by, text } in said {
            let whose = match by {
                Speaker::User => Whose::User,
                Speaker::Operator => Whose::Operator,
                Speaker::Call { id } => {
                    calls.ask(id, text);
                    continue;
                }
                Speaker::Tool { tool, call, at } => Whose::Tool(Arc::new(Answer {
                    tool,
                    call: call.map(|id| calls.answer(id, texts)),
                    at: at.as_deref().and_then(steps),
                    is_key: false,
                })),
                Speaker::Key { tool, call, at } => Whose::Tool(Arc::new(Answer {
                    tool,
                    call: call.map(|id| calls.answer(id, texts)),
                    at: steps(&at),
                    is_key: true,
                })),
            };
            let text = texts.get(text);
            passages.push(Passage { whose, text });
        }
        Self::from(passages)
    }

    /// Nothing is known, whatever was said.
    pub fn unknown() -> Self {
        Self::default().partly()
    }

    /// The same where more was said than this.
    pub(super) fn partly(mut self) -> Self {
        self.partial = true;
        self
    }

    /// What is known of who said the value, by where it stands.
    pub fn class(&self, standing: &Standing<'_>) -> Class {
        match standing {
            standing if standing.user || standing.operator => Class::Said,
            standing if !standing.outputs.is_empty() => Class::Tainted,
            _ if self.partial => Class::Unknown,
            _ => Class::Unseen,
        }
    }

    /// Bytes of all texts.
    pub fn bytes(&self) -> usize {
        let lengths = self
            .passages
            .iter()
            .map(|passage| passage.text.as_str().len());
        lengths.sum()
    }

    pub(super) fn passages(&self) -> &[Passage] {
        &self.passages
    }

    /// What the user and the operator said themselves.
    pub(super) fn own(&self) -> &[Passage] {
        self.own.get_or_init(|| {
            let is_tools = |passage: &Passage| matches!(passage.whose, Whose::Tool(_));
            let last = self.passages.iter().rposition(|passage| !is_tools(passage));
            let before = self.passages.iter().take(last.map_or(0, |last| last + 1));
            let mut rows = Rows::default();
            let mut own = Vec::new();
            for passage in before {
                if is_tools(passage) {
                    rows.add(passage.text.given());
                    continue;
                }
                match &rows.own(passage.text.as_str(), passage.text.words())[..] {
                    [whole] if whole.len() == passage.text.as_str().len() => {
                        own.push(passage.clone());
                    }
                    pieces => own.extend(pieces.iter().map(|piece| Passage {
                        whose: passage.whose.clone(),
                        text: Arc::new(Text::new((*piece).into())),
                    })),
                }
            }
            own
        })
    }

    /// Where the value stands. `key`: in the form that its kind says.
    pub fn standing(&self, kind: ValueKind, key: &str) -> Standing<'_> {
        let mut standing = Standing::default();
        for passage in self.own() {
            if passage.text.means(kind, key) {
                match passage.whose {
                    Whose::User => standing.user = true,
                    Whose::Operator => standing.operator = true,
                    Whose::Tool(_) => {}
                }
            }
        }
        for passage in &self.passages {
            let Whose::Tool(answer) = &passage.whose else {
                continue;
            };
            let places = places(answer, &passage.text, kind, key);
            if !places.is_empty() || passage.text.holds(kind, key) {
                standing.outputs.push(Trace {
                    passage,
                    answer,
                    places,
                    echoed: answer.args().iter().any(|arg| arg.holds(kind, key)),
                });
            }
        }
        standing
    }

    /// Whether the user named the host of this URL, or any URL on it.
    pub fn user_named_site(&self, url: &str) -> bool {
        self.user().iter().any(|text| text.names_site(url))
    }

    pub(super) fn user(&self) -> Vec<&Text> {
        let users = |passage: &&Passage| matches!(passage.whose, Whose::User);
        self.own()
            .iter()
            .filter(users)
            .map(|passage| &*passage.text)
            .collect()
    }
}

impl From<Vec<Passage>> for Evidence {
    fn from(passages: Vec<Passage>) -> Self {
        Self {
            passages,
            own: OnceLock::new(),
            partial: false,
        }
    }
}

/// The fields in which the value stands, and whether it is the whole value.
fn places<'e>(
    answer: &'e Answer,
    text: &'e Text,
    kind: ValueKind,
    key: &str,
) -> Vec<(&'e [Step], bool)> {
    match answer.at.as_deref() {
        None => Vec::new(),
        Some([]) => {
            let places = text.places(kind, key).into_iter();
            places
                .map(|(leaf, whole)| (&leaf.path[..], whole))
                .collect()
        }
        Some(at) => {
            let is_whole = whole(kind, text.as_str()).contains(&comparable(kind, key));
            let stands = is_whole || text.holds(kind, key);
            Some((at, is_whole))
                .filter(|_| stands)
                .into_iter()
                .collect()
        }
    }
}

/// A JSON Pointer as steps; `None` where it was cut.
fn steps(pointer: &str) -> Option<Vec<Step>> {
    if pointer.is_empty() {
        return Some(Vec::new());
    }
    if pointer.contains('…') || pointer.len() > crate::item::POINTER {
        return None;
    }
    let steps = pointer.strip_prefix('/')?.split('/').map(|step| {
        let is_index = !step.is_empty() && step.bytes().all(|b| b.is_ascii_digit());
        match step.parse() {
            Ok(index) if is_index => Step::Index(index),
            _ => Step::Key(step.replace("~1", "/").replace("~0", "~")),
        }
    });
    Some(steps.collect())
}

impl Trace<'_> {
    /// Which tool and which field, for a finding: names that are plain, never a value.
    pub fn words(&self) -> String {
        let tool = self.answer.tool.as_ref().map(ToolName::as_str);
        let tool = tool
            .filter(|name| is_plain(name))
            .map_or("a tool".to_owned(), |name| format!("`{name}`"));
        let whole = self.places.iter().find(|(_, whole)| *whole);
        let key = whole.map(|(path, _)| {
            path.iter().rev().find_map(|step| match step {
                Step::Key(key) => Some(key.as_str()),
                Step::Index(_) => None,
            })
        });
        match key {
            None => format!("{tool}, inside a text"),
            Some(Some(key)) if is_plain(key) => format!("{tool}, field `{key}`"),
            Some(_) => format!("{tool}, as a whole value"),
        }
    }
}

fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    name.len() <= SHOWN && name.chars().all(plain)
}
