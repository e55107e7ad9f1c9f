//! A policy against the config it is to run under: every rule must be able to match, every look-up to run, and every hold
//! to be lifted where the call takes effect.

mod callers;
mod tickets;

use std::collections::HashMap;

use super::unguarded::unguarded;
use super::{
    Allowed, Checked, ExecutesAt, HttpLookup, Lookup, Otherwise, Policy, PrivateRule, Spotlight,
    SqlLookup, ToolMatcher, ToolRule, ToolSecrets, origins, usage,
};
use crate::item::RouteKind;
use crate::names::{LookupName, RouteName, StoreName, ToolName, UpstreamName};
use crate::settings::{Route, RouteProtocol, Settings};
use crate::source::{Problem, Problems, did_you_mean};
use crate::store::Stores;
use crate::store::sql::Described;
use crate::verdict::{LayerId, Mode};

/// What in the policy cannot work under these settings. `stores.sql` holds the databases that could be opened; a look-up
/// whose database is missing there is not checked further.
pub fn check_against(checked: &Checked, settings: &Settings, stores: &Stores) -> Problems {
    let against = Against {
        checked,
        policy: &checked.policy,
        settings,
    };
    let mut problems = Problems::default();
    against.lookups(stores, &mut problems);
    against.tickets(&mut problems);
    problems.extend(against.provider_tools());
    against.provenance(&mut problems);
    problems.extend(against.rendered());
    problems.extend(against.spotlight());
    problems.extend(against.forward());
    problems.extend(against.routeless());
    for rule in &checked.policy.tools {
        problems.extend(against.venue(rule));
        problems.extend(against.reachable(rule));
        problems.extend(against.identities(rule));
        problems.extend(against.unsettled(rule));
    }
    problems.extend(unguarded(checked, settings));
    problems.sorted()
}

struct Against<'c> {
    checked: &'c Checked,
    policy: &'c Policy,
    settings: &'c Settings,
}

