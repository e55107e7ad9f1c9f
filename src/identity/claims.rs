//! From a token's claims to whom it speaks for.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::Fault;
use crate::principal::Principal;
use crate::settings::JwtPrincipals;
use crate::wire::json::{Document, Kind, Node};

/// Longest text that becomes a part of a principal, in bytes.
const LONGEST: usize = 256;
/// Most scopes of one token.
const MOST_SCOPES: usize = 256;

/// Who a verified credential speaks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// On whose behalf.
    pub principal: Arc<Principal>,
    /// From then on the credential is no longer good; `None`: it does not say.
    pub until: Option<Timestamp>,
    /// The session that it is for, as it names it.
    pub session: Option<Arc<str>>,
}

impl Caller {
    /// A caller whose credential says nothing of its own use.
    pub const fn known(principal: Arc<Principal>) -> Self {
        Self {
            principal,
            until: None,
            session: None,
        }
    }
}

/// The caller that verified claims name.
pub(super) fn caller(
    claims: &Document,
    rules: &JwtPrincipals,
    until: Timestamp,
) -> Result<Caller, Fault> {
    let root = claims.root();
    let names = &rules.claims;
    let subject = text(at(root, &names.subject)).ok_or(Fault::Invalid("it has no subject"))?;
    let tenant = match &names.tenant {
        None => Arc::clone(&rules.tenant),
        Some(name) => text(at(root, name)).ok_or(Fault::Invalid("it has no tenant"))?,
    };
    let actors = actors(root, rules)?;
    let agent = match actors.first() {
        Some(actor) => Arc::clone(actor),
        None => match &names.agent {
            None => Arc::clone(&rules.agent),
            Some(name) => text(at(root, name)).ok_or(Fault::Invalid("it has no agent"))?,
        },
    };
    let session = match names.session.as_ref().and_then(|name| at(root, name)) {
        None => None,
        Some(node) => {
            let session = text(Some(node)).filter(|it| it.bytes().all(|b| b.is_ascii_graphic()));
            Some(session.ok_or(Fault::Invalid("its session is no plain text"))?)
        }
    };
    Ok(Caller {
        principal: Arc::new(Principal {
            tenant,
            issuer: Arc::clone(&rules.issuer),
            subject,
            agent,
            actors,
            scopes: scopes(at(root, &names.scopes))?,
        }),
        until: Some(until),
        session,
    })
}

/// Who acts for the subject (RFC 8693 section 4.1): the outermost `act` acts now, those within it acted before. All of them must
/// be allowed, and not too many.
fn actors(root: &Node, rules: &JwtPrincipals) -> Result<Vec<Arc<str>>, Fault> {
    let mut actors: Vec<Arc<str>> = Vec::new();
    let mut within = root.get("act");
    while let Some(act) = within {
        let actor = text(act.get("sub")).ok_or(Fault::Invalid("an actor in it has no subject"))?;
        // Who acts under another issuer's name is somebody else.
        if let Some(issuer) = act.get("iss")
            && issuer.as_str() != Some(&rules.issuer)
        {
            return Err(Fault::Delegation("an actor is of another issuer"));
        }
        actors.push(actor);
        within = act.get("act");
    }
    if actors.len() > rules.actor_depth {
        return Err(Fault::Delegation("more actors in a row than `actor_depth`"));
    }
    if let Some(allowed) = &rules.actors
        && actors.iter().any(|actor| !allowed.contains(actor))
    {
        return Err(Fault::Delegation("an actor is not one of `actors`"));
    }
    // RFC 8693 section 4.4: the subject has said who may act for it.
    if let (Some(may_act), Some(actor)) = (root.get("may_act"), actors.first())
        && may_act.get("sub").and_then(Node::as_str) != Some(actor)
    {
        return Err(Fault::Delegation("its `may_act` names another actor"));
    }
    Ok(actors)
}

/// Words in one text (RFC 8693 section 4.2), or a list of texts.
pub(crate) fn scopes(node: Option<&Node>) -> Result<BTreeSet<Arc<str>>, Fault> {
    let wrong = Fault::Invalid("its scopes are neither a text nor a list of texts");
    let Some(node) = node else {
        return Ok(BTreeSet::new());
    };
    let scopes: BTreeSet<Arc<str>> = match &node.kind {
        Kind::String(words) => words
            .split(' ')
            .filter(|it| !it.is_empty())
            .map(Arc::from)
            .collect(),
        Kind::Array(list) => {
            let texts = list.iter().map(|scope| text(Some(scope)));
            texts.collect::<Option<_>>().ok_or(wrong)?
        }
        _ => return Err(wrong),
    };
    if scopes.len() > MOST_SCOPES {
        return Err(Fault::Invalid("it has more than 256 scopes"));
    }
    Ok(scopes)
}

/// A claim by its name, or by a JSON Pointer to it.
pub(crate) fn at<'n>(root: &'n Node, name: &str) -> Option<&'n Node> {
    let Some(pointer) = name.strip_prefix('/') else {
        return root.get(name);
    };
    pointer.split('/').try_fold(root, |node, step| {
        node.get(&step.replace("~1", "/").replace("~0", "~"))
    })
}

