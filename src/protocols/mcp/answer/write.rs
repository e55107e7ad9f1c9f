//! Rulings over a server's message, written back.

use std::ops::Range;

use bytes::Bytes;
use data_encoding::BASE64;

use super::super::render::said;
use super::find::{Finder, Outcome};
use super::{Content, messages};
use crate::item::Item;
use crate::protocols::texts::{self, Found, Slot};
use crate::protocols::{Malformed, note, unwritable};
use crate::verdict::{Reason, Rewrite, RewriteKind, Ruling, Verdict};
use crate::wire::json::{BODY_DEPTH, Document, Node};
use crate::wire::splice::{Splice, quote};

/// The document after the rulings; its own bytes where nothing is ruled.
///
/// # Errors
/// Rulings over something else.
pub(super) fn write(content: &Content, rulings: &[Ruling]) -> Result<Bytes, Malformed> {
    let document = &content.document;
    let Finder {
        texts,
        coded,
        outcomes,
        ..
    } = content.find()?;
    let found = texts.finish("upstream_too_large")?;
    let addressed = addresses(&found, rulings);
    let rulings = addressed.as_deref().unwrap_or(rulings);
    let mut splice = Splice::new(document);
    let gone = texts::write(&mut splice, &found, rulings)?;
    for coded in &coded {
        let ruled = rulings.get(coded.items.clone()).ok_or_else(unwritable)?;
        // What would only be marked stays: nobody reads base64 as it is written.
        let mut ruled = ruled.iter().filter(|ruling| !ruling.verdict.says_all());
        if let Some(finding) = ruled.find_map(|ruling| ruling.verdict.finding()) {
            let text = note::withheld(finding.reason);
            splice.replace_text(coded.node, &BASE64.encode(text.as_bytes()));
        }
    }
    let mut failed = Vec::new();
    for outcome in &outcomes {
        let missing: Vec<usize> = gone
            .iter()
            .filter(|gone| within(&gone.list.span, &outcome.node.span))
            .map(|gone| gone.index)
            .collect();
        if let Some(list) = outcome.node.get("tools").filter(|_| !missing.is_empty()) {
            splice.remove_elements(list, |index| missing.contains(&index));
            only_for_the_caller(&mut splice, outcome);
        }
        if let Some((reason, told)) = unfit(outcome, &found, rulings) {
            failed.push(Failed {
                message: outcome.message,
                modern: outcome.modern,
                reason,
                told,
            });
        }
    }
    let written = splice.finish();
    if failed.is_empty() {
        return Ok(written);
    }
    fail(written, &failed)
}

/// Members that clients read as addresses, and throw at anything else.
const ADDRESSES: [&str; 4] = ["/uri", "/url", "/src", "/websiteUrl"];

/// In place of an address.
const NOWHERE: &str = "urn:holdpoint:withheld";

/// The rulings with whole addresses in place of edits and words in them; `None` where there is none.
fn addresses(found: &[Found<'_>], rulings: &[Ruling]) -> Option<Vec<Ruling>> {
    let ruled = |found: &Found<'_>, ruling: &Ruling| {
        let pointer = &found.located.place.pointer;
        let (Slot::Text(..), Item::ToolOutput(output)) = (&found.slot, &found.located.item) else {
            return None;
        };
        let named = ADDRESSES.iter().any(|name| pointer.ends_with(name));
        let finding = ruling.verdict.finding().filter(|_| named)?;
        Some(Verdict::Rewrite(Rewrite {
            kind: RewriteKind::Redact,
            edits: vec![(0..output.text.len(), NOWHERE.into())],
            finding: finding.clone(),
        }))
    };
    let pairs = || found.iter().zip(rulings);
    if pairs().all(|(found, ruling)| ruled(found, ruling).is_none()) {
        return None;
    }
    let new = pairs().map(|(found, ruling)| Ruling {
        verdict: ruled(found, ruling).unwrap_or_else(|| ruling.verdict.clone()),
        ..ruling.clone()
    });
    Some(new.collect())
}

/// A result that becomes an error.
struct Failed {
    message: usize,
    modern: bool,
    reason: Reason,
    /// A note says so.
    told: bool,
}

