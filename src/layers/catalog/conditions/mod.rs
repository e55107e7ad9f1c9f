//! Typed conditions on calls: arguments, the principal, the time, and what calls come to together.
//!
//! A condition that cannot be judged does not hold. Limits are only asked here; the guard charges a call when it executes.

mod value;

use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::Weekday;
use rust_decimal::Decimal;
pub(crate) use value::{amount, number, passes};

use super::super::Context;
use super::super::support::{ByRule, Objections, applying, finding};
use super::super::vouch::{Unlisted, ValueKind, Vouchers};
use crate::clock::Clock;
use crate::item::ToolCall;
use crate::ledger::{Account, Entry, Ledger, Owner, Uncharged};
use crate::policy::{
    Claim, Condition, Hours, Limit, Otherwise, Per, Policy, PrincipalPart, Selector, Test, ToolRule,
};
use crate::principal::{Principal, Session, Who};
use crate::source::Problem;
use crate::store::Stores;
use crate::verdict::{LayerId, Reason, Undecided};
use crate::wire::json::{BODY_DEPTH, Document};

/// Conditions by the rule that has them, ready to run.
pub(in crate::layers) struct Conditions {
    layer: LayerId,
    rules: ByRule<Ready>,
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
}

struct Ready {
    condition: Condition,
    /// For arguments for which something must vouch.
    vouchers: Option<Vouchers>,
}

impl Conditions {
    /// `of` gives the conditions of a tool's rule that `layer` judges.
    pub(in crate::layers) fn new(
        layer: LayerId,
        of: fn(&ToolRule) -> &[Condition],
        (policy, stores): (&Policy, &Stores),
        problems: &mut Vec<Problem>,
    ) -> Self {
        let mut rules = ByRule::new();
        for tool in policy.tools.iter().filter(|tool| !of(tool).is_empty()) {
            let ready = of(tool).iter().map(|condition| {
                let vouchers = match &condition.claim {
                    Claim::Argument { allow, .. } if !allow.is_empty() => {
                        let by = (allow.as_slice(), condition.otherwise.into());
                        let known = (policy, stores);
                        Some(Vouchers::new(layer, &condition.id, by, known, problems))
                    }
                    _ => None,
                };
                Ready {
                    condition: condition.clone(),
                    vouchers,
                }
            });
            rules.insert(tool.id.clone(), ready.collect());
        }
        Self {
            layer,
            rules,
            ledger: Arc::clone(&stores.ledger),
            clock: Arc::clone(&stores.clock),
        }
    }

    /// Whether the call's tool has any.
    pub(in crate::layers) fn reach(&self, context: &Context<'_>) -> bool {
        !applying(&self.rules, context).is_empty()
    }

