//! What pages load: the style, the script and the icon, all from here.

use axum::response::{IntoResponse, Response};
use http::header;

/// Asked for again at each page, for nothing of this listener is kept by a browser.
fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

pub(super) async fn style() -> Response {
    asset("text/css; charset=utf-8", include_str!("assets/style.css"))
}

pub(super) async fn script() -> Response {
    asset(
        "text/javascript; charset=utf-8",
        include_str!("assets/live.js"),
    )
}

pub(super) async fn icon() -> Response {
    asset("image/svg+xml", include_str!("assets/icon.svg"))
}