fn within(inner: &Range<usize>, outer: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// A list that was filtered for one caller must not be kept for others (MCP 2026-07-28).
fn only_for_the_caller(splice: &mut Splice<'_>, outcome: &Outcome<'_>) {
    match outcome.node.get("cacheScope") {
        Some(scope) => splice.replace_text(scope, "private"),
        None if outcome.modern => splice.add_member(outcome.node, "cacheScope", b"\"private\""),
        None => {}
    }
}

/// Why a result cannot stay one: its structured part would no longer fit its schema, or nothing of it is left.
/// Gives whether the agent must be told: nothing in the content does.
fn unfit(outcome: &Outcome<'_>, found: &[Found<'_>], rulings: &[Ruling]) -> Option<(Reason, bool)> {
    let reason = |ruling: &Ruling| ruling.verdict.finding().map(|finding| finding.reason);
    if let Some(structured) = &outcome.structured {
        // A string that is cleaned or marked is a string still; a key is another key.
        let fits = |part: &Found<'_>, ruling: &Ruling| {
            ruling.verdict.says_all() && !matches!(part.slot, Slot::Keys(_))
        };
        let touched = found.iter().zip(rulings).find(|(part, ruling)| {
            reason(ruling).is_some() && !fits(part, ruling) && touches(part, structured, found)
        });
        if let Some((_, ruling)) = touched {
            return reason(ruling).map(|reason| (reason, true));
        }
    }
    let texts: Vec<_> = found
        .iter()
        .zip(rulings)
        .skip(outcome.content.start)
        .take(outcome.content.len())
        .filter(|(found, _)| {
            matches!(found.slot, Slot::Text(..)) && found.located.place.pointer.ends_with("/text")
        })
        .map(|(_, ruling)| ruling)
        .collect();
    let denied = |ruling: &&Ruling| matches!(ruling.verdict, Verdict::Deny(_) | Verdict::Hold(_));
    if !texts.is_empty() && texts.iter().all(denied) {
        let first = texts.first().and_then(|ruling| reason(ruling));
        return first.map(|reason| (reason, false));
    }
    None
}

/// Whether an edit of this part would be one of these bytes.
fn touches(part: &Found<'_>, bytes: &Range<usize>, found: &[Found<'_>]) -> bool {
    match &part.slot {
        Slot::Text(node, _) | Slot::Arguments(node) | Slot::Element(node, _) => {
            within(&node.span, bytes)
        }
        Slot::Keys(spans) => spans.iter().any(|span| within(span, bytes)),
        Slot::Joined(parts) => parts.iter().any(|(item, _)| {
            let slot = found.get(*item).map(|part| &part.slot);
            matches!(slot, Some(Slot::Text(node, _)) if within(&node.span, bytes))
        }),
        Slot::Whole => {
            let span = part.located.place.span.as_ref();
            span.is_some_and(|span| within(span, bytes))
        }
    }
}

/// Makes errors of results: what is left of the content, a note, and no structured part, which some SDKs check even then.
fn fail(written: Bytes, failed: &[Failed]) -> Result<Bytes, Malformed> {
    let document = Document::read(written, BODY_DEPTH).map_err(|_| unwritable())?;
    let all = messages(&document);
    let mut splice = Splice::new(&document);
    for one in failed {
        let result = all.get(one.message).and_then(|node| node.get("result"));
        let result = result.ok_or_else(unwritable)?;
        splice.replace(result, as_error(&document, result, one));
    }
    Ok(splice.finish())
}

fn as_error(document: &Document, result: &Node, failed: &Failed) -> Vec<u8> {
    let note = said(&note::withheld(failed.reason), failed.modern);
    let mut members: Vec<(String, Vec<u8>)> = Vec::new();
    for (key, value) in note {
        let mut value = value.to_string().into_bytes();
        if key == "content"
            && let Some(content) = result.get("content")
            && !content.elements().is_empty()
        {
            let parts = document.raw(content);
            value = if failed.told {
                let open = parts.strip_suffix(b"]").unwrap_or_default();
                [open, b",", value.strip_prefix(b"[").unwrap_or_default()].concat()
            } else {
                parts.to_vec()
            };
        }
        members.push((key, value));
    }
    let new = ["content", "isError", "resultType", "structuredContent"];
    for member in result.members() {
        if !new.contains(&&*member.key) {
            members.push((member.key.to_string(), document.raw(&member.value).to_vec()));
        }
    }
    let mut json = vec![b'{'];
    for (index, (key, value)) in members.iter().enumerate() {
        if index > 0 {
            json.push(b',');
        }
        json.extend_from_slice(&quote(key));
        json.push(b':');
        json.extend_from_slice(value);
    }
    json.push(b'}');
    json
}
