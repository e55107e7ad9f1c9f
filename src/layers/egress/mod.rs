//! Where calls, the forward proxy and rendered text may lead: one parser, one matcher.
//!
//! [`Url::read`] refuses every form on which readers disagree, and [`Rule::judge`] is a pure function on what it reads. Arguments
//! ([`arguments`]), tunnels ([`connect`], [`opening()`]), plain requests ([`http_forward`]), a resolver's answers ([`resolve()`]),
//! redirects ([`Redirects`]) and rendered text ([`Rendered`]) are all judged by these two. Each refusal has a fine [`Code`].
//!
//! As a layer: read are the strings at the places that a rule names, the keys there, and strings inside JSON that stands in a
//! string. Under the policy's default a name of an MCP server's own resource is no URL. What cannot be read unambiguously, is
//! private or has another scheme is denied, also where a rule would otherwise hold, whatever else vouches for it.

mod args;
mod budget;
mod build;
mod code;
mod deny;
mod entry;
mod field;
mod find;
mod head;
mod labels;
mod opening;
mod path;
mod place;
mod redirect;
mod rendered;
mod resolve;
mod resource;
mod rules;
mod run;
pub mod secrets;
mod target;

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

pub use args::{Fields, Objection, Reading, arguments};
pub use budget::{Amount, Spending};
pub use build::{ForwardMatcher, forward_matcher, of_lists};
pub use code::{Code, Denied};
pub use deny::{
    embedded, is_loopback_name, is_metadata, is_metadata_name, is_private, is_public_name,
};
pub use entry::{Entry, Pattern};
pub use find::find;
use futures_util::future::BoxFuture;
pub use head::{Head, Tunnel, connect, http_forward, intercepted};
pub use opening::{MAX_HELLO, Opening, opening};
pub use path::Prefix;
pub use place::Location;
pub use redirect::{MAX_HOPS, Redirects, redirect};
pub use rendered::{HOSTLESS, Rendered, Shown, Use};
pub use resolve::{alias, read_answer, resolve};
pub use rules::{Rule, url};
pub use run::Found;
use secrets::Secrets;
pub use secrets::{Class, Register, Registered, Scanner, Unregistered};
pub use target::{Host, SCHEMES, Target, Url, read, read_authority, read_domain};

use self::budget::Budgets;
use self::build::Ready;
use super::support::{ByRule, Objections, finding};
use super::vouch::{Unlisted, ValueKind};
use super::{Context, Layer, LayerDef};
use crate::item::{EgressTarget, Item, Leg, Located, ModelText, RouteKind, ToolCall};
use crate::ledger::Entry as Charge;
use crate::names::{RuleId, ToolName};
use crate::policy::{EgressRule, Otherwise, Policy, Selector};
use crate::source::Problems;
use crate::store::Stores;
use crate::verdict::{Finding, LayerId, Rewrite, RewriteKind, Undecided, Verdict};

/// The entry of the registry.
pub const EGRESS: LayerDef = LayerDef {
    id: LayerId::Egress,
    doc: "URLs in arguments, the forward proxy and rendered links lead only to listed hosts",
    build: |policy, stores| Ok(Arc::new(Egress::new(policy, stores)?)),
};

/// Most unlisted URLs of one call that look-ups and provenance are asked about; a call with more is denied.
const MOST_UNLISTED: usize = 1024;

struct Egress {
    default: Option<Ready>,
    rules: ByRule<Ready>,
    forward: Option<ForwardMatcher>,
    rendered: Option<(RuleId, Rendered)>,
    secrets: Secrets,
    budgets: Budgets,
}

impl Egress {
    fn new(policy: &Policy, stores: &Stores) -> Result<Self, Problems> {
        let mut problems = Vec::new();
        let mut ready = |rule| Ready::new(rule, policy, stores, &mut problems);
        let default = policy.egress.as_ref().map(&mut ready);
        let with_rules = policy.tools.iter().filter(|tool| !tool.egress.is_empty());
        let rules = with_rules
            .map(|tool| {
                let rules = tool.egress.iter().map(&mut ready).collect();
                (tool.id.clone(), rules)
            })
            .collect();
        let forward = build::forward(policy, &mut problems);
        let rendered = build::rendered(policy, &mut problems);
        let secrets = Secrets::new(policy, stores, &mut problems);
        if problems.is_empty() {
            Ok(Self {
                default,
                rules,
                forward,
                rendered,
                secrets,
                budgets: Budgets::new(stores),
            })
        } else {
            Err(Problems(problems))
        }
    }

    /// The tool's own rules, else the policy's default.
    fn rules(&self, context: &Context<'_>) -> &[Ready] {
        self.own(context).unwrap_or(self.default.as_slice())
    }

    fn own(&self, context: &Context<'_>) -> Option<&[Ready]> {
        let own = context.rule.and_then(|rule| self.rules.get(&rule.id));
        own.map(Vec::as_slice)
    }

