//! The few pages that stand without a log-in: the form for it, and short messages. Plain HTML, no script.

use std::fmt::Write as _;

use axum::response::{Html, IntoResponse, Response};
use http::StatusCode;

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

/// Text and attribute values for HTML.
pub(crate) fn html(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => shown.push_str("&amp;"),
            '<' => shown.push_str("&lt;"),
            '>' => shown.push_str("&gt;"),
            '"' => shown.push_str("&quot;"),
            '\'' => shown.push_str("&#39;"),
            c => shown.push(c),
        }
    }
    shown
}

fn page(title: &str, head: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title} · Holdpoint</title>\n<link rel=\"stylesheet\" href=\"/assets/style.css\">\n{head}</head>\n\
         <body>\n<main class=\"narrow\">\n<h1>{title}</h1>\n{body}</main>\n</body>\n</html>\n",
        title = html(title),
    )
}

/// The log-in page.
pub(crate) fn login(view: &LoginView<'_>) -> String {
    let mut body = String::new();
    // Writing to a string cannot fail.
    if let Some(error) = view.error {
        let _ = writeln!(
            body,
            "<p class=\"error\" role=\"alert\">{}</p>",
            html(error)
        );
    }
    if view.fresh {
        body.push_str("<p>This needs a fresh log-in: show once more who you are.</p>\n");
    }
    if view.accounts {
        let _ = write!(
            body,
            "<form method=\"post\" action=\"/login\">\n\
             <input type=\"hidden\" name=\"next\" value=\"{}\">\n\
             <p><label for=\"name\">Name</label><br>\n\
             <input id=\"name\" name=\"name\" autocomplete=\"username\" required autofocus></p>\n\
             <p><label for=\"password\">Password</label><br>\n\
             <input id=\"password\" name=\"password\" type=\"password\" autocomplete=\"current-password\" required></p>\n\
             <p><button type=\"submit\">Log in</button></p>\n</form>\n",
            html(view.next)
        );
    }
    if let Some(issuer) = view.oidc {
        let next: String = url::form_urlencoded::byte_serialize(view.next.as_bytes()).collect();
        let fresh = if view.fresh { "&amp;fresh=1" } else { "" };
        let _ = writeln!(
            body,
            "<p><a class=\"button\" href=\"/login/oidc?next={next}{fresh}\">Log in at {}</a></p>",
            html(issuer)
        );
    }
    page("Log in", "", &body)
}

/// A short page with a status.
pub(crate) fn message(status: StatusCode, title: &str, text: &str) -> impl IntoResponse + use<> {
    let body = format!(
        "<p>{}</p>\n<p><a href=\"/\">To the queue</a></p>\n",
        html(text)
    );
    (status, Html(page(title, "", &body)))
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
    let path = html(path);
    let head = format!("<meta http-equiv=\"refresh\" content=\"0;url={path}\">\n");
    let body = format!("<p><a href=\"{path}\">Go on</a></p>\n");
    Html(page("One moment", &head, &body))
}

/// Who is logged in, and the way out.
pub(crate) fn start(name: &str, csrf: &str) -> Html<String> {
    let body = format!(
        "<p>You are {}.</p>\n<form method=\"post\" action=\"/logout\">\n\
         <input type=\"hidden\" name=\"csrf\" value=\"{}\">\n<button type=\"submit\">Log out</button>\n</form>\n",
        html(name),
        html(csrf)
    );
    Html(page("Tickets", "", &body))
}
