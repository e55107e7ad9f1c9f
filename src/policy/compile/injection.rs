//! Thresholds of the injection layer.

use super::matcher::{Order, matcher};
use crate::policy::{InjectionPolicy, Thresholds};
use crate::source::{Field, Fields, Kind};

pub(super) fn injection(field: &Field<'_>) -> Option<InjectionPolicy> {
    let mut fields = field.map()?;
    let default = thresholds(&mut fields, InjectionPolicy::never().default);
    let mut tools = Vec::new();
    let mut whole = default.is_some();
    if let Some(list) = fields.optional("tools") {
        let mut order = Order::default();
        for entry in list.list()? {
            let Some(mut fields) = entry.map() else {
                whole = false;
                continue;
            };
            let tool = fields.required("tool");
            let matcher = tool.as_ref().and_then(matcher);
            if let (Some(matcher), Some(tool)) = (&matcher, &tool) {
                order.add(matcher, tool);
            }
            let own = thresholds(
                &mut fields,
                default.unwrap_or(InjectionPolicy::never().default),
            );
            match (matcher, own) {
                (Some(matcher), Some(own)) => tools.push((matcher, own)),
                _ => whole = false,
            }
        }
    }
    whole.then_some(InjectionPolicy {
        default: default?,
        tools,
    })
}

/// What is not written is as in `default`.
fn thresholds(fields: &mut Fields<'_>, default: Thresholds) -> Option<Thresholds> {
    let mut read = |key, default| match fields.optional(key) {
        Some(field) => threshold(&field),
        None => Ok(default),
    };
    let redact = read("redact", default.redact);
    let block = read("block", default.block);
    let (redact, block) = (redact.ok()?, block.ok()?);
    if let (Some(low), Some(high)) = (redact, block)
        && low > high
    {
        fields.field().error(
            format!("redact ({low}) is above block ({high}): nothing would ever be redacted"),
            "set `redact` at or below `block`, or write `redact: never`",
        );
        return None;
    }
    Some(Thresholds { redact, block })
}

/// The problem has been reported.
struct Reported;

fn threshold(field: &Field<'_>) -> Result<Option<f64>, Reported> {
    match &field.node().kind {
        Kind::Text(word) if word == "never" => return Ok(None),
        Kind::Number(_) => {}
        _ => {
            field.error(
                format!("`{}` must be a number or `never`", field.path()),
                "write a score from 0 to 1, such as `0.6`, or `never`",
            );
            return Err(Reported);
        }
    }
    let score = field.number().ok_or(Reported)?;
    if !(0.0..=1.0).contains(&score) {
        field.error(
            format!("`{}` is {score}, but a score is from 0 to 1", field.path()),
            "write a score such as `0.6`",
        );
        return Err(Reported);
    }
    Ok(Some(score))
}
