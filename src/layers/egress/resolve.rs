//! Answers of a resolver: which of them may be dialled.

use std::net::IpAddr;

use super::code::{Code, Denied};
use super::deny;
use super::entry::Entry;
use super::rules::Rule;
use super::target::{Host, read_authority};

const NOBODY: Denied = Denied::new(Code::HostNotAllowed, "the name has no address");
const PRIVATE: Denied = Denied::new(
    Code::PrivateAddress,
    "the name leads to a private, local, reserved or metadata address",
);
const OWN: Denied = Denied::new(
    Code::PrivateAddress,
    "the name leads to the guard's own address",
);
const SPELLING: Denied = Denied::new(Code::AmbiguousIp, "not a plain spelling of an address");
const ALIAS: Denied = Denied::new(Code::PrivateAddress, "the name is an alias of a local one");

/// The addresses that may be dialled for a host that the rule allows, in the order of the answers. All answers must be
/// acceptable: one that is not says that the name is not what it seems. Dial one of these and ask no resolver again.
///
/// # Errors
/// A host or a port that the rule does not allow, no answer, or an answer that is private, the guard's own, or of a form that
/// carries an IPv4 address. A private address passes where the rule lists it, or a range of private ones, itself.
pub fn resolve(
    rule: &Rule,
    host: &Host,
    port: u16,
    answers: &[IpAddr],
) -> Result<Vec<IpAddr>, Denied> {
    rule.may_look_up(host, port)?;
    if let Host::Ip(address) = host {
        // An address is its own answer.
        return answers
            .iter()
            .all(|answer| answer == address)
            .then(|| vec![*address])
            .ok_or(PRIVATE);
    }
    if answers.is_empty() {
        return Err(NOBODY);
    }
    for answer in answers {
        if rule.is_own(*answer, port) {
            return Err(OWN);
        }
        let listed = || {
            rule.nets()
                .any(|entry: &Entry| entry.is_for(&Host::Ip(*answer), true))
        };
        if rule.deny_private && deny::is_private(*answer) && !listed() {
            return Err(PRIVATE);
        }
    }
    let mut dial: Vec<IpAddr> = Vec::with_capacity(answers.len());
    for answer in answers {
        if !dial.contains(answer) {
            dial.push(*answer);
        }
    }
    Ok(dial)
}

/// Reads an address as a resolver's answer.
///
/// # Errors
/// [`Code::AmbiguousIp`] for whatever is not plainly an address.
pub fn read_answer(text: &str) -> Result<IpAddr, Denied> {
    text.parse().map_err(|_| SPELLING)
}

/// Judges a name that a resolver gives as an alias (CNAME): whoever runs the first name chose it, so it need not be listed, but
/// it must not be a local one.
///
/// # Errors
/// [`Code::PrivateAddress`], or what makes the name unreadable.
pub fn alias(rule: &Rule, name: &str) -> Result<(), Denied> {
    let target = read_authority("", name)?;
    let local = match &target.host {
        Host::Domain(name) => deny::is_loopback_name(name) || deny::is_metadata_name(name),
        Host::Ip(address) => deny::is_private(*address),
    };
    if rule.deny_private && local {
        return Err(ALIAS);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(rule: &Rule, answers: &[&str]) -> Result<Vec<String>, Code> {
        let host = Host::Domain("api.example".to_owned());
        let answers: Vec<IpAddr> = answers.iter().map(|text| text.parse().unwrap()).collect();
        resolve(rule, &host, 443, &answers)
            .map(|dial| dial.iter().map(ToString::to_string).collect())
            .map_err(|denied| denied.code)
    }

    fn rule(entries: &[&str]) -> Rule {
        let mut rule = Rule::new();
        for entry in entries {
            rule.allow(Entry::read(entry).unwrap());
        }
        rule
    }

    #[test]
    fn every_answer_must_be_public() {
        let rule = rule(&["api.example"]);
        let (v4, v6) = ("93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946");
        assert_eq!(judged(&rule, &[v4, v6, v4]).unwrap(), [v4, v6]);
        assert_eq!(judged(&rule, &[]), Err(Code::HostNotAllowed));
        for bad in [
            "10.0.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "0.0.0.0",
            "::1",
            "fd00:ec2::254",
            "::ffff:10.0.0.1",
            "64:ff9b::10.0.0.1",
            "2002:a00:1::",
        ] {
            assert_eq!(
                judged(&rule, &[v4, bad]),
                Err(Code::PrivateAddress),
                "{bad}"
            );
            assert_eq!(
                judged(&rule, &[bad, v4]),
                Err(Code::PrivateAddress),
                "{bad}"
            );
        }
    }

    #[test]
    fn a_private_address_passes_where_a_private_range_is_listed() {
        let listed = rule(&["api.example", "10.1.0.0/16"]);
        assert!(judged(&listed, &["10.1.2.3"]).is_ok());
        assert!(judged(&listed, &["10.2.0.1"]).is_err());
        let wide = rule(&["api.example", "0.0.0.0/0", "169.254.0.0/16"]);
        assert!(judged(&wide, &["10.1.2.3"]).is_err());
        assert!(judged(&wide, &["169.254.169.254"]).is_err());
        assert!(judged(&wide, &["169.254.7.7"]).is_ok());
    }

    #[test]
    fn the_guards_own_listeners_are_never_dialled() {
        let mut rule = rule(&["api.example", "10.0.0.9", "127.0.0.1"]);
        rule.own = vec![
            "0.0.0.0:443".parse().unwrap(),
            "10.0.0.9:443".parse().unwrap(),
        ];
        assert!(judged(&rule, &["127.0.0.1"]).is_err());
        assert!(judged(&rule, &["10.0.0.9"]).is_err());
        rule.own.clear();
        assert!(judged(&rule, &["127.0.0.1"]).is_ok());
    }

    #[test]
    fn an_alias_is_judged_by_where_it_cannot_lead() {
        let rule = rule(&["api.example"]);
        assert!(alias(&rule, "edge.cdn.example.").is_ok());
        for name in [
            "localhost",
            "x.localhost",
            "metadata.google.internal",
            "10.0.0.1",
            "a..b",
        ] {
            assert!(alias(&rule, name).is_err(), "{name}");
        }
    }
}
