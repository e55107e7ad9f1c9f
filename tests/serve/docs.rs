//! The reference pages say what the server does: no name is missing, none is left over.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use holdpoint::metrics::{Unscanned, UpstreamFault};
use holdpoint::proxy::error_codes;
use holdpoint::proxy::refuse::CODES;

use crate::support::rig::{Rig, config};
use crate::support::upstream::{Upstream, json};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Cells of every table row whose first cell is a code word.
fn rows(page: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(root().join("docs/reference").join(page)).unwrap();
    text.lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| {
            let cells = line.trim_matches('|').split('|');
            cells.map(|cell| cell.trim().to_owned()).collect()
        })
        .collect()
}

fn words(cell: &str) -> BTreeSet<String> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

fn word(cell: &str) -> String {
    words(cell).pop_first().unwrap()
}

#[tokio::test]
async fn every_metric_is_explained_with_its_type_and_labels() {
    let upstream = Upstream::start(|_| json("{}")).await;
    let policy = "version: 1
name: all
layers: {catalog: off, identity: off, egress: off, recipients: off, ownership: off, injection: off, tickets: enforce}
tools: [{tool: get_order, effect: read}, {tool: refund, ticket: {gate: approve, ttl: 1m}}, {tool: send}]
";
    let rig = Rig::start(&config(&upstream.url(), "tickets: {store: t.db}"), policy).await;
    // Before any traffic: the series exist with zeros.
    let scrape = rig.scrape().await;
    let zero = "holdpoint_requests_total{protocol=\"http_tools\",route=\"shop\",status=\"5xx\"} 0";
    assert!(scrape.contains(zero), "{scrape}");

    let mut types = BTreeMap::new();
    let mut labels: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in scrape.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            types.insert(name.to_owned(), kind.to_owned());
        } else if !line.starts_with('#') {
            let series = line.rsplit_once(' ').unwrap().0;
            let (name, inside) = series.split_once('{').unwrap_or((series, ""));
            let name = types
                .keys()
                .filter(|known| name.starts_with(known.as_str()))
                .max_by_key(|known| known.len())
                .unwrap();
            let names = inside
                .trim_end_matches('}')
                .split("\",")
                .filter_map(|pair| Some(pair.split_once('=')?.0.to_owned()))
                .filter(|label| label != "le");
            labels.entry(name.clone()).or_default().extend(names);
        }
    }
    let mut explained = BTreeMap::new();
    for row in rows("metrics.md").iter().filter(|row| row.len() == 5) {
        let name = word(&row[0]);
        assert_eq!(labels.get(&name), Some(&words(&row[3])), "labels of {name}");
        explained.insert(name, row[1].clone());
    }
    assert_eq!(explained, types);

    let listed: BTreeSet<String> = rows("metrics.md")
        .iter()
        .filter(|row| row.len() == 2)
        .map(|row| word(&row[0]))
        .collect();
    let unscanned = Unscanned::ALL.into_iter().map(Unscanned::as_str);
    let faults = UpstreamFault::ALL.into_iter().map(UpstreamFault::as_str);
    let known: BTreeSet<String> = unscanned.chain(faults).map(str::to_owned).collect();
    assert_eq!(listed, known);
}

#[test]
fn every_error_code_is_explained_with_its_status() {
    let rows = rows("errors.md");
    let explained: BTreeSet<String> = rows.iter().map(|row| word(&row[0])).collect();
    let known: BTreeSet<String> = error_codes().map(str::to_owned).collect();
    assert_eq!(explained, known);
    assert_eq!(rows.len(), known.len(), "a code is explained twice");
    for row in rows {
        let code = word(&row[0]);
        let Some(known) = CODES.iter().find(|known| known.code == code) else {
            continue;
        };
        assert_eq!(row[1], known.status.as_str(), "{code}");
        let retry = if known.retry { "yes" } else { "no" };
        assert!(
            row[2] == retry || row[2] == "on model routes",
            "retry of {code}"
        );
    }
}

#[test]
fn the_adapters_use_no_code_that_is_not_explained() {
    let mut folders = vec![root().join("src/protocols")];
    let known: BTreeSet<&str> = error_codes().collect();
    let mut found = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for part in text.split("code: \"").skip(1) {
                let code = part.split('"').next().unwrap();
                assert!(known.contains(code), "{code} in {}", path.display());
                found.insert(code.to_owned());
            }
        }
    }
    assert!(found.contains("endpoint_unknown"), "{found:?}");
}