    /// Adds an objection for each that does not hold.
    pub(in crate::layers) async fn judge(
        &self,
        call: &ToolCall,
        context: &Context<'_>,
        objections: &mut Objections,
    ) -> Result<(), Undecided> {
        let rules = applying(&self.rules, context);
        if rules.is_empty() {
            return Ok(());
        }
        let document = read(call)?;
        let session = &context.exchange.session;
        for ready in rules {
            let condition = &ready.condition;
            let reason = match condition.claim {
                Claim::Untainted => Reason::SessionTainted,
                _ => Reason::ConditionFailed,
            };
            let object = |objections: &mut Objections, fails: Fails| {
                let finding = finding(self.layer, &condition.id, reason, fails.at, fails.why);
                objections.add(condition.otherwise, finding);
            };
            let fails = match &condition.claim {
                Claim::Argument {
                    at,
                    tests,
                    optional,
                    ..
                } => argument(&document, at, tests, *optional),
                Claim::Principal { part, tests } => principal(&session.principal, *part, tests),
                Claim::Between(hours) => {
                    let outside = !within(hours, self.clock.now());
                    outside.then(|| Fails::whole("outside the hours of `between`"))
                }
                Claim::Limit(limit) => self.limit(condition, limit, &document, session).await?,
                Claim::Untainted => match context.tainted {
                    Some(false) => None,
                    Some(true) => Some(Fails::whole(
                        "a text that looks like an instruction has come into the session",
                    )),
                    None => Some(Fails::whole(
                        "the call belongs to no session of which that could be known",
                    )),
                },
            };
            if let Some(fails) = fails {
                object(objections, fails);
                continue;
            }
            if let (Some(vouchers), Claim::Argument { at, .. }) =
                (&ready.vouchers, &condition.claim)
            {
                let mut values = Vec::new();
                for (at, node) in at.iter().flat_map(|s| s.select(document.root())) {
                    let raw = document.raw(node);
                    let text = match node.as_str() {
                        Some(text) => text.to_owned(),
                        None => String::from_utf8_lossy(&raw).into_owned(),
                    };
                    values.push(Unlisted {
                        at,
                        kind: ValueKind::Text,
                        key: text,
                    });
                }
                let plain = |text: &str| vec![text.to_owned()];
                for unvouched in vouchers.judge((&call.tool, context), values, plain).await? {
                    let at = Some(unvouched.value.at);
                    let why = unvouched.detail;
                    let finding =
                        finding(self.layer, &condition.id, Reason::ConditionFailed, at, why);
                    objections.add(unvouched.otherwise, finding);
                }
            }
        }
        Ok(())
    }

    async fn limit(
        &self,
        condition: &Condition,
        limit: &Limit,
        document: &Document,
        session: &Session,
    ) -> Result<Option<Fails>, Undecided> {
        let entry = match entry(condition, limit, document, session) {
            Ok(entry) => entry,
            Err(fails) => return Ok(Some(fails)),
        };
        match self.ledger.check(vec![entry], self.clock.now()).await {
            Ok(()) => Ok(None),
            Err(Uncharged::Exceeded(_)) => {
                let at = limit.sum.as_ref().map(ToString::to_string);
                let why = "the calls would come to more than `at_most`";
                Ok(Some(Fails { at, why }))
            }
            Err(error) => Err(undecided(&error)),
        }
    }

    /// What the call is charged with where it executes, and what becomes of it where it does not fit.
    pub(super) fn charges(
        &self,
        call: &ToolCall,
        context: &Context<'_>,
    ) -> Result<Vec<(Entry, Otherwise)>, Undecided> {
        let limits = applying(&self.rules, context).iter().filter_map(|ready| {
            let condition = &ready.condition;
            match &condition.claim {
                Claim::Limit(limit) => Some((condition, limit)),
                _ => None,
            }
        });
        let mut limits = limits.peekable();
        if limits.peek().is_none() {
            return Ok(Vec::new());
        }
        let document = read(call)?;
        let session = &context.exchange.session;
        let mut charges = Vec::new();
        for (condition, limit) in limits {
            match entry(condition, limit, &document, session) {
                Ok(entry) => charges.push((entry, condition.otherwise)),
                // A person has allowed a call that cannot be counted.
                Err(_) if condition.otherwise == Otherwise::Hold => {}
                Err(fails) => {
                    return Err(Undecided {
                        layer: LayerId::Catalog,
                        cause: format!("{}: {}", condition.id, fails.why),
                    });
                }
            }
        }
        Ok(charges)
    }
}

fn read(call: &ToolCall) -> Result<Document, Undecided> {
    Document::read(call.args.raw.clone(), BODY_DEPTH).map_err(|error| Undecided {
        layer: LayerId::Catalog,
        cause: format!("arguments that are not strict JSON: {error}"),
    })
}

fn undecided(error: &Uncharged) -> Undecided {
    Undecided {
        layer: LayerId::Catalog,
        cause: format!("the ledger of limits: {error}"),
    }
}

/// Why a condition does not hold: fixed words.
struct Fails {
    at: Option<String>,
    why: &'static str,
}

