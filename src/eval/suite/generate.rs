//! Cases from counts: a published table says how often each course of events was seen, and templates say what happened in it.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::Digest;
use super::cases::{self, Placed};
use crate::source::{
    Field, MAX_YAML, Problem, Problems, Reader, Spot, Tree, did_you_mean, parse, read_text,
};

/// A course of events, with `{{name}}` placeholders.
struct Template {
    json: Value,
    at: Spot,
}

/// Reads the counts and the templates and makes the cases.
pub(super) fn read(
    counts: &Path,
    templates: &Path,
    digest: &mut Digest,
) -> Result<Vec<Placed>, Problems> {
    let text = read_text(counts, MAX_YAML)?;
    digest.add(&text);
    let tree = parse(&counts.display().to_string(), text)?;
    let templates = named(cases::lines(templates, digest)?)?;
    let reader = Reader::new();
    let made = table(&reader.root(&tree), &templates);
    reader.finish(made)
}

fn named(lines: Vec<Tree>) -> Result<BTreeMap<String, Template>, Problems> {
    let mut templates = BTreeMap::new();
    for tree in lines {
        let at = tree.root.spot.clone();
        let json = tree.root.json();
        let problem = match json.get("id").and_then(Value::as_str) {
            None => "a template needs an `id`, which the counts name",
            Some(id) if templates.contains_key(id) => "another template has this `id`",
            Some(id) => {
                templates.insert(id.to_owned(), Template { json, at });
                continue;
            }
        };
        return Err(Problem::new(problem).at(at).into());
    }
    Ok(templates)
}

struct Table<'t> {
    trials: usize,
    fill: &'t str,
    templates: &'t BTreeMap<String, Template>,
}

fn table<'t>(root: &Field<'t>, templates: &'t BTreeMap<String, Template>) -> Option<Vec<Placed>> {
    let mut fields = root.map()?;
    let trials = fields.required("trials").and_then(|f| f.whole::<u16>());
    let fill = fields
        .required("fill")
        .and_then(|f| template(&f, f.text()?, templates));
    let cells = fields.required("cells").and_then(|f| f.filled_list());
    fields.finish();
    let table = Table {
        trials: usize::from(trials?),
        fill: fill?,
        templates,
    };
    let made: Vec<_> = cells?.iter().map(|cell| table.cell(cell)).collect();
    made.into_iter()
        .collect::<Option<Vec<_>>>()
        .map(|cells| cells.into_iter().flatten().collect())
}

fn template<'t>(
    at: &Field<'t>,
    name: &'t str,
    templates: &BTreeMap<String, Template>,
) -> Option<&'t str> {
    if templates.contains_key(name) {
        return Some(name);
    }
    let known = templates.keys().map(String::as_str);
    at.error(
        format!("no template has the id `{name}`"),
        did_you_mean("templates", name, known),
    );
    None
}

impl Table<'_> {
    fn cell(&self, cell: &Field<'_>) -> Option<Vec<Placed>> {
        let mut fields = cell.map()?;
        let name = fields.required("cell").and_then(|f| f.name());
        let vars = match fields.optional("vars") {
            Some(field) => field.entries()?,
            None => Vec::new(),
        };
        let counts = fields.required("counts").and_then(|f| f.entries());
        fields.finish();
        let mut values: BTreeMap<String, Value> = vars
            .iter()
            .map(|(key, value)| (key.text().to_owned(), value.json()))
            .collect();
        values.insert("cell".to_owned(), name?.into());
        let mut made = Vec::new();
        for (arm, counted) in counts? {
            values.insert("arm".to_owned(), arm.text().into());
            made.extend(self.arm(&counted, &mut values)?);
        }
        Some(made)
    }

    /// All trials of one cell in one arm: those counted, and as many of the filling template as are left.
    fn arm(
        &self,
        counted: &Field<'_>,
        values: &mut BTreeMap<String, Value>,
    ) -> Option<Vec<Placed>> {
        let mut courses = Vec::new();
        for (key, count) in counted.entries()? {
            let name = template(&count, key.text(), self.templates)?;
            courses.push((name, count.whole::<u16>().map(usize::from)?));
        }
        let named: usize = courses.iter().map(|(_, count)| count).sum();
        let Some(left) = self.trials.checked_sub(named) else {
            counted.error(
                format!(
                    "{named} trials are counted here, but there are {}",
                    self.trials
                ),
                "lower a count, or raise `trials`",
            );
            return None;
        };
        courses.push((self.fill, left));
        let courses = courses.into_iter();
        let numbered = courses.flat_map(|(name, count)| (1..=count).map(move |n| (name, n)));
        numbered
            .map(|(name, n)| self.trial(counted, name, n, values))
            .collect()
    }

    fn trial(
        &self,
        counted: &Field<'_>,
        name: &str,
        n: usize,
        values: &mut BTreeMap<String, Value>,
    ) -> Option<Placed> {
        let template = self.templates.get(name)?;
        values.insert("n".to_owned(), n.into());
        let made = filled(&template.json, values).and_then(|mut json| {
            let word = |key| values.get(key).and_then(Value::as_str).unwrap_or_default();
            let (cell, arm) = (word("cell"), word("arm"));
            if let Value::Object(fields) = &mut json {
                fields.insert(
                    "id".to_owned(),
                    format!("{cell}.{arm}.{name}.{n:03}").into(),
                );
                fields.insert("arm".to_owned(), arm.into());
            }
            cases::case(json, template.at.clone()).map_err(|problem| problem.message)
        });
        match made {
            Ok(placed) => Some(placed),
            Err(message) => {
                let problem = Problem::new(message).at(template.at.clone());
                counted.report(problem.help("placeholders: cell, arm, n and the cell's `vars`"));
                None
            }
        }
    }
}

