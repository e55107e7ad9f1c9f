//! Bodies of requests: one strict JSON object with known members, or nothing.

use axum::extract::rejection::BytesRejection;
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Map, Value};

use super::problem::Problem;
use crate::wire::json::Document;

/// Longest comment or note, in characters.
pub(crate) const LONGEST_COMMENT: usize = 2000;

/// The members of a body, each taken once.
pub(super) struct Members(Map<String, Value>);

fn invalid(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "body_invalid", detail)
}

impl Members {
    /// `known` are the members that may be there.
    pub(super) fn read(
        body: Result<Bytes, BytesRejection>,
        known: &'static [&'static str],
    ) -> Result<Self, Problem> {
        let body = body?;
        if body.is_empty() {
            return Ok(Self(Map::new()));
        }
        let strict = |error: &dyn std::fmt::Display| {
            invalid(format!("the body is not strict JSON: {error}"))
        };
        let document = Document::read(body, 4).map_err(|error| strict(&error))?;
        let (value, _) = document
            .value(document.root())
            .map_err(|error| strict(&error))?;
        match value {
            Value::Object(members) if members.keys().all(|key| known.contains(&key.as_str())) => {
                Ok(Self(members))
            }
            _ => {
                let names: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
                let names = names.join(", ");
                Err(invalid(format!(
                    "the body is an object with {names} and nothing else"
                )))
            }
        }
    }

    /// A text; `null` is none.
    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, Problem> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(invalid(format!("`{name}` is not a text"))),
        }
    }

    /// A text that a person wrote.
    pub(super) fn comment(&mut self, name: &str) -> Result<Option<String>, Problem> {
        let text = self.text(name)?.filter(|text| !text.trim().is_empty());
        match text {
            Some(text) if text.chars().count() > LONGEST_COMMENT => Err(invalid(format!(
                "`{name}` is longer than {LONGEST_COMMENT} characters"
            ))),
            text => Ok(text),
        }
    }

    /// `true` or `false`, which must be there.
    pub(super) fn required_bool(&mut self, name: &str) -> Result<bool, Problem> {
        match self.0.remove(name) {
            Some(Value::Bool(value)) => Ok(value),
            _ => Err(invalid(format!("`{name}` must be `true` or `false`"))),
        }
    }

    /// A whole number from 1.
    pub(super) fn count(&mut self, name: &str) -> Result<Option<u32>, Problem> {
        let wrong = || invalid(format!("`{name}` is not a whole number from 1"));
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Number(number)) => {
                let count = number.as_u64().and_then(|it| u32::try_from(it).ok());
                count.filter(|count| *count > 0).map(Some).ok_or_else(wrong)
            }
            Some(_) => Err(wrong()),
        }
    }

    /// Whatever `parse` makes of a text.
    pub(super) fn parsed<T>(
        &mut self,
        name: &str,
        what: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let parsed = parse(&text).map(Some);
        parsed.ok_or_else(|| invalid(format!("`{name}` is not {what}")))
    }
}
