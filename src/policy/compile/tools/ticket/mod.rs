//! Tickets that rules ask for.

mod mandate;
mod pointer;
mod summary;
mod truth;

use std::time::Duration;

use pointer::pointer;

use super::conditions::condition;
use super::{Names, all, id};
use crate::policy::{Condition, Gate, Scope, TicketRule};
use crate::source::{Field, Fields};

/// Longest life of a ticket.
const LONGEST_TTL: Duration = Duration::from_hours(30 * 24);

/// Most people whose approval one call may need.
const MOST_APPROVALS: u32 = 10;

/// Longest time that a client is kept waiting: common clients and balancers give up after a minute.
const LONGEST_HOLD: Duration = Duration::from_secs(55);

pub(super) fn ticket(field: &Field<'_>, names: &Names<'_>) -> Option<TicketRule> {
    let mut fields = field.map()?;
    let gate = fields
        .required("gate")
        .and_then(|f| f.choice(&[("confirm", Gate::Confirm), ("approve", Gate::Approve)]));
    let approvals = approvals(&mut fields, gate);
    let roles = roles(&mut fields, gate);
    let fresh_login = fields.optional_or("fresh_login", false, Field::bool);
    let ttl = fields
        .required("ttl")
        .and_then(|f| at_most(&f, LONGEST_TTL, "720h", "15m"));
    let hold = fields.optional_or("hold", None, |f| {
        at_most(f, LONGEST_HOLD, "55s", "25s").map(Some)
    });
    let scope = fields.optional_or("scope", Scope::Session, |f| {
        f.choice(&[("session", Scope::Session), ("principal", Scope::Principal)])
    });
    let volatile = fields.optional_or("volatile", Vec::new(), |f| {
        let read: Vec<_> = f.one_or_more()?.iter().map(pointer).collect();
        read.into_iter().collect()
    });
    let summary = fields.optional_or("summary", None, |f| summary::summary(f).map(Some));
    let unless = fields.optional_or("unless", Vec::new(), |f| unless(f, names));
    let state = fields.optional_or("state", Vec::new(), |f| {
        let entries: Vec<_> = f.one_or_more()?;
        let read: Vec<_> = entries
            .iter()
            .map(|entry| truth::state(entry, names))
            .collect();
        read.into_iter().collect()
    });
    let reconcile = fields.optional_or("reconcile", None, |f| truth::reconcile(f, names).map(Some));
    let idempotent = fields.optional_or("idempotent", None, |f| {
        at_most(f, LONGEST_TTL, "720h", "24h").map(Some)
    });
    let freeze = fields.optional_or("freeze", false, Field::bool);
    let mandate = fields.optional_or("mandate", None, |f| mandate::mandate(f).map(Some));
    if let (Some(Some(_)), Some(2..)) = (&mandate, approvals)
        && let Some(field) = field.peek("mandate")
    {
        field.error(
            "a mandate is given by one person, and this rule needs more",
            "remove `mandate`, or `approvals`",
        );
    }
    let issuers = fields.optional_or("issuers", Vec::new(), |f| {
        let read: Vec<_> = f.one_or_more()?.iter().map(Field::name).collect();
        let listed: Option<Vec<_>> = read.into_iter().collect();
        Some(listed?.into_iter().map(str::to_owned).collect())
    });
    Some(TicketRule {
        id: id(field),
        gate: gate?,
        approvals: approvals?,
        roles: roles?,
        fresh_login: fresh_login?,
        ttl: ttl?,
        hold: hold?,
        scope: scope?,
        volatile: volatile?,
        summary: summary?,
        unless: unless?,
        state: state?,
        reconcile: reconcile?,
        idempotent: idempotent?,
        freeze: freeze?,
        mandate: mandate?,
        issuers: issuers?,
    })
}

fn approvals(fields: &mut Fields<'_>, gate: Option<Gate>) -> Option<u32> {
    let Some(field) = fields.optional("approvals") else {
        return Some(1);
    };
    let number: u32 = field.whole()?;
    if !(1..=MOST_APPROVALS).contains(&number) {
        field.error(
            format!("`{}` must be from 1 to {MOST_APPROVALS}", field.path()),
            "write how many different people must approve, such as `2`",
        );
        return None;
    }
    if gate == Some(Gate::Confirm) && number > 1 {
        field.error(
            "`approvals` has no meaning with `gate: confirm`: the end user confirms",
            "remove `approvals`, or write `gate: approve`",
        );
        return None;
    }
    Some(number)
}

fn roles(fields: &mut Fields<'_>, gate: Option<Gate>) -> Option<Vec<String>> {
    let (one, several) = (fields.optional("role"), fields.optional("roles"));
    if let (Some(_), Some(field)) = (&one, &several) {
        field.error("`role` and `roles` exclude each other", "keep `roles`");
        return None;
    }
    let Some(field) = one.as_ref().or(several.as_ref()) else {
        return Some(Vec::new());
    };
    if gate == Some(Gate::Confirm) {
        let key = if one.is_some() { "role" } else { "roles" };
        field.error(
            format!("`{key}` has no meaning with `gate: confirm`: the end user confirms"),
            format!("remove `{key}`, or write `gate: approve`"),
        );
    }
    let named = if several.is_some() {
        field.filled_list()?
    } else {
        vec![field.clone()]
    };
    let read: Vec<_> = named.iter().map(Field::name).collect();
    let roles: Option<Vec<_>> = read.into_iter().collect();
    Some(roles?.into_iter().map(str::to_owned).collect())
}

/// A duration above 0 and not above `most`.
fn at_most(field: &Field<'_>, most: Duration, word: &str, such: &str) -> Option<Duration> {
    let read = field.duration()?;
    if read.is_zero() || read > most {
        field.error(
            format!("`{}` must be more than 0 and at most {word}", field.path()),
            format!("write a duration such as `{such}`"),
        );
        return None;
    }
    Some(read)
}

/// Conditions that only look at the call: a count would have to be charged by somebody.
fn unless(field: &Field<'_>, names: &Names<'_>) -> Option<Vec<Condition>> {
    field.filled_list()?;
    all(field, |entry| {
        for key in ["count", "sum"] {
            if let Some(limit) = entry.peek(key) {
                limit.error(
                    format!("`{key}` cannot stand in `unless`"),
                    format!(
                        "write it as a condition of the tool: `when: [{{{key}: ..., else: hold}}]`"
                    ),
                );
                return None;
            }
        }
        if let Some(otherwise) = entry.peek("else") {
            otherwise.error(
                "`else` has no meaning in `unless`: where a condition does not hold the call needs its ticket",
                "remove it",
            );
            return None;
        }
        condition(entry, names)
    })
}
