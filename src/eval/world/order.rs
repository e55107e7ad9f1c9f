//! In which order tables are filled again: those that others refer to first.

use std::collections::{BTreeMap, BTreeSet};

/// `tables` in an order in which every reference leads to an earlier one. Tables that refer to each other in a circle stand last,
/// by name: their constraints must be deferrable.
pub(super) fn by_references(
    tables: &BTreeSet<String>,
    references: &[(String, String)],
) -> Vec<String> {
    let mut waits: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, to) in references {
        if from != to && tables.contains(to) {
            waits.entry(from).or_default().insert(to);
        }
    }
    let mut order: Vec<String> = Vec::with_capacity(tables.len());
    let mut rest: BTreeSet<&str> = tables.iter().map(String::as_str).collect();
    loop {
        let free: Vec<&str> = rest
            .iter()
            .copied()
            .filter(|table| {
                let waits = waits.get(table).into_iter().flatten();
                waits.into_iter().all(|to| !rest.contains(to))
            })
            .collect();
        if free.is_empty() {
            break;
        }
        for table in free {
            rest.remove(table);
            order.push(table.to_owned());
        }
    }
    order.extend(rest.into_iter().map(str::to_owned));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_referred_to_comes_first() {
        let names = |names: &[&str]| -> BTreeSet<String> {
            names.iter().map(ToString::to_string).collect()
        };
        let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            let owned = pairs
                .iter()
                .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()));
            owned.collect()
        };
        let tables = names(&["actions", "orders", "payments", "refunds"]);
        let order = by_references(
            &tables,
            &pairs(&[
                ("refunds", "actions"),
                ("actions", "payments"),
                ("payments", "orders"),
                ("orders", "orders"),
                ("orders", "elsewhere"),
            ]),
        );
        assert_eq!(order, ["orders", "payments", "actions", "refunds"]);
        let circle = by_references(
            &names(&["a", "b", "c"]),
            &pairs(&[("a", "b"), ("b", "a"), ("a", "c")]),
        );
        assert_eq!(circle, ["c", "a", "b"]);
    }
}
