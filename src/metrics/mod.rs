//! Prometheus metrics. Names, labels and units are a promise: see `docs/reference/metrics.md`.

mod labels;
mod recordings;
mod tickets;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::StatusCode;
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, TextEncoder, core::Collector,
};

pub use self::labels::{ConnectionLimit, NO_ROUTE, Unrecorded, UpstreamFault};
use self::labels::{MODES, STATUSES, UNDECIDED, VERDICTS};
use crate::guard::{Decision, Observer};
use crate::item::{Exchange, Item};
use crate::names::{RouteName, UpstreamName};
use crate::policy::PolicyHash;
use crate::provenance::Forgotten;
pub use crate::unscanned::Unscanned;
use crate::verdict::{LayerId, Mode, Reason, Verdict};

const REQUEST_SECONDS: [f64; 17] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
    300.0, 600.0,
];
const LAYER_SECONDS: [f64; 16] = [
    1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 5e-3, 0.01, 0.05, 0.1, 1.0,
    5.0,
];

/// Everything that is counted, in a registry of its own.
pub struct Metrics {
    registry: Registry,
    announced: Mutex<HashSet<(RouteName, String)>>,
    requests: IntCounterVec,
    durations: HistogramVec,
    /// By layer, mode, verdict in the order of [`LayerId::ALL`], [`MODES`], [`VERDICTS`].
    verdicts: Vec<IntCounter>,
    unreadable: IntCounterVec,
    layers: Vec<Histogram>,
    tickets: IntGaugeVec,
    gated: tickets::Tickets,
    scanned: IntCounterVec,
    unscanned: IntCounterVec,
    upstream_errors: IntCounterVec,
    refusals: IntCounterVec,
    holds: IntCounterVec,
    forgotten: IntCounterVec,
    undeclared: IntCounterVec,
    in_flight: IntGauge,
    clients: Clients,
    approvers: Approvers,
    recordings: recordings::Recordings,
    build: IntGaugeVec,
}

/// Of agents, before any request.
struct Clients {
    connections: IntGauge,
    refused: IntCounterVec,
    stalled: IntCounter,
}

impl Clients {
    fn new(registry: &Registry) -> Self {
        let gauge = IntGauge::new(
            "holdpoint_connections",
            "Connections of agents that are open.",
        );
        let refused = Opts::new(
            "holdpoint_connections_refused_total",
            "Connections of agents that were closed as they came.",
        );
        let stalled = IntCounter::new(
            "holdpoint_stalled_clients_total",
            "Answers that were dropped because their client took nothing of them.",
        );
        let clients = Self {
            connections: registered(registry, gauge),
            refused: registered(registry, IntCounterVec::new(refused, &["limit"])),
            stalled: registered(registry, stalled),
        };
        for limit in ConnectionLimit::ALL {
            clients.refused.with_label_values(&[limit.as_str()]);
        }
        clients
    }
}

/// Of the approver listener.
struct Approvers {
    logins: IntCounterVec,
    refused: IntCounterVec,
    told: IntCounterVec,
    clicks: IntCounterVec,
}

/// Values of the labels `method` and `outcome` of log-ins, and `reason` of what was turned away.
const LOGIN_METHODS: [&str; 2] = ["local", "oidc"];
const LOGIN_OUTCOMES: [&str; 3] = ["ok", "wrong", "throttled"];
const APPROVER_REFUSALS: [&str; 5] = [
    "foreign_credential",
    "unknown_credential",
    "origin",
    "csrf",
    "slack_signature",
];
/// Values of the label `outcome` of events that were sent, and of clicks.
const DELIVERIES: [&str; 2] = ["ok", "failed"];
const SLACK_CLICKS: [&str; 4] = ["ok", "late", "refused", "unknown_user"];

