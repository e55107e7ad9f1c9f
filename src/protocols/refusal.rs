//! A refusal before a protocol gives it its shape: the same facts, in the same fixed words, for every protocol.
//!
//! Nothing of it is text of the call but the summary, which the policy's template makes of stored arguments, escaped.

use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::names::TicketId;
use crate::verdict::{Finding, Hold, Reason};

/// What the policy, or the proxy itself, answers in place of what was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// Never one that SDKs retry, unless a retry is right.
    pub status: StatusCode,
    /// Closed code: a [`Reason`], or one of the proxy's own error codes.
    pub code: &'static str,
    /// One line for the agent.
    pub message: String,
    /// The reason, where the policy refused.
    pub reason: Option<Reason>,
    /// The ticket that it is about, where there is one.
    pub hold: Option<Hold>,
    /// Whether the client may try the same again.
    pub retry: bool,
}

impl Refusal {
    /// What the policy refused: 403, which no SDK retries; 409 only where the same call will soon be through, 503 only where
    /// nothing was sent and a retry is right.
    pub fn of(finding: &Finding, hold: Option<&Hold>) -> Self {
        let status = match finding.reason {
            Reason::InProgress => StatusCode::CONFLICT,
            Reason::TicketMismatch => StatusCode::UNPROCESSABLE_ENTITY,
            Reason::TicketsUnavailable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::FORBIDDEN,
        };
        let retry = matches!(
            finding.reason,
            Reason::InProgress | Reason::TicketsUnavailable
        );
        Self {
            status,
            code: finding.reason.as_str(),
            message: finding.reason.advice().to_owned(),
            reason: Some(finding.reason),
            hold: hold.cloned(),
            retry,
        }
    }

    fn ticket(&self) -> Option<&str> {
        let hold = self.hold.as_ref()?;
        hold.ticket.as_ref().map(TicketId::as_str)
    }

    /// Why, for programs: `error`, and where they are known `request_id`, `summary`, `expires_at`, `comment` (of the approver
    /// who denied), `page` (where the user answers), `retry` with `how` and `after_s` (seconds), and `tell_user`.
    pub fn facts(&self) -> Map<String, Value> {
        let mut facts = Map::new();
        facts.insert("error".to_owned(), self.code.into());
        let mut put = |key: &str, value: Option<&str>| {
            if let Some(value) = value {
                facts.insert(key.to_owned(), value.into());
            }
        };
        put("request_id", self.ticket());
        if let Some(hold) = &self.hold {
            put("summary", hold.summary.as_deref());
            put("expires_at", hold.expires_at.as_deref());
            put("comment", hold.comment.as_deref());
            put("page", hold.page.as_deref());
        }
        put("tell_user", self.tell_user().as_deref());
        if let Some((how, after)) = self.again() {
            let again = json!({ "how": how, "after_s": after });
            facts.insert("retry".to_owned(), again);
        }
        facts
    }

    /// The same in words, for a model that reads.
    pub fn words(&self) -> String {
        let mut words = format!("[holdpoint] {} (code: {}", self.message, self.code);
        let mut put = |name: &str, value: Option<&str>| {
            if let Some(value) = value {
                words.push_str(", ");
                words.push_str(name);
                words.push_str(": ");
                words.push_str(value);
            }
        };
        put("ticket", self.ticket());
        if let Some(hold) = &self.hold {
            put("expires", hold.expires_at.as_deref());
            put("page for the user", hold.page.as_deref());
            put("request", hold.summary.as_deref());
            put("the approver wrote", hold.comment.as_deref());
        }
        words.push(')');
        words
    }

    /// What the agent may tell its user.
    fn tell_user(&self) -> Option<String> {
        let hold = self.hold.as_ref();
        let words = match self.reason? {
            Reason::ApprovalRequired | Reason::ApprovalPending => {
                let page = hold.and_then(|hold| hold.page.as_deref());
                return Some(match (hold.is_some_and(|hold| hold.confirm), page) {
                    (true, Some(page)) => format!("Please confirm this yourself at {page}."),
                    (true, None) => "Please confirm this yourself.".to_owned(),
                    (false, _) => "This waits for the approval of another person.".to_owned(),
                });
            }
            Reason::ApprovalDenied => "A person refused this.",
            Reason::ApprovalExpired => "The approval ran out and must be asked for again.",
            Reason::StateChanged => {
                "What this is about has changed since it was approved, so it must be approved again."
            }
            Reason::ApprovalLimit => "Too many requests wait for an approval already.",
            Reason::NoApprover => "This needs an approval, and nobody can give one here.",
            Reason::InProgress => "This is being carried out right now.",
            Reason::OutcomeUnknown => {
                "It is not known whether this was carried out; a person must look."
            }
            Reason::TicketsUnavailable => "Approvals cannot be looked up at the moment.",
            _ => return None,
        };
        Some(words.to_owned())
    }

    /// How another try can help, and after how many seconds.
    fn again(&self) -> Option<(&'static str, u32)> {
        Some(match self.reason {
            Some(Reason::ApprovalRequired | Reason::ApprovalPending) => {
                ("repeat the identical call after the approval", 15)
            }
            Some(Reason::ApprovalExpired | Reason::StateChanged) => {
                ("repeat the identical call to ask again", 0)
            }
            Some(Reason::ApprovalLimit) => (
                "repeat the identical call after some requests are answered",
                60,
            ),
            Some(Reason::InProgress) => ("repeat the identical call in a moment", 1),
            Some(Reason::TicketMismatch) => ("repeat the identical call without the ticket", 0),
            Some(Reason::TicketsUnavailable | Reason::Undecided) => ("repeat the call later", 5),
            _ if self.retry => ("repeat the request in a moment", 1),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::names::RuleId;
    use crate::verdict::LayerId;

    fn refusal(reason: Reason, change: impl Fn(&mut Hold)) -> Refusal {
        let finding = Finding {
            layer: LayerId::Tickets,
            rule: RuleId::from("tools[0].ticket"),
            reason,
            argument: None,
            detail: Cow::Borrowed("for the operator"),
        };
        let mut hold = Hold::new(finding.clone());
        hold.ticket = Some(TicketId::from("tkt_1"));
        change(&mut hold);
        Refusal::of(&finding, Some(&hold))
    }

    #[test]
    fn every_reason_that_a_retry_can_help_says_how() {
        for reason in Reason::ALL {
            let said = refusal(reason, |_| {});
            let retry = said.facts().get("retry").cloned();
            assert!(
                !reason.retry_can_help() || retry.is_some(),
                "{reason} does not say how"
            );
            assert_eq!(said.facts()["error"], reason.as_str());
            assert!(!said.words().contains("for the operator"), "{reason}");
        }
    }

    #[test]
    fn who_confirms_is_told_where() {
        let said = refusal(Reason::ApprovalRequired, |hold| {
            hold.confirm = true;
            hold.page = Some("https://approve.example/tickets/tkt_1".to_owned());
        });
        let facts = said.facts();
        let told = "Please confirm this yourself at https://approve.example/tickets/tkt_1.";
        assert_eq!(facts["tell_user"], told);
        assert_eq!(facts["page"], "https://approve.example/tickets/tkt_1");
        assert_eq!(facts["retry"]["after_s"], 15);
        let other = refusal(Reason::ApprovalPending, |_| {});
        let told = "This waits for the approval of another person.";
        assert_eq!(other.facts()["tell_user"], told);
    }
}
