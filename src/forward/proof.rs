//! What the forward proxy judges, refuses and passes: for the matrix, proved on its own reading of heads.

use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};

use super::{PROTOCOL, head};
use crate::coverage::{Cell, Mode};
use crate::item::{Content, EgressTarget, Leg, RouteKind};
use crate::names::{RouteName, RuleId};
use crate::protocols::Refusal;
use crate::protocols::canary::{Fate, ItemKind, MARK};
use crate::protocols::http_tools::problem;
use crate::proxy::receive::asks_for_websocket;
use crate::proxy::redirect::{Redirect, redirect};
use crate::proxy::refuse;
use crate::settings::FORWARD;
use crate::source::{Problem, Problems};
use crate::unscanned::Unscanned;
use crate::verdict::{Finding, LayerId, Reason};

const JUDGED: Fate = Fate::Judged(ItemKind::Egress);

/// Every kind of content of the forward listener.
///
/// # Errors
/// What should come out as an item and does not, or be refused and is not.
pub(crate) fn cells() -> Result<Vec<Cell>, Problems> {
    let marked = format!("http://{MARK}.test/{MARK}");
    let tunnel = parts(Method::CONNECT, &format!("{MARK}.test:443"), None);
    let plain = parts(Method::GET, &marked, None);
    let socket = parts(Method::GET, &marked, Some("websocket"));
    let origin = parts(Method::GET, "/", None);
    let secure = parts(Method::GET, &format!("https://{MARK}.test/"), None);
    let form = refuse::PROXY_FORM_INVALID.code;
    let refuses_form =
        |parts: &Parts| head::target(parts).err().map(|code| code.code) == Some(form);
    let (ask, answer) = (Leg::ToUpstream, Leg::ToAgent);
    let passed = |reason| Fate::Passed(reason);
    let rows = [
        (
            ask,
            "tunnel, host and port",
            JUDGED,
            is_judged(head::target(&tunnel).ok()),
        ),
        (ask, "bytes of a tunnel", passed(Unscanned::Tunnel), true),
        (
            ask,
            "plain HTTP, URL",
            JUDGED,
            is_judged(head::target(&plain).ok()),
        ),
        (
            ask,
            "plain HTTP, body",
            JUDGED,
            is_judged(head::target(&plain).ok().map(with_body)),
        ),
        (
            ask,
            "WebSocket",
            Fate::Refused(refuse::UPGRADE_UNSUPPORTED.code),
            asks_for_websocket(&socket.headers),
        ),
        (
            ask,
            "no form of a proxy",
            Fate::Refused(form),
            refuses_form(&origin) && refuses_form(&secure),
        ),
        (answer, "bytes of a tunnel", passed(Unscanned::Tunnel), true),
        (
            answer,
            "plain HTTP, redirect",
            JUDGED,
            is_judged(elsewhere()),
        ),
        (answer, "plain HTTP, body", passed(Unscanned::Forward), true),
    ];
    let mut cells = Vec::new();
    let mut problems = Vec::new();
    for (leg, content, fate, holds) in rows {
        if holds {
            cells.push(Cell {
                route: RouteName::from(FORWARD),
                kind: RouteKind::Forward,
                protocol: PROTOCOL,
                leg,
                mode: Mode::Whole,
                content,
                fate,
            });
        } else {
            let message = format!("the forward listener does not guard what it should: {content}");
            problems.push(Problem::new(message).help(
                "this is a fault of Holdpoint: report it, and do not set `listen.forward` until it is mended",
            ));
        }
    }
    if problems.is_empty() {
        Ok(cells)
    } else {
        Err(Problems(problems))
    }
}

/// The redirects of a route to a tool's backend, which the proxy judges and not its adapter.
pub(crate) fn redirects(route: &RouteName, protocol: &'static str) -> Option<Cell> {
    is_judged(elsewhere()).then(|| Cell {
        route: route.clone(),
        kind: RouteKind::Http,
        protocol,
        leg: Leg::ToAgent,
        mode: Mode::Whole,
        content: "redirect to a host",
        fate: JUDGED,
    })
}

/// A redirect with the mark, as it is read.
fn elsewhere() -> Option<EgressTarget> {
    let mut headers = HeaderMap::new();
    let location = HeaderValue::from_str(&format!("http://{MARK}.test/{MARK}"));
    headers.insert(header::LOCATION, location.ok()?);
    match redirect(StatusCode::FOUND, &headers, "http://a.test/", "GET") {
        Redirect::Elsewhere(target) => Some(target),
        _ => None,
    }
}

fn parts(method: Method, target: &str, upgrade: Option<&'static str>) -> Parts {
    let mut request = Request::new(());
    *request.method_mut() = method;
    // A target that is none gives a head that is refused: the row fails.
    *request.uri_mut() = target.parse().unwrap_or_default();
    if let Some(upgrade) = upgrade {
        let headers = request.headers_mut();
        headers.insert(header::UPGRADE, HeaderValue::from_static(upgrade));
    }
    request.into_parts().0
}

/// The same place with a body.
fn with_body(target: EgressTarget) -> EgressTarget {
    EgressTarget {
        body: Some(Content {
            media: None,
            bytes: MARK.into(),
        }),
        ..target
    }
}

/// Whether the mark is in the item, and gone from what is answered once that is denied.
fn is_judged(target: Option<EgressTarget>) -> bool {
    let shows = |target: &EgressTarget| {
        let url = target.url.as_deref();
        target.authority.contains(MARK) && url.is_none_or(|url| url.matches(MARK).count() == 2)
    };
    let finding = Finding {
        layer: LayerId::Egress,
        rule: RuleId::from("coverage"),
        reason: Reason::HostNotAllowed,
        argument: None,
        detail: "a canary".into(),
    };
    let refused = problem(&Refusal::of(&finding, None));
    let answered = String::from_utf8_lossy(refused.body()).into_owned();
    target.is_some_and(|target| shows(&target)) && !answered.contains(MARK)
}