    /// Whether names of an MCP server's own resources are no URLs.
    fn names(&self, context: &Context<'_>) -> bool {
        self.own(context).is_none() && context.exchange.kind == RouteKind::Mcp
    }

    async fn call(&self, call: &ToolCall, context: &Context<'_>) -> Result<Verdict, Undecided> {
        let names = self.names(context);
        let mut objections = Objections::default();
        for ready in self.rules(context) {
            let unlisted = ready.read(call, names, &mut objections);
            if objections.is_denied() {
                break;
            }
            let unvouched = ready.ask(unlisted, &call.tool, context, &mut objections);
            unvouched.await?;
            let about = (names, context);
            self.budgets
                .ask(ready, call, about, &mut objections)
                .await?;
        }
        if !objections.is_denied() {
            self.secrets.call(call, context, &mut objections);
        }
        Ok(objections.verdict())
    }

    /// A destination of the forward proxy, or where a redirect leads.
    fn target(&self, target: &EgressTarget, context: &Context<'_>) -> Verdict {
        if target.body.is_some() {
            return self
                .secrets
                .target(target, context.exchange)
                .map_or(Verdict::Allow, Verdict::Deny);
        }
        let (id, judged) = match (context.exchange.kind, &self.forward, &self.default) {
            (RouteKind::Forward, Some(forward), _) => {
                let sent = context.exchange.leg == Leg::ToUpstream;
                (&forward.id, build::target(&forward.rule, target, sent))
            }
            (RouteKind::Forward, None, _) | (_, _, None) => return Verdict::Allow,
            (_, _, Some(default)) => (&default.id, build::target(&default.matcher, target, false)),
        };
        let secret = || self.secrets.target(target, context.exchange);
        match judged {
            Ok(()) => secret().map_or(Verdict::Allow, Verdict::Deny),
            Err(denied) => Verdict::Deny(objection(id, None, denied)),
        }
    }

    /// What a client would fetch or follow and must not is replaced.
    fn shown(&self, text: &ModelText) -> Verdict {
        let Some((id, rendered)) = &self.rendered else {
            return Verdict::Allow;
        };
        let Some((denied, edits)) = rendered.neutralised(text) else {
            return Verdict::Allow;
        };
        Verdict::Rewrite(Rewrite {
            kind: RewriteKind::Redact,
            finding: objection(id, None, denied),
            edits: edits
                .into_iter()
                .map(|(range, text)| (range, text.into()))
                .collect(),
        })
    }

    fn is_for(&self, item: &Item, context: &Context<'_>) -> bool {
        match item {
            Item::ToolCall(call) => {
                !self.rules(context).is_empty() || self.secrets.reaches(call, context)
            }
            Item::Egress(target) if target.body.is_some() => self.secrets.are_looked_for(),
            Item::Egress(_) if context.exchange.kind == RouteKind::Forward => {
                self.forward.is_some()
            }
            Item::Egress(_) => self.default.is_some(),
            Item::ModelText(_) => self.rendered.is_some(),
            _ => false,
        }
    }
}

impl Ready {
    /// Reads a call's URLs. What is denied for good is objected to at once; what is merely unlisted is given back.
    fn read(
        &self,
        call: &ToolCall,
        names: bool,
        objections: &mut Objections,
    ) -> Vec<(Unlisted, Denied)> {
        let mut unlisted = Vec::new();
        let mut known = HashSet::new();
        self.each_url(call, names, &mut |at, found| {
            if objections.is_denied() {
                return;
            }
            let Err(denied) = args::judged(&self.matcher, &found) else {
                return;
            };
            let asked = found.url.ok().filter(|_| denied.code.is_unlisted());
            let Some(url) = asked.and_then(|url| self.askable(&url, found.bare)) else {
                let denied = self.objection(at, denied);
                return objections.add(Otherwise::Deny, denied);
            };
            let key = url.to_string();
            if known.insert(key.clone()) {
                let value = Unlisted {
                    at: at.to_owned(),
                    kind: ValueKind::Url,
                    key,
                };
                unlisted.push((value, denied));
            }
            if unlisted.len() > MOST_UNLISTED {
                objections.add(Otherwise::Deny, self.objection(at, denied));
            }
        });
        unlisted
    }

    /// Every URL that the rule reads in a call.
    fn each_url(&self, call: &ToolCall, names: bool, tell: &mut dyn FnMut(&str, Found)) {
        each_url((&self.at, self.reading), call, names, tell);
    }

    /// The form in which something else may vouch for an unlisted URL: only public names, by a secure or a listed scheme.
    fn askable(&self, url: &Url, bare: bool) -> Option<Url> {
        let url = if bare {
            let mut schemes = SCHEMES.into_iter();
            url.with_scheme(schemes.find(|scheme| self.matcher.has_scheme(scheme))?)
        } else {
            url.clone()
        };
        let public = match &url.target.host {
            Host::Domain(name) => is_public_name(name),
            Host::Ip(_) => false,
        };
        let whole = !url.is_cut();
        (public && whole && self.matcher.has_scheme(url.target.scheme)).then_some(url)
    }

