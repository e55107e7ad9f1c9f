//! Rules for tools.

mod allowed;
mod conditions;
mod egress;
mod identity;
mod ownership;
mod recipients;
mod secrets;
mod ticket;

use std::collections::HashMap;

pub(super) use egress::{egress_for_all, forward, rendered};
pub(super) use ownership::parameter;
pub(super) use recipients::undeclared;
pub(super) use secrets::{private, secrets};

use super::matcher::{Order, matcher};
use crate::names::{ListName, LookupName, RouteName, RuleId};
use crate::policy::{
    Effect, ExecutesAt, Fallback, List, Lookup, Otherwise, Selector, ToolRule, ToolSecrets,
};
use crate::source::{Field, Fields, did_you_mean};

/// What rules may refer to; `None` where it is broken, which is not its user's fault.
#[derive(Clone, Copy)]
pub(super) struct Names<'n> {
    pub(super) lists: &'n HashMap<ListName, Option<List>>,
    pub(super) lookups: &'n HashMap<LookupName, Option<Lookup>>,
    /// Whether somebody can approve.
    pub(super) approved: bool,
    /// What `otherwise` is where a rule for recipients or URLs does not say it.
    pub(super) usual: Fallback,
}

impl Names<'_> {
    /// The name of a list that can serve: `fault` says what it lacks.
    fn list(
        &self,
        field: &Field<'_>,
        fault: impl FnOnce(&List) -> Option<(String, &'static str)>,
    ) -> Option<ListName> {
        let name = field.text()?;
        let Some(list) = self.lists.get(name) else {
            let known = self.lists.keys().map(ListName::as_str);
            field.error(
                format!("there is no list `{name}`"),
                did_you_mean("lists", name, sorted(known)),
            );
            return None;
        };
        if let Some((lack, help)) = list.as_ref().and_then(fault) {
            field.error(format!("the list `{name}` {lack}"), help);
            return None;
        }
        Some(name.into())
    }

    fn lookup(&self, field: &Field<'_>) -> Option<LookupName> {
        let name = field.text()?;
        if !self.lookups.contains_key(name) {
            let known = self.lookups.keys().map(LookupName::as_str);
            field.error(
                format!("there is no look-up `{name}`"),
                did_you_mean("look-ups", name, sorted(known)),
            );
            return None;
        }
        Some(name.into())
    }
}

fn sorted<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names
}

pub(super) fn tools(field: &Field<'_>, names: &Names<'_>) -> Option<Vec<ToolRule>> {
    let mut order = Order::default();
    all(field, |rule| tool_rule(rule, names, &mut order))
}

/// Every element, or nothing if one of them is broken.
fn all<T>(field: &Field<'_>, mut read: impl FnMut(&Field<'_>) -> Option<T>) -> Option<Vec<T>> {
    let read: Vec<_> = field.list()?.iter().map(&mut read).collect();
    read.into_iter().collect()
}

