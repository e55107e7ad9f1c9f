//! Calls in responses. A whole response gives each call in one fragment, a stream in many: one reader for both, so that
//! both are judged alike.

use bytes::Bytes;
use serde_json::json;

use super::stray;
use super::{MAX_CHOICES, exact_keys, invalid_response, present};
use crate::item::{Arguments, Located, Place};
use crate::names::ToolName;
use crate::protocols::calls::proposed;
use crate::protocols::object::Object;
use crate::protocols::strict::{must_be_object, whole_number};
use crate::protocols::{Malformed, wrapped};
use crate::settings::Wrapped;
use crate::wire::json::{Document, Kind, Node};

/// In which form a call is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `tool_calls[]` with `function`.
    Function,
    /// `tool_calls[]` with `custom`: free text. Judged as the arguments `{"input": text}`.
    Custom,
    /// `function_call`, from before there were tools.
    Legacy,
}

impl Form {
    /// The type, which is also the key of the body.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Custom => "custom",
            Self::Legacy => "function_call",
        }
    }

    /// The key of the text in the body.
    pub const fn text_key(self) -> &'static str {
        match self {
            Self::Function | Self::Legacy => "arguments",
            Self::Custom => "input",
        }
    }
}

/// Members that this reader does not know, such as a provider's signature: they go with their call.
type Extras = Vec<(Box<str>, Bytes)>;

/// Most of them in one object.
const MOST_EXTRAS: usize = 64;

/// What is wrong with a call that has another one in it or beside it.
const TWO_IN_ONE: &str = "there is another call among the members of the call that nobody knows";

/// A part of a call, or all of it.
#[derive(Debug, Default)]
pub(super) struct Fragment<'d> {
    pub index: Option<u64>,
    pub id: Option<&'d str>,
    form: Option<Form>,
    pub name: Option<&'d str>,
    text: Option<&'d str>,
    fault: Option<&'static str>,
    extras: Extras,
    body_extras: Extras,
}

impl<'d> Fragment<'d> {
    /// Reads an element of `tool_calls`.
    pub fn of_tool_call(document: &'d Document, node: &'d Node) -> Result<Self, Malformed> {
        must_be_object(node)?;
        exact_keys(node, &["index", "id", "type", "function", "custom"])?;
        let mut fragment = Self {
            index: whole_number(document, node, "index")?,
            ..Self::default()
        };
        fragment.id = fragment.string(node, "id");
        let declared = match fragment.string(node, "type") {
            None => None,
            Some("function") => Some(Form::Function),
            Some("custom") => Some(Form::Custom),
            Some(_) => {
                fragment.fault = Some("the call has an unknown type");
                None
            }
        };
        let bodies = [Form::Function, Form::Custom]
            .map(|form| present(node, form.key()).map(|body| (form, body)));
        let written = match bodies {
            [Some(_), Some(_)] => {
                fragment.fault = Some("the call is of two types");
                None
            }
            [Some(body), None] | [None, Some(body)] => Some(body),
            [None, None] => None,
        };
        if let Some((form, body)) = written {
            fragment.body(document, form, body)?;
        }
        if fragment.form.is_some() && declared.is_some() && fragment.form != declared {
            fragment.fault = Some("the call is of two types");
        }
        fragment.form = fragment.form.or(declared);
        let known = ["index", "id", "type", "function", "custom"];
        fragment.extras = fragment.extras(document, node, &known);
        Ok(fragment)
    }

    /// Reads a `function_call`.
    pub fn of_legacy(document: &'d Document, node: &'d Node) -> Result<Self, Malformed> {
        let mut fragment = Self::default();
        fragment.body(document, Form::Legacy, node)?;
        Ok(fragment)
    }

    fn body(&mut self, document: &Document, form: Form, node: &'d Node) -> Result<(), Malformed> {
        must_be_object(node)?;
        exact_keys(node, &["name", form.text_key()])?;
        self.form = Some(form);
        self.name = self.string(node, "name");
        self.text = self.string(node, form.text_key());
        self.body_extras = self.extras(document, node, &["name", form.text_key()]);
        Ok(())
    }

