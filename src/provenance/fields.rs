//! Which tools' outputs, and which fields of them, a policy trusts.

use super::leaves::Step;
use crate::policy::ToolMatcher;

/// A field of structured output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldPath {
    /// The nearest key, at any depth.
    Key(String),
    /// A path from the root.
    Path(Vec<FieldStep>),
}

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldStep {
    /// This key or index.
    Name(String),
    /// Any one.
    Each,
    /// Any number of them.
    Deep,
}

impl FieldPath {
    /// Reads `email` or `/contacts/*/email`.
    ///
    /// # Errors
    /// What is neither, for the policy's author.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some(path) = text.strip_prefix('/') else {
            if text.is_empty() || text.contains(['/', '*']) {
                return Err(
                    "a field is a key such as `email`, or a path that begins with `/`".to_owned(),
                );
            }
            return Ok(Self::Key(text.to_owned()));
        };
        let steps = path.split('/').map(|step| match step {
            "" => Err("a path has an empty step".to_owned()),
            "*" => Ok(FieldStep::Each),
            "**" => Ok(FieldStep::Deep),
            name if name.contains('*') => {
                Err(format!("`{name}` is neither a key nor `*` nor `**`"))
            }
            name => Ok(FieldStep::Name(name.replace("~1", "/").replace("~0", "~"))),
        });
        steps.collect::<Result<_, _>>().map(Self::Path)
    }

    /// Whether a value with this path stands in the field. Elements of an array stand under the array's key.
    pub(super) fn is_at(&self, path: &[Step]) -> bool {
        match self {
            Self::Key(key) => {
                let mut keys = path.iter().rev().filter_map(|step| match step {
                    Step::Key(key) => Some(key),
                    Step::Index(_) => None,
                });
                keys.next() == Some(key)
            }
            Self::Path(steps) => matches(steps, path),
        }
    }
}

fn matches(steps: &[FieldStep], path: &[Step]) -> bool {
    match (steps.split_first(), path.split_first()) {
        (None, None) => true,
        (Some((FieldStep::Deep, rest)), _) => {
            matches(rest, path)
                || path
                    .split_first()
                    .is_some_and(|(_, below)| matches(steps, below))
        }
        (Some((FieldStep::Each, rest)), Some((_, below))) => matches(rest, below),
        (Some((FieldStep::Name(name), rest)), Some((step, below))) => {
            let same = match step {
                Step::Key(key) => key == name,
                Step::Index(index) => index.to_string() == *name,
            };
            same && matches(rest, below)
        }
        _ => false,
    }
}

/// How far from a value an instruction must be that the layer `injection` finds, so that the value is still vouched for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clean {
    /// Not in the innermost object that holds the value, nor in the value; in a text without structure nowhere.
    #[default]
    Object,
    /// Nowhere in the output.
    Output,
    /// It does not matter.
    Any,
}

/// `{from: tool_output, ...}` of a policy.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a word of the policy, and all combine freely"
)]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputRule {
    /// Of these tools; empty for any.
    pub tools: Vec<ToolMatcher>,
    /// The whole value of one of these fields; empty for any.
    pub fields: Vec<FieldPath>,
    /// Only from calls whose every text argument the user or operator has said.
    pub asked: bool,
    /// Only from calls whose every text argument the user or operator has said, or one of these tools has given; empty: as
    /// `asked` says.
    pub via: Vec<ToolMatcher>,
    /// Also inside a longer text.
    pub free_text: bool,
    /// No other value of its kind stands in the output.
    pub sole: bool,
    /// How far an instruction must be.
    pub clean: Clean,
    /// The object that holds the value has under one of these keys a name that the user said; empty: does not matter.
    pub beside: Vec<String>,
    /// The value itself has a name, or another word that tells something, in common with what the user said.
    pub like_user: bool,
    /// The URL is on the host of a URL that the call was asked with.
    pub site: bool,
    /// The URL is on the site of the one address that the object has under one of these keys; empty: does not matter.
    pub site_of: Vec<String>,
}

impl OutputRule {
    /// Whether it matters what the call was asked with.
    pub(super) const fn asks(&self) -> bool {
        self.asked || !self.via.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Step {
        Step::Key(text.to_owned())
    }

    #[test]
    fn fields_are_keys_or_paths() {
        let path = [key("contacts"), Step::Index(3), key("email")];
        let list = [key("emails"), Step::Index(0)];
        let at = |field: &str, path: &[Step]| FieldPath::parse(field).unwrap().is_at(path);
        for field in [
            "email",
            "/contacts/*/email",
            "/**/email",
            "/contacts/3/email",
            "/**",
        ] {
            assert!(at(field, &path), "{field}");
        }
        for field in [
            "contacts",
            "/email",
            "/contacts/email",
            "/*/email",
            "/contacts/*",
        ] {
            assert!(!at(field, &path), "{field}");
        }
        assert!(at("emails", &list));
        assert!(at("/emails/*", &list));
        assert!(!at("emails", &[]));
        assert!(at("/**", &[]));
        for wrong in ["", "a/b", "/a//b", "/a*", "*"] {
            assert!(FieldPath::parse(wrong).is_err(), "{wrong}");
        }
    }
}
