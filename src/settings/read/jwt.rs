//! Tokens of an identity provider.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use url::Url;

use super::people::header;
use super::positive_duration;
use super::upstreams::is_local;
use crate::identity::{Algorithm, Timing};
use crate::settings::{ClaimNames, JwtPrincipals, KeySource};
use crate::source::{Field, Fields};

/// Largest difference between two clocks that still tell the time.
const LARGEST_LEEWAY: Duration = Duration::from_mins(5);
/// Most actors in a row.
const DEEPEST: usize = 8;

pub(super) fn jwt(field: &Field<'_>, folder: &Path) -> Option<JwtPrincipals> {
    let mut fields = field.map()?;
    let issuer = fields.required("issuer").and_then(|f| f.text());
    let audiences = fields.required("audience").and_then(|f| texts(&f));
    let keys = keys(&mut fields, folder);
    let default = JwtPrincipals::new("", "", KeySource::Inline(bytes::Bytes::new()));
    let algorithms = fields.optional_or("algorithms", default.algorithms, algorithms);
    let header = fields.optional_or("header", default.header, header);
    let leeway = fields.optional_or("leeway", default.leeway, leeway);
    let timing = timing(&mut fields, default.timing);
    let (tenant, agent) = (fields.optional("tenant"), fields.optional("agent"));
    let claims = match fields.optional("claims") {
        Some(field) => claims(&field, tenant.as_ref(), agent.as_ref()),
        None => Some(default.claims),
    };
    let or = |field: &Option<Field<'_>>, default: Arc<str>| match field {
        Some(field) => field.text().map(Arc::from),
        None => Some(default),
    };
    let (tenant, agent) = (or(&tenant, default.tenant), or(&agent, default.agent));
    let actors = match fields.optional("actors") {
        Some(field) => texts(&field).map(|texts| {
            let texts = texts.into_iter().map(Arc::from);
            Some(texts.collect::<BTreeSet<Arc<str>>>())
        }),
        None => Some(None),
    };
    let actor_depth = fields.optional_or("actor_depth", default.actor_depth, depth);
    Some(JwtPrincipals {
        header: header?,
        issuer: issuer?.into(),
        audiences: audiences?,
        keys: keys?,
        algorithms: algorithms?,
        leeway: leeway?,
        timing: timing?,
        claims: claims?,
        tenant: tenant?,
        agent: agent?,
        actors: actors?,
        actor_depth: actor_depth?,
    })
}

fn texts(field: &Field<'_>) -> Option<Vec<String>> {
    let read: Vec<_> = field.one_or_more()?.iter().map(Field::text).collect();
    let read = read.into_iter();
    read.map(|text| text.map(str::to_owned)).collect()
}

fn keys(fields: &mut Fields<'_>, folder: &Path) -> Option<KeySource> {
    let found = fields.exactly_one(&["jwks_url", "jwks_file"]);
    let ca = fields.optional("jwks_ca");
    let source = match found? {
        ("jwks_file", field) => {
            if let Some(ca) = &ca {
                ca.error(
                    "`jwks_ca` has no meaning with a file",
                    "remove it, or write `jwks_url`",
                );
            }
            KeySource::File(folder.join(field.text()?))
        }
        (_, field) => KeySource::Url {
            url: url(&field)?,
            ca: match &ca {
                Some(ca) => Some(folder.join(ca.text()?)),
                None => None,
            },
        },
    };
    Some(source)
}

/// Whoever can change the keys on their way can be anybody.
fn url(field: &Field<'_>) -> Option<Uri> {
    let text = field.text()?;
    let url = Url::parse(text).ok().filter(|url| {
        let safe = url.scheme() == "https" || (url.scheme() == "http" && is_local(url));
        safe && !text.contains('@') && url.fragment().is_none()
    });
    let uri = url.and_then(|url| Uri::try_from(url.as_str()).ok());
    if uri.is_none() {
        field.error(
            format!("`{}` cannot be where the issuer's keys are", field.path()),
            "write the whole URL with `https`, such as `https://id.example/jwks.json`",
        );
    }
    uri
}

pub(super) fn algorithms(field: &Field<'_>) -> Option<Vec<Algorithm>> {
    let words = Algorithm::ALL.map(|algorithm| (algorithm.as_str(), algorithm));
    let read: Vec<_> = field
        .filled_list()?
        .iter()
        .map(|f| f.choice(&words))
        .collect();
    read.into_iter().collect()
}

pub(super) fn leeway(field: &Field<'_>) -> Option<Duration> {
    let leeway = field.duration()?;
    if leeway > LARGEST_LEEWAY {
        field.error(
            format!("`{}` is more than 5m", field.path()),
            "set the clocks: a leeway lengthens the life of every token",
        );
        return None;
    }
    Some(leeway)
}

fn timing(fields: &mut Fields<'_>, default: Timing) -> Option<Timing> {
    let refresh = fields.optional("refresh");
    let floor = fields.optional_or("refresh_floor", default.floor, positive_duration);
    let max_age = fields.optional_or("max_age", default.max_age, positive_duration);
    let every = match &refresh {
        Some(field) => positive_duration(field),
        None => Some(default.refresh),
    };
    let timing = Timing {
        refresh: every?,
        floor: floor?,
        max_age: max_age?,
    };
    if timing.floor > timing.refresh || timing.refresh > timing.max_age {
        let at = refresh.as_ref().unwrap_or(fields.field());
        at.error(
            "`refresh_floor`, `refresh` and `max_age` must not fall",
            "write them in rising order, such as `30s`, `10m` and `24h`",
        );
        return None;
    }
    Some(timing)
}

fn claims(
    field: &Field<'_>,
    tenant: Option<&Field<'_>>,
    agent: Option<&Field<'_>>,
) -> Option<ClaimNames> {
    let default = ClaimNames::default();
    let mut fields = field.map()?;
    let subject = fields.optional_or("subject", default.subject, claim);
    let scopes = fields.optional_or("scopes", default.scopes, claim);
    let optional = |fields: &mut Fields<'_>, key| {
        fields.optional_or(key, None, |field| claim(field).map(Some))
    };
    let tenants = optional(&mut fields, "tenant");
    let agents = optional(&mut fields, "agent");
    let sessions = optional(&mut fields, "session");
    let names = ClaimNames {
        tenant: tenants?,
        agent: agents?,
        session: sessions?,
        subject: subject?,
        scopes: scopes?,
    };
    for (name, fixed, what) in [
        (&names.tenant, tenant, "tenant"),
        (&names.agent, agent, "agent"),
    ] {
        if let (Some(_), Some(fixed)) = (name, fixed) {
            fixed.error(
                format!("`{what}` has no effect: `claims.{what}` must be in every token"),
                "keep one of the two",
            );
            return None;
        }
    }
    Some(names)
}

/// The name of a claim, or a JSON Pointer to it.
pub(super) fn claim(field: &Field<'_>) -> Option<String> {
    field.text().map(str::to_owned)
}

fn depth(field: &Field<'_>) -> Option<usize> {
    let depth = field.whole::<u8>().map(usize::from)?;
    if depth > DEEPEST {
        field.error(
            format!("`{}` is more than {DEEPEST}", field.path()),
            "write how many actors in a row you expect; `0` refuses delegation",
        );
        return None;
    }
    Some(depth)
}
