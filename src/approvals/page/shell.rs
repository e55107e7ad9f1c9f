//! The frame around every page.

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};
use jiff::Timestamp;
use maud::{DOCTYPE, Markup, html};

use super::text::plain;
use crate::store::tickets::digest::sha256_hex;

/// Hex digits of a page's tag.
const TAG: usize = 24;

/// Where one is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Queue,
    History,
    Unknown,
    Mandates,
    Audit,
    /// On no page of the navigation.
    Elsewhere,
}

const NAVIGATION: [(Place, &str, &str); 5] = [
    (Place::Queue, "/", "Waiting"),
    (Place::History, "/history", "History"),
    (Place::Unknown, "/unknown", "Unknown outcomes"),
    (Place::Mandates, "/mandates", "Mandates"),
    (Place::Audit, "/audit", "Audit"),
];

/// What every page of somebody who has logged in is made from.
pub(super) struct Frame<'a> {
    /// As in the window's title.
    pub title: &'a str,
    /// Highlighted in the navigation.
    pub place: Place,
    /// Who has logged in; untrusted text.
    pub name: &'a str,
    /// Of the session, for the form that ends it.
    pub csrf: &'a str,
    /// Time of the answer.
    pub now: Timestamp,
}

impl Frame<'_> {
    /// The page, or 304 where the browser's script has the same one already.
    pub(super) fn answer(&self, status: StatusCode, asked: &HeaderMap, main: &Markup) -> Response {
        let digest = sha256_hex(format!("{}\0{}", self.title, main.0).as_bytes());
        let tag: String = digest.chars().take(TAG).collect();
        let known = asked.get(header::IF_NONE_MATCH);
        if known.is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
            return StatusCode::NOT_MODIFIED.into_response();
        }
        let page = html! {
            (DOCTYPE)
            html lang="en" data-now=(self.now) data-tag=(tag) {
                (head(self.title, None))
                body {
                    a.skip href="#main" { "Skip to the content" }
                    header.top {
                        div.bar {
                            a.brand href="/" { img src="/assets/icon.svg" alt="" width="22" height="22"; "Holdpoint" }
                            nav aria-label="Pages" {
                                ul {
                                    @for (place, path, name) in NAVIGATION {
                                        li { a href=(path) aria-current=[(place == self.place).then_some("page")] { (name) } }
                                    }
                                }
                            }
                            div.who {
                                span { span.off { "Logged in as " } (plain(self.name)) }
                                form.inline method="post" action="/logout" {
                                    input type="hidden" name="csrf" value=(self.csrf);
                                    button.small type="submit" { "Log out" }
                                }
                            }
                        }
                    }
                    main #main tabindex="-1" { (main) }
                    div.off #news role="status" aria-live="polite" {}
                    script src="/assets/live.js" {}
                }
            }
        };
        let kind = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
        (status, kind, page.0).into_response()
    }
}

/// A page without a frame, for somebody who has not logged in or has to be told something. `on`: where the browser goes on to.
pub(in crate::approvals) fn bare(title: &str, on: Option<&str>, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title, on))
            body {
                main #main.narrow {
                    p.brand { img src="/assets/icon.svg" alt="" width="22" height="22"; "Holdpoint" }
                    h1 { (title) }
                    (body)
                }
            }
        }
    }
}

fn head(title: &str, on: Option<&str>) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="robots" content="noindex";
            @if let Some(path) = on { meta http-equiv="refresh" content={ "0;url=" (path) }; }
            title { (title) " · Holdpoint" }
            link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
            link rel="stylesheet" href="/assets/style.css";
        }
    }
}
