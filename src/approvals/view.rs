//! The few pages that stand without a log-in: the form for it, and short messages. No script.

use axum::response::{Html, IntoResponse, Response};
use http::StatusCode;
use maud::{Markup, html};

use super::page::bare;

/// What the log-in page says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoginView<'v> {
    /// Why the last try did not count.
    pub error: Option<&'v str>,
    /// Whether there are local accounts.
    pub accounts: bool,
    /// The identity provider, if there is one.
    pub oidc: Option<&'v str>,
    /// Whether the person must show anew who they are.
    pub fresh: bool,
    /// Where to go on.
    pub next: &'v str,
}

/// The log-in page.
pub(crate) fn login(view: &LoginView<'_>) -> String {
    let next: String = url::form_urlencoded::byte_serialize(view.next.as_bytes()).collect();
    let fresh = if view.fresh { "&fresh=1" } else { "" };
    let body = html! {
        @if let Some(error) = view.error { p.error role="alert" { (error) } }
        @if view.fresh { p { "This needs a fresh log-in: show once more who you are." } }
        @if view.accounts {
            form method="post" action="/login" {
                input type="hidden" name="next" value=(view.next);
                div.field {
                    label for="name" { "Name" }
                    input #name name="name" autocomplete="username" autocapitalize="none" spellcheck="false" required autofocus;
                }
                div.field {
                    label for="password" { "Password" }
                    input #password name="password" type="password" autocomplete="current-password" required;
                }
                div.buttons { button.main type="submit" { "Log in" } }
            }
        }
        @if let Some(issuer) = view.oidc {
            p.buttons { a.button href={ "/login/oidc?next=" (next) (fresh) } { "Log in at " (issuer) } }
        }
    };
    bare("Log in", None, &body).0
}

/// A short page with a status.
pub(crate) fn message(status: StatusCode, title: &str, text: &str) -> impl IntoResponse + use<> {
    leading(status, title, text, ("/", "To the queue"))
}

/// As [`message`], with a link of its own: a path of ours and its words.
pub(crate) fn leading(status: StatusCode, title: &str, text: &str, to: (&str, &str)) -> Response {
    let body = html! {
        p { (super::page::plain(text)) }
        p { a href=(to.0) { (to.1) } }
    };
    (status, html_of(bare(title, None, &body))).into_response()
}

fn html_of(page: Markup) -> Html<String> {
    Html(page.0)
}

/// A form that no page of ours sent.
pub(crate) fn foreign() -> Response {
    message(
        StatusCode::FORBIDDEN,
        "Not from this page",
        "The form did not come from a page of this log-in, so nothing was changed. Open the page again and repeat what you meant.",
    )
    .into_response()
}

/// A request under a name that leads here and is not ours.
pub(crate) fn not_ours() -> Response {
    message(
        StatusCode::MISDIRECTED_REQUEST,
        "Another name",
        "This listener does not answer to that name. Its own is `approvers.url` of the config.",
    )
    .into_response()
}

/// Goes on to a path of ours from a page of ours, so that the browser sends the cookie of the log-in along.
pub(crate) fn bounce(path: &str) -> Html<String> {
    let body = html! { p { a href=(path) { "Go on" } } };
    html_of(bare("One moment", Some(path), &body))
}
