//! Rows to words and back.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use rusqlite::{Row, ToSql};
use rust_decimal::Decimal;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use serde_json::value::RawValue;

use crate::guard::Receipt;
use crate::names::{MandateId, RouteName, RuleId, SessionKey, TicketId, ToolName, UpstreamName};
use crate::policy::{Gate, PolicyHash};
use crate::principal::Principal;
use crate::store::tickets::digest::CallDigest;
use crate::store::tickets::{
    Cause, Channel, Completed, Mandate, Person, RECEIPT_BODY, RECEIPT_HEAD, Resolved, Ticket,
    TicketState, Verdict, Vote, rules,
};

/// A moment as the store keeps it: microseconds since 1970, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct At(pub(super) Timestamp);

impl At {
    /// Cut to what the store keeps, so that a moment reads back as it was written.
    pub(super) fn new(at: Timestamp) -> Self {
        Self(Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at))
    }

    /// So much later; the end of time where there is no such moment.
    pub(super) fn plus(self, by: Duration) -> Self {
        Self::new(rules::plus(self.0, by))
    }

    /// So much earlier.
    pub(super) fn minus(self, by: Duration) -> Self {
        Self::new(rules::minus(self.0, by))
    }
}

impl ToSql for At {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.as_microsecond().into())
    }
}

impl FromSql for At {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let micros = i64::column_result(value)?;
        let at =
            Timestamp::from_microsecond(micros).map_err(|_| FromSqlError::OutOfRange(micros))?;
        Ok(Self(at))
    }
}

impl ToSql for TicketState {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.as_str().into())
    }
}

impl FromSql for TicketState {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Self::from_name(value.as_str()?).ok_or(FromSqlError::InvalidType)
    }
}

/// A gate as the store keeps it.
pub(super) const fn gate_name(gate: Gate) -> &'static str {
    match gate {
        Gate::Confirm => "confirm",
        Gate::Approve => "approve",
    }
}

/// Columns that are not text, number or bytes already.
struct Field<T>(T);

impl FromSql for Field<Gate> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        [Gate::Confirm, Gate::Approve]
            .into_iter()
            .find(|gate| value.as_str() == Ok(gate_name(*gate)))
            .map(Field)
            .ok_or(FromSqlError::InvalidType)
    }
}

impl FromSql for Field<CallDigest> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        CallDigest::from_hex(value.as_str()?)
            .map(Field)
            .ok_or(FromSqlError::InvalidType)
    }
}

impl FromSql for Field<Box<RawValue>> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        RawValue::from_string(value.as_str()?.to_owned())
            .map(Field)
            .map_err(|_| FromSqlError::InvalidType)
    }
}

impl FromSql for Field<Verdict> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Verdict::from_name(value.as_str()?)
            .map(Field)
            .ok_or(FromSqlError::InvalidType)
    }
}

impl FromSql for Field<Channel> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Channel::from_name(value.as_str()?)
            .map(Field)
            .ok_or(FromSqlError::InvalidType)
    }
}

impl FromSql for Field<Cause> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Cause::from_name(value.as_str()?)
            .map(Field)
            .ok_or(FromSqlError::InvalidType)
    }
}

impl FromSql for Field<Decimal> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Decimal::from_str_exact(value.as_str()?)
            .map(Field)
            .map_err(|_| FromSqlError::InvalidType)
    }
}

/// A column that holds JSON.
pub(super) struct Json<T>(pub(super) T);

impl<T: DeserializeOwned> FromSql for Json<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        serde_json::from_str(value.as_str()?)
            .map(Json)
            .map_err(|_| FromSqlError::InvalidType)
    }
}

impl<T: Serialize> ToSql for Json<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        serde_json::to_string(&self.0)
            .map(Into::into)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
    }
}

/// A whole ticket from a row of `SELECT *`; `votes` and `earlier` are left empty.
pub(super) fn ticket(row: &Row<'_>) -> rusqlite::Result<Ticket> {
    let text = |column: &str| row.get::<_, String>(column);
    let shared = |column: &str| row.get::<_, Arc<str>>(column);
    Ok(Ticket {
        id: TicketId::new(text("id")?),
        seq: row.get::<_, i64>("seq")?.cast_unsigned(),
        state: row.get("state")?,
        cause: row
            .get::<_, Option<Field<_>>>("cause")?
            .map(|field| field.0),
        digest: row.get::<_, Field<_>>("digest")?.0,
        summary: text("summary")?,
        tool: ToolName::new(text("tool")?),
        upstream: UpstreamName::new(text("upstream")?),
        route: RouteName::new(text("route")?),
        arguments: row.get::<_, Field<_>>("arguments")?.0,
        principal: Principal {
            tenant: shared("tenant")?,
            issuer: shared("issuer")?,
            subject: shared("subject")?,
            agent: shared("agent")?,
            actors: row.get::<_, Json<_>>("actors")?.0,
            scopes: BTreeSet::new(),
        },
        session: row
            .get::<_, Option<String>>("session")?
            .map(SessionKey::new),
        gate: row.get::<_, Field<_>>("gate")?.0,
        roles: row.get::<_, Json<_>>("roles")?.0,
        approvals: row.get("approvals")?,
        fresh: row.get("fresh")?,
        policy: PolicyHash(shared("policy")?),
        layer: text("layer")?,
        rule: RuleId::new(text("rule")?),
        reason: text("reason")?,
        bound: row.get::<_, Json<_>>("bound")?.0,
        said: row.get("said")?,
        created_at: row.get::<_, At>("created_at")?.0,
        expires_at: row.get::<_, At>("expires_at")?.0,
        votes: Vec::new(),
        attempts: row.get("attempt")?,
        claimed_at: row.get::<_, Option<At>>("claimed_at")?.map(|at| at.0),
        completed: completed(row)?,
        reconcile: row.get::<_, Option<String>>("reconcile")?.map(RuleId::new),
        resolved: resolved(row)?,
        mandate: row.get::<_, Option<String>>("mandate")?.map(MandateId::new),
        offer: row.get::<_, Option<Json<_>>>("offer")?.map(|json| json.0),
        earlier: None,
        told: row.get("expiry_told")?,
        lost: row.get("lost")?,
    })
}

