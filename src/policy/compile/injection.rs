//! Actions of the injection layer, and what becomes of definitions.

use super::matcher::{Order, matcher};
use crate::policy::{DefinitionsPolicy, InjectionPolicy, Spotlight, Thresholds, Withhold};
use crate::source::{Field, Fields, Kind};

/// What a section says that does not say otherwise: what nobody should see goes, and no structure is forged.
const USUAL: Thresholds = Thresholds {
    strip: true,
    neutralise: true,
    ..Thresholds::never()
};

pub(super) fn injection(field: &Field<'_>) -> Option<InjectionPolicy> {
    let mut fields = field.map()?;
    let default = thresholds(&mut fields, USUAL);
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
            let own = thresholds(&mut fields, default.unwrap_or(USUAL));
            match (matcher, own) {
                (Some(matcher), Some(own)) => {
                    if default == Some(own) {
                        entry.error(
                            "this entry changes nothing: it says what holds for every tool",
                            "write what is different for this tool, or remove the entry",
                        );
                        whole = false;
                    }
                    tools.push((matcher, own));
                }
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
    let annotate = read("annotate", default.annotate);
    let redact = read("redact", default.redact);
    let block = read("block", default.block);
    let given = fields.optional("withhold");
    let withhold = match &given {
        Some(field) => field.choice(&[("text", Withhold::Text), ("result", Withhold::Result)]),
        None => Some(default.withhold),
    };
    let spotlight = match fields.optional("spotlight") {
        Some(field) => spotlight(&field),
        None => Some(default.spotlight),
    };
    let strip = fields.optional_or("strip", default.strip, Field::bool);
    let neutralise = fields.optional_or("neutralise", default.neutralise, Field::bool);
    let thresholds = Thresholds {
        annotate: annotate.ok()?,
        redact: redact.ok()?,
        block: block.ok()?,
        withhold: withhold?,
        spotlight: spotlight?,
        strip: strip?,
        neutralise: neutralise?,
    };
    if let (Some(field), None) = (&given, thresholds.block) {
        field.error(
            "`withhold` has no effect: nothing is ever blocked",
            "add `block` with a score, or remove `withhold`",
        );
        return None;
    }
    let steps = [
        ("annotate", thresholds.annotate, "annotated"),
        ("redact", thresholds.redact, "redacted"),
        ("block", thresholds.block, "blocked"),
    ];
    let written: Vec<_> = steps
        .into_iter()
        .filter_map(|(key, score, done)| Some((key, score?, done)))
        .collect();
    for ((low, at, done), (high, above, _)) in written.iter().zip(written.iter().skip(1)) {
        if at > above {
            fields.field().error(
                format!("{low} ({at}) is above {high} ({above}): nothing would ever be {done}"),
                format!("set `{low}` at or below `{high}`, or write `{low}: never`"),
            );
            return None;
        }
    }
    Some(thresholds)
}

fn spotlight(field: &Field<'_>) -> Option<Spotlight> {
    if field.node().as_text() == Some("all") {
        return Some(Spotlight::All);
    }
    if matches!(field.node().kind, Kind::Bool(_)) {
        let on = field.bool()?;
        return Some(if on {
            Spotlight::Prose
        } else {
            Spotlight::Never
        });
    }
    field.error(
        format!("`{}` must be `true`, `false` or `all`", field.path()),
        "write `true` for prose, `all` for code and structured data too",
    );
    None
}

pub(super) fn definitions(field: &Field<'_>) -> Option<DefinitionsPolicy> {
    let mut fields = field.map()?;
    let usual = DefinitionsPolicy::default();
    let mut read = |key, default| match fields.optional(key) {
        Some(field) => threshold(&field),
        None => Ok(default),
    };
    let remove = read("remove", usual.remove);
    let refuse = read("refuse", usual.refuse);
    let (remove, refuse) = (remove.ok()?, refuse.ok()?);
    if let (Some(low), Some(high)) = (remove, refuse)
        && low > high
    {
        fields.field().error(
            format!("remove ({low}) is above refuse ({high}): no single definition would ever be removed"),
            "set `remove` at or below `refuse`, or write `remove: never`",
        );
        return None;
    }
    Some(DefinitionsPolicy { remove, refuse })
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