    /// What nothing vouches for is objected to as the rule says.
    async fn ask(
        &self,
        unlisted: Vec<(Unlisted, Denied)>,
        tool: &ToolName,
        context: &Context<'_>,
        objections: &mut Objections,
    ) -> Result<(), Undecided> {
        let (values, why): (Vec<_>, Vec<_>) = unlisted.into_iter().unzip();
        let by_key: std::collections::HashMap<String, Denied> = values
            .iter()
            .map(|value: &Unlisted| value.key.clone())
            .zip(why)
            .collect();
        let read = |text: &str| {
            Url::read(text)
                .map(|url| url.to_string())
                .into_iter()
                .collect()
        };
        for unvouched in self.vouchers.judge((tool, context), values, read).await? {
            let mut finding = match by_key.get(&unvouched.value.key) {
                Some(denied) => self.objection(&unvouched.value.at, *denied),
                None => continue,
            };
            if self.asks {
                let detail = format!("{}; {}", finding.detail, unvouched.detail);
                finding.detail = Cow::Owned(detail);
            }
            objections.add(unvouched.otherwise, finding);
        }
        Ok(())
    }

    fn objection(&self, at: &str, denied: Denied) -> Finding {
        objection(&self.id, Some(at.to_owned()), denied)
    }
}

/// Every URL of a call at these places. `names`: those of an MCP server's own resources are none.
fn each_url(
    (places, reading): (&[Selector], Reading),
    call: &ToolCall,
    names: bool,
    mut tell: &mut dyn FnMut(&str, Found),
) {
    for selector in places {
        selector.each_below(&call.args.value, |at, value| {
            let name = names && resource::is_at(call.tool.as_str(), &at.pointer);
            let inside = value.as_str().filter(|_| name).and_then(resource::inside);
            match inside {
                Some(inside) => reading.text(&at.pointer, "", inside, &mut tell),
                None => reading.value(at, value, &mut tell),
            }
        });
    }
}

/// Every URL that the rule reads in a call, listed or not. `own`: the rule is the tool's own.
pub(super) fn hosts(
    rule: &EgressRule,
    call: &ToolCall,
    context: &Context<'_>,
    own: bool,
) -> Vec<Unlisted> {
    let names = !own && context.exchange.kind == RouteKind::Mcp;
    let mut found = Vec::new();
    each_url((&rule.at, rule.reading), call, names, &mut |at, one| {
        if let Ok(url) = one.url {
            found.push(Unlisted {
                at: at.to_owned(),
                kind: ValueKind::Url,
                key: url.to_string(),
            });
        }
    });
    found
}

/// Where in arguments texts stand that are URLs, by their key or themselves, and that no rule judges.
pub(crate) fn undeclared(judged: &[&Selector], args: &serde_json::Value) -> Vec<String> {
    let mut covered = HashSet::new();
    for selector in judged {
        selector.each_below(args, |at, _| {
            covered.insert(at.pointer.clone());
        });
    }
    let mut found = Vec::new();
    Selector::everything().each_below(args, |at, value| {
        let Some(text) = value.as_str().filter(|_| !covered.contains(&at.pointer)) else {
            return;
        };
        if field::names_a_url(at.key) || Url::read(text).is_ok() {
            found.push(at.pointer.clone());
        }
    });
    found
}

/// The fine code stands before the words.
fn objection(rule: &RuleId, at: Option<String>, denied: Denied) -> Finding {
    finding(
        LayerId::Egress,
        rule,
        denied.code.reason(),
        at,
        denied.to_string(),
    )
}

impl Layer for Egress {
    fn id(&self) -> LayerId {
        LayerId::Egress
    }

    fn reaches(&self, item: &Located, context: &Context<'_>) -> bool {
        self.is_for(&item.item, context)
    }

    fn judge<'a>(
        &'a self,
        item: &'a Located,
        context: &'a Context<'a>,
    ) -> BoxFuture<'a, Result<Verdict, Undecided>> {
        Box::pin(async move {
            Ok(match &item.item {
                Item::ToolCall(call) => self.call(call, context).await?,
                Item::Egress(target) => self.target(target, context),
                Item::ModelText(text) => self.shown(text),
                _ => Verdict::Allow,
            })
        })
    }

    fn charges(
        &self,
        item: &Located,
        context: &Context<'_>,
    ) -> Result<Vec<(Charge, Otherwise)>, Undecided> {
        let Item::ToolCall(call) = &item.item else {
            return Ok(Vec::new());
        };
        let names = self.names(context);
        let mut all = Vec::new();
        for ready in self.rules(context) {
            all.extend(budget::charges(ready, call, names, context)?);
        }
        Ok(all)
    }
}
