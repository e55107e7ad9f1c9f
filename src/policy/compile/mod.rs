//! From a policy file to a policy that can run, collecting every problem.

mod hosts;
mod inert;
mod injection;
mod lists;
mod lookups;
mod matcher;
mod provider_tools;
mod shared;
mod tools;
mod vouchers;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;

use crate::policy::{
    DefinitionsPolicy, Fallback, InjectionPolicy, Modes, Policy, PolicyHash, SecretsRule,
};
use crate::source::{self, Field, Fields, Problems, Reader, Tree};
use crate::verdict::{LayerId, Mode};

/// The version of the format.
const VERSION: i64 = 1;

/// A policy with what a check needs to point at its places.
#[derive(Debug)]
pub struct Checked {
    /// The policy.
    pub policy: Policy,
    /// What runs, but perhaps not as meant.
    pub warnings: Problems,
    /// The file: ids of rules such as `tools[3].egress[0]` are paths in it.
    pub tree: Tree,
}

/// Reads and compiles a policy file. Its hash is the SHA-256 of the file's bytes.
///
/// # Errors
/// Every problem of the file at once.
pub fn load(path: &Path) -> Result<Policy, Problems> {
    read(path).map(|checked| checked.policy)
}

/// The same from text; `path` is for messages only.
///
/// # Errors
/// Every problem of the text at once.
pub fn parse(path: &str, text: String) -> Result<Policy, Problems> {
    check(source::parse(path, text)?).map(|checked| checked.policy)
}

/// As [`load`], with warnings and places kept.
///
/// # Errors
/// Every problem of the file at once, warnings included.
pub fn read(path: &Path) -> Result<Checked, Problems> {
    check(source::read(path)?)
}

/// Compiles a policy from its tree.
///
/// # Errors
/// Every problem of the tree at once, warnings included.
pub fn check(tree: Tree) -> Result<Checked, Problems> {
    let reader = Reader::new();
    let hash = HEXLOWER.encode(digest(&SHA256, tree.file.text.as_bytes()).as_ref());
    let built = policy(&reader.root(&tree), PolicyHash(Arc::from(hash)));
    let (policy, warnings) = reader.finish_with_warnings(built)?;
    Ok(Checked {
        policy,
        warnings,
        tree,
    })
}

fn policy(root: &Field<'_>, hash: PolicyHash) -> Option<Policy> {
    let mut fields = root.map()?;
    version(&mut fields);
    let name = fields.required("name").and_then(|f| f.text());
    let modes = fields.required("layers").and_then(|f| layers(&f));
    let lists = fields.optional("lists").map(|field| lists::lists(&field));
    let lookups = fields
        .optional("lookups")
        .map(|field| lookups::lookups(&field));
    let (lists, lookups) = (lists.unwrap_or_default(), lookups.unwrap_or_default());
    let names = tools::Names {
        lists: &lists,
        lookups: &lookups,
        approved: modes
            .as_ref()
            .is_some_and(|modes| modes.of(LayerId::Tickets) == Mode::Enforce),
        usual: Fallback::default(),
    };
    let tools = fields
        .optional("tools")
        .map_or_else(|| Some(Vec::new()), |field| tools::tools(&field, &names));
    let undeclared = match fields.optional("undeclared_recipients") {
        Some(field) => tools::undeclared(&field).map(Some),
        None => Some(None),
    };
    let egress = fields.optional("egress");
    let egress = match &egress {
        Some(field) => tools::egress_for_all(field, &names).map(Some),
        None => Some(None),
    };
    let forward = match fields.optional("forward") {
        Some(field) => tools::forward(&field, &names).map(Some),
        None => Some(None),
    };
    let rendered = match fields.optional("rendered") {
        Some(field) => tools::rendered(&field, &names).map(Some),
        None => Some(None),
    };
    let usual = Some(SecretsRule::usual());
    let secrets = fields.optional_or("secrets", usual, tools::secrets);
    let private = fields.optional_or("private", Vec::new(), tools::private);
    let provider_tools = fields.optional("provider_tools").map_or_else(
        || Some(Vec::new()),
        |field| provider_tools::provider_tools(&field),
    );
    let definitions =
        fields.optional_or("definitions", Some(DefinitionsPolicy::default()), |field| {
            Some(injection::definitions(field))
        });
    let injection = match fields.optional("injection") {
        Some(field) => injection::injection(&field),
        None => Some(InjectionPolicy::never()),
    };
    let policy = Policy {
        name: name?.to_owned(),
        hash,
        modes: modes?,
        lists: whole(lists)?,
        lookups: whole(lookups)?,
        tools: tools?,
        undeclared_recipients: undeclared?,
        egress: egress?,
        forward: forward?,
        rendered: rendered?,
        secrets: secrets?,
        private: private?,
        provider_tools: provider_tools?,
        definitions: definitions??,
        injection: injection?,
    };
    inert::warn(root, &policy);
    Some(policy)
}

fn version(fields: &mut Fields<'_>) {
    let Some(field) = fields.required("version") else {
        return;
    };
    if let Some(version) = field.whole::<i64>()
        && version != VERSION
    {
        field.error(
            format!("this build does not read version {version} of the policy format"),
            format!("write `version: {VERSION}`"),
        );
    }
}

/// Every layer must be named, so that a reviewer sees what is off.
fn layers(field: &Field<'_>) -> Option<Modes> {
    let mut fields = field.map()?;
    let mut modes = Modes::none();
    let mut whole = true;
    for layer in LayerId::ALL {
        let Some(field) = fields.required(layer.as_str()) else {
            whole = false;
            continue;
        };
        let words = [Mode::Off, Mode::Shadow, Mode::Enforce].map(|mode| (mode.as_str(), mode));
        let Some(mode) = field.choice(&words) else {
            whole = false;
            continue;
        };
        modes = modes.with(layer, mode);
    }
    whole.then_some(modes)
}

/// Nothing if one of them is broken.
fn whole<K: Eq + std::hash::Hash, V>(parts: HashMap<K, Option<V>>) -> Option<HashMap<K, V>> {
    let parts = parts.into_iter();
    parts.map(|(name, part)| Some((name, part?))).collect()
}
