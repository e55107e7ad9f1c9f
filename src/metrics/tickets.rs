//! What is counted of tickets.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

use super::registered;

/// Values of the label `standing`: what the store says of a held call.
const STANDINGS: [&str; 12] = [
    "requested",
    "waiting",
    "approved",
    "done",
    "redeeming",
    "unknown",
    "denied",
    "expired",
    "state_changed",
    "mismatch",
    "capped",
    "resolved_done",
];
/// Values of the label `outcome` of claims.
const OUTCOMES: [&str; 4] = ["succeeded", "failed", "unknown", "not_sent"];
/// Values of the label `verdict`.
const VERDICTS: [&str; 3] = ["approve", "deny", "revoke"];
/// Values of the label `code`: answers that do not count.
const CODES: [&str; 12] = [
    "ticket_unknown",
    "already_decided",
    "ticket_expired",
    "digest_mismatch",
    "digest_prefix_required",
    "self_approval",
    "not_the_requester",
    "role_missing",
    "fresh_login_required",
    "not_unknown",
    "mandate_not_offered",
    "store_unavailable",
];
/// Values of the label `by` of what was found out.
const RESOLVERS: [&str; 2] = ["person", "recipe"];
/// Values of the label `step`: transactions of the store.
const STEPS: [&str; 6] = ["present", "claim", "finish", "answer", "mandate", "admit"];

const STORE_SECONDS: [f64; 14] = [
    1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0,
];
const DECISION_SECONDS: [f64; 12] = [
    1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 1_800.0, 3_600.0, 14_400.0, 43_200.0, 86_400.0, 604_800.0,
];

/// Counters of tickets.
pub(super) struct Tickets {
    calls: IntCounterVec,
    decisions: IntCounterVec,
    decided: HistogramVec,
    refused: IntCounterVec,
    redemptions: IntCounterVec,
    voided: IntCounterVec,
    resolutions: IntCounterVec,
    store: HistogramVec,
}

/// Values of the label `cause`.
const CAUSES: [&str; 4] = [
    "terms_changed",
    "state_changed",
    "approver_lost",
    "withdrawn",
];

impl Tickets {
    pub(super) fn new(registry: &Registry) -> Self {
        let counters = |name: &str, help: &str, label: &str, values: &[&str]| {
            let counters = registered(
                registry,
                IntCounterVec::new(Opts::new(name, help), &[label]),
            );
            for value in values {
                counters.with_label_values(&[value]);
            }
            counters
        };
        let seconds =
            |name: &str, help: &str, (label, values): (&str, &[&str]), buckets: &[f64]| {
                let opts = HistogramOpts::new(name, help).buckets(buckets.to_vec());
                let histograms = registered(registry, HistogramVec::new(opts, &[label]));
                for value in values {
                    histograms.with_label_values(&[value]);
                }
                histograms
            };
        Self {
            calls: counters(
                "holdpoint_ticket_calls_total",
                "Held calls, by what the ticket store said of them.",
                "standing",
                &STANDINGS,
            ),
            decisions: counters(
                "holdpoint_ticket_decisions_total",
                "Answers of people that counted.",
                "verdict",
                &VERDICTS,
            ),
            decided: seconds(
                "holdpoint_ticket_decision_seconds",
                "From the request to an answer that counted.",
                ("verdict", &VERDICTS),
                &DECISION_SECONDS,
            ),
            refused: counters(
                "holdpoint_ticket_answers_refused_total",
                "Answers that did not count.",
                "code",
                &CODES,
            ),
            redemptions: counters(
                "holdpoint_ticket_redemptions_total",
                "Claimed calls that ended, by their outcome.",
                "outcome",
                &OUTCOMES,
            ),
            voided: counters(
                "holdpoint_ticket_voided_total",
                "Approvals that no longer counted when their call came.",
                "cause",
                &CAUSES,
            ),
            resolutions: counters(
                "holdpoint_ticket_resolutions_total",
                "Unknown outcomes that were found out.",
                "by",
                &RESOLVERS,
            ),
            store: seconds(
                "holdpoint_ticket_store_duration_seconds",
                "Time one step of the ticket store took, until it was durable.",
                ("step", &STEPS),
                &STORE_SECONDS,
            ),
        }
    }
}

impl super::Metrics {
    /// What the store said of a held call.
    pub fn ticket_call(&self, standing: &'static str) {
        self.gated.calls.with_label_values(&[standing]).inc();
    }

    /// A person's answer counted, so long after the request.
    pub fn ticket_decision(&self, verdict: &'static str, after: Duration) {
        let tickets = &self.gated;
        tickets.decisions.with_label_values(&[verdict]).inc();
        tickets
            .decided
            .with_label_values(&[verdict])
            .observe(after.as_secs_f64());
    }

    /// A person's answer did not count.
    pub fn ticket_answer_refused(&self, code: &'static str) {
        self.gated.refused.with_label_values(&[code]).inc();
    }

    /// A claimed call ended.
    pub fn ticket_redemption(&self, outcome: &'static str) {
        self.gated.redemptions.with_label_values(&[outcome]).inc();
    }

    /// An approval no longer counted.
    pub fn ticket_voided(&self, cause: &'static str) {
        self.gated.voided.with_label_values(&[cause]).inc();
    }

    /// An unknown outcome was found out.
    pub fn ticket_resolution(&self, by: &'static str) {
        self.gated.resolutions.with_label_values(&[by]).inc();
    }

    /// How long a step of the store took.
    pub fn ticket_store(&self, step: &'static str, took: Duration) {
        let steps = &self.gated.store;
        steps.with_label_values(&[step]).observe(took.as_secs_f64());
    }
}
