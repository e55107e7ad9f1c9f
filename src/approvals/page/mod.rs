//! The page for people.

use std::sync::Arc;

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::StatusCode;

use super::{Approvals, Human, view};

/// Everything that people look at.
pub(super) fn router() -> Router<Arc<Approvals>> {
    Router::new().route("/", get(start)).fallback(async || {
        view::message(
            StatusCode::NOT_FOUND,
            "No such page",
            "There is nothing here.",
        )
    })
}

async fn start(human: Human) -> Response {
    view::start(&human.person.name, &human.csrf).into_response()
}
