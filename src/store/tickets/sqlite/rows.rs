//! Rows to words and back.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use rusqlite::{Row, ToSql};
use serde_json::json;
use serde_json::value::RawValue;

use crate::guard::Receipt;
use crate::names::{RouteName, RuleId, SessionKey, TicketId, ToolName, UpstreamName};
use crate::policy::{Gate, PolicyHash};
use crate::principal::Principal;
use crate::store::tickets::digest::CallDigest;
use crate::store::tickets::{Answered, Completed, RECEIPT_BODY, RECEIPT_HEAD, Ticket, TicketState};

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
        let later = SignedDuration::try_from(by)
            .ok()
            .and_then(|by| self.0.checked_add(by).ok());
        Self::new(later.unwrap_or(Timestamp::MAX))
    }

    /// So much earlier.
    pub(super) fn minus(self, by: Duration) -> Self {
        let earlier = SignedDuration::try_from(by)
            .ok()
            .and_then(|by| self.0.checked_sub(by).ok());
        Self::new(earlier.unwrap_or(Timestamp::MIN))
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

/// A whole ticket from a row of `SELECT *`; `earlier` is left empty.
pub(super) fn ticket(row: &Row<'_>) -> rusqlite::Result<Ticket> {
    let text = |column: &str| row.get::<_, String>(column);
    let shared = |column: &str| row.get::<_, Arc<str>>(column);
    Ok(Ticket {
        id: TicketId::new(text("id")?),
        state: row.get("state")?,
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
            scopes: BTreeSet::new(),
        },
        session: row
            .get::<_, Option<String>>("session")?
            .map(SessionKey::new),
        gate: row.get::<_, Field<_>>("gate")?.0,
        role: row.get("role")?,
        policy: PolicyHash(shared("policy")?),
        layer: text("layer")?,
        rule: RuleId::new(text("rule")?),
        reason: text("reason")?,
        created_at: row.get::<_, At>("created_at")?.0,
        expires_at: row.get::<_, At>("expires_at")?.0,
        answered: answered(row)?,
        attempts: row.get("attempt")?,
        completed: completed(row)?,
        earlier: None,
    })
}

fn answered(row: &Row<'_>) -> rusqlite::Result<Option<Answered>> {
    let Some(by) = row.get("answered_by")? else {
        return Ok(None);
    };
    Ok(Some(Answered {
        by,
        at: row.get::<_, At>("answered_at")?.0,
        comment: row.get("comment")?,
    }))
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

/// The receipt of a row of `SELECT *`. Of a body that was not kept whole it holds a JSON object that says so.
pub(super) fn receipt(row: &Row<'_>) -> rusqlite::Result<Option<Receipt>> {
    let Some(completed) = completed(row)? else {
        return Ok(None);
    };
    let kept: Vec<u8> = row.get("receipt_body")?;
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
