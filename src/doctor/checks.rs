//! The checks.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use super::{Check, Level, Row};
use crate::clock::SystemClock;
use crate::guard::{Guard, Parts};
use crate::policy::{self, Policy};
use crate::protocols::canary::{Fate, ItemKind};
use crate::proxy::{HttpUpstream, Identify, readers};
use crate::settings::{Principals, Settings, TicketPlace, TicketSettings};
use crate::source::{Problem, Problems, Severity};
use crate::store::Stores;
use crate::store::tickets::{self, TicketError, TicketLimits, sqlite};
use crate::verdict::{LayerId, Mode};

fn check(level: Level, about: &'static str, message: impl Into<String>, help: &str) -> Check {
    Check {
        level,
        about,
        message: message.into(),
        help: (!help.is_empty()).then(|| help.to_owned()),
    }
}

/// A problem of a file, with its place.
pub(super) fn told(about: &'static str, problem: &Problem) -> Check {
    let place = problem.at.as_ref().map(|(file, bytes)| {
        let (line, column) = file.line_column(bytes.start);
        format!("{}:{line}:{column}: ", file.path)
    });
    Check {
        level: match problem.severity {
            Severity::Error => Level::Problem,
            Severity::Warning => Level::Warning,
        },
        about,
        message: format!("{}{}", place.unwrap_or_default(), problem.message),
        help: problem.help.clone(),
    }
}

/// What is found and no layer looks at.
pub(super) fn coverage(rows: &[Row], checks: &mut Vec<Check>) {
    let judged = |row: &&Row| matches!(row.cell.fate, Fate::Judged(_));
    let all = rows.iter().filter(judged).count();
    let message = format!("{all} kinds of content come out as items and are gone once denied");
    checks.push(check(Level::Ok, "coverage", message, ""));
    let unseen: BTreeSet<_> = rows
        .iter()
        .filter(|row| row.looks.is_empty())
        .filter_map(|row| match row.cell.fate {
            // The guard itself refuses what cannot be read.
            Fate::Judged(ItemKind::Unreadable) | Fate::Passed(_) | Fate::Refused(_) => None,
            Fate::Judged(kind) => Some((row.cell.route.as_str(), kind.as_str())),
        })
        .collect();
    for (route, kind) in unseen {
        checks.push(check(
            Level::Warning,
            "coverage",
            format!("on the route `{route}` no layer looks at items of the kind `{kind}`"),
            "switch on a layer for them, or give it rules; they are counted as `no_rule`",
        ));
    }
}

/// Layers that do not enforce.
pub(super) fn layers(policy: &Policy, checks: &mut Vec<Check>) {
    for layer in LayerId::ALL {
        let message = match policy.modes.of(layer) {
            Mode::Enforce => continue,
            Mode::Shadow => format!("the layer `{layer}` judges and counts, and changes nothing"),
            Mode::Off => format!("the layer `{layer}` is off"),
        };
        checks.push(check(Level::Note, "layers", message, ""));
    }
}

/// Tools of the config that the policy says nothing of.
pub(super) fn tools(settings: &Settings, policy: &Policy, checks: &mut Vec<Check>) {
    let held = policy.modes.of(LayerId::Tickets) == Mode::Enforce;
    for route in &settings.routes {
        for tool in route.protocol.named_tools() {
            if policy.rule_for(tool).is_some() {
                continue;
            }
            let what = format!(
                "no rule is for the tool `{tool}` of the route `{}`",
                route.name
            );
            checks.push(if held {
                let message = format!("{what}: each of its calls waits for an approval");
                check(
                    Level::Note,
                    "tools",
                    message,
                    "add a rule for it to the policy",
                )
            } else {
                let message =
                    format!("{what}, and the layer `tickets` is not enforced: it is free");
                check(
                    Level::Warning,
                    "tools",
                    message,
                    "add a rule for it to the policy",
                )
            });
        }
    }
}