impl Against<'_> {
    /// A problem at a path of the policy file.
    fn at(&self, path: &str, message: String, help: impl Into<String>) -> Problem {
        let problem = Problem::new(message).help(help);
        match self.checked.tree.at(path) {
            Some(node) => problem.at(node.spot.clone()),
            None => problem,
        }
    }

    fn lookups(&self, stores: &Stores, problems: &mut Problems) {
        let mut described = HashMap::new();
        for (name, lookup) in &self.policy.lookups {
            match lookup {
                Lookup::Sql(sql) => {
                    let found = self.described(name, sql, stores, problems);
                    described.extend(found.map(|found| (name, found)));
                }
                Lookup::Http(http) => self.upstream(name, http, problems),
            }
        }
        for rule in &self.policy.tools {
            self.usage(rule, &described, problems);
            self.ticket_lookups(rule, &described, problems);
        }
    }

    fn described(
        &self,
        name: &LookupName,
        lookup: &SqlLookup,
        stores: &Stores,
        problems: &mut Problems,
    ) -> Option<Described> {
        if !self.settings.stores.contains_key(&lookup.store) {
            let known = self.settings.stores.keys().map(StoreName::as_str);
            problems.0.push(self.at(
                &format!("lookups.{name}.store"),
                format!("the config has no store `{}`", lookup.store),
                did_you_mean("stores of the config", lookup.store.as_str(), known),
            ));
            return None;
        }
        match stores.sql.get(&lookup.store)?.check(&lookup.sql) {
            Ok(described) => Some(described),
            Err(error) => {
                problems.0.push(self.at(
                    &format!("lookups.{name}.sql"),
                    format!("the look-up `{name}` cannot run: {error}"),
                    "write one SELECT with parameters such as `:principal`",
                ));
                None
            }
        }
    }

    fn upstream(&self, name: &LookupName, lookup: &HttpLookup, problems: &mut Problems) {
        if !self.settings.upstreams.contains_key(&lookup.upstream) {
            let known = self.settings.upstreams.keys().map(UpstreamName::as_str);
            problems.0.push(self.at(
                &format!("lookups.{name}.http.upstream"),
                format!("the config has no upstream `{}`", lookup.upstream),
                did_you_mean("upstreams of the config", lookup.upstream.as_str(), known),
            ));
        }
    }

    /// Each use of a look-up binds what it asks for, nothing in vain, and can read what it gives.
    fn usage(
        &self,
        rule: &ToolRule,
        described: &HashMap<&LookupName, Described>,
        problems: &mut Problems,
    ) {
        for use_ in &rule.ownership {
            let Some(lookup) = self.policy.lookups.get(&use_.owner) else {
                continue;
            };
            let binds = use_.binds();
            let fits = match (lookup, described.get(&use_.owner)) {
                (Lookup::Sql(sql), Some(found)) => {
                    usage::owner_fits(use_.owner.as_str(), &sql.sql, found, &binds).map(drop)
                }
                (Lookup::Sql(_), None) => Ok(()),
                (Lookup::Http(_), _) => lookup.http_fits(use_.owner.as_str(), &binds),
            };
            let Err(misfit) = fits else { continue };
            let key = match &misfit.vain {
                Some(vain) if *vain == use_.bind => "as".to_owned(),
                Some(vain) => format!("with.{vain}"),
                None => "owner".to_owned(),
            };
            let path = format!("{}.{key}", use_.id);
            problems.0.push(self.at(&path, misfit.message, misfit.help));
        }
        let recipients = rule.recipients.iter().map(|rule| (&rule.id, &rule.allow));
        let egress = rule.egress.iter().map(|rule| (&rule.id, &rule.allow));
        let unless = rule.ticket.iter().flat_map(|ticket| &ticket.unless);
        let when = rule.when.iter().chain(unless);
        let when = when.filter_map(|rule| Some((&rule.id, rule.allow()?)));
        let arguments = rule.arguments.iter().map(|rule| (&rule.id, &rule.allow));
        for (id, allow) in recipients.chain(egress).chain(arguments).chain(when) {
            for (index, allowed) in allow.iter().enumerate() {
                let Allowed::Lookup(name) = allowed else {
                    continue;
                };
                let fits = match (self.policy.lookups.get(name), described.get(name)) {
                    (Some(Lookup::Sql(_)), Some(found)) => usage::values_fit(name.as_str(), found),
                    (Some(lookup @ Lookup::Http(_)), _) => lookup.http_fits(name.as_str(), &[]),
                    _ => Ok(()),
                };
                if let Err(misfit) = fits {
                    let path = format!("{id}.allow[{index}].lookup");
                    problems.0.push(self.at(&path, misfit.message, misfit.help));
                }
            }
        }
    }

    /// Provider's tools are asked for in requests to a model.
    fn provider_tools(&self) -> Option<Problem> {
        if self.policy.provider_tools.is_empty() || self.has_model_route() {
            return None;
        }
        Some(self.at(
            "provider_tools",
            "these entries can never match: no route of the config leads to a model".to_owned(),
            "add a model's route to the config, or remove `provider_tools`",
        ))
    }

    /// What the user and the operator say is seen on a model's route alone.
    fn provenance(&self, problems: &mut Problems) {
        if self.has_model_route() {
            return;
        }
        for (id, allow) in self.policy.allows() {
            for (index, allowed) in allow.iter().enumerate() {
                let Some(origin) = origins(std::slice::from_ref(allowed)).next() else {
                    continue;
                };
                if let Some(word) = origin.listens_to() {
                    problems.0.push(self.at(
                        &format!("{id}.allow[{index}]"),
                        format!("this can never vouch for anything: no route of the config leads to a model, so nobody sees what {word} says"),
                        "add the model's route to the config, or remove this entry",
                    ));
                }
            }
        }
    }

    /// What clients render is a model's text, which comes on a model's route alone.
    fn rendered(&self) -> Option<Problem> {
        if self.policy.rendered.is_none() || self.has_model_route() {
            return None;
        }
        Some(self.at(
            "rendered",
            "this section can never apply: no route of the config leads to a model".to_owned(),
            "add the model's route to the config, or remove `rendered`",
        ))
    }

    /// Without routes no call and no tool's output comes: what is about them could never run.
    fn routeless(&self) -> Vec<Problem> {
        if !self.settings.routes.is_empty() {
            return Vec::new();
        }
        let sections = ["egress", "private", "injection", "undeclared_recipients"];
        let written = sections
            .into_iter()
            .filter(|path| self.checked.tree.at(path).is_some());
        let message = "this can never apply: the config has no routes, only a forward proxy";
        written
            .map(|path| {
                let help = "add routes to the config, or remove it; `forward` and `secrets` are for the forward proxy";
                self.at(path, message.to_owned(), help)
            })
            .collect()
    }

    /// A forward proxy and what says where it may lead come together.
    fn forward(&self) -> Option<Problem> {
        let listens = self.settings.listen.forward.is_some();
        let is_off = self.policy.modes.of(LayerId::Egress) == Mode::Off;
        match (&self.policy.forward, listens) {
            (Some(_), true) if is_off => {
                let message = "`listen.forward` is set in the config and the layer `egress` is off: nobody judges where agents go";
                Some(self.at(
                    "layers.egress",
                    message.to_owned(),
                    "write `egress: enforce`, or remove `listen.forward` from the config",
                ))
            }
            (Some(_), true) | (None, false) => None,
            (Some(_), false) => Some(self.at(
                "forward",
                "this section can never apply: the config has no forward proxy".to_owned(),
                "add `listen: {forward: 127.0.0.1:3128}` to the config, or remove `forward`",
            )),
            (None, true) => Some(self.at(
                "forward",
                "`listen.forward` is set in the config and the policy does not say where agents may go".to_owned(),
                "add `forward: {allow: [LIST]}` to the policy, or remove `listen.forward` from the config",
            )),
        }
    }

    /// Only a model can be told what a marker means.
    fn spotlight(&self) -> Vec<Problem> {
        let injection = &self.policy.injection;
        if self.has_model_route() {
            let changes = injection.spotlights() && self.settings.spotlight_key.is_none();
            let warning = self.at(
                "injection",
                "the config has no `spotlight_key`: after a restart, and in another process, the marks of `spotlight` are others, so that a provider's prompt cache is lost".to_owned(),
                "add `spotlight_key: {value_env: NAME}` to the config",
            );
            return changes.then(|| warning.warning()).into_iter().collect();
        }
        let own = injection.tools.iter().enumerate();
        let own =
            own.map(|(at, (_, actions))| (format!("injection.tools[{at}].spotlight"), actions));
        let all =
            std::iter::once(("injection.spotlight".to_owned(), &injection.default)).chain(own);
        let written = all.filter(|(path, actions)| {
            actions.spotlight != Spotlight::Never && self.checked.tree.at(path).is_some()
        });
        let problem = |(path, _): (String, _)| {
            self.at(
                &path,
                "`spotlight` can never act: no route of the config leads to a model, and only a model can be told what the marks mean".to_owned(),
                "add a model's route to the config, or remove `spotlight`",
            )
        };
        written.map(problem).collect()
    }

    fn has_model_route(&self) -> bool {
        let mut routes = self.settings.routes.iter();
        routes.any(|route| route.protocol.kind() == RouteKind::Model)
    }

    /// Whether calls that this rule decides can come on a route to tools: an HTTP route tells them by name, on an MCP route
    /// any may come.
    fn carries(&self, route: &Route, rule: &ToolRule) -> bool {
        let tools = match &route.protocol {
            RouteProtocol::HttpTools(http) => &http.tools,
            RouteProtocol::Mcp(_) => return true,
            RouteProtocol::OpenAiChat(_) | RouteProtocol::AnthropicMessages(_) => return false,
        };
        tools.iter().any(|tool| match &tool.tool {
            Some(name) => self.decides(rule, name),
            // The path names the tool: any may come.
            None => true,
        })
    }

    fn decides(&self, rule: &ToolRule, tool: &ToolName) -> bool {
        self.policy
            .rule_for(tool)
            .is_some_and(|first| first.id == rule.id)
    }

    /// `executes_at` names a place where such a call can execute.
    fn venue(&self, rule: &ToolRule) -> Option<Problem> {
        let path = format!("{}.executes_at", rule.id);
        match rule.executes_at.as_ref()? {
            ExecutesAt::Agent if self.has_model_route() => None,
            ExecutesAt::Agent => Some(
                self.at(
                    &path,
                    "no route of the config leads to a model: nothing is released to the agent"
                        .to_owned(),
                    "add a model's route to the config, or name a route to tools here",
                ),
            ),
            ExecutesAt::Route(name) => self.route_venue(&format!("{path}.route"), name, rule),
        }
    }

    fn route_venue(&self, path: &str, name: &RouteName, rule: &ToolRule) -> Option<Problem> {
        let routes = &self.settings.routes;
        let Some(route) = routes.iter().find(|route| route.name == *name) else {
            let known = routes.iter().map(|route| route.name.as_str());
            return Some(self.at(
                path,
                format!("the config has no route `{name}`"),
                did_you_mean("routes of the config", name.as_str(), known),
            ));
        };
        if route.protocol.kind() == RouteKind::Model {
            return Some(self.at(
                path,
                format!("the route `{name}` leads to a model, which only proposes calls"),
                "write `executes_at: agent`, or name the route of the tool's backend",
            ));
        }
        if self.carries(route, rule) {
            return None;
        }
        Some(self.at(
            path,
            format!("the route `{name}` maps no tool that this rule decides"),
            format!(
                "{} Otherwise add the tool to the route's `tools` in the config, or name another route",
                meant("the route", rule, &route.protocol.named_tools()),
            ),
        ))
    }

    /// A rule for named tools can match on some route.
    fn reachable(&self, rule: &ToolRule) -> Option<Problem> {
        let carried = || {
            self.settings
                .routes
                .iter()
                .any(|route| self.carries(route, rule))
        };
        let any = rule.matcher == ToolMatcher::Any && !self.settings.routes.is_empty();
        if any || self.has_model_route() || carried() {
            return None;
        }
        let routes = self.settings.routes.iter();
        let tools: Vec<_> = routes
            .flat_map(|route| route.protocol.named_tools())
            .collect();
        Some(self.at(
            &format!("{}.tool", rule.id),
            "this rule can never match: no route of the config carries such a tool".to_owned(),
            format!(
                "{} Otherwise map the tool on an HTTP route, add a route to a model or an MCP server, or remove the rule",
                meant("all routes", rule, &tools),
            ),
        ))
    }

    /// A call that may be held must not come on an HTTP route that takes it for a mere proposal.
    fn unsettled(&self, rule: &ToolRule) -> Option<Problem> {
        let secrets = self.policy.secrets.as_ref();
        let waits = secrets.is_some_and(|secrets| secrets.otherwise == Otherwise::Hold);
        let waits = waits && rule.secrets != ToolSecrets::Allow;
        let private = |rule: &PrivateRule| rule.otherwise == Otherwise::Hold;
        if !rule.can_hold() && !waits && !self.policy.private.iter().any(private) {
            return None;
        }
        let (route, what) = self.settings.routes.iter().find_map(|route| {
            let what = self.passing(rule, route)?;
            Some((&route.name, what))
        })?;
        let (key, help) = match &rule.executes_at {
            Some(_) => (
                "executes_at",
                format!("write `executes_at: {{route: {route}}}`, or take the tool off that route"),
            ),
            None => (
                "tool",
                "map a tool on one route only; `{tool}` in a path takes every tool".to_owned(),
            ),
        };
        Some(self.at(
            &format!("{}.{key}", rule.id),
            format!("on the route `{route}`, {what} would pass without its ticket"),
            help,
        ))
    }

    /// What of this rule's calls the HTTP route would pass unsettled, because they are said to execute elsewhere.
    fn passing(&self, rule: &ToolRule, route: &Route) -> Option<String> {
        // An MCP route settles whatever comes.
        if route.protocol.kind() != RouteKind::Http || !self.carries(route, rule) {
            return None;
        }
        match &rule.executes_at {
            Some(ExecutesAt::Route(name)) if *name == route.name => None,
            Some(_) => Some("such a call".to_owned()),
            None => {
                let venues = self.settings.venues();
                let open = self.settings.open_routes().any(|r| r.name == route.name);
                let mut elsewhere = venues.0.iter().filter(|(tool, venue)| {
                    open && **venue != route.name && self.decides(rule, tool)
                });
                elsewhere.next().map(|(tool, _)| format!("`{tool}`"))
            }
        }
    }
}

/// Which of the tools of `place` the rule may be meant for.
fn meant(place: &str, rule: &ToolRule, tools: &[&ToolName]) -> String {
    let word = match &rule.matcher {
        ToolMatcher::Exact(name) => name.as_str(),
        ToolMatcher::Prefix(prefix) => prefix,
        ToolMatcher::Any => "*",
    };
    let known = tools.iter().map(|tool| tool.as_str());
    let said = did_you_mean(&format!("tools of {place}"), word, known);
    if said.ends_with('?') {
        said
    } else {
        format!("{said}.")
    }
}
