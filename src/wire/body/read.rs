//! Reading: in time, within a limit, and within the memory for all bodies.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::time::Instant;

use super::{BodyError, Decoder, Encodings};
use crate::wire::budget::Budget;
use crate::wire::offload::offload;

/// The next piece; `None` at the end. Trailers are dropped.
///
/// # Errors
/// [`BodyError::Idle`], [`BodyError::Cut`].
pub async fn next_piece<B>(body: &mut B, idle: Duration) -> Result<Option<Bytes>, BodyError>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    loop {
        let frame = tokio::time::timeout(idle, body.frame())
            .await
            .map_err(|_| BodyError::Idle(idle))?;
        match frame {
            None => return Ok(None),
            Some(Err(error)) => return Err(BodyError::Cut(error.to_string())),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// Reads on and forgets, at most `limit` bytes and `wait` long: a sender that is cut off in the middle never reads the answer.
pub async fn discard<B>(body: &mut B, limit: usize, wait: Duration)
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let mut left = limit;
    let drain = async {
        while let Ok(Some(piece)) = next_piece(body, wait).await {
            match left.checked_sub(piece.len()) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    };
    let _ = tokio::time::timeout(wait, drain).await;
}

/// How fast a body must come: in each `within`, so many bytes at least, or its end.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The time.
    pub within: Duration,
    /// The bytes; 1 for a body that may come as slowly as it likes, but not stand still.
    pub least: usize,
}

/// The whole body, decoded: at most `limit` bytes as sent and as decoded. Its bytes hold their share of `budget`.
///
/// # Errors
/// Every [`BodyError`] but [`BodyError::UnknownEncoding`].
pub async fn read<B>(
    mut body: B,
    encodings: &Encodings,
    limit: usize,
    pace: Pace,
    budget: &Budget,
) -> Result<Bytes, BodyError>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let announced = body.size_hint().lower();
    if announced > u64::try_from(limit).unwrap_or(u64::MAX) {
        return Err(BodyError::TooLarge(limit));
    }
    let mut decoder = Decoder::new(encodings);
    let mut share = budget.share();
    let mut encoded = 0;
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    let (mut since, mut lately) = (Instant::now(), 0);
    loop {
        let left = pace.within.saturating_sub(since.elapsed());
        let next = next_piece(&mut body, left).await;
        let Some(piece) = next.map_err(|error| match error {
            BodyError::Idle(_) => BodyError::Idle(pace.within),
            other => other,
        })?
        else {
            break;
        };
        lately += piece.len();
        if lately >= pace.least {
            (since, lately) = (Instant::now(), 0);
        }
        encoded += piece.len();
        if encoded > limit {
            return Err(BodyError::TooLarge(limit));
        }
        let room = limit - whole.len() - first.len();
        let plain = decoder.push(piece, room).map_err(|error| match error {
            BodyError::TooLarge(_) => BodyError::TooLarge(limit),
            other => other,
        })?;
        if !share.grow(plain.len()) {
            return Err(BodyError::NoMemory);
        }
        // A body in one piece is not copied.
        if first.is_empty() && whole.is_empty() {
            first = plain;
            continue;
        }
        if whole.is_empty() {
            whole.reserve(usize::try_from(announced).unwrap_or(0).max(2 * first.len()));
            whole.extend_from_slice(&std::mem::take(&mut first));
        }
        whole.extend_from_slice(&plain);
    }
    decoder.finish()?;
    let plain = if whole.is_empty() {
        first
    } else {
        whole.freeze()
    };
    if !share.grow(offload(plain.len(), || beyond(&plain))) {
        return Err(BodyError::NoMemory);
    }
    Ok(share.over(plain))
}

/// What a value takes that was read from a body, in bytes, with the room that a list keeps for more.
pub(super) const VALUE: usize = 64;

/// What is read from a body takes about as much again. Where it would take more, as numbers and empty lists do, so much more: JSON
/// has a comma or a bracket before each value.
fn beyond(plain: &[u8]) -> usize {
    let values = plain
        .iter()
        .filter(|byte| matches!(byte, b',' | b'[' | b'{'));
    let taken = values.count().saturating_mul(VALUE);
    taken.saturating_sub(plain.len())
}
