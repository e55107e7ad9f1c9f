//! What is known of a conversation, and where in it a value stands.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::fields::OutputRule;
use super::leaves::Step;
use super::likeness::{is_like, names_alike};
use super::pasted::Rows;
use super::text::Text;
use super::texts::Texts;
use super::values::{comparable, whole};
use super::{Said, Speaker, ValueKind};
use crate::layers::recipients::read_list;
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
}

/// What a call was asked: every text of its arguments, where the call is known.
#[derive(Debug, Default)]
pub(super) struct Asked(Vec<Text>);

impl Answer {
    pub(super) fn args(&self) -> &[Text] {
        self.call
            .as_ref()
            .map(|call| &call.0[..])
            .unwrap_or_default()
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
    passage: &'e Passage,
    answer: &'e Answer,
    /// The fields in which it stands, and whether it is the whole value; none outside of structured output.
    places: Vec<(&'e [Step], bool)>,
    /// The call had the value in its arguments: the tool only says it again.
    echoed: bool,
}

impl Evidence {
    /// What was said, in the order of the conversation.
    pub fn of(said: impl IntoIterator<Item = Said>) -> Self {
        Self::known(said, &Texts::default())
    }

    /// The same, of texts some of which came before.
    pub(super) fn known(said: impl IntoIterator<Item = Said>, texts: &Texts) -> Self {
        let mut calls: HashMap<Arc<str>, Vec<Arc<str>>> = HashMap::new();
        let mut answered: HashMap<Arc<str>, Arc<Asked>> = HashMap::new();
        let mut passages = Vec::new();
        for Said { by, text } in said {
            let whose = match by {
                Speaker::User => Whose::User,
                Speaker::Operator => Whose::Operator,
                Speaker::Call { id } => {
                    answered.remove(&id);
                    calls.entry(id).or_default().push(text);
                    continue;
                }
                Speaker::Tool { tool, call, at } => {
                    let call = call.map(|id| {
                        let asked = answered.entry(id).or_insert_with_key(|id| {
                            let args = calls.remove(id).unwrap_or_default();
                            Arc::new(Asked(args.into_iter().map(Text::new).collect()))
                        });
                        Arc::clone(asked)
                    });
                    Whose::Tool(Arc::new(Answer {
                        tool,
                        call,
                        at: at.as_deref().and_then(steps),
                    }))
                }
            };
            let text = texts.get(text);
            passages.push(Passage { whose, text });
        }
        Self::from(passages)
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
            let mut rows = Rows::default();
            let mut own = Vec::new();
            for passage in &self.passages {
                if let Whose::Tool(_) = passage.whose {
                    rows.add(passage.text.as_str());
                    continue;
                }
                match &rows.own(passage.text.as_str())[..] {
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

    fn user(&self) -> Vec<&Text> {
        let users = |passage: &&Passage| matches!(passage.whose, Whose::User);
        self.own()
            .iter()
            .filter(users)
            .map(|passage| &*passage.text)
            .collect()
    }

    /// Whether the user or the operator said every text that the call was asked with.
    fn asked(&self, answer: &Answer) -> bool {
        let mut args = answer
            .args()
            .iter()
            .filter(|arg| !arg.as_str().trim().is_empty());
        let said = |arg: &Text| self.own().iter().any(|own| names(&own.text, arg.as_str()));
        let first = args.next();
        first.is_some_and(said) && args.all(said)
    }

    /// Whether the rule trusts the value there.
    pub fn vouches(
        &self,
        rule: &OutputRule,
        kind: ValueKind,
        key: &str,
        trace: &Trace<'_>,
    ) -> bool {
        let answer = trace.answer;
        let by_tool = || {
            let tool = answer.tool.as_ref();
            tool.is_some_and(|tool| rule.tools.iter().any(|matcher| matcher.matches(tool)))
        };
        let in_place = |(path, whole): &(&[Step], bool)| {
            let in_field = || rule.fields.iter().any(|field| field.is_at(path));
            let stands = if rule.fields.is_empty() {
                *whole || rule.free_text
            } else {
                *whole && in_field()
            };
            stands && (rule.beside.is_empty() || self.is_beside(&rule.beside, path, trace))
        };
        let loose = trace.places.is_empty() && rule.free_text && rule.beside.is_empty();
        !trace.echoed
            && (rule.tools.is_empty() || by_tool())
            && (loose || trace.places.iter().any(in_place))
            && (!rule.site || answer.args().iter().any(|arg| arg.names_site(key)))
            && (!rule.asked || self.asked(answer))
            && (!rule.like_user || is_like(kind, key, &self.user()))
    }

    /// Whether the object that holds the value has, under one of the keys, a name that the user said.
    fn is_beside(&self, keys: &[String], path: &[Step], trace: &Trace<'_>) -> bool {
        let Some(last) = path.iter().rposition(|step| matches!(step, Step::Key(_))) else {
            return false;
        };
        let (object, _) = path.split_at_checked(last).unwrap_or_default();
        let user = self.user();
        let named = |path: &[Step], text: &Text| {
            let below = path.strip_prefix(object);
            let key = match below {
                Some([Step::Key(key)] | [Step::Key(key), Step::Index(_)]) => Some(key),
                _ => None,
            };
            key.is_some_and(|key| keys.contains(key)) && names_alike(text.as_str(), &user)
        };
        if trace.answer.at.as_ref().is_some_and(Vec::is_empty) {
            let mut leaves = trace.passage.text.leaves().iter();
            return leaves.any(|leaf| named(&leaf.path, &leaf.text));
        }
        let Some(call) = &trace.answer.call else {
            return false;
        };
        self.passages.iter().any(|passage| match &passage.whose {
            Whose::Tool(answer) => {
                let same = answer
                    .call
                    .as_ref()
                    .is_some_and(|other| Arc::ptr_eq(other, call));
                let at = answer.at.as_deref();
                same && at.is_some_and(|at| named(at, &passage.text))
            }
            Whose::User | Whose::Operator => false,
        })
    }
}

impl From<Vec<Passage>> for Evidence {
    fn from(passages: Vec<Passage>) -> Self {
        Self {
            passages,
            own: OnceLock::new(),
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

/// Whether a text names what a call was asked with: as words, as an address or URL, or a path by its file name.
fn names(text: &Text, arg: &str) -> bool {
    if text.holds(ValueKind::Text, arg) {
        return true;
    }
    if arg.contains('@') {
        let read = read_list(arg).unwrap_or_default();
        return !read.is_empty()
            && read
                .iter()
                .all(|one| text.holds(ValueKind::Email, &one.to_key()));
    }
    if text.means(ValueKind::Url, arg) {
        return true;
    }
    let file = arg.rsplit(['/', '\\']).next().unwrap_or_default();
    let by_name = file.len() < arg.len() && file.contains('.') && text.holds(ValueKind::Text, file);
    by_name || folders(arg).any(|folder| text.holds(ValueKind::Text, folder))
}

/// The folders above a path that are themselves written as paths.
fn folders(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('/').map(|(end, _)| end).skip(1);
    ends.filter_map(|end| path.get(..end))
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
