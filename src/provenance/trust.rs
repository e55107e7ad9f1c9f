//! Whether a rule trusts a value where it stands in what a tool gave back.

use std::sync::Arc;

use super::ValueKind;
use super::evidence::{Answer, Evidence, Trace, Whose};
use super::fields::{Clean, OutputRule};
use super::flags::Flags;
use super::leaves::Step;
use super::likeness::{is_like, names_alike};
use super::sole::is_sole;
use super::text::Text;
use super::urls::Web;
use crate::layers::recipients::read_list;
use crate::policy::ToolMatcher;

impl Evidence {
    /// Whether the user or the operator said every text that the call was asked with, or one of the tools gave it before.
    fn asked(&self, trace: &Trace<'_>, via: &[ToolMatcher]) -> bool {
        let mut args = trace
            .answer
            .args()
            .iter()
            .filter(|arg| !arg.as_str().trim().is_empty());
        let said = |arg: &Arc<Text>| {
            let arg = arg.as_str();
            self.own().iter().any(|own| names(&own.text, arg)) || self.gave(via, arg, trace)
        };
        let first = args.next();
        first.is_some_and(said) && args.all(said)
    }

    /// Whether one of the tools gave the text before, and not because it was asked with it.
    fn gave(&self, tools: &[ToolMatcher], arg: &str, trace: &Trace<'_>) -> bool {
        if tools.is_empty() {
            return false;
        }
        let before = self.passages().iter();
        let mut before = before.take_while(|passage| !std::ptr::eq(*passage, trace.passage));
        before.any(|passage| match &passage.whose {
            Whose::Tool(answer) => {
                is_of(answer, tools)
                    && gives(&passage.text, arg)
                    && !answer.args().iter().any(|asked| gives(asked, arg))
            }
            Whose::User | Whose::Operator => false,
        })
    }

    /// Whether the rule trusts the value there. `flags`: what the layer `injection` finds, where it enforces.
    pub fn vouches(
        &self,
        rule: &OutputRule,
        (kind, key): (ValueKind, &str),
        trace: &Trace<'_>,
        flags: Option<&Flags>,
    ) -> bool {
        let answer = trace.answer;
        let is_clean =
            |path: &[Step]| flags.is_none_or(|flags| self.is_clean(rule.clean, path, trace, flags));
        let in_place = |(path, whole): &(&[Step], bool)| {
            let in_field = || rule.fields.iter().any(|field| field.is_at(path));
            let stands = if rule.fields.is_empty() {
                *whole || rule.free_text
            } else {
                *whole && in_field()
            };
            stands
                && (rule.beside.is_empty() || self.is_beside(&rule.beside, path, trace))
                && (rule.site_of.is_empty() || self.is_site_of(&rule.site_of, key, path, trace))
                && is_clean(path)
        };
        let asks_object = !rule.beside.is_empty() || !rule.site_of.is_empty();
        let loose = trace.places.is_empty() && rule.free_text && !asks_object;
        !trace.echoed
            && (rule.tools.is_empty() || is_of(answer, &rule.tools))
            && (!rule.site || answer.args().iter().any(|arg| arg.names_site(key)))
            && (!rule.sole || is_sole(kind, key, &trace.passage.text))
            && (!rule.asks() || self.asked(trace, &rule.via))
            && (!rule.like_user || is_like(kind, key, &self.user()))
            && ((loose && is_clean(&[])) || trace.places.iter().any(in_place))
    }

    /// Whether no instruction stands too near to the value at this path.
    fn is_clean(&self, clean: Clean, path: &[Step], trace: &Trace<'_>, flags: &Flags) -> bool {
        let tool = trace.answer.tool.as_ref();
        let flagged = |text: &Text| flags.is_flagged(tool, text);
        let object = match clean {
            Clean::Any => return true,
            Clean::Output => &[][..],
            Clean::Object => object(path),
        };
        let own = trace.passage;
        match trace.answer.at.as_deref() {
            None => !flagged(&own.text),
            Some([]) => {
                let leaves = own.text.leaves();
                let mut bad = leaves.iter().filter(|leaf| flagged(&leaf.text)).peekable();
                if bad.peek().is_none() {
                    // What stands in no value alone stands in all of them together.
                    return !flagged(&own.text);
                }
                !bad.any(|leaf| leaf.path.starts_with(object))
            }
            Some(_) => !self
                .of_call(trace)
                .any(|(at, text)| at.is_some_and(|at| at.starts_with(object)) && flagged(text)),
        }
    }

