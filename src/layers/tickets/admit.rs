//! Tickets that an orchestrator has signed: checked, and taken into the store where they count.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::settle::in_time;
use crate::layers::catalog::number;
use crate::policy::TicketRule;
use crate::store::tickets::digest::as_stored;
use crate::store::tickets::issued::{Issuer, NotTaken, Permits, SignedMandate, verify};
use crate::store::tickets::{Grants, Issued, Person, Presented, TicketStore};
use crate::verdict::{Reason, Undecided};

/// What became of a signed ticket.
pub(super) enum Admitted {
    /// It is in the store, now or since it was shown first: the call is looked up there.
    Known,
    /// It does not count for this call.
    Refused(Reason, &'static str),
}

/// As whom the approval of a signed ticket is recorded.
pub(super) fn person(issuer: &str, kid: &str) -> Person {
    Person::new(format!("issuer:{issuer}"), kid)
}

pub(super) async fn admit(
    store: &dyn TicketStore,
    (rule, issuers, now): (&TicketRule, &[&Issuer], Timestamp),
    token: &str,
    call: &Presented,
) -> Result<Admitted, Undecided> {
    let verified = match verify(token, issuers.iter().copied(), now) {
        Ok(verified) => verified,
        Err(NotTaken::Time) => {
            let why = "the signed ticket is expired or not valid yet";
            return Ok(Admitted::Refused(Reason::ApprovalExpired, why));
        }
        Err(NotTaken::Malformed) => return Ok(mismatch("the signed ticket is malformed")),
        Err(NotTaken::Signature) => return Ok(mismatch("the signature of the ticket is wrong")),
        Err(NotTaken::UnknownKey) => {
            return Ok(mismatch(
                "no issuer that the rule names has the ticket's key",
            ));
        }
    };
    let grants = match &verified.permits {
        Permits::Call(digest) if *digest == call.call.digest => Grants::Call,
        Permits::Call(_) => return Ok(mismatch("the signed ticket is for another call")),
        Permits::Mandate(mandate) => match grants(mandate, rule, call) {
            Ok(grants) => grants,
            Err(why) => return Ok(mismatch(why)),
        },
    };
    let issued = Issued {
        id: verified.id.to_string(),
        key: format!("{}/{}", verified.issuer, verified.kid),
        by: person(&verified.issuer, &verified.kid),
        expires_at: verified.expires_at,
        grants,
    };
    in_time(store.admit(call.clone(), issued)).await?;
    Ok(Admitted::Known)
}

const fn mismatch(why: &'static str) -> Admitted {
    Admitted::Refused(Reason::TicketMismatch, why)
}

fn grants(
    mandate: &SignedMandate,
    rule: &TicketRule,
    call: &Presented,
) -> Result<Grants, &'static str> {
    let Some(offer) = &rule.mandate else {
        return Err("the signed ticket is a mandate, and the rule offers none");
    };
    let same = mandate.is_for(&call.principal)
        && mandate.upstream == call.upstream
        && mandate.tool == call.tool;
    if !same {
        return Err("the signed mandate is for another user, agent, upstream or tool");
    }
    let at_most = match &mandate.at_most {
        Some(text) => Some(number(text).map_err(|_| "the signed mandate has no exact amount")?),
        None => None,
    };
    if offer.amount.is_some() != at_most.is_some()
        || offer.currency.is_some() != mandate.currency.is_some()
    {
        return Err("the signed mandate does not limit what the rule limits");
    }
    if !mandate
        .same
        .keys()
        .eq(offer.same.iter().collect::<BTreeSet<_>>())
    {
        return Err("the signed mandate does not pin the arguments that the rule pins");
    }
    let same = mandate.same.iter();
    let same: Option<BTreeMap<_, _>> = same
        .map(|(at, value)| Some((at.clone(), as_stored(value)?)))
        .collect();
    Ok(Grants::Mandate {
        uses: mandate.uses,
        at_most,
        currency: mandate.currency.clone(),
        same: same.ok_or("the signed mandate pins what cannot be written exactly")?,
        session: false,
    })
}