/// A text that can name somebody: not empty, not too long, nothing that cannot be seen.
pub(crate) fn text(node: Option<&Node>) -> Option<Arc<str>> {
    let text = node?.as_str()?;
    let fine = !text.is_empty() && text.len() <= LONGEST && text.trim() == text;
    (fine && !text.contains(char::is_control)).then(|| Arc::from(text))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::settings::KeySource;

    fn rules(change: impl FnOnce(&mut JwtPrincipals)) -> JwtPrincipals {
        let keys = KeySource::Inline(Bytes::new());
        let mut rules = JwtPrincipals::new("https://id", "holdpoint", keys);
        change(&mut rules);
        rules
    }

    fn read(claims: &str, rules: &JwtPrincipals) -> Result<Caller, Fault> {
        let document = Document::read(Bytes::copy_from_slice(claims.as_bytes()), 16).unwrap();
        caller(&document, rules, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn claims_become_a_principal() {
        let rules = rules(|rules| {
            rules.claims.tenant = Some("/org/id".to_owned());
            rules.claims.session = Some("sid".to_owned());
        });
        let caller = read(
            r#"{"sub":"ann","org":{"id":"shop"},"sid":"s-1","act":{"sub":"desk"},"scope":"a:b  c"}"#,
            &rules,
        )
        .unwrap();
        let principal = &caller.principal;
        assert_eq!(&*principal.tenant, "shop");
        assert_eq!(&*principal.issuer, "https://id");
        assert_eq!(&*principal.subject, "ann");
        assert_eq!(&*principal.agent, "desk");
        let scopes: Vec<&str> = principal.scopes.iter().map(|scope| &**scope).collect();
        assert_eq!(scopes, ["a:b", "c"]);
        assert_eq!(caller.session.as_deref(), Some("s-1"));
        for claims in [
            r#"{"org":{"id":"shop"}}"#,
            r#"{"sub":"","org":{"id":"shop"}}"#,
            r#"{"sub":"ann "}"#,
            r#"{"sub":7,"org":{"id":"shop"}}"#,
            r#"{"sub":"ann"}"#,
            r#"{"sub":"ann","org":{"id":"shop"},"sid":"a b"}"#,
            r#"{"sub":"ann","org":{"id":"shop"},"scope":7}"#,
            r#"{"sub":"ann","org":{"id":"shop"},"scope":["a",7]}"#,
        ] {
            assert!(
                matches!(read(claims, &rules), Err(Fault::Invalid(_))),
                "{claims}"
            );
        }
    }

    #[test]
    fn scopes_come_as_words_or_as_a_list() {
        let rules = rules(|rules| rules.claims.scopes = "scp".to_owned());
        for (scp, count) in [
            (r#""a b""#, 2),
            (r#"["a","b","a"]"#, 2),
            (r#""""#, 0),
            ("[]", 0),
        ] {
            let caller = read(&format!(r#"{{"sub":"ann","scp":{scp}}}"#), &rules).unwrap();
            assert_eq!(caller.principal.scopes.len(), count, "{scp}");
        }
    }

    #[test]
    fn the_outermost_actor_acts_and_all_must_be_allowed() {
        let one = r#"{"sub":"ann","act":{"sub":"desk"}}"#;
        let two = r#"{"sub":"ann","act":{"sub":"desk","act":{"sub":"planner"}}}"#;
        let plain = rules(|_| {});
        assert_eq!(&*read(one, &plain).unwrap().principal.agent, "desk");
        assert!(matches!(read(two, &plain), Err(Fault::Delegation(_))));
        let deep = rules(|rules| rules.actor_depth = 2);
        assert_eq!(&*read(two, &deep).unwrap().principal.agent, "desk");
        let listed = rules(|rules| {
            rules.actor_depth = 2;
            rules.actors = Some([Arc::from("desk")].into());
        });
        assert!(read(one, &listed).is_ok());
        assert!(matches!(read(two, &listed), Err(Fault::Delegation(_))));
        for claims in [
            r#"{"sub":"ann","act":{"sub":"desk"},"may_act":{"sub":"other"}}"#,
            r#"{"sub":"ann","act":{"sub":"desk","iss":"https://else"}}"#,
        ] {
            assert!(
                matches!(read(claims, &plain), Err(Fault::Delegation(_))),
                "{claims}"
            );
        }
        for claims in [r#"{"sub":"ann","act":{}}"#, r#"{"sub":"ann","act":"desk"}"#] {
            assert!(
                matches!(read(claims, &plain), Err(Fault::Invalid(_))),
                "{claims}"
            );
        }
    }

    #[test]
    fn without_an_actor_the_agent_is_a_claim_or_the_setting() {
        let plain = rules(|_| {});
        assert_eq!(
            &*read(r#"{"sub":"ann"}"#, &plain).unwrap().principal.agent,
            "default"
        );
        let named = rules(|rules| rules.claims.agent = Some("azp".to_owned()));
        let caller = read(r#"{"sub":"ann","azp":"desk"}"#, &named).unwrap();
        assert_eq!(&*caller.principal.agent, "desk");
        assert!(read(r#"{"sub":"ann"}"#, &named).is_err());
    }
}
