//! Tool definitions: a server writes them, and a model reads them as if its operator had. Names, descriptions, schemas at every
//! depth, annotations and a server's own instructions are one text here.
//!
//! A definition is flagged by what the scanner of the layer `injection` finds, and by phrases that are odd in a definition alone.

mod rules;

use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};
use unicode_normalization::UnicodeNormalization as _;

pub use rules::{DefinitionRule, RULES, SHADOW};

use super::super::Context;
use super::super::injection;
use super::super::support::finding;
use crate::item::{Exchange, Item, Located};
use crate::names::{RuleId, ToolName};
use crate::policy::DefinitionsPolicy;
use crate::source::Problem;
use crate::unicode::is_ignorable;
use crate::verdict::{Finding, LayerId, Reason, Verdict};

/// Compiled size of one pattern.
const PATTERN: usize = 4 << 20;

/// Shorter names are words of a language more often than names of tools.
const NAME: usize = 5;

/// Tools of one list of which others may speak.
const NAMES: usize = 512;

/// The rule that stands for what the scanner of the layer `injection` finds.
pub(crate) const SCANNED: &str = "definition.instruction";

/// Most rules that a finding names.
const NAMED: usize = 4;

type Compiled = Result<Vec<(Regex, &'static DefinitionRule)>, String>;

static COMPILED: LazyLock<Compiled> = LazyLock::new(|| {
    let compile = |rule: &'static DefinitionRule| {
        let regex = RegexBuilder::new(rule.pattern).size_limit(PATTERN).build();
        let regex =
            regex.map_err(|error| format!("the rule {} does not compile: {error}", rule.id));
        Ok((regex?, rule))
    };
    RULES.iter().map(compile).collect()
});

/// What is judged of definitions.
pub(super) struct Definitions {
    policy: DefinitionsPolicy,
}

/// What one definition comes to.
struct Flagged {
    score: f64,
    rules: Vec<&'static str>,
}

impl Definitions {
    pub(super) fn new(policy: DefinitionsPolicy) -> Result<Self, Problem> {
        for (name, value) in [("remove", policy.remove), ("refuse", policy.refuse)] {
            if value.is_some_and(|value| !(value > 0.0 && value <= 1.0)) {
                return Err(Problem::new(format!(
                    "definitions: `{name}` is not a score above 0 and at most 1"
                ))
                .help("0.6 removes what clearly speaks to the model; write `never` for never"));
            }
        }
        COMPILED.as_ref().map_err(Problem::new)?;
        injection::scanner().map_err(Problem::new)?;
        Ok(Self { policy })
    }

    pub(super) fn reaches(&self, located: &Located, context: &Context<'_>) -> bool {
        self.policy.lowest().is_some() && text(located, context).is_some()
    }

    pub(super) fn judge(&self, located: &Located, context: &Context<'_>) -> Verdict {
        let (Some(lowest), Some(text)) = (self.policy.lowest(), text(located, context)) else {
            return Verdict::Allow;
        };
        let exchange = context.exchange;
        // One that is bad enough takes the others of its list with it.
        let refused = self.policy.refuse.and_then(|refuse| {
            let worst = context.memo.worst_definition(|| worst(exchange));
            worst.filter(|worst| worst.0 >= refuse)
        });
        if let Some((score, rule)) = refused
            && matches!(located.item, Item::Definition(_))
        {
            let finding = finding(
                LayerId::Catalog,
                &RuleId::from(rule),
                Reason::DefinitionFlagged,
                None,
                format!("score {score:.2} of one definition: the whole list is taken out"),
            );
            return Verdict::Deny(finding);
        }
        let flagged = flagged(text, own_name(&located.item), &names(exchange));
        if flagged.score >= lowest {
            Verdict::Deny(flagged.finding())
        } else {
            Verdict::Allow
        }
    }
}

impl Flagged {
    fn finding(&self) -> Finding {
        let rules: Vec<_> = self.rules.iter().take(NAMED).copied().collect();
        finding(
            LayerId::Catalog,
            &RuleId::from(rules.first().copied().unwrap_or("definitions")),
            Reason::DefinitionFlagged,
            None,
            format!("score {:.2}: {}", self.score, rules.join(" ")),
        )
    }
}

