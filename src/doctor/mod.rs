//! What a deployer wants to know before the first request: what of each route is guarded and by which layers, and what about
//! the set-up is wrong or unusual. It asks nobody for anything but an issuer for its public keys: of an
//! upstream it tries the connection alone.

mod checks;
mod show;

use serde::Serialize;
pub use show::{json, text};

use crate::coverage::{self, Cell, Look};
use crate::names::{RouteName, ToolName};
use crate::policy::{self, Policy};
use crate::protocols::canary::{Fate, ItemKind};
use crate::settings::{self, Settings};

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing.
    Note,
    /// It runs, but perhaps not as meant.
    Warning,
    /// It does not run, or does not guard.
    Problem,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// How bad it is.
    pub level: Level,
    /// What it is about: `policy`, `coverage`, `layers`, `tools`, `listeners`, `stores`, `tickets`, `upstreams`, `identity`.
    pub about: &'static str,
    /// What was found: no secret, no text of a message.
    pub message: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

/// One kind of content, and who looks at it under the policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What becomes of it.
    pub cell: Cell,
    /// The layers that look at it; none for what is not judged.
    pub looks: Vec<Look>,
}

/// The tools that a route names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RouteTools {
    /// The route.
    pub route: RouteName,
    /// Its tools, in the order of the config and its documents.
    pub tools: Vec<ToolName>,
    /// Whether others may come as well.
    pub others: bool,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What of each route is scanned, judged, passed unscanned, refused.
    pub rows: Vec<Row>,
    /// The tools of each route that names some.
    pub tools: Vec<RouteTools>,
    /// What else was looked at.
    pub checks: Vec<Check>,
}

impl Report {
    /// How many checks are of this level.
    pub fn count(&self, level: Level) -> usize {
        let checks = self.checks.iter();
        checks.filter(|check| check.level == level).count()
    }
}

/// Looks at everything. `offline`: upstreams are not tried.
pub async fn examine(config: &settings::Checked, policy: policy::Checked, offline: bool) -> Report {
    let settings = &config.settings;
    let mut report = Report::default();
    matrix(settings, &policy.policy, &mut report);
    report.tools = named(settings);
    checks::layers(&policy.policy, &mut report.checks);
    checks::tools(settings, &policy.policy, &mut report.checks);
    checks::listeners(settings, &mut report.checks);
    let warnings = [&config.warnings, &policy.warnings];
    for problem in warnings.into_iter().flat_map(|problems| &problems.0) {
        report.checks.push(checks::told("policy", problem));
    }
    checks::stores(settings, policy, &mut report.checks);
    if !offline {
        checks::upstreams(settings, &mut report.checks).await;
        checks::keys(settings, &mut report.checks).await;
    }
    report
}

fn named(settings: &Settings) -> Vec<RouteTools> {
    let open: Vec<_> = settings.open_routes().map(|route| &route.name).collect();
    let routes = settings.routes.iter().map(|route| RouteTools {
        route: route.name.clone(),
        tools: route.protocol.named_tools().into_iter().cloned().collect(),
        others: open.contains(&&route.name),
    });
    routes.filter(|route| !route.tools.is_empty()).collect()
}

fn matrix(settings: &Settings, policy: &Policy, report: &mut Report) {
    let cells = match coverage::prove(settings) {
        Ok(cells) => cells,
        Err(problems) => {
            let told = |problem| checks::told("coverage", problem);
            report.checks.extend(problems.0.iter().map(told));
            return;
        }
    };
    // Where no rule asks, adapters look for nothing in a model's text.
    let asked =
        |cell: &Cell| policy.rendered.is_some() || cell.fate != Fate::Judged(ItemKind::ModelText);
    for cell in cells.into_iter().filter(asked) {
        let looks = match cell.fate {
            Fate::Judged(kind) => coverage::looks(policy, cell.kind, kind),
            Fate::Passed(_) | Fate::Refused(_) => Vec::new(),
        };
        let row = Row { cell, looks };
        // Each tool of an HTTP route has the same.
        if !report.rows.contains(&row) {
            report.rows.push(row);
        }
    }
    checks::coverage(&report.rows, &mut report.checks);
}
