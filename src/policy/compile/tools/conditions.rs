//! Conditions on calls: `when`.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use jiff::civil::Weekday;
use jiff::tz::TimeZone;
use regex::{Regex, RegexBuilder};
use rust_decimal::Decimal;

use super::allowed::allowed;
use super::{Names, all, id, selector};
use crate::layers::catalog::{number, passes};
use crate::policy::{
    Allowed, Claim, Condition, Hours, Limit, List, Otherwise, Per, PrincipalPart, Scalar, Selector,
    Test,
};
use crate::source::{Field, Fields, Kind};

/// Largest compiled pattern, in bytes.
const PATTERN: usize = 1 << 20;

/// Longest window.
const LONGEST: Duration = Duration::from_hours(24 * 366);

/// Minutes of a day.
const DAY: u16 = 24 * 60;

const DAYS: [(&str, Weekday); 7] = [
    ("mon", Weekday::Monday),
    ("tue", Weekday::Tuesday),
    ("wed", Weekday::Wednesday),
    ("thu", Weekday::Thursday),
    ("fri", Weekday::Friday),
    ("sat", Weekday::Saturday),
    ("sun", Weekday::Sunday),
];

pub(super) fn condition(field: &Field<'_>, names: &Names<'_>) -> Option<Condition> {
    let mut fields = field.map()?;
    let otherwise = match fields.optional("else") {
        Some(field) => field.choice(&[("deny", Otherwise::Deny), ("hold", Otherwise::Hold)]),
        None => Some(Otherwise::default()),
    };
    let subject = fields.exactly_one(&["at", "principal", "between", "count", "sum", "tainted"]);
    let claim = subject.and_then(|(key, subject)| match key {
        "at" => argument(&mut fields, &subject, names),
        "principal" => principal(&mut fields, &subject),
        "between" => hours(&subject).map(Claim::Between),
        "count" => limit(&subject, false),
        "tainted" => untainted(&subject),
        _ => limit(&subject, true),
    });
    Some(Condition {
        id: id(field),
        claim: claim?,
        otherwise: otherwise?,
    })
}

fn untainted(field: &Field<'_>) -> Option<Claim> {
    if field.bool()? {
        field.error(
            "a call that may only follow a finding is none that anybody means",
            "write `tainted: false`: the condition holds while no instruction was found in the session",
        );
        return None;
    }
    Some(Claim::Untainted)
}

fn argument(fields: &mut Fields<'_>, at: &Field<'_>, names: &Names<'_>) -> Option<Claim> {
    let read: Vec<_> = at.one_or_more()?.iter().map(selector).collect();
    let at: Option<Vec<Selector>> = read.into_iter().collect();
    let tests = tests(fields);
    let allow = match fields.optional("allow") {
        Some(field) => {
            field.filled_list()?;
            let lists = |_: &List| {
                let lack = "has no values for conditions".to_owned();
                Some((lack, "write `one_of` with the values, or `{lookup: NAME}`"))
            };
            all(&field, |entry| allowed(entry, lists, names))
        }
        None => Some(Vec::new()),
    };
    let optional = optional(fields);
    let (tests, allow): (Vec<Test>, Vec<Allowed>) = (tests?, allow?);
    if tests.is_empty() && allow.is_empty() {
        nothing(fields.field());
        return None;
    }
    Some(Claim::Argument {
        at: at?,
        tests,
        allow,
        optional: optional?,
    })
}

fn principal(fields: &mut Fields<'_>, part: &Field<'_>) -> Option<Claim> {
    let words = PrincipalPart::ALL.map(|part| (part.as_str(), part));
    let part = part.choice(&words);
    for key in ["at_least", "at_most", "in_cidr", "optional"] {
        if let Some(field) = fields.optional(key) {
            field.error(
                format!("`{key}` has no meaning for the principal"),
                "write `one_of` or `matches`",
            );
            return None;
        }
    }
    let tests = tests(fields)?;
    if tests.is_empty() {
        nothing(fields.field());
        return None;
    }
    Some(Claim::Principal { part: part?, tests })
}

fn nothing(field: &Field<'_>) {
    field.error(
        "this condition asks for nothing",
        "add `at_most`, `at_least`, `one_of`, `matches`, `in_cidr` or `allow`",
    );
}

fn optional(fields: &mut Fields<'_>) -> Option<bool> {
    fields.optional_or("optional", false, Field::bool)
}

