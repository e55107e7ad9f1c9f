//! Rules for where URLs, tunnels and rendered links may lead.

use super::allowed::allowed;
use super::{Names, all, id, otherwise, selectors};
use crate::layers::egress::{HOSTLESS, Reading, SCHEMES};
use crate::names::ListName;
use crate::policy::{Budget, EgressRule, ForwardRule, List, Per, Reach, RenderedRule, Selector};
use crate::source::{Field, Fields, did_you_mean};

pub(super) fn egress(field: &Field<'_>, names: &Names<'_>) -> Option<EgressRule> {
    let mut fields = field.map()?;
    let at = selectors(&mut fields);
    egress_rest(&mut fields, at, names)
}

/// The rule for tools that have none of their own: every argument.
pub(in crate::policy::compile) fn egress_for_all(
    field: &Field<'_>,
    names: &Names<'_>,
) -> Option<EgressRule> {
    let mut fields = field.map()?;
    egress_rest(&mut fields, Some(vec![Selector::everything()]), names)
}

fn egress_rest(
    fields: &mut Fields<'_>,
    at: Option<Vec<Selector>>,
    names: &Names<'_>,
) -> Option<EgressRule> {
    let allow = fields
        .required("allow")
        .and_then(|field| all(&field, |entry| allowed(entry, no_hosts, names)));
    let reading = match fields.optional("urls") {
        Some(field) => field.choice(&[
            ("by_key", Reading::ByKey),
            ("within", Reading::Search),
            ("whole", Reading::Whole),
        ]),
        None => Some(Reading::default()),
    };
    let reach = reach(fields, &SCHEMES);
    let budget = match fields.optional("budget") {
        Some(field) => budget(&field).map(Some),
        None => Some(None),
    };
    let otherwise = otherwise(fields, names.usual);
    Some(EgressRule {
        id: id(fields.field()),
        at: at?,
        reading: reading?,
        allow: allow?,
        reach: reach?,
        budget: budget?,
        otherwise: otherwise?,
    })
}

fn budget(field: &Field<'_>) -> Option<Budget> {
    let mut fields = field.map()?;
    let mut most = |key| match fields.optional(key) {
        Some(field) => field
            .size()
            .and_then(|size| u64::try_from(size).ok())
            .map(Some),
        None => Some(None),
    };
    let (bytes, entropy) = (most("bytes"), most("entropy"));
    let window = match fields.optional("window") {
        Some(field) => super::conditions::window(&field).map(Some),
        None => Some(None),
    };
    let per = fields.optional_or("per", Per::Session, |field| {
        field.choice(&[("session", Per::Session), ("principal", Per::Principal)])
    });
    let budget = Budget {
        bytes: bytes?,
        entropy: entropy?,
        window: window?,
        per: per?,
    };
    if budget.bytes.is_none() && budget.entropy.is_none() {
        field.error(
            "this budget limits nothing",
            "write `bytes: 1MiB`, `entropy: 64KiB`, or both",
        );
        return None;
    }
    Some(budget)
}

/// `forward`.
pub(in crate::policy::compile) fn forward(
    field: &Field<'_>,
    names: &Names<'_>,
) -> Option<ForwardRule> {
    let mut fields = field.map()?;
    let allow = fields
        .required("allow")
        .and_then(|field| host_lists(&field, names));
    let reach = reach(&mut fields, &SCHEMES);
    let methods = match fields.optional("methods") {
        Some(field) => field.filled_list().and_then(|_| all(&field, method)),
        None => Some(Vec::new()),
    };
    let require_sni = match fields.optional("require_sni") {
        Some(field) => field.bool(),
        None => Some(true),
    };
    let budget = match fields.optional("budget") {
        Some(field) => budget(&field).map(Some),
        None => Some(None),
    };
    Some(ForwardRule {
        id: id(field),
        allow: allow?,
        reach: reach?,
        methods: methods?,
        require_sni: require_sni?,
        budget: budget?,
    })
}

/// `rendered`.
pub(in crate::policy::compile) fn rendered(
    field: &Field<'_>,
    names: &Names<'_>,
) -> Option<RenderedRule> {
    let mut fields = field.map()?;
    let mut lists = |key| {
        let field = fields.required(key)?;
        host_lists(&field, names)
    };
    let (images, links) = (lists("images"), lists("links"));
    let mut schemes = SCHEMES.to_vec();
    schemes.extend(HOSTLESS);
    let reach = reach(&mut fields, &schemes);
    Some(RenderedRule {
        id: id(field),
        images: images?,
        links: links?,
        reach: reach?,
    })
}

fn no_hosts(list: &List) -> Option<(String, &'static str)> {
    let lack = list.hosts.is_empty();
    lack.then(|| ("has no hosts".to_owned(), "add `hosts: [...]` to it"))
}

/// Names of lists with hosts: nothing else can vouch for a place that no call names.
fn host_lists(field: &Field<'_>, names: &Names<'_>) -> Option<Vec<ListName>> {
    all(field, |entry| names.list(entry, no_hosts))
}

/// How hosts may be reached.
fn reach(fields: &mut Fields<'_>, known: &[&'static str]) -> Option<Reach> {
    let usual = Reach::default();
    let schemes = match fields.optional("schemes") {
        Some(field) => field
            .filled_list()
            .and_then(|_| all(&field, |entry| scheme(entry, known))),
        None => Some(usual.schemes),
    };
    let ports = match fields.optional("ports") {
        Some(field) => field.filled_list().and_then(|_| all(&field, port)),
        None => Some(usual.ports),
    };
    let mut most = |key| match fields.optional(key) {
        Some(field) => field.whole::<u32>().map(|most| Some(most as usize)),
        None => Some(None),
    };
    let (max_query, max_path, max_label) = (most("max_query"), most("max_path"), most("max_label"));
    let random = match fields.optional("random_labels") {
        Some(field) => field.choice(&[("allow", false), ("deny", true)]),
        None => Some(false),
    };
    Some(Reach {
        schemes: schemes?,
        ports: ports?,
        max_query: max_query?,
        max_path: max_path?,
        max_label: max_label?,
        deny_random_labels: random?,
    })
}

fn scheme(field: &Field<'_>, known: &[&'static str]) -> Option<String> {
    let text = field.text()?;
    let found = known.iter().find(|scheme| **scheme == text);
    if found.is_none() {
        field.error(
            format!("`{text}` is not a scheme that this rule can allow"),
            did_you_mean("schemes", text, known.iter().copied()),
        );
    }
    found.map(|scheme| (*scheme).to_owned())
}

fn port(field: &Field<'_>) -> Option<u16> {
    let port = field.whole::<u16>()?;
    if port == 0 {
        field.error("0 is not a port", "write a number from 1 to 65535");
        return None;
    }
    Some(port)
}

fn method(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    let plain = text.bytes().all(|b| b.is_ascii_uppercase() || b == b'-');
    if text == "CONNECT" || !plain {
        field.error(
            format!("`{text}` is not a method of a plain request"),
            "write methods in upper case, such as `GET`; tunnels (CONNECT) are ruled by hosts and ports",
        );
        return None;
    }
    Some(text.to_owned())
}
