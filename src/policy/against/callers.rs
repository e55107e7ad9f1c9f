//! Who may call, against the principals of the config.

use super::{Against, ToolRule};
use crate::settings::Principals;
use crate::source::{Problem, did_you_mean};

impl Against<'_> {
    /// What a rule asks of the caller's identity, some caller of the config can have.
    pub(super) fn identities(&self, rule: &ToolRule) -> Vec<Problem> {
        let principals = &self.settings.principals;
        let mut problems = Vec::new();
        if let Some(named) = principals.named() {
            for (index, scope) in rule.scopes.iter().enumerate() {
                if !named.iter().any(|it| it.scopes.contains(scope)) {
                    let known = named.iter().flat_map(|it| &it.scopes).map(AsRef::as_ref);
                    problems.push(self.at(
                        &format!("{}.scopes[{index}]", rule.id),
                        format!("no principal of the config has the scope `{scope}`"),
                        did_you_mean("scopes of the config", scope, known),
                    ));
                }
            }
        }
        for (index, agent) in rule.agents.iter().enumerate() {
            let known: Option<Vec<&str>> = match principals {
                Principals::Jwt(jwt) => jwt.actors.as_ref().map(|actors| {
                    let plain = jwt.claims.agent.is_none().then_some(&jwt.agent);
                    actors.iter().chain(plain).map(AsRef::as_ref).collect()
                }),
                named => named.named().map(|named| {
                    let agents = named.into_iter().map(|it| it.agent.as_ref());
                    agents.collect()
                }),
            };
            // Where tokens may name any agent, nobody knows.
            let open = matches!(principals, Principals::Jwt(jwt) if jwt.claims.agent.is_some());
            if let Some(known) = known.filter(|known| !open && !known.contains(&&**agent)) {
                problems.push(self.at(
                    &format!("{}.agents[{index}]", rule.id),
                    format!("no principal of the config can be the agent `{agent}`"),
                    did_you_mean("agents of the config", agent, known),
                ));
            }
        }
        let named = matches!(principals, Principals::Jwt(jwt) if jwt.claims.session.is_some());
        if rule.own_session && !named {
            problems.push(
                self.at(
                    &format!("{}.session", rule.id),
                    "no caller of the config has a session of its own: every call would be refused"
                        .to_owned(),
                    "name the token's claim in `principal.jwt.claims.session` of the config",
                ),
            );
        }
        problems
    }
}
