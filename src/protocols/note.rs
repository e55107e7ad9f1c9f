//! Fixed words in place of what the guard took out. They never hold text of a call, an output or a tool's name.

use crate::guard::Receipt;
use crate::verdict::Reason;

/// In place of a whole tool output.
pub fn withheld(reason: Reason) -> String {
    format!("[holdpoint: tool output withheld: {reason}]")
}

/// Whether a text is such words.
pub fn is_withheld(text: &str) -> bool {
    text.starts_with("[holdpoint: tool output withheld: ")
}

/// In place of a tool definition that stands among words.
pub fn withheld_definition(reason: Reason) -> String {
    format!("[holdpoint: tool definition withheld: {reason}]")
}

/// For a call that was carried out before and is not released again.
pub fn done_before(receipt: &Receipt) -> String {
    format!(
        "[holdpoint] This call was carried out before, at {}, and is not repeated. (code: already_done, ticket: {})",
        receipt.completed_at, receipt.ticket
    )
}

/// One text of all notes, a line each; equal ones once.
pub fn joined(notes: impl IntoIterator<Item = String>) -> Option<String> {
    let mut lines: Vec<String> = Vec::new();
    for note in notes {
        if !lines.contains(&note) {
            lines.push(note);
        }
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// The note after what the model had said, with a blank line between.
pub fn after(said: &str, note: &str) -> String {
    if said.is_empty() {
        note.to_owned()
    } else {
        format!("{said}\n\n{note}")
    }
}
