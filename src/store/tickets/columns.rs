//! From the columns of a row, of whichever database, to the words of the store.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use rust_decimal::Decimal;
use serde::de::DeserializeOwned;
use serde_json::json;
use serde_json::value::RawValue;

use super::audit::{AuditRow, Event, Head, RowHash};
use super::digest::CallDigest;
use super::{
    Cause, Channel, Completed, Earlier, Mandate, Person, RECEIPT_BODY, RECEIPT_HEAD, Resolved,
    Ticket, TicketState, Verdict, Vote,
};
use crate::guard::Receipt;
use crate::policy::{Gate, PolicyHash};
use crate::principal::Principal;

/// A row of a database. Numbers are 64 bits, moments are microseconds since 1970 (UTC), JSON and decimals are text.
pub(super) trait Columns {
    /// What the database says where a column is not there or of another type.
    type Error;

    /// A column that does not hold what the store writes there.
    fn wrong(column: &str) -> Self::Error;

    /// Text or null.
    fn maybe_text(&self, column: &str) -> Result<Option<String>, Self::Error>;

    /// A number or null.
    fn maybe_number(&self, column: &str) -> Result<Option<i64>, Self::Error>;

    /// Bytes or null.
    fn maybe_bytes(&self, column: &str) -> Result<Option<Vec<u8>>, Self::Error>;

    /// Yes or no.
    fn flag(&self, column: &str) -> Result<bool, Self::Error>;

    /// Text.
    fn text(&self, column: &str) -> Result<String, Self::Error> {
        self.maybe_text(column)?.ok_or_else(|| Self::wrong(column))
    }

    /// A number.
    fn number(&self, column: &str) -> Result<i64, Self::Error> {
        self.maybe_number(column)?
            .ok_or_else(|| Self::wrong(column))
    }

    /// A number that is not negative and fits.
    fn count<T: TryFrom<i64>>(&self, column: &str) -> Result<T, Self::Error> {
        T::try_from(self.number(column)?).map_err(|_| Self::wrong(column))
    }

    /// A moment or null.
    fn maybe_at(&self, column: &str) -> Result<Option<Timestamp>, Self::Error> {
        let at = |micros| Timestamp::from_microsecond(micros).map_err(|_| Self::wrong(column));
        self.maybe_number(column)?.map(at).transpose()
    }

    /// A moment.
    fn at(&self, column: &str) -> Result<Timestamp, Self::Error> {
        self.maybe_at(column)?.ok_or_else(|| Self::wrong(column))
    }

