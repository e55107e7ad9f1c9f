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
        view::message(StatusCode::NOT_FOUND, "No such page", "There is nothing here.")
    })
}

async fn start(human: Human) -> Response {
    let text = format!("You are {}.", human.person.name);
    view::message(StatusCode::OK, "Holdpoint", &text).into_response()
}
