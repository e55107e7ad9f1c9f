//! Proof that every kind of content is judged: on each route, in each direction, whole and streamed.
//!
//! Each adapter gives canaries: messages with a mark in one place. A mark that should be judged must come out as an item,
//! and must be gone from what is sent once that item is denied. Nothing is sent anywhere, counted or logged. `serve` does
//! this before it is ready, `doctor` prints what it shows.

mod push;
mod reach;

pub use push::Fault;
pub use reach::{Look, looks};

use crate::forward;
use crate::item::{Leg, RouteKind};
use crate::names::RouteName;
use crate::protocols::Protocol;
use crate::protocols::canary::{Canary, Fate, Message};
use crate::proxy;
use crate::settings::{Limits, Settings};
use crate::source::{Problem, Problems};

/// How an answer comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// In one piece.
    Whole,
    /// In events.
    Streamed,
}

impl Mode {
    /// The word in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Streamed => "streamed",
        }
    }
}

/// One kind of content on one route, and what was seen to become of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The route.
    pub route: RouteName,
    /// What kind of route it is.
    pub kind: RouteKind,
    /// Its protocol.
    pub protocol: &'static str,
    /// Which way.
    pub leg: Leg,
    /// Whole or streamed; a request is whole.
    pub mode: Mode,
    /// What kind of content.
    pub content: &'static str,
    /// What becomes of it.
    pub fate: Fate,
}

/// Pushes every canary through every route of the settings.
///
/// # Errors
/// Routes that cannot work, and every cell in which content passes that should be judged.
pub fn prove(settings: &Settings) -> Result<Vec<Cell>, Problems> {
    let mut cells = Vec::new();
    let mut problems = Vec::new();
    // A canary is larger than the least that a config may allow.
    let limits = Limits::default();
    for route in &settings.routes {
        let protocol = match proxy::protocol(route, settings, &limits) {
            Ok(protocol) => protocol,
            Err(found) => {
                problems.extend(found.0);
                continue;
            }
        };
        match self::cells(&route.name, protocol.as_ref()) {
            Ok(proved) => cells.extend(proved),
            Err(found) => problems.extend(found.0),
        }
        if protocol.kind() == RouteKind::Http {
            cells.extend(forward::redirects(&route.name, protocol.name()));
        }
    }
    if settings.listen.forward.is_some() {
        match forward::cells() {
            Ok(proved) => cells.extend(proved),
            Err(found) => problems.extend(found.0),
        }
    }
    if problems.is_empty() {
        Ok(cells)
    } else {
        Err(Problems(problems))
    }
}

/// Pushes the canaries of one adapter through it.
///
/// # Errors
/// Every cell in which content passes that should be judged.
pub fn cells(route: &RouteName, protocol: &dyn Protocol) -> Result<Vec<Cell>, Problems> {
    let mut cells = Vec::new();
    let mut problems = Vec::new();
    for canary in protocol.canaries() {
        let cell = cell(route, protocol, &canary);
        match push::push(protocol, &canary) {
            Ok(()) => cells.push(cell),
            Err(fault) => problems.push(uncovered(&cell, &fault)),
        }
    }
    if problems.is_empty() {
        Ok(cells)
    } else {
        Err(Problems(problems))
    }
}

fn cell(route: &RouteName, protocol: &dyn Protocol, canary: &Canary) -> Cell {
    let (leg, mode) = match &canary.message {
        Message::Request(_) => (Leg::ToUpstream, Mode::Whole),
        Message::Answer(answer) if answer.media_type.starts_with("text/event-stream") => {
            (Leg::ToAgent, Mode::Streamed)
        }
        Message::Answer(_) => (Leg::ToAgent, Mode::Whole),
    };
    Cell {
        route: route.clone(),
        kind: protocol.kind(),
        protocol: protocol.name(),
        leg,
        mode,
        content: canary.content,
        fate: canary.fate,
    }
}

fn uncovered(cell: &Cell, fault: &Fault) -> Problem {
    let leg = match cell.leg {
        Leg::ToUpstream => "request",
        Leg::ToAgent => "answer",
    };
    Problem::new(format!(
        "the route `{}` ({}) does not guard what it should: {leg}, {}, {}: {fault}",
        cell.route,
        cell.protocol,
        cell.mode.as_str(),
        cell.content
    ))
    .help("this is a fault of Holdpoint: report it, and do not serve this route until it is mended")
}