    /// What `read` makes of a text, or null.
    fn maybe_named<T>(
        &self,
        column: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Self::Error> {
        let named = |text: String| read(&text).ok_or_else(|| Self::wrong(column));
        self.maybe_text(column)?.map(named).transpose()
    }

    /// What `read` makes of a text.
    fn named<T>(
        &self,
        column: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, Self::Error> {
        self.maybe_named(column, read)?
            .ok_or_else(|| Self::wrong(column))
    }

    /// JSON or null.
    fn maybe_json<T: DeserializeOwned>(&self, column: &str) -> Result<Option<T>, Self::Error> {
        self.maybe_named(column, |text| serde_json::from_str(text).ok())
    }

    /// JSON.
    fn json<T: DeserializeOwned>(&self, column: &str) -> Result<T, Self::Error> {
        self.maybe_json(column)?.ok_or_else(|| Self::wrong(column))
    }
}

/// A gate as stores keep it.
pub(super) const fn gate_name(gate: Gate) -> &'static str {
    match gate {
        Gate::Confirm => "confirm",
        Gate::Approve => "approve",
    }
}

fn gate(name: &str) -> Option<Gate> {
    [Gate::Confirm, Gate::Approve]
        .into_iter()
        .find(|gate| gate_name(*gate) == name)
}

/// What of a receipt's body is kept.
pub(super) fn kept(body: &Bytes) -> Bytes {
    if body.len() <= RECEIPT_BODY {
        body.clone()
    } else {
        body.slice(..RECEIPT_HEAD)
    }
}

/// A whole ticket; `votes` and `earlier` are left empty.
pub(super) fn ticket<C: Columns>(row: &C) -> Result<Ticket, C::Error> {
    Ok(Ticket {
        id: row.text("id")?.into(),
        seq: row.count("seq")?,
        state: row.named("state", TicketState::from_name)?,
        cause: row.maybe_named("cause", Cause::from_name)?,
        digest: row.named("digest", CallDigest::from_hex)?,
        summary: row.text("summary")?,
        tool: row.text("tool")?.into(),
        upstream: row.text("upstream")?.into(),
        route: row.text("route")?.into(),
        arguments: row.named("arguments", |text| {
            RawValue::from_string(text.to_owned()).ok()
        })?,
        principal: Principal {
            tenant: row.text("tenant")?.into(),
            issuer: row.text("issuer")?.into(),
            subject: row.text("subject")?.into(),
            agent: row.text("agent")?.into(),
            actors: row.json("actors")?,
            scopes: BTreeSet::new(),
        },
        session: row.maybe_text("session")?.map(Into::into),
        gate: row.named("gate", gate)?,
        roles: row.json("roles")?,
        approvals: row.count("approvals")?,
        fresh: row.flag("fresh")?,
        policy: PolicyHash(Arc::from(row.text("policy")?)),
        layer: row.text("layer")?,
        rule: row.text("rule")?.into(),
        reason: row.text("reason")?,
        bound: row.json("bound")?,
        said: row.maybe_text("said")?,
        created_at: row.at("created_at")?,
        expires_at: row.at("expires_at")?,
        votes: Vec::new(),
        attempts: row.count("attempt")?,
        claimed_at: row.maybe_at("claimed_at")?,
        completed: completed(row)?,
        reconcile: row.maybe_text("reconcile")?.map(Into::into),
        resolved: resolved(row)?,
        mandate: row.maybe_text("mandate")?.map(Into::into),
        offer: row.maybe_json("offer")?,
        earlier: None,
        told: row.flag("expiry_told")?,
        lost: row.count("lost")?,
    })
}

/// Id, state and age of a ticket.
pub(super) fn earlier<C: Columns>(row: &C) -> Result<Earlier, C::Error> {
    Ok(Earlier {
        id: row.text("id")?.into(),
        state: row.named("state", TicketState::from_name)?,
        created_at: row.at("created_at")?,
    })
}

/// One vote.
pub(super) fn vote<C: Columns>(row: &C) -> Result<Vote, C::Error> {
    Ok(Vote {
        by: Person {
            issuer: row.text("issuer")?,
            subject: row.text("subject")?,
        },
        verdict: row.named("verdict", Verdict::from_name)?,
        at: row.at("at")?,
        comment: row.maybe_text("comment")?,
        channel: row.named("channel", Channel::from_name)?,
        roles: row.json("roles")?,
        strong: row.flag("strong")?,
    })
}

fn resolved<C: Columns>(row: &C) -> Result<Option<Resolved>, C::Error> {
    let Some(by) = row.maybe_text("resolved_by")? else {
        return Ok(None);
    };
    Ok(Some(Resolved {
        by,
        at: row.at("resolved_at")?,
        note: row.maybe_text("resolved_note")?,
    }))
}

/// A mandate.
pub(super) fn mandate<C: Columns>(row: &C) -> Result<Mandate, C::Error> {
    let decimal = |text: &str| Decimal::from_str_exact(text).ok();
    Ok(Mandate {
        id: row.text("id")?.into(),
        tenant: row.text("tenant")?,
        issuer: row.text("issuer")?,
        subject: row.text("subject")?,
        agent: row.text("agent")?,
        session: row.maybe_text("session")?.map(Into::into),
        upstream: row.text("upstream")?.into(),
        tool: row.text("tool")?.into(),
        same: row.json("same")?,
        at_most: row.maybe_named("at_most", decimal)?,
        currency: row.maybe_text("currency")?,
        uses: row.count("uses")?,
        spent: row.named("spent", decimal)?,
        used: row.count("used")?,
        rule: row.text("rule")?.into(),
        ticket: row.maybe_text("ticket")?.map(Into::into),
        granted_by: Person {
            issuer: row.text("by_issuer")?,
            subject: row.text("by_subject")?,
        },
        given: row.maybe_json("given")?,
        granted_at: row.at("granted_at")?,
        comment: row.maybe_text("comment")?,
        expires_at: row.at("expires_at")?,
        ended_by: row.maybe_text("ended_by")?,
        ended_at: row.maybe_at("ended_at")?,
    })
}

fn completed<C: Columns>(row: &C) -> Result<Option<Completed>, C::Error> {
    if row.maybe_number("receipt_status")?.is_none() {
        return Ok(None);
    }
    let length = row.count("receipt_length")?;
    Ok(Some(Completed {
        status: row.count("receipt_status")?,
        content_type: row.maybe_text("receipt_type")?,
        length,
        sha256: row.text("receipt_sha256")?,
        whole: usize::try_from(length).is_ok_and(|length| length <= RECEIPT_BODY),
        at: row.at("completed_at")?,
    }))
}

/// The receipt of a ticket's row; `None`: there is none, or its body is kept no longer. Of a body that was not kept whole it holds
/// a JSON object that says so.
pub(super) fn receipt<C: Columns>(row: &C) -> Result<Option<Receipt>, C::Error> {
    let Some(completed) = completed(row)? else {
        return Ok(None);
    };
    let Some(kept) = row.maybe_bytes("receipt_body")? else {
        return Ok(None);
    };
    let (content_type, body) = if completed.whole {
        (completed.content_type, Bytes::from(kept))
    } else {
        let excerpt = json!({
            "holdpoint_receipt": "the call was carried out before; its result was too long to be kept whole",
            "length": completed.length,
            "sha256": completed.sha256,
            "content_type": completed.content_type,
            "head": String::from_utf8_lossy(&kept),
        });
        (
            Some("application/json".to_owned()),
            Bytes::from(excerpt.to_string()),
        )
    };
    Ok(Some(Receipt {
        ticket: row.text("id")?.into(),
        status: completed.status,
        content_type,
        body,
        completed_at: completed.at,
    }))
}

/// A row of the audit.
pub(super) fn audit<C: Columns>(row: &C) -> Result<AuditRow, C::Error> {
    Ok(AuditRow {
        seq: row.count("seq")?,
        at: row.at("at")?,
        event: row.named("event", Event::from_name)?,
        ticket: row.maybe_text("ticket")?.map(Into::into),
        mandate: row.maybe_text("mandate")?.map(Into::into),
        actor: row.text("actor")?,
        details: row.json("details")?,
        prev: row.named("prev", RowHash::from_hex)?,
        hash: row.named("hash", RowHash::from_hex)?,
    })
}

/// Number and hash of a row of the audit.
pub(super) fn head<C: Columns>(row: &C) -> Result<Head, C::Error> {
    Ok(Head {
        seq: row.count("seq")?,
        hash: row.named("hash", RowHash::from_hex)?,
    })
}
