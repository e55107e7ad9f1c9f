//! On whose behalf agents act: one principal, or one for each key, token or certificate.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use url::Host;

use super::jwt::jwt;
use super::people::header;
use super::secrets::{Secrets, is_exposed};
use crate::identity::api_key;
use crate::principal::Principal;
use crate::settings::{CONFIG_ISSUER, CertificateName, Principals};
use crate::source::{self, Field, Fields, Reader};

type Keys = HashMap<[u8; 32], Arc<Principal>>;

pub(super) fn principals(
    field: &Field<'_>,
    root: &Field<'_>,
    secrets: &Secrets<'_>,
    folder: &Path,
) -> Option<Principals> {
    let mut fields = field.map()?;
    match fields.exactly_one(&["fixed", "api_keys", "jwt", "mtls"])? {
        ("fixed", field) => {
            let mut fields = field.map()?;
            principal(&mut fields).map(Principals::Fixed)
        }
        ("api_keys", field) => api_keys(&field, secrets, folder),
        ("jwt", field) => jwt(&field, folder).map(|jwt| Principals::Jwt(Box::new(jwt))),
        (_, field) => mtls(&field, root),
    }
}

fn principal(fields: &mut Fields<'_>) -> Option<Arc<Principal>> {
    let subject = fields.required("subject").and_then(|f| f.text());
    let tenant = fields.optional_or("tenant", "default", Field::text);
    let agent = fields.optional_or("agent", "default", Field::text);
    let scopes = fields.optional_or("scopes", BTreeSet::new(), |field| {
        let texts: Vec<_> = field.list()?.iter().map(Field::text).collect();
        texts.into_iter().map(|text| text.map(Arc::from)).collect()
    });
    Some(Arc::new(Principal {
        tenant: tenant?.into(),
        issuer: CONFIG_ISSUER.into(),
        subject: subject?.into(),
        agent: agent?.into(),
        actors: Vec::new(),
        scopes: scopes?,
    }))
}

fn api_keys(field: &Field<'_>, secrets: &Secrets<'_>, folder: &Path) -> Option<Principals> {
    let mut fields = field.map()?;
    let header = fields.optional_or("header", http::header::AUTHORIZATION, header);
    let (listed, file) = (fields.optional("keys"), fields.optional("file"));
    if listed.is_none() && file.is_none() {
        field.error(
            "there is no key",
            "add `keys`, or `file` with the path of a list of them",
        );
    }
    let mut keys = Keys::new();
    let mut whole = listed.is_some() || file.is_some();
    if let Some(listed) = &listed {
        whole &= read_keys(listed, Some(secrets), &mut keys);
    }
    if let Some(file) = &file {
        whole &= keys_of_file(file, folder, &mut keys).is_some();
    }
    Some(Principals::ApiKeys {
        header: header?,
        keys: whole.then_some(keys)?,
    })
}

/// A file that is a list of keys, each by its digest: it may be written by whoever gives out keys, so it names no variables.
fn keys_of_file(file: &Field<'_>, folder: &Path, keys: &mut Keys) -> Option<()> {
    let path = folder.join(file.text()?);
    let read = source::read(&path).and_then(|tree| {
        let tree = tree.masked(&is_exposed);
        let reader = Reader::new();
        let whole = read_keys(&reader.root(&tree), None, keys);
        reader.finish(whole.then_some(()))
    });
    let Err(problems) = read else {
        return Some(());
    };
    for problem in problems.0 {
        let placed = problem.at.is_some();
        file.report(if placed {
            problem
        } else {
            problem.at(file.spot())
        });
    }
    None
}

/// Whether every entry could be read.
fn read_keys(list: &Field<'_>, secrets: Option<&Secrets<'_>>, keys: &mut Keys) -> bool {
    let Some(entries) = list.filled_list() else {
        return false;
    };
    let mut whole = true;
    for entry in entries {
        let Some((key, principal)) = entry.map().and_then(|mut fields| {
            let key = match secrets {
                Some(secrets) => {
                    let found = fields.exactly_one(&["key_sha256", "key_env"]);
                    found.and_then(|(key, field)| match key {
                        "key_env" => {
                            let secret = secrets.key(&field)?;
                            Some(api_key::sha256(secret.0.as_bytes()))
                        }
                        _ => digest(&field),
                    })
                }
                None => fields.required("key_sha256").and_then(|f| digest(&f)),
            };
            let principal = principal(&mut fields);
            key.zip(principal)
        }) else {
            whole = false;
            continue;
        };
        if keys.insert(key, principal).is_some() {
            entry.error(
                "an entry above has the same key",
                "give each principal a key of its own",
            );
        }
    }
    whole
}

pub(super) fn digest(field: &Field<'_>) -> Option<[u8; 32]> {
    let digest = api_key::read(field.text()?);
    if digest.is_none() {
        // Perhaps the key itself: not in the message.
        field.error(
            format!(
                "`{}` is not a SHA-256 in 64 hexadecimal digits",
                field.path()
            ),
            "make key and digest with `holdpoint key new`; never write the key itself",
        );
    }
    digest
}

fn mtls(field: &Field<'_>, root: &Field<'_>) -> Option<Principals> {
    let listen = root.peek("listen");
    let listens = |key| listen.as_ref().and_then(|listen| listen.peek(key));
    let verifies = |tls| listens(tls).and_then(|tls| tls.peek("client_ca")).is_some();
    if root.peek("routes").is_some() && !verifies("tls") {
        field.error(
            "nobody verifies client certificates",
            "name their authorities in `listen.tls.client_ca`",
        );
        return None;
    }
    if listens("forward").is_some() && !verifies("forward_tls") {
        field.error(
            "nobody verifies client certificates at the forward listener",
            "name their authorities in `listen.forward_tls.client_ca`, or remove `listen.forward`",
        );
        return None;
    }
    let mut fields = field.map()?;
    let mut names = BTreeMap::new();
    let mut whole = true;
    for entry in fields.required("names")?.filled_list()? {
        let Some((name, principal)) = entry.map().and_then(|mut fields| {
            let name = fields.exactly_one(&["uri", "dns"]);
            let name = name.and_then(|(kind, field)| certificate_name(kind, &field));
            let principal = principal(&mut fields);
            name.zip(principal)
        }) else {
            whole = false;
            continue;
        };
        if names.insert(name, principal).is_some() {
            entry.error(
                "an entry above has the same name",
                "give each principal a name of its own",
            );
        }
    }
    whole.then_some(Principals::Mtls(names))
}

fn certificate_name(kind: &str, field: &Field<'_>) -> Option<CertificateName> {
    let text = field.text()?;
    if kind == "uri" {
        if url::Url::parse(text).is_ok() && text.is_ascii() && !text.contains(' ') {
            return Some(CertificateName::Uri(text.to_owned()));
        }
        field.error(
            format!("`{text}` is not a URI"),
            "write it as it stands in the certificate, such as `spiffe://shop.example/desk`",
        );
        return None;
    }
    match Host::parse(text) {
        Ok(Host::Domain(name))
            if name.eq_ignore_ascii_case(text) && !text.contains('*') && !text.ends_with('.') =>
        {
            Some(CertificateName::Dns(name))
        }
        _ => {
            field.error(
                format!("`{text}` is not a DNS name"),
                "write one name, such as `desk.agents.shop.example`; wildcards name nobody",
            );
            None
        }
    }
}