/// The elements of a section that may be missing.
fn section<T>(
    fields: &mut Fields<'_>,
    key: &'static str,
    read: impl FnMut(&Field<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    match fields.optional(key) {
        None => Some(Vec::new()),
        Some(field) => {
            field.filled_list()?;
            all(&field, read)
        }
    }
}

fn id(field: &Field<'_>) -> RuleId {
    RuleId::from(field.path())
}

fn tool_rule(field: &Field<'_>, names: &Names<'_>, order: &mut Order) -> Option<ToolRule> {
    let mut fields = field.map()?;
    let tool = fields.required("tool");
    let matcher = tool.as_ref().and_then(matcher);
    if let (Some(matcher), Some(tool)) = (&matcher, &tool) {
        order.add(matcher, tool);
    }
    let deny = match fields.optional("deny") {
        Some(deny) => deny_alone(field, &deny),
        None => Some(false),
    };
    let effect = match fields.optional("effect") {
        Some(field) => field.choice(&[("read", Effect::Read), ("write", Effect::Write)]),
        None => Some(Effect::default()),
    };
    let harmless = fields.optional_or("prepare", false, |f| f.choice(&[("harmless", true)]));
    let usual = match effect {
        Some(Effect::Write) if names.approved => Fallback::USUAL,
        _ => Fallback::default(),
    };
    let names = &Names { usual, ..*names };
    let executes_at = match fields.optional("executes_at") {
        Some(field) => executes_at(&field).map(Some),
        None => Some(None),
    };
    let egress = section(&mut fields, "egress", |rule| egress::egress(rule, names));
    let secrets = fields.optional_or("secrets", ToolSecrets::Usual, secrets::tool_secrets);
    let recipients = section(&mut fields, "recipients", |rule| {
        recipients::recipients(rule, names)
    });
    let arguments = section(&mut fields, "arguments", |rule| {
        allowed::arguments(rule, names)
    });
    let undeclared = match fields.optional("undeclared_recipients") {
        Some(field) => recipients::undeclared(&field).map(Some),
        None => Some(None),
    };
    let ownership = section(&mut fields, "ownership", |rule| {
        ownership::ownership(rule, names)
    });
    let scopes = identity::words(&mut fields, "scopes", "refund:create");
    let agents = identity::words(&mut fields, "agents", "support-desk");
    let own_session = identity::own_session(&mut fields);
    let when = section(&mut fields, "when", |rule| {
        conditions::condition(rule, names)
    });
    let ticket = match fields.optional("ticket") {
        Some(field) => ticket::ticket(&field, names).map(Some),
        None => Some(None),
    };
    Some(ToolRule {
        id: id(field),
        matcher: matcher?,
        deny: deny?,
        effect: effect?,
        harmless: harmless?,
        executes_at: executes_at?,
        egress: egress?,
        secrets: secrets?,
        recipients: recipients?,
        arguments: arguments?,
        undeclared_recipients: undeclared?,
        ownership: ownership?,
        scopes: scopes?,
        agents: agents?,
        own_session: own_session?,
        when: when?,
        ticket: ticket?,
    })
}

/// `deny: true`, with nothing else in the rule: what nobody may call has no other property.
fn deny_alone(rule: &Field<'_>, field: &Field<'_>) -> Option<bool> {
    if !field.bool()? {
        field.error(
            "`deny: false` says nothing",
            "remove it: a tool is denied only by `deny: true`",
        );
        return None;
    }
    let others = [
        "effect",
        "prepare",
        "executes_at",
        "egress",
        "secrets",
        "recipients",
        "arguments",
        "undeclared_recipients",
        "ownership",
        "scopes",
        "agents",
        "session",
        "when",
        "ticket",
    ];
    for (key, _) in rule.entries().unwrap_or_default() {
        if others.contains(&key.text()) {
            key.error(
                format!("`{}` has no meaning beside `deny: true`", key.text()),
                "remove one of the two: nobody may call a denied tool",
            );
        }
    }
    Some(true)
}

fn executes_at(field: &Field<'_>) -> Option<ExecutesAt> {
    if field.is_map() {
        let mut fields = field.map()?;
        let route = fields.required("route").and_then(|f| f.name())?;
        return Some(ExecutesAt::Route(RouteName::from(route)));
    }
    if field.text()? == "agent" {
        return Some(ExecutesAt::Agent);
    }
    field.error(
        format!("`{}` is neither `agent` nor a route", field.path()),
        "write `agent`, or `{route: NAME}` for a route of the config",
    );
    None
}

const OTHERWISE: [(&str, Otherwise); 2] = [("deny", Otherwise::Deny), ("hold", Otherwise::Hold)];

/// `otherwise` of what is no value of a call: one word.
fn one_otherwise(fields: &mut Fields<'_>) -> Option<Otherwise> {
    match fields.optional("otherwise") {
        Some(field) => field.choice(&OTHERWISE),
        None => Some(Otherwise::default()),
    }
}

/// `otherwise`: one word, or one for each class of values.
fn otherwise(fields: &mut Fields<'_>, usual: Fallback) -> Option<Fallback> {
    let Some(field) = fields.optional("otherwise") else {
        return Some(usual);
    };
    if !field.is_map() {
        return field.choice(&OTHERWISE).map(Fallback::from);
    }
    let mut fields = field.map()?;
    let mut word = |key| match fields.optional(key) {
        Some(field) => field.choice(&OTHERWISE).map(Some),
        None => Some(None),
    };
    let (said, tainted) = (word("said"), word("tainted"));
    let (unseen, known) = (word("unseen"), word("known"));
    let (said, tainted, unseen, known) = (said?, tainted?, unseen?, known?);
    if [said, tainted, unseen, known].iter().all(Option::is_none) {
        field.error(
            "this says nothing",
            "write `deny`, `hold`, or `{tainted: hold, unseen: deny}`",
        );
        return None;
    }
    let (tainted, unseen) = (tainted.unwrap_or_default(), unseen.unwrap_or_default());
    Some(Fallback {
        said: said.unwrap_or(tainted.or_milder(unseen)),
        tainted,
        unseen,
        known,
    })
}

fn selector(field: &Field<'_>) -> Option<Selector> {
    // The empty selector names all arguments, but an empty text is more often a slip.
    let text = field.text()?;
    match Selector::parse(text) {
        Ok(selector) => Some(selector),
        Err(fault) => {
            let help = "name an argument such as `/to`, `/items/*/url`, or `/**` for all of them";
            field.error(format!("`{text}` is not a selector: {fault}"), help);
            None
        }
    }
}

fn selectors(fields: &mut Fields<'_>) -> Option<Vec<Selector>> {
    let at = fields.required("at")?.one_or_more()?;
    let read: Vec<_> = at.iter().map(selector).collect();
    read.into_iter().collect()
}