impl Approvers {
    fn new(registry: &Registry) -> Self {
        let logins = Opts::new(
            "holdpoint_approver_logins_total",
            "Log-ins of approvers that were tried.",
        );
        let refused = Opts::new(
            "holdpoint_approver_refused_total",
            "Requests to the approver listener that were turned away.",
        );
        let told = Opts::new(
            "holdpoint_webhook_deliveries_total",
            "Events that were sent to a webhook or to Slack.",
        );
        let clicks = Opts::new(
            "holdpoint_slack_clicks_total",
            "Clicks that Slack has signed, by what they did.",
        );
        let logins = IntCounterVec::new(logins, &["method", "outcome"]);
        let approvers = Self {
            logins: registered(registry, logins),
            refused: registered(registry, IntCounterVec::new(refused, &["reason"])),
            told: registered(registry, IntCounterVec::new(told, &["webhook", "outcome"])),
            clicks: registered(registry, IntCounterVec::new(clicks, &["outcome"])),
        };
        for outcome in DELIVERIES {
            approvers.told.with_label_values(&["slack", outcome]);
        }
        for outcome in SLACK_CLICKS {
            approvers.clicks.with_label_values(&[outcome]);
        }
        for method in LOGIN_METHODS {
            for outcome in LOGIN_OUTCOMES {
                approvers.logins.with_label_values(&[method, outcome]);
            }
        }
        for reason in APPROVER_REFUSALS {
            approvers.refused.with_label_values(&[reason]);
        }
        approvers
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// Fresh counters, all at zero. Where the values of the labels are known, the series exist from now on.
    pub fn new() -> Arc<Self> {
        let registry = Registry::new();
        let counters = |name: &str, help: &str, labels: &[&str]| {
            registered(&registry, IntCounterVec::new(Opts::new(name, help), labels))
        };
        let verdicts = counters(
            "holdpoint_verdicts_total",
            "What each layer said of each item.",
            &["layer", "mode", "verdict"],
        );
        let seconds = |name: &str, help: &str, buckets: &[f64], label: &str| {
            let opts = HistogramOpts::new(name, help).buckets(buckets.to_vec());
            registered(&registry, HistogramVec::new(opts, &[label]))
        };
        let layers = seconds(
            "holdpoint_layer_duration_seconds",
            "Time one layer took for one item.",
            &LAYER_SECONDS,
            "layer",
        );
        let metrics = Self {
            announced: Mutex::default(),
            requests: counters(
                "holdpoint_requests_total",
                "Requests that ended, by class of the status sent.",
                &["route", "protocol", "status"],
            ),
            durations: seconds(
                "holdpoint_request_duration_seconds",
                "From the request's head to the last byte of its answer.",
                &REQUEST_SECONDS,
                "route",
            ),
            verdicts: each_verdict(&verdicts),
            unreadable: counters(
                "holdpoint_unreadable_calls_total",
                "Calls that were refused because nobody could judge what they say.",
                &["route"],
            ),
            layers: LayerId::ALL
                .iter()
                .map(|layer| layers.with_label_values(&[layer.as_str()]))
                .collect(),
            tickets: registered(
                &registry,
                IntGaugeVec::new(
                    Opts::new("holdpoint_tickets", "Tickets in the store."),
                    &["state"],
                ),
            ),
            gated: tickets::Tickets::new(&registry),
            scanned: counters(
                "holdpoint_scanned_bytes_total",
                "Text that at least one active layer judged.",
                &["route"],
            ),
            unscanned: counters(
                "holdpoint_unscanned_bytes_total",
                "Bytes of message bodies that no layer judged.",
                &["route", "reason"],
            ),
            upstream_errors: counters(
                "holdpoint_upstream_errors_total",
                "Answers that an upstream did not give, or not whole.",
                &["upstream", "kind"],
            ),
            refusals: counters(
                "holdpoint_refusals_total",
                "Requests that Holdpoint itself answered with an error.",
                &["route", "code"],
            ),
            holds: counters(
                "holdpoint_holds_total",
                "Messages with calls that waited for a ticket to change.",
                &["route"],
            ),
            forgotten: forgotten(&registry),
            undeclared: undeclared(&registry),
            in_flight: registered(
                &registry,
                IntGauge::new(
                    "holdpoint_in_flight",
                    "Requests whose answer has not ended.",
                ),
            ),
            clients: Clients::new(&registry),
            approvers: Approvers::new(&registry),
            recordings: recordings::Recordings::new(&registry),
            build: registered(
                &registry,
                IntGaugeVec::new(
                    Opts::new(
                        "holdpoint_build_info",
                        "1 for the running version and policy.",
                    ),
                    &["version", "policy"],
                ),
            ),
            registry,
        };
        Arc::new(metrics)
    }

    /// Makes the series of a route before its first request.
    pub fn announce_route(&self, route: &RouteName, protocol: &str, codes: &[&str]) {
        // Series stay: eval makes a proxy per trial over the same metrics.
        let mut announced = self
            .announced
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !announced.insert((route.clone(), protocol.to_owned())) {
            return;
        }
        drop(announced);
        for status in STATUSES {
            self.requests
                .with_label_values(&[route.as_str(), protocol, status]);
        }
        self.durations.with_label_values(&[route.as_str()]);
        self.scanned.with_label_values(&[route.as_str()]);
        self.unreadable.with_label_values(&[route.as_str()]);
        self.holds.with_label_values(&[route.as_str()]);
        self.undeclared.with_label_values(&[route.as_str()]);
        for reason in Unscanned::ALL {
            self.unscanned
                .with_label_values(&[route.as_str(), reason.as_str()]);
        }
        for code in codes {
            self.refusals.with_label_values(&[route.as_str(), code]);
        }
    }

    /// Makes the series of an upstream before its first error.
    pub fn announce_upstream(&self, upstream: &UpstreamName) {
        for fault in UpstreamFault::ALL {
            self.upstream_errors
                .with_label_values(&[upstream.as_str(), fault.as_str()]);
        }
    }

    /// Which policy runs from now on.
    pub fn policy(&self, hash: &PolicyHash) {
        self.build.reset();
        self.build
            .with_label_values(&[env!("CARGO_PKG_VERSION"), &hash.0])
            .set(1);
    }

    /// A request came.
    pub fn started(&self) {
        self.in_flight.inc();
    }

    /// Its answer has ended; `status` is `None` where the client left before the head.
    pub fn request(
        &self,
        route: &str,
        protocol: &str,
        status: Option<StatusCode>,
        elapsed: Duration,
    ) {
        self.in_flight.dec();
        let status = match status.map(|status| status.as_u16() / 100) {
            Some(1) => "1xx",
            Some(2) => "2xx",
            Some(3) => "3xx",
            Some(4) => "4xx",
            Some(_) => "5xx",
            None => "gone",
        };
        self.requests
            .with_label_values(&[route, protocol, status])
            .inc();
        self.durations
            .with_label_values(&[route])
            .observe(elapsed.as_secs_f64());
    }

    /// Text that was judged.
    pub fn scanned(&self, route: &RouteName, bytes: usize) {
        self.scanned
            .with_label_values(&[route.as_str()])
            .inc_by(count(bytes));
    }

    /// Bytes that were not.
    pub fn unscanned(&self, route: &RouteName, reason: Unscanned, bytes: usize) {
        self.unscanned
            .with_label_values(&[route.as_str(), reason.as_str()])
            .inc_by(count(bytes));
    }

    /// An upstream failed.
    pub fn upstream_error(&self, upstream: &UpstreamName, fault: UpstreamFault) {
        self.upstream_errors
            .with_label_values(&[upstream.as_str(), fault.as_str()])
            .inc();
    }

    /// Holdpoint answered with an error of its own.
    pub fn refused(&self, route: &str, code: &'static str) {
        self.refusals.with_label_values(&[route, code]).inc();
    }

    /// A message waits for a ticket to change.
    pub fn held(&self, route: &RouteName) {
        self.holds.with_label_values(&[route.as_str()]).inc();
    }

    /// What was forgotten of who said what.
    pub fn forgotten(&self, forgotten: Forgotten) {
        for (what, number) in [
            ("session", forgotten.sessions),
            ("returned", forgotten.returned),
            ("text", forgotten.texts),
        ] {
            let counter = self.forgotten.with_label_values(&[what]);
            counter.inc_by(count(number));
        }
    }

    /// An agent has connected.
    pub fn connected(&self) {
        self.clients.connections.inc();
    }

    /// Its connection has ended.
    pub fn disconnected(&self) {
        self.clients.connections.dec();
    }

    /// A connection was closed as it came.
    pub fn connection_refused(&self, limit: ConnectionLimit) {
        self.clients
            .refused
            .with_label_values(&[limit.as_str()])
            .inc();
    }

    /// A client took nothing of its answer for too long.
    pub fn stalled(&self) {
        self.clients.stalled.inc();
    }

    /// A person tried to log in.
    pub fn approver_login(&self, method: &'static str, outcome: &'static str) {
        let logins = &self.approvers.logins;
        logins.with_label_values(&[method, outcome]).inc();
    }

    /// A request to the approver listener was turned away.
    pub fn approver_refused(&self, reason: &'static str) {
        self.approvers.refused.with_label_values(&[reason]).inc();
    }

    /// Makes the series of a webhook before its first event.
    pub fn announce_webhook(&self, name: &str) {
        for outcome in DELIVERIES {
            self.approvers.told.with_label_values(&[name, outcome]);
        }
    }

    /// An event was sent to a webhook, or could not be.
    pub fn webhook(&self, name: &str, outcome: &'static str) {
        self.approvers
            .told
            .with_label_values(&[name, outcome])
            .inc();
    }

    /// Whether exchanges are recorded.
    pub fn recording(&self, on: bool) {
        self.recordings.on.set(i64::from(on));
    }

    /// An exchange was written.
    pub fn recorded(&self) {
        self.recordings.written.inc();
    }

    /// An exchange was not written.
    pub fn unrecorded(&self, why: Unrecorded) {
        let missed = &self.recordings.missed;
        missed.with_label_values(&[why.as_str()]).inc();
    }

    /// A click of Slack.
    pub fn slack_click(&self, outcome: &'static str) {
        self.approvers.clicks.with_label_values(&[outcome]).inc();
    }

    /// Sets how many tickets are in a state.
    pub fn tickets(&self, state: &str, tickets: u64) {
        self.tickets
            .with_label_values(&[state])
            .set(i64::try_from(tickets).unwrap_or(i64::MAX));
    }

    /// The text that Prometheus scrapes (exposition format 0.0.4).
    pub fn render(&self) -> String {
        TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .unwrap_or_default()
    }
}

impl Observer for Metrics {
    fn decided<'a>(
        &'a self,
        exchange: &'a Exchange,
        decision: &'a Decision,
    ) -> BoxFuture<'a, Result<(), String>> {
        let items = exchange.items.iter();
        let unreadable = items.filter(|located| matches!(located.item, Item::Unreadable(_)));
        let unreadable = unreadable.count();
        if unreadable > 0 {
            self.unreadable
                .with_label_values(&[exchange.route.as_str()])
                .inc_by(count(unreadable));
        }
        for opinion in decision.rulings.iter().flat_map(|ruling| &ruling.opinions) {
            let counter = index(opinion.layer, opinion.mode, &opinion.verdict)
                .and_then(|index| self.verdicts.get(index));
            let Some(counter) = counter else { continue };
            counter.inc();
            if opinion.undeclared {
                let route = exchange.route.as_str();
                self.undeclared.with_label_values(&[route]).inc();
            }
            if let Some(histogram) = self.layers.get(layer_index(opinion.layer)) {
                histogram.observe(opinion.elapsed.as_secs_f64());
            }
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

fn forgotten(registry: &Registry) -> IntCounterVec {
    let name = "holdpoint_provenance_forgotten_total";
    let help = "What no room was left for of who said what.";
    let counters = registered(
        registry,
        IntCounterVec::new(Opts::new(name, help), &["what"]),
    );
    for what in ["session", "returned", "text"] {
        counters.with_label_values(&[what]);
    }
    counters
}

fn undeclared(registry: &Registry) -> IntCounterVec {
    let name = "holdpoint_undeclared_recipients_total";
    let help = "Calls with a text that looks like a recipient and that no rule is for.";
    registered(
        registry,
        IntCounterVec::new(Opts::new(name, help), &["route"]),
    )
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn each_verdict(counters: &IntCounterVec) -> Vec<IntCounter> {
    let mut all = Vec::new();
    for layer in LayerId::ALL {
        for mode in MODES {
            for verdict in VERDICTS {
                all.push(counters.with_label_values(&[layer.as_str(), mode.as_str(), verdict]));
            }
        }
    }
    all
}

fn layer_index(layer: LayerId) -> usize {
    LayerId::ALL.iter().position(|l| *l == layer).unwrap_or(0)
}

/// `None` for a layer that is off: it said nothing.
fn index(layer: LayerId, mode: Mode, verdict: &Verdict) -> Option<usize> {
    let mode = MODES.iter().position(|m| *m == mode)?;
    let label = match verdict {
        Verdict::Deny(finding) if finding.reason == Reason::Undecided => UNDECIDED,
        other => other.label(),
    };
    let verdict = VERDICTS.iter().position(|v| *v == label)?;
    Some((layer_index(layer) * MODES.len() + mode) * VERDICTS.len() + verdict)
}

#[expect(
    clippy::expect_used,
    reason = "names and labels are constants of this file; every test that makes a registry would fail"
)]
fn registered<C: Collector + Clone + 'static>(
    registry: &Registry,
    made: prometheus::Result<C>,
) -> C {
    let collector = made.expect("valid name");
    registry
        .register(Box::new(collector.clone()))
        .expect("unique name");
    collector
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::RuleId;
    use crate::verdict::Finding;

    fn denial(reason: Reason) -> Verdict {
        Verdict::Deny(Finding {
            layer: LayerId::Ownership,
            rule: RuleId::from("tools[0].ownership[0]"),
            reason,
            argument: None,
            detail: "".into(),
        })
    }

    #[test]
    fn a_layer_that_fails_is_told_from_one_that_refuses() {
        let of = |reason| index(LayerId::Ownership, Mode::Enforce, &denial(reason));
        let metrics = Metrics::new();
        for (reason, times) in [(Reason::NotOwner, 2), (Reason::Undecided, 1)] {
            let counter = of(reason).and_then(|index| metrics.verdicts.get(index));
            counter.unwrap().inc_by(times);
        }
        let rendered = metrics.render();
        let line = |verdict: &str, count: u64| {
            format!(
                "holdpoint_verdicts_total{{layer=\"ownership\",mode=\"enforce\",verdict=\"{verdict}\"}} {count}\n"
            )
        };
        assert!(rendered.contains(&line("deny", 2)));
        assert!(rendered.contains(&line("undecided", 1)));
    }
}
