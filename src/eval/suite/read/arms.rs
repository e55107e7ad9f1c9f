//! Arms of a suite's own.

use std::collections::{BTreeMap, BTreeSet};

use crate::eval::suite::{Bound, BoundArm};
use crate::eval::tokens::Check;
use crate::source::Field;
use crate::verdict::{LayerId, Mode};

type Differs = (BTreeMap<LayerId, Mode>, BTreeSet<Check>);

/// What an arm does otherwise than the policy: modes of layers, and `without: [CHECK]`.
fn differs(field: &Field<'_>) -> Option<Differs> {
    let words = [
        ("off", Mode::Off),
        ("shadow", Mode::Shadow),
        ("enforce", Mode::Enforce),
    ];
    let mut without = BTreeSet::new();
    if let Some(field) = field.peek("without") {
        let checks = Check::ALL.map(|check| (check.as_str(), check));
        for entry in field.filled_list()? {
            without.insert(entry.choice(&checks)?);
        }
    }
    let read: Vec<_> = field
        .entries()?
        .into_iter()
        .filter(|(key, _)| key.text() != "without")
        .map(|(key, value)| {
            let layer = LayerId::from_name(key.text());
            if layer.is_none() {
                let known = LayerId::ALL.map(LayerId::as_str).join(", ");
                key.error(
                    format!("there is no layer `{}`", key.text()),
                    format!("layers: {known}"),
                );
            }
            let mode = value.choice(&words);
            Some((layer?, mode?))
        })
        .collect();
    let layers = read.into_iter().collect::<Option<_>>()?;
    Some((layers, without))
}

pub(super) fn bound(arms: &Field<'_>, contrast: &Field<'_>) -> Option<Bound> {
    let read = arms.entries()?.into_iter();
    let read: Vec<_> = read
        .map(|(key, f)| {
            let (layers, without) = differs(&f)?;
            Some(BoundArm {
                name: key.name()?.to_owned(),
                layers,
                without,
            })
        })
        .collect();
    let mut fields = contrast.map()?;
    let layers = LayerId::ALL.map(|layer| (layer.as_str(), layer));
    let layer = fields.required("layer").and_then(|f| f.choice(&layers));
    let without = fields.required("without");
    let with = fields.required("with");
    fields.finish();
    let (arms, layer) = (read.into_iter().collect::<Option<Vec<_>>>()?, layer?);
    let known = |field: &Field<'_>| {
        let name = field.text()?;
        if arms.iter().any(|arm| arm.name == name) {
            return Some(name.to_owned());
        }
        field.error(format!("there is no arm `{name}`"), "name a key of `arms`");
        None
    };
    let (without, with) = (known(&without?), known(&with?));
    Some(Bound {
        layer,
        at: contrast.spot(),
        without: without?,
        with: with?,
        arms,
    })
}