/// The value with every placeholder replaced. A string that is one placeholder becomes the value itself, whatever its type.
fn filled(json: &Value, values: &BTreeMap<String, Value>) -> Result<Value, String> {
    Ok(match json {
        Value::String(text) => text_filled(text, values)?,
        Value::Array(items) => items
            .iter()
            .map(|item| filled(item, values))
            .collect::<Result<_, _>>()?,
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| Ok((key.clone(), filled(value, values)?)))
                .collect::<Result<_, String>>()?,
        ),
        other => other.clone(),
    })
}

fn text_filled(text: &str, values: &BTreeMap<String, Value>) -> Result<Value, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after
            .split_once("}}")
            .ok_or_else(|| format!("`{text}` opens a placeholder and does not close it"))?;
        let value = values
            .get(name)
            .ok_or_else(|| format!("nothing is given for the placeholder `{name}`"))?;
        if before.is_empty() && after.is_empty() && out.is_empty() {
            return Ok(value.clone());
        }
        out += before;
        match value {
            Value::String(value) => out += value,
            value => out += &value.to_string(),
        }
        rest = after;
    }
    out += rest;
    Ok(out.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEMPLATES: &str = r#"{"id":"try","kind":"attack","cluster":"{{cell}}","principal":"p","steps":[{"user":"{{text}}, {{n}}"}],"params":{"n":"{{n}}"}}
{"id":"quiet","kind":"attack","principal":"p","steps":[]}
"#;

    fn made(counts: &str) -> Result<Vec<Placed>, String> {
        let folder = tempfile::tempdir().unwrap();
        let (at, templates) = (
            folder.path().join("counts.yaml"),
            folder.path().join("t.jsonl"),
        );
        std::fs::write(&at, counts).unwrap();
        std::fs::write(&templates, TEMPLATES).unwrap();
        read(&at, &templates, &mut Digest::new()).map_err(|problems| problems.to_string())
    }

    #[test]
    fn counts_become_cases_and_the_rest_is_filled() {
        let cases = made(
            "trials: 3\nfill: quiet\ncells:\n  - cell: mine\n    vars: {text: give}\n    counts: {off: {try: 2}, on: {}}\n",
        )
        .unwrap();
        let ids: Vec<_> = cases.iter().map(|placed| placed.case.id.as_str()).collect();
        assert_eq!(
            ids,
            [
                "mine.off.try.001",
                "mine.off.try.002",
                "mine.off.quiet.001",
                "mine.on.quiet.001",
                "mine.on.quiet.002",
                "mine.on.quiet.003"
            ]
        );
        let case = &cases[1].case;
        assert_eq!(case.arm.as_deref(), Some("off"));
        assert_eq!(case.cluster.as_deref(), Some("mine"));
        assert_eq!(case.params["n"], 2);
        assert_eq!(
            case.steps,
            [crate::eval::case::Step::User("give, 2".into())]
        );
    }

    #[test]
    fn what_does_not_add_up_is_told() {
        for (counts, says) in [
            (
                "{off: {try: 4}}",
                "4 trials are counted here, but there are 3",
            ),
            ("{off: {tyr: 1}}", "no template has the id `tyr`"),
            (
                "{off: {try: 1}}",
                "nothing is given for the placeholder `text`",
            ),
        ] {
            let text = format!("trials: 3\nfill: quiet\ncells: [{{cell: a, counts: {counts}}}]\n");
            let said = made(&text).unwrap_err();
            assert!(said.contains(says), "{said}");
        }
    }
}