/// The text of a definition, or of a server's instructions.
fn text<'i>(located: &'i Located, context: &Context<'_>) -> Option<&'i str> {
    match &located.item {
        Item::Definition(definition) => Some(&*definition.text),
        Item::ToolOutput(output) if injection::is_instructions(located, context.exchange) => {
            Some(&*output.text)
        }
        _ => None,
    }
    .filter(|text| !text.is_empty())
}

fn own_name(item: &Item) -> &str {
    match item {
        Item::Definition(definition) => definition.tool.as_str(),
        _ => "",
    }
}

/// Names of the tools that are offered together.
fn names(exchange: &Exchange) -> Vec<&str> {
    injection::offered(exchange)
        .map(ToolName::as_str)
        .filter(|name| name.len() >= NAME)
        .take(NAMES)
        .collect()
}

/// The worst definition of a list: its score, and the rule that weighs most.
fn worst(exchange: &Exchange) -> Option<(f64, &'static str)> {
    let names = names(exchange);
    let all = exchange
        .items
        .iter()
        .filter_map(|located| match &located.item {
            Item::Definition(definition) => {
                let flagged = flagged(&definition.text, definition.tool.as_str(), &names);
                let rule = flagged.rules.first().copied().unwrap_or("definitions");
                Some((flagged.score, rule))
            }
            _ => None,
        });
    all.max_by(|(a, _), (b, _)| a.total_cmp(b))
}

/// Lower case, one blank for each run of them, nothing that is not seen.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.nfkc().filter(|c| !is_ignorable(*c)) {
        match c {
            c if c.is_whitespace() => {
                if !plain.ends_with(' ') {
                    plain.push(' ');
                }
            }
            '\u{2018}' | '\u{2019}' => plain.push('\''),
            c => plain.extend(c.to_lowercase()),
        }
    }
    plain
}

/// What a definition of the tool `own` comes to, beside others of these names: 1 − Π(1 − w) over families, and over what the
/// scanner finds.
fn flagged(text: &str, own: &str, names: &[&str]) -> Flagged {
    let plain = plain(text);
    let mut lit: Vec<(&'static str, f64, &'static str)> = Vec::new();
    let mut light = |rule: &'static DefinitionRule| match lit
        .iter_mut()
        .find(|(family, ..)| *family == rule.family)
    {
        Some(known) if known.1 < rule.weight => *known = (rule.family, rule.weight, rule.id),
        Some(_) => {}
        None => lit.push((rule.family, rule.weight, rule.id)),
    };
    if let Ok(rules) = COMPILED.as_ref() {
        for (regex, rule) in rules {
            if regex.is_match(&plain) {
                light(rule);
            }
        }
    }
    if names
        .iter()
        .any(|name| *name != own && directs(&plain, name))
    {
        light(&SHADOW);
    }
    let scanned = injection::score(text, injection::Kind::Definition);
    if scanned > 0.0 {
        lit.push(("scanner", scanned, SCANNED));
    }
    lit.sort_by(|a, b| b.1.total_cmp(&a.1));
    let miss: f64 = lit.iter().map(|(_, weight, _)| 1.0 - weight).product();
    Flagged {
        score: 1.0 - miss,
        rules: lit.into_iter().map(|(.., id)| id).collect(),
    }
}

/// What a definition of the tool `own` comes to beside others: its score, and the rules of definitions and of the scanner that
/// make it, heaviest first.
pub(crate) fn weigh(text: &str, own: &str, others: &[&str]) -> (f64, Vec<&'static str>) {
    let flagged = flagged(text, own, others);
    (flagged.score, flagged.rules)
}

/// Whether the text tells how another tool is to be used.
fn directs(plain: &str, name: &str) -> bool {
    let name = name.to_lowercase();
    if !plain.contains(&name) {
        return false;
    }
    let pattern = SHADOW.pattern.replace("TOOL", &regex::escape(&name));
    // A name is at most as long as its definition, and a pattern that is too large has found nothing.
    let regex = RegexBuilder::new(&pattern).size_limit(PATTERN).build();
    regex.is_ok_and(|regex| regex.is_match(plain))
}

/// Shared by all definitions of one list.
pub(in crate::layers) type Worst = Option<(f64, &'static str)>;