    /// The texts of the answer that the trace is in, with their places.
    fn of_call<'e>(
        &'e self,
        trace: &'e Trace<'_>,
    ) -> impl Iterator<Item = (Option<&'e [Step]>, &'e Text)> {
        let call = trace.answer.call.as_ref();
        let alone = call.is_none().then_some(trace.passage);
        let others = call.map(|call| {
            self.passages()
                .iter()
                .filter(move |passage| match &passage.whose {
                    Whose::Tool(answer) => answer
                        .call
                        .as_ref()
                        .is_some_and(|other| Arc::ptr_eq(other, call)),
                    Whose::User | Whose::Operator => false,
                })
        });
        let all = alone.into_iter().chain(others.into_iter().flatten());
        all.map(|passage| {
            let at = match &passage.whose {
                Whose::Tool(answer) => answer.at.as_deref(),
                Whose::User | Whose::Operator => None,
            };
            (at, &*passage.text)
        })
    }

    /// Whether the object that holds the value has, under one of the keys, a name that the user said.
    fn is_beside(&self, keys: &[String], path: &[Step], trace: &Trace<'_>) -> bool {
        let user = self.user();
        self.has_beside(keys, path, trace, |text| names_alike(text.as_str(), &user))
    }

    /// Whether the object that holds the URL has, under one of the keys, one address on the URL's site and no other.
    fn is_site_of(&self, keys: &[String], url: &str, path: &[Step], trace: &Trace<'_>) -> bool {
        self.has_beside(keys, path, trace, |text| {
            let read = read_list(text.as_str()).unwrap_or_default();
            let key = match read.as_slice() {
                [one] => one.to_key(),
                _ => return false,
            };
            key.rsplit_once('@')
                .is_some_and(|(_, domain)| Web::read(url).is_some_and(|web| web.is_site(domain)))
        })
    }

    /// Whether the object that holds the value has, under one of the keys, a text that passes the test.
    fn has_beside(
        &self,
        keys: &[String],
        path: &[Step],
        trace: &Trace<'_>,
        test: impl Fn(&Text) -> bool,
    ) -> bool {
        if !path.iter().any(|step| matches!(step, Step::Key(_))) {
            return false;
        }
        let object = object(path);
        let named = |path: &[Step], text: &Text| {
            let below = path.strip_prefix(object);
            let key = match below {
                Some([Step::Key(key)] | [Step::Key(key), Step::Index(_)]) => Some(key),
                _ => None,
            };
            key.is_some_and(|key| keys.contains(key)) && test(text)
        };
        if trace.answer.at.as_ref().is_some_and(Vec::is_empty) {
            let mut leaves = trace.passage.text.leaves().iter();
            return leaves.any(|leaf| named(&leaf.path, &leaf.text));
        }
        if trace.answer.call.is_none() {
            return false;
        }
        self.of_call(trace)
            .any(|(at, text)| at.is_some_and(|at| named(at, text)))
    }
}

/// Whether one of these tools gave the answer.
fn is_of(answer: &Answer, tools: &[ToolMatcher]) -> bool {
    let tool = answer.tool.as_ref();
    tool.is_some_and(|tool| tools.iter().any(|matcher| matcher.matches(tool)))
}

/// The innermost object that holds the value at this path.
fn object(path: &[Step]) -> &[Step] {
    let key = path.iter().rposition(|step| matches!(step, Step::Key(_)));
    path.get(..key.unwrap_or_default()).unwrap_or_default()
}

/// Whether a tool's text gives what a call was asked with: as words, as a URL, or a path by its file name.
fn gives(text: &Text, arg: &str) -> bool {
    text.holds(ValueKind::Text, arg) || text.holds(ValueKind::Url, arg) || names_file(text, arg)
}

/// Whether the text names the path's file.
fn names_file(text: &Text, path: &str) -> bool {
    let file = path.rsplit(['/', '\\']).next().unwrap_or_default();
    file.len() < path.len() && file.contains('.') && text.holds(ValueKind::Text, file)
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
    names_file(text, arg) || folders(arg).any(|folder| text.holds(ValueKind::Text, folder))
}

/// The folders above a path that are themselves written as paths.
fn folders(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('/').map(|(end, _)| end).skip(1);
    ends.filter_map(|end| path.get(..end))
}
