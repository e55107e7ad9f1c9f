//! Rules for tools.

use std::collections::HashMap;
use std::time::Duration;

use super::matcher::{Order, matcher};
use crate::names::{ListName, LookupName, RouteName, RuleId};
use crate::policy::{
    Allowed, Effect, EgressRule, ExecutesAt, Gate, List, Lookup, Otherwise, OwnershipRule,
    RecipientKind, RecipientRule, Selector, TicketRule, ToolRule,
};
use crate::source::{Field, Fields, did_you_mean};

/// Longest life of a ticket.
const LONGEST_TTL: Duration = Duration::from_hours(30 * 24);

/// What rules may refer to; `None` where it is broken, which is not its user's fault.
pub(super) struct Names<'n> {
    pub(super) lists: &'n HashMap<ListName, Option<List>>,
    pub(super) lookups: &'n HashMap<LookupName, Option<Lookup>>,
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
    let executes_at = match fields.optional("executes_at") {
        Some(field) => executes_at(&field).map(Some),
        None => Some(None),
    };
    let egress = section(&mut fields, "egress", |rule| egress(rule, names));
    let recipients = section(&mut fields, "recipients", |rule| recipients(rule, names));
    let ownership = section(&mut fields, "ownership", |rule| ownership(rule, names));
    let ticket = match fields.optional("ticket") {
        Some(field) => ticket(&field).map(Some),
        None => Some(None),
    };
    Some(ToolRule {
        id: id(field),
        matcher: matcher?,
        deny: deny?,
        effect: effect?,
        executes_at: executes_at?,
        egress: egress?,
        recipients: recipients?,
        ownership: ownership?,
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
        "executes_at",
        "egress",
        "recipients",
        "ownership",
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

fn otherwise(fields: &mut Fields<'_>) -> Option<Otherwise> {
    match fields.optional("otherwise") {
        Some(field) => field.choice(&[("deny", Otherwise::Deny), ("hold", Otherwise::Hold)]),
        None => Some(Otherwise::default()),
    }
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

fn egress(field: &Field<'_>, names: &Names<'_>) -> Option<EgressRule> {
    let mut fields = field.map()?;
    let at = selectors(&mut fields);
    egress_rest(&mut fields, at, names)
}

/// The rule for tools that have none of their own: every argument.
pub(super) fn egress_for_all(field: &Field<'_>, names: &Names<'_>) -> Option<EgressRule> {
    let mut fields = field.map()?;
    egress_rest(&mut fields, Some(vec![Selector::everything()]), names)
}

fn egress_rest(
    fields: &mut Fields<'_>,
    at: Option<Vec<Selector>>,
    names: &Names<'_>,
) -> Option<EgressRule> {
    let no_hosts = |list: &List| {
        let lack = list.hosts.is_empty() && list.host_suffixes.is_empty();
        lack.then(|| ("has no hosts".to_owned(), "add `hosts: [...]` to it"))
    };
    let allow = fields
        .required("allow")
        .and_then(|field| all(&field, |entry| names.list(entry, no_hosts)));
    let otherwise = otherwise(fields);
    Some(EgressRule {
        id: id(fields.field()),
        at: at?,
        allow: allow?,
        otherwise: otherwise?,
    })
}

fn recipients(field: &Field<'_>, names: &Names<'_>) -> Option<RecipientRule> {
    let mut fields = field.map()?;
    let at = selectors(&mut fields);
    let kind = fields.required("kind").and_then(|field| {
        field.choice(&[
            ("email", RecipientKind::Email),
            ("account", RecipientKind::Account),
            ("iban", RecipientKind::Iban),
        ])
    });
    let allow = fields
        .required("allow")
        .and_then(|field| all(&field, |entry| allowed(entry, kind, names)));
    let otherwise = otherwise(&mut fields);
    Some(RecipientRule {
        id: id(field),
        at: at?,
        kind: kind?,
        allow: allow?,
        otherwise: otherwise?,
    })
}

fn allowed(field: &Field<'_>, kind: Option<RecipientKind>, names: &Names<'_>) -> Option<Allowed> {
    if field.is_map() {
        let mut fields = field.map()?;
        let lookup = fields.required("lookup")?;
        return names.lookup(&lookup).map(Allowed::Lookup);
    }
    let list = names.list(field, |list| {
        kind.and_then(|kind| no_recipients(list, kind))
    })?;
    Some(Allowed::List(list))
}

fn no_recipients(list: &List, kind: RecipientKind) -> Option<(String, &'static str)> {
    let (lack, help) = match kind {
        RecipientKind::Email if list.emails.is_empty() && list.email_domains.is_empty() => (
            "has no e-mail addresses".to_owned(),
            "add `emails: [...]` or `email_domains: [...]` to it",
        ),
        RecipientKind::Account | RecipientKind::Iban if list.accounts.is_empty() => {
            ("has no accounts".to_owned(), "add `accounts: [...]` to it")
        }
        RecipientKind::Iban => {
            let mut wrong: Vec<_> = list
                .accounts
                .iter()
                .filter(|account| account.parse::<iban::Iban>().is_err())
                .collect();
            wrong.sort_unstable();
            let first = wrong.first()?;
            (
                format!("holds `{first}`, which is no valid IBAN"),
                "correct it, or write `kind: account`",
            )
        }
        _ => return None,
    };
    Some((lack, help))
}

fn ownership(field: &Field<'_>, names: &Names<'_>) -> Option<OwnershipRule> {
    let mut fields = field.map()?;
    let resource = fields.required("resource").and_then(|f| selector(&f));
    let bind = fields.required("as").and_then(|f| parameter(&f));
    let owner = fields.required("owner").and_then(|f| names.lookup(&f));
    Some(OwnershipRule {
        id: id(field),
        resource: resource?,
        bind: bind?,
        owner: owner?,
    })
}

/// Parameters that every look-up gets.
pub(super) const ALWAYS_BOUND: [&str; 2] = ["principal", "tenant"];

fn parameter(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    let start = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let rest = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let help = match text.strip_prefix(':') {
        Some(name) => format!("write it without colon: `{name}`"),
        None => "use letters, digits and `_`, such as `order_id`".to_owned(),
    };
    if !start || !rest {
        field.error(format!("`{text}` cannot name an SQL parameter"), help);
        return None;
    }
    if ALWAYS_BOUND.contains(&text) {
        field.error(
            format!("`:{text}` is always bound by Holdpoint itself"),
            "choose another name, such as `resource_id`, here and in the look-up's SQL",
        );
        return None;
    }
    Some(text.to_owned())
}

fn ticket(field: &Field<'_>) -> Option<TicketRule> {
    let mut fields = field.map()?;
    let gate = fields
        .required("gate")
        .and_then(|f| f.choice(&[("confirm", Gate::Confirm), ("approve", Gate::Approve)]));
    let role_field = fields.optional("role");
    let role = match &role_field {
        Some(field) => field.name().map(|role| Some(role.to_owned())),
        None => Some(None),
    };
    if let (Some(Gate::Confirm), Some(field)) = (gate, &role_field) {
        field.error(
            "`role` has no meaning with `gate: confirm`: the end user confirms",
            "remove `role`, or write `gate: approve`",
        );
    }
    let ttl = fields.required("ttl").and_then(|f| ttl(&f));
    let summary = match fields.optional("summary") {
        Some(field) => summary(&field).map(Some),
        None => Some(None),
    };
    Some(TicketRule {
        id: id(field),
        gate: gate?,
        role: role?,
        ttl: ttl?,
        summary: summary?,
    })
}

fn ttl(field: &Field<'_>) -> Option<Duration> {
    let ttl = field.duration()?;
    if ttl.is_zero() || ttl > LONGEST_TTL {
        field.error(
            format!("`{}` must be more than 0 and at most 720h", field.path()),
            "write how long an approval may live, such as `15m`",
        );
        return None;
    }
    Some(ttl)
}

/// Text with `{/json/pointer}` in it.
fn summary(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    let mut rest = text;
    let mut fault = None;
    while let Some((before, after)) = rest.split_once('{') {
        let closed = after.split_once('}').filter(|(p, _)| !p.contains('{'));
        let Some((pointer, after)) = closed else {
            fault = Some("a `{` is not closed".to_owned());
            break;
        };
        if before.contains('}') {
            break;
        }
        if let Err(why) = pointer_syntax(pointer) {
            fault = Some(format!("`{{{pointer}}}`: {why}"));
            break;
        }
        rest = after;
    }
    let stray = rest.split_once('{').map_or(rest, |(before, _)| before);
    if fault.is_none() && stray.contains('}') {
        fault = Some("a `}` is not opened".to_owned());
    }
    let Some(fault) = fault else {
        return Some(text.to_owned());
    };
    field.error(
        format!("the summary cannot be filled in: {fault}"),
        "name one argument between braces by its JSON Pointer, such as `{/amount}`",
    );
    None
}

/// RFC 6901.
fn pointer_syntax(pointer: &str) -> Result<(), String> {
    if !pointer.starts_with('/') {
        return Err("a JSON Pointer starts with `/`".to_owned());
    }
    if pointer.split('/').any(|step| step == "*" || step == "**") {
        return Err("a wildcard may name many arguments".to_owned());
    }
    let mut tildes = pointer.split('~').skip(1);
    if tildes.any(|after| !after.starts_with(['0', '1'])) {
        return Err("write `~0` for `~` and `~1` for `/`".to_owned());
    }
    Ok(())
}