/// One vote from a row of `SELECT *`.
pub(super) fn vote(row: &Row<'_>) -> rusqlite::Result<Vote> {
    Ok(Vote {
        by: Person {
            issuer: row.get("issuer")?,
            subject: row.get("subject")?,
        },
        verdict: row.get::<_, Field<_>>("verdict")?.0,
        at: row.get::<_, At>("at")?.0,
        comment: row.get("comment")?,
        channel: row.get::<_, Field<_>>("channel")?.0,
        roles: row.get::<_, Json<_>>("roles")?.0,
        strong: row.get("strong")?,
    })
}

fn resolved(row: &Row<'_>) -> rusqlite::Result<Option<Resolved>> {
    let Some(by) = row.get("resolved_by")? else {
        return Ok(None);
    };
    Ok(Some(Resolved {
        by,
        at: row.get::<_, At>("resolved_at")?.0,
        note: row.get("resolved_note")?,
    }))
}

/// A mandate from a row of `SELECT *`.
pub(super) fn mandate(row: &Row<'_>) -> rusqlite::Result<Mandate> {
    let text = |column: &str| row.get::<_, String>(column);
    Ok(Mandate {
        id: MandateId::new(text("id")?),
        tenant: text("tenant")?,
        issuer: text("issuer")?,
        subject: text("subject")?,
        agent: text("agent")?,
        session: row
            .get::<_, Option<String>>("session")?
            .map(SessionKey::new),
        upstream: UpstreamName::new(text("upstream")?),
        tool: ToolName::new(text("tool")?),
        same: row.get::<_, Json<_>>("same")?.0,
        at_most: row
            .get::<_, Option<Field<Decimal>>>("at_most")?
            .map(|field| field.0),
        currency: row.get("currency")?,
        uses: row.get("uses")?,
        spent: row.get::<_, Field<Decimal>>("spent")?.0,
        used: row.get("used")?,
        rule: RuleId::new(text("rule")?),
        ticket: row.get::<_, Option<String>>("ticket")?.map(TicketId::new),
        granted_by: Person {
            issuer: row.get("by_issuer")?,
            subject: row.get("by_subject")?,
        },
        granted_at: row.get::<_, At>("granted_at")?.0,
        comment: row.get("comment")?,
        expires_at: row.get::<_, At>("expires_at")?.0,
        ended_by: row.get("ended_by")?,
        ended_at: row.get::<_, Option<At>>("ended_at")?.map(|at| at.0),
    })
}

fn completed(row: &Row<'_>) -> rusqlite::Result<Option<Completed>> {
    let Some(status) = row.get("receipt_status")? else {
        return Ok(None);
    };
    let length = row.get::<_, i64>("receipt_length")?.unsigned_abs();
    Ok(Some(Completed {
        status,
        content_type: row.get("receipt_type")?,
        length,
        sha256: row.get("receipt_sha256")?,
        whole: is_whole(length),
        at: row.get::<_, At>("completed_at")?.0,
    }))
}

fn is_whole(length: u64) -> bool {
    usize::try_from(length).is_ok_and(|length| length <= RECEIPT_BODY)
}

/// What of a receipt's body is kept.
pub(super) fn kept(body: &Bytes) -> Bytes {
    if body.len() <= RECEIPT_BODY {
        body.clone()
    } else {
        body.slice(..RECEIPT_HEAD)
    }
}

/// The receipt of a row of `SELECT *`; `None`: there is none, or its body is kept no longer. Of a body that was not kept whole it holds a JSON object that says so.
pub(super) fn receipt(row: &Row<'_>) -> rusqlite::Result<Option<Receipt>> {
    let Some(completed) = completed(row)? else {
        return Ok(None);
    };
    let Some(kept) = row.get::<_, Option<Vec<u8>>>("receipt_body")? else {
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
        ticket: TicketId::new(row.get::<_, String>("id")?),
        status: completed.status,
        content_type,
        body,
        completed_at: completed.at,
    }))
}