/// What must be true of a value; some value must be able to pass all.
fn tests(fields: &mut Fields<'_>) -> Option<Vec<Test>> {
    let mut tests = Vec::new();
    let mut whole = true;
    let mut add = |test: Option<Test>| match test {
        Some(test) => tests.push(test),
        None => whole = false,
    };
    if let Some(field) = fields.optional("at_least") {
        add(decimal(&field).map(Test::AtLeast));
    }
    if let Some(field) = fields.optional("at_most") {
        add(decimal(&field).map(Test::AtMost));
    }
    if let Some(field) = fields.optional("matches") {
        add(pattern(&field).map(Test::Matches));
    }
    if let Some(field) = fields.optional("in_cidr") {
        add(networks(&field).map(Test::InCidr));
    }
    let choices = fields.optional("one_of");
    let one_of = match &choices {
        Some(field) => {
            let scalars = scalars(field);
            whole &= scalars.is_some();
            scalars
        }
        None => None,
    };
    if !whole {
        return None;
    }
    contradictions(fields.field(), &tests)?;
    if let (Some(field), Some(scalars)) = (&choices, one_of) {
        if !scalars.iter().any(|scalar| passes(scalar, &tests)) {
            field.error(
                "this condition can never hold: none of these passes the tests beside it",
                "remove the other test, or correct the values",
            );
            return None;
        }
        tests.push(Test::OneOf(scalars));
    }
    Some(tests)
}

/// Tests of which one excludes the other.
fn contradictions(field: &Field<'_>, tests: &[Test]) -> Option<()> {
    let mut bounds = (None, None);
    let (mut numbers, mut addresses) = (false, false);
    for test in tests {
        match test {
            Test::AtLeast(least) => bounds.0 = Some(*least),
            Test::AtMost(most) => bounds.1 = Some(*most),
            Test::InCidr(_) => addresses = true,
            Test::Matches(_) | Test::OneOf(_) => {}
        }
        numbers |= matches!(test, Test::AtLeast(_) | Test::AtMost(_));
    }
    if let (Some(least), Some(most)) = bounds
        && least > most
    {
        field.error(
            format!(
                "this condition can never hold: nothing is at least {least} and at most {most}"
            ),
            "exchange the two",
        );
        return None;
    }
    if numbers && addresses {
        field.error(
            "this condition can never hold: no number is an address",
            "remove one of the tests, or name two arguments in two conditions",
        );
        return None;
    }
    Some(())
}

/// An exact decimal, as a number or in quotes.
pub(super) fn decimal(field: &Field<'_>) -> Option<Decimal> {
    let text = match &field.node().kind {
        Kind::Number(_) => field.node().source(),
        _ => field.text()?,
    };
    match number(text) {
        Ok(decimal) => Some(decimal),
        Err(why) => {
            let help = "write digits with at most one dot, such as `50` or \"49.90\"";
            field.error(format!("`{text}` is not an exact number: {why}"), help);
            None
        }
    }
}

fn pattern(field: &Field<'_>) -> Option<Regex> {
    let text = field.text()?;
    // Alone first: `a)|(b` would leave the group that anchors it.
    let build = |text: &str| RegexBuilder::new(text).size_limit(PATTERN).build();
    let anchored = build(text).and_then(|_| build(&format!(r"\A(?:{text})\z")));
    match anchored {
        Ok(regex) => {
            let odd = ["", "a", "-1", "\n", "a\u{0}\u{e9}\n ", "{\"x\": [1]}"];
            if odd.iter().all(|text| regex.is_match(text)) {
                field.warn(
                    "this condition can never fail: the pattern matches every text",
                    "write what the text must look like, such as `[A-Z]{3}-[0-9]+`",
                );
            }
            Some(regex)
        }
        Err(error) => {
            // Its own message has several lines and a caret.
            let why = match error {
                regex::Error::CompiledTooBig(_) => "it is too large",
                _ => "its syntax is wrong",
            };
            field.error(
                format!("`{text}` is not a pattern: {why}"),
                "write a regular expression for the whole text, without look-around and back references",
            );
            None
        }
    }
}

fn networks(field: &Field<'_>) -> Option<Vec<IpNet>> {
    let read: Vec<_> = field.filled_list()?.iter().map(network).collect();
    let networks: Vec<IpNet> = read.into_iter().collect::<Option<_>>()?;
    if networks.iter().any(|network| network.prefix_len() == 0) {
        field.warn(
            "a network with prefix `/0` holds every address of its kind",
            "name the networks that are meant",
        );
    }
    Some(networks)
}

fn network(field: &Field<'_>) -> Option<IpNet> {
    let text = field.text()?;
    let parsed = match text.parse::<IpNet>() {
        Ok(network) => Some(network),
        Err(_) => text.parse::<IpAddr>().ok().map(IpNet::from),
    };
    let Some(network) = parsed else {
        field.error(
            format!("`{text}` is not a network"),
            "write a CIDR such as `10.0.0.0/8` or `2001:db8::/32`",
        );
        return None;
    };
    if network.trunc() != network {
        field.error(
            format!("`{text}` has bits behind its prefix"),
            format!("write `{}`", network.trunc()),
        );
        return None;
    }
    Some(network)
}