    /// Members that nobody knows: they may not hold another call, which would leave with this one, unjudged.
    fn extras(&mut self, document: &Document, node: &Node, known: &[&str]) -> Extras {
        let unknown = node.members().iter();
        let unknown = unknown.filter(|member| !known.contains(&&*member.key));
        let mut extras = Extras::new();
        for member in unknown {
            if stray::is_in(&member.value) {
                self.fault = Some(TWO_IN_ONE);
            }
            extras.push((member.key.clone(), document.raw(&member.value)));
        }
        extras
    }

    /// A string that says something: backends also send `null` and an empty string for what they said before.
    fn string(&mut self, node: &'d Node, key: &str) -> Option<&'d str> {
        let value = present(node, key)?;
        let text = value.as_str();
        if text.is_none() {
            self.fault = Some("a field of the call is not a string");
        }
        text.filter(|text| !text.is_empty())
    }
}

/// A call as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Call {
    pub id: Option<String>,
    form: Option<Form>,
    pub name: Option<String>,
    pub text: String,
    fault: Option<&'static str>,
    extras: Extras,
    body_extras: Extras,
}

impl Call {
    /// A call that starts with this fragment.
    pub fn new(fragment: Fragment<'_>) -> Self {
        let mut call = Self::default();
        call.extend(fragment);
        call
    }

    /// Takes one more fragment. What contradicts the earlier ones makes the call unreadable.
    pub fn extend(&mut self, fragment: Fragment<'_>) {
        let mut fault = self.fault.or(fragment.fault);
        if self.id.is_none() {
            self.id = fragment.id.map(str::to_owned);
        }
        match (&self.name, fragment.name) {
            (None, name) => self.name = name.map(str::to_owned),
            (Some(known), Some(name)) if known != name => fault = Some("the call has two names"),
            (Some(_), _) => {}
        }
        match (self.form, fragment.form) {
            (Some(known), Some(form)) if known != form => fault = Some("the call is of two types"),
            (known, form) => self.form = known.or(form),
        }
        self.text.push_str(fragment.text.unwrap_or_default());
        let fits = merge(&mut self.extras, fragment.extras)
            && merge(&mut self.body_extras, fragment.body_extras);
        if !fits {
            fault = Some("the call has too many members that nobody knows");
        } else if are_a_call(&self.extras, false) || are_a_call(&self.body_extras, true) {
            fault = Some(TWO_IN_ONE);
        }
        self.fault = fault;
    }

    /// Whether it has this id.
    pub fn is(&self, id: &str) -> bool {
        self.id.as_deref() == Some(id)
    }

    /// In which form it is written: a function, where nothing says so.
    pub fn form(&self) -> Form {
        self.form.unwrap_or(Form::Function)
    }

    /// Bytes that it holds back.
    pub fn size(&self) -> usize {
        let extras = self.extras.iter().chain(&self.body_extras);
        self.text.len()
            + self.id.as_ref().map_or(0, String::len)
            + self.name.as_ref().map_or(0, String::len)
            + extras
                .map(|(key, json)| key.len() + json.len())
                .sum::<usize>()
    }

    /// The call as an item: the inner one, where it carries another.
    pub fn located(&self, pointer: String, wrapped: &[Wrapped]) -> Located {
        let tool = ToolName::from(self.name.as_deref().unwrap_or_default());
        Located {
            place: Place {
                pointer,
                span: None,
            },
            item: proposed(wrapped, tool, self.id.as_deref(), self.arguments()),
        }
    }

    fn arguments(&self) -> Result<Arguments, String> {
        if let Some(fault) = self.fault {
            return Err(fault.to_owned());
        }
        let raw = match self.form() {
            Form::Custom => Bytes::from(json!({ "input": self.text }).to_string()),
            // Clients run a call without arguments so.
            _ if self.text.is_empty() => Bytes::from_static(b"{}"),
            _ => Bytes::copy_from_slice(self.text.as_bytes()),
        };
        Arguments::read(raw).map_err(|error| error.to_string())
    }