/// Who can reach what.
pub(super) fn listeners(settings: &Settings, checks: &mut Vec<Check>) {
    let listen = &settings.listen;
    let open = |address: SocketAddr| !address.ip().is_loopback();
    let before = checks.len();
    let mut warn = |message: String, help| {
        checks.push(check(Level::Warning, "listeners", message, help));
    };
    if open(listen.agents) {
        let at = listen.agents;
        if listen.tls.is_none() {
            warn(
                format!("agents reach the proxy at {at} from other machines, without TLS"),
                "set `listen.tls`, or bind it to a loopback address or a private network",
            );
        }
        let known = listen
            .tls
            .as_ref()
            .is_some_and(|tls| tls.client_ca.is_some());
        if let (Principals::Fixed(principal), false) = (&settings.principals, known) {
            warn(
                format!("whoever reaches {at} acts as `{}`", principal.subject),
                "use `principal.api_keys`, `jwt` or `mtls` where the network does not tell agents apart",
            );
        }
    }
    if let Some(at) = listen.forward.filter(|at| open(*at)) {
        let tls = listen.forward_tls.as_ref();
        let known = tls.is_some_and(|tls| tls.client_ca.is_some());
        if matches!(settings.principals, Principals::Fixed(_)) && !known {
            warn(
                format!("whoever reaches {at} may use the forward proxy"),
                "let only your agents reach it, or use `principal.api_keys`",
            );
        }
        if tls.is_none() {
            warn(
                format!("agents reach the forward proxy at {at} from other machines, without TLS"),
                "set `listen.forward_tls`, or bind it to a loopback address or a private network",
            );
        }
    }
    if let Some(at) = listen.approvers.filter(|at| open(*at)) {
        warn(
            format!("the ticket API is reachable at {at} from other machines"),
            "keep it out of reach for agents: another network, or a loopback address",
        );
    }
    if open(listen.operations) {
        let at = listen.operations;
        warn(
            format!("health and metrics are reachable at {at} from other machines"),
            "let only your monitoring reach it",
        );
    }
    let loopback = checks.len() == before;
    if listen.forward.is_some() {
        let message = "inside its tunnels the forward proxy sees nothing, and it cannot see what goes around it";
        let help = "give agents no other way out: see docs/forward-proxy.md";
        checks.push(check(Level::Note, "listeners", message, help));
    }
    if loopback {
        let message = "every listener is on a loopback address";
        checks.push(check(Level::Ok, "listeners", message, ""));
    }
}

/// A forward proxy that lets plain requests pass and looks for nothing in them.
pub(super) fn bodies(settings: &Settings, policy: &Policy, checks: &mut Vec<Check>) {
    let plain = policy
        .forward
        .as_ref()
        .is_some_and(|forward| forward.reach.schemes.iter().any(|scheme| scheme == "http"));
    let looks = policy.secrets.is_some() || !policy.private.is_empty();
    if settings.listen.forward.is_some() && plain && !looks {
        let message = "plain requests through the forward proxy may carry any secret: the policy says `secrets: off`";
        let help = "remove `secrets: off`, or let only `https` pass in `forward.schemes`";
        checks.push(check(Level::Warning, "listeners", message, help));
    }
}