pub(super) fn scalars(field: &Field<'_>) -> Option<BTreeSet<Scalar>> {
    let mut scalars = BTreeSet::new();
    let mut whole = true;
    for entry in field.filled_list()? {
        let scalar = match &entry.node().kind {
            Kind::Bool(value) => Some(Scalar::Bool(*value)),
            Kind::Number(_) => decimal(&entry).map(Scalar::Number),
            _ => entry.any_text().map(|text| Scalar::Text(text.to_owned())),
        };
        match scalar {
            Some(scalar) => {
                if !scalars.insert(scalar) {
                    entry.warn("this value stands here twice", "remove one of them");
                }
            }
            None => whole = false,
        }
    }
    whole.then_some(scalars)
}

fn hours(field: &Field<'_>) -> Option<Hours> {
    let mut fields = field.map()?;
    let from = fields.required("from").and_then(|f| minute(&f));
    let until = fields.required("to").and_then(|f| minute(&f));
    let zone = fields.required("zone").and_then(|f| zone(&f));
    let days = match fields.optional("days") {
        Some(field) => {
            let read: Vec<_> = field
                .filled_list()?
                .iter()
                .map(|day| day.choice(&DAYS))
                .collect();
            read.into_iter().collect()
        }
        None => Some(DAYS.map(|(_, day)| day).to_vec()),
    };
    let hours = Hours {
        from: from?,
        until: until?,
        zone: zone?,
        days: days?,
    };
    if hours.from == hours.until || hours.from == DAY {
        field.error(
            "this condition can never hold: no time is between the two",
            "write `from: \"00:00\", to: \"24:00\"` for whole days",
        );
        return None;
    }
    let every = DAYS.iter().all(|(_, day)| hours.days.contains(day));
    if every && hours.from == 0 && hours.until == DAY {
        field.warn(
            "this condition can never fail: it holds at any time",
            "name hours or `days`, or remove it",
        );
    }
    Some(hours)
}

/// `HH:MM` as minutes of the day.
fn minute(field: &Field<'_>) -> Option<u16> {
    let text = field.text()?;
    let parts = text.split_once(':').filter(|(hour, minute)| {
        let digits = |part: &str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit());
        digits(hour) && digits(minute)
    });
    let minute = parts.and_then(|(hour, minute)| {
        let minutes =
            hour.parse::<u16>().ok()? * 60 + minute.parse::<u16>().ok().filter(|m| *m < 60)?;
        (minutes <= DAY).then_some(minutes)
    });
    if minute.is_none() {
        let help = "write hours and minutes such as \"08:30\", from \"00:00\" to \"24:00\"";
        field.error(format!("`{text}` is not a time of the day"), help);
    }
    minute
}

fn zone(field: &Field<'_>) -> Option<TimeZone> {
    let name = field.text()?;
    let zone = TimeZone::get(name).ok();
    if zone.is_none() {
        field.error(
            format!("there is no time zone `{name}`"),
            "write a name of the IANA database, such as `Europe/Berlin` or `UTC`",
        );
    }
    zone
}

fn limit(field: &Field<'_>, sums: bool) -> Option<Claim> {
    let mut fields = field.map()?;
    let sum = if sums {
        let at = fields.required("at").and_then(|f| selector(&f));
        at.map(Some)
    } else {
        Some(None)
    };
    let per = fields
        .required("per")
        .and_then(|f| f.choice(&[("session", Per::Session), ("principal", Per::Principal)]));
    let window = match fields.optional("window") {
        Some(field) => window(&field).map(Some),
        None => Some(None),
    };
    let at_most = fields.required("at_most").and_then(|f| {
        let most = decimal(&f)?;
        if most <= Decimal::ZERO || (!sums && !most.fract().is_zero()) {
            f.error(
                "this condition can never hold, or not as meant",
                if sums {
                    "write a sum above 0, or deny the tool"
                } else {
                    "write a whole number from 1 on, or deny the tool"
                },
            );
            return None;
        }
        Some(most)
    });
    let optional = if sums {
        optional(&mut fields)
    } else {
        Some(false)
    };
    Some(Claim::Limit(Limit {
        per: per?,
        sum: sum?,
        window: window?,
        at_most: at_most?,
        optional: optional?,
    }))
}

pub(super) fn window(field: &Field<'_>) -> Option<Duration> {
    let window = field.duration()?;
    if window < Duration::from_secs(1) || window > LONGEST {
        field.error(
            format!("`{}` must be from 1s to 8784h", field.path()),
            "write how long a call counts, such as `24h`",
        );
        return None;
    }
    Some(window)
}