    /// The text to write when these stored arguments take the place of the judged ones.
    pub fn stored_text(&self, stored: &Bytes, wrapped: &[Wrapped]) -> Option<String> {
        let tool = ToolName::from(self.name.as_deref()?);
        let own = self.arguments().ok()?.raw;
        let arguments = wrapped::rewrapped(wrapped, &tool, &own, stored)?;
        if self.form() != Form::Custom {
            return String::from_utf8(arguments.to_vec()).ok();
        }
        let arguments = Arguments::read(arguments).ok()?;
        Some(arguments.value.get("input")?.as_str()?.to_owned())
    }

    /// The delta that opens the call at `index`, with everything but its text.
    pub fn opening(&self, index: usize) -> Vec<u8> {
        let form = self.form();
        let mut body = Object::default();
        if let Some(name) = &self.name {
            body.text("name", name);
        }
        body.text(form.text_key(), "");
        body.raws(&self.body_extras);
        let mut delta = Object::default();
        if form == Form::Legacy {
            delta.raw(form.key(), &body.finish());
            return delta.finish();
        }
        let mut call = Object::default();
        call.raw("index", index.to_string().as_bytes());
        if let Some(id) = &self.id {
            call.text("id", id);
        }
        call.text("type", form.key());
        call.raw(form.key(), &body.finish());
        call.raws(&self.extras);
        delta.raw("tool_calls", &[b"[", &call.finish()[..], b"]"].concat());
        delta.finish()
    }

    /// The delta with the whole text of the call at `index`.
    pub fn content(&self, index: usize, text: &str) -> Vec<u8> {
        let form = self.form();
        let body = json!({ form.text_key(): text });
        let delta = match form {
            Form::Legacy => json!({ form.key(): body }),
            Form::Function | Form::Custom => {
                json!({ "tool_calls": [{ "index": index, form.key(): body }] })
            }
        };
        delta.to_string().into_bytes()
    }
}

/// Where one call of a choice has no name, nobody can tell which call the parts belong to: none can be read.
pub(super) fn fault_nameless<'c>(calls: impl Iterator<Item = &'c mut Call>) {
    let mut calls: Vec<_> = calls.collect();
    if calls.iter().any(|call| call.name.is_none()) {
        for call in &mut calls {
            call.fault.get_or_insert("a call of the choice has no name");
        }
    }
}

/// Keys of a provider's seal over a turn: Gemini's over its calls, those of reasoning that gateways pass on.
const SEALS: [&str; 4] = [
    "thought_signature",
    "thoughtSignature",
    "signature",
    "encrypted_content",
];

/// Whether the provider has sealed this turn: it may not take back a part of its calls without the rest.
pub(super) fn is_sealed(message: &Node) -> bool {
    match &message.kind {
        Kind::Array(elements) => elements.iter().any(is_sealed),
        Kind::Object(members) => members.iter().any(|member| {
            let seal = member.value.as_str().is_some_and(|seal| !seal.is_empty());
            seal && SEALS.contains(&&*member.key) || is_sealed(&member.value)
        }),
        _ => false,
    }
}

/// The choice's index; its position where it says none.
pub(super) fn choice_index(
    document: &Document,
    choice: &Node,
    position: usize,
) -> Result<u64, Malformed> {
    must_be_object(choice)?;
    let index = whole_number(document, choice, "index")?.unwrap_or(position as u64);
    if index >= MAX_CHOICES {
        return Err(invalid_response(format!(
            "the response has more than {MAX_CHOICES} choices"
        )));
    }
    Ok(index)
}

/// Whether these members, which any of its fragments has brought, are a call themselves. In its body (`named`) they need
/// not say both: each is beside what the body says.
fn are_a_call(extras: &Extras, named: bool) -> bool {
    let says = |is: fn(&str) -> bool| extras.iter().any(|(key, json)| is(key) && json != "null");
    let (name, arguments) = (says(stray::names), says(stray::argues));
    name && arguments || named && (name || arguments)
}

/// The later value stands; `false`: there are too many.
fn merge(into: &mut Extras, from: Extras) -> bool {
    for (key, json) in from {
        let room = into.len() < MOST_EXTRAS;
        match into.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) => *known = json,
            None if room => into.push((key, json)),
            None => return false,
        }
    }
    true
}
