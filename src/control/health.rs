//! The operations listener: health, readiness and metrics. Agents do not reach it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{StatusCode, header};

use crate::metrics::Metrics;
use crate::store::tickets::TicketStore;

/// Exposition format that the scrape is in.
const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Whether the process takes requests: set once every listener is bound and the policy runs, cleared when it drains.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<AtomicBool>);

impl Readiness {
    /// Says so.
    pub fn set(&self, ready: bool) {
        self.0.store(ready, Ordering::Relaxed);
    }

    /// Whether it does.
    pub fn is_ready(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What the listener tells of.
#[derive(Clone)]
pub struct Operations {
    /// For `/readyz`.
    pub readiness: Readiness,
    /// For `/metrics`.
    pub metrics: Arc<Metrics>,
    /// Counted at each scrape.
    pub tickets: Option<Arc<dyn TicketStore>>,
}

/// `GET /healthz`, `/readyz` and `/metrics`.
pub fn router(operations: Operations) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(operations)
}

async fn ready(State(operations): State<Operations>) -> Response {
    if operations.readiness.is_ready() {
        "ready\n".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "draining\n").into_response()
    }
}

async fn metrics(State(operations): State<Operations>) -> Response {
    if let Some(store) = &operations.tickets {
        match store.counts().await {
            Ok(counts) => {
                for (state, tickets) in counts {
                    operations.metrics.tickets(state.as_str(), tickets);
                }
            }
            Err(error) => tracing::error!(%error, "the tickets could not be counted"),
        }
    }
    let headers = [(header::CONTENT_TYPE, PROMETHEUS_TEXT)];
    (headers, operations.metrics.render()).into_response()
}