/// Whether stores open, look-ups run, and the guard can be built: as at start, without leaving a file behind.
pub(super) fn stores(settings: &Settings, checked: policy::Checked, checks: &mut Vec<Check>) {
    let (sql, problems) = settings.open_sql();
    checks.extend(problems.0.iter().map(|problem| told("stores", problem)));
    let mut names: Vec<_> = sql.keys().collect();
    names.sort();
    for name in names {
        let message = format!("the store `{name}` opens and cannot be written to");
        checks.push(check(Level::Ok, "stores", message, ""));
    }
    let tickets = match &settings.tickets {
        Some(tickets) => {
            checks.push(ticket_store(tickets));
            let memory = std::path::Path::new(":memory:");
            sqlite::open(memory, SystemClock::shared(), TicketLimits::default()).ok()
        }
        None => None,
    };
    let stores = Stores {
        sql,
        // What keeps an upstream from being read is told with the upstreams.
        http: readers(settings).unwrap_or_default(),
        tickets,
        register: settings.register().unwrap_or_default(),
        ..Stores::default()
    };
    let together = policy::check_against(&checked, settings, &stores);
    checks.extend(together.0.iter().map(|problem| told("policy", problem)));
    if together.has_errors() {
        return;
    }
    let policy = Arc::new(checked.policy);
    let parts = Parts {
        stores,
        venues: settings.venues(),
        ..Parts::default()
    };
    match Guard::new(Arc::clone(&policy), &policy.modes, parts) {
        Ok(_) => {
            let message = format!("the policy `{}` can run under this config", policy.name);
            checks.push(check(Level::Ok, "policy", message, ""));
        }
        Err(Problems(problems)) => {
            checks.extend(problems.iter().map(|problem| told("policy", problem)));
        }
    }
}

fn ticket_store(settings: &TicketSettings) -> Check {
    let help = "check `tickets` in the config";
    let path = match &settings.store {
        TicketPlace::File(path) => path.as_path(),
        TicketPlace::Postgres(_) => Path::new("the database of `tickets.postgres`"),
    };
    let shown = path.display();
    if matches!(settings.store, TicketPlace::File(_)) && !path.exists() {
        let folder = path.parent().filter(|folder| folder.as_os_str() != "");
        return match folder {
            Some(folder) if !folder.is_dir() => {
                let message = format!("{shown} cannot be made: there is no folder for it");
                check(Level::Problem, "tickets", message, help)
            }
            _ => check(Level::Ok, "tickets", format!("{shown} will be made"), ""),
        };
    }
    match tickets::existing(settings, SystemClock::shared()) {
        Ok(_) => check(Level::Ok, "tickets", format!("{shown} opens"), ""),
        Err(TicketError::Older { .. }) => {
            let message = format!("{shown} opens and will be brought up to date");
            check(Level::Ok, "tickets", message, "")
        }
        Err(TicketError::NotATicketStore { .. })
            if matches!(settings.store, TicketPlace::Postgres(_)) =>
        {
            let message = format!("{shown} opens, and its tables will be made");
            check(Level::Ok, "tickets", message, "")
        }
        Err(error) => check(Level::Problem, "tickets", error.to_string(), help),
    }
}

/// Whether each upstream takes a connection: name, TCP and TLS. No request is sent.
pub(super) async fn upstreams(settings: &Settings, checks: &mut Vec<Check>) {
    let client = match HttpUpstream::new(settings) {
        Ok(client) => client,
        Err(Problems(problems)) => {
            checks.extend(problems.iter().map(|problem| told("upstreams", problem)));
            return;
        }
    };
    let client = &client;
    let names = settings.upstreams.keys();
    let tried = names.map(|name| async move { (name, client.connect(name).await) });
    for (name, tried) in futures_util::future::join_all(tried).await {
        checks.push(match tried {
            Ok(()) => {
                let message = format!("the upstream `{name}` takes a connection");
                check(Level::Ok, "upstreams", message, "")
            }
            Err(cause) => check(
                Level::Problem,
                "upstreams",
                format!("the upstream `{name}` takes no connection: {cause}"),
                "check its `url` and that it runs; `--offline` leaves this out",
            ),
        });
    }
}

/// Whether the keys that tokens are verified with can be read.
pub(super) async fn keys(settings: &Settings, checks: &mut Vec<Check>) {
    if !matches!(settings.principals, Principals::Jwt(_)) {
        return;
    }
    let read = match Identify::new(settings, SystemClock::shared()) {
        Ok(identify) => identify.load().await,
        Err(problems) => Err(problems),
    };
    match read {
        Ok(()) => {
            let message = "the issuer's keys can be read";
            checks.push(check(Level::Ok, "identity", message, ""));
        }
        Err(Problems(problems)) => {
            checks.extend(problems.iter().map(|problem| told("identity", problem)));
        }
    }
}