impl Fails {
    const fn whole(why: &'static str) -> Self {
        Self { at: None, why }
    }
}

const MISSING: &str = "the argument is missing";

fn argument(document: &Document, at: &[Selector], tests: &[Test], optional: bool) -> Option<Fails> {
    let mut any = false;
    for selector in at {
        for (at, node) in selector.select(document.root()) {
            any = true;
            if let Some(why) = value::fails(node, &document.raw(node), tests) {
                return Some(Fails { at: Some(at), why });
            }
        }
        // An element without the named argument is one that nobody has tested.
        if let Some((at, _)) = selector.strays(document.root()).into_iter().next()
            && !optional
        {
            return Some(Fails {
                at: Some(at),
                why: MISSING,
            });
        }
    }
    if any || optional {
        return None;
    }
    Some(Fails {
        at: at.first().map(ToString::to_string),
        why: MISSING,
    })
}

fn principal(principal: &Principal, part: PrincipalPart, tests: &[Test]) -> Option<Fails> {
    let passes = |text: &str| {
        tests
            .iter()
            .all(|test| value::text_fails(text, test).is_none())
    };
    let holds = match part {
        PrincipalPart::Tenant => passes(&principal.tenant),
        PrincipalPart::Issuer => passes(&principal.issuer),
        PrincipalPart::Subject => passes(&principal.subject),
        PrincipalPart::Agent => passes(&principal.agent),
        PrincipalPart::Scopes => principal.scopes.iter().any(|scope| passes(scope)),
    };
    (!holds).then(|| Fails::whole("the principal is not one of those that may"))
}

fn within(hours: &Hours, now: Timestamp) -> bool {
    let local = hours.zone.to_datetime(now);
    let minute =
        u16::from(local.hour().unsigned_abs()) * 60 + u16::from(local.minute().unsigned_abs());
    let today = local.weekday();
    let on = |day: Weekday| hours.days.contains(&day);
    if hours.from < hours.until {
        return (hours.from..hours.until).contains(&minute) && on(today);
    }
    // Past midnight they belong to the day on which they began.
    (minute >= hours.from && on(today)) || (minute < hours.until && on(today.previous()))
}

fn entry(
    condition: &Condition,
    limit: &Limit,
    document: &Document,
    session: &Session,
) -> Result<Entry, Fails> {
    let key = match (limit.per, &session.key) {
        (Per::Session, Some(key)) => Some(key.clone()),
        (Per::Session, None) => {
            return Err(Fails::whole(
                "the call belongs to no session that could be counted",
            ));
        }
        (Per::Principal, _) => None,
    };
    let owner = Owner {
        who: Who::of(&session.principal),
        session: key,
    };
    let amount = match &limit.sum {
        None => Decimal::ONE,
        Some(selector) => sum(selector, document, limit.optional)?,
    };
    Ok(Entry {
        account: Account {
            rule: condition.id.clone(),
            of: None,
            owner,
        },
        amount,
        window: limit.window,
        at_most: Some(limit.at_most),
    })
}

fn sum(selector: &Selector, document: &Document, optional: bool) -> Result<Decimal, Fails> {
    let fails = |at: String, why| Fails { at: Some(at), why };
    let selected = selector.select(document.root());
    if selected.is_empty() && !optional {
        return Err(fails(selector.to_string(), MISSING));
    }
    let mut sum = Decimal::ZERO;
    for (at, node) in selected {
        let amount = value::amount(node, &document.raw(node));
        let amount = amount.map_err(|why| fails(at.clone(), why))?;
        if amount.is_sign_negative() && !amount.is_zero() {
            return Err(fails(
                at,
                "a negative amount, which would make room for others",
            ));
        }
        let total = sum.checked_add(amount);
        sum = total.ok_or_else(|| fails(at, "more than can be added up"))?;
    }
    Ok(sum)
}
