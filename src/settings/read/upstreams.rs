//! Backends.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use http::{HeaderName, HeaderValue, Uri};
use url::Url;

use super::people::header;
use super::secrets::Secrets;
use super::{Reading, key_name};
use crate::names::UpstreamName;
use crate::settings::{Secret, Upstream};
use crate::source::Field;

impl Reading<'_> {
    pub(super) fn upstreams(&self, field: &Field<'_>) -> Option<BTreeMap<UpstreamName, Upstream>> {
        let mut upstreams = BTreeMap::new();
        let mut whole = true;
        for (key, value) in field.entries()? {
            let name = key_name(&key).map(UpstreamName::from);
            let upstream = name.and_then(|name| self.upstream(name, &value));
            match upstream {
                Some(upstream) => drop(upstreams.insert(upstream.name.clone(), upstream)),
                None => whole = false,
            }
        }
        if whole && upstreams.is_empty() {
            field.error(
                "there is no upstream",
                "add one: `NAME: {url: https://...}`",
            );
            return None;
        }
        whole.then_some(upstreams)
    }

    fn upstream(&self, name: UpstreamName, field: &Field<'_>) -> Option<Upstream> {
        let mut fields = field.map()?;
        let url_field = fields.required("url");
        let url = url_field.as_ref().and_then(url);
        let credential = match fields.optional("credential") {
            Some(field) => credential(&field, &self.secrets).map(Some),
            None => Some(None),
        };
        let tls = fields.optional("tls");
        let ca = match &tls {
            Some(field) => self.authorities(field).map(Some),
            None => Some(None),
        };
        let (url, credential, ca) = (url?, credential?, ca?);
        let plain = url.scheme() == "http";
        if let (Some(_), Some(field)) = (&credential, &url_field)
            && plain
            && !is_local(&url)
        {
            field.warn(
                format!("the credential of `{name}` is sent unencrypted"),
                "use `https`",
            );
        }
        if let (Some(field), true) = (&tls, plain) {
            field.error(
                format!("`{name}` has settings for TLS and a URL without it"),
                "write its URL with `https`, or remove `tls`",
            );
            return None;
        }
        Some(Upstream {
            name,
            url: Uri::try_from(url.as_str()).ok()?,
            credential,
            ca,
        })
    }

    fn authorities(&self, field: &Field<'_>) -> Option<PathBuf> {
        let mut fields = field.map()?;
        fields.required("ca").and_then(|field| self.path(&field))
    }
}

pub(crate) fn is_local(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

fn url(field: &Field<'_>) -> Option<Url> {
    let text = field.text()?;
    if text.contains('@') {
        field.error(
            "a URL must not hold a user or a password",
            "use `credential: {header: authorization, value_env: NAME}`",
        );
        return None;
    }
    let Ok(url) = Url::parse(text) else {
        field.error(
            format!("`{text}` is not a URL"),
            "write a whole URL, such as `https://api.openai.com`",
        );
        return None;
    };
    let fault = if !matches!(url.scheme(), "http" | "https") {
        "its scheme is neither `http` nor `https`"
    } else if url.query().is_some() || url.fragment().is_some() {
        "it has a query or a fragment"
    } else if !url.has_host() || Uri::try_from(url.as_str()).is_err() {
        "it has no host"
    } else {
        return Some(url);
    };
    field.error(
        format!("`{text}` cannot be an upstream: {fault}"),
        "write scheme, host, perhaps port and path, such as `https://api.openai.com`",
    );
    None
}

fn credential(field: &Field<'_>, secrets: &Secrets<'_>) -> Option<(HeaderName, Secret)> {
    let mut fields = field.map()?;
    let name = fields.required("header").and_then(|f| header(&f));
    let scheme = fields.optional_or("scheme", None, |field| field.text().map(Some));
    let source = fields.required("value_env");
    let value = source.as_ref().and_then(|field| secrets.get(field));
    let (name, scheme, value) = (name?, scheme?, value?);
    let value: Arc<str> = match scheme {
        Some(scheme) => format!("{scheme} {}", value.0).into(),
        None => value.0,
    };
    if HeaderValue::from_str(&value).is_err() {
        source?.error(
            "the variable's value cannot be sent in a header",
            "it holds a line break or another control character: set it again",
        );
        return None;
    }
    Some((name, Secret(value)))
}
