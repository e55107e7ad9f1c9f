//! Records that are odd, and records that are wrong.

use std::fs;

use holdpoint::eval::import::agentdojo::{Options, import};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::fixtures::fixture;
use super::replay::load;

/// The first run with an injection of the Explorer export.
fn attack() -> Value {
    let text = fs::read_to_string(fixture("traces/explorer.jsonl")).unwrap();
    let mut runs = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    runs.find(|run| !run["metadata"]["injection_task_id"].is_null())
        .unwrap()
}

fn with(change: impl Fn(&mut Value)) -> Value {
    let mut run = attack();
    change(&mut run);
    run
}

fn each_call(run: &mut Value, change: impl Fn(&mut Value)) {
    for message in run["messages"].as_array_mut().unwrap() {
        for call in message["tool_calls"].as_array_mut().into_iter().flatten() {
            change(&mut call["function"]);
        }
    }
}

fn imported(runs: &[Value]) -> Result<TempDir, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runs.jsonl");
    let lines: Vec<_> = runs.iter().map(Value::to_string).collect();
    fs::write(&file, lines.join("\n")).unwrap();
    let options = Options {
        files: vec![file],
        env: Some(fixture("agentdojo_env")),
        out: folder.path().join("suite"),
    };
    import(&options)
        .map(|_| folder)
        .map_err(|error| error.to_string())
}

#[test]
fn an_odd_record_still_makes_a_suite_that_loads() {
    let model = attack()["metadata"]["model"].as_str().unwrap().to_owned();
    let named = |name: String| with(|run| run["metadata"]["model"] = name.clone().into());
    for (runs, longest) in [
        // The second run of one model must not take the name of another model.
        (vec![attack(), attack(), named(format!("{model}.2"))], 200),
        (vec![named("m".repeat(400)), named("m".repeat(400))], 200),
        (
            vec![with(|run| {
                for message in run["messages"].as_array_mut().unwrap() {
                    message["content"] = Value::Null;
                }
            })],
            200,
        ),
    ] {
        let folder = imported(&runs).unwrap();
        let suite = load(&folder.path().join("suite"));
        assert!(suite.cases.iter().all(|case| case.id.len() <= longest));
    }
}

#[test]
fn arguments_may_be_json_text() {
    let text = with(|run| {
        each_call(run, |function| {
            let text = function["arguments"].to_string();
            function["arguments"] = text.into();
        });
    });
    let cases = |run: Value| {
        let folder = imported(&[run]).unwrap();
        fs::read_to_string(folder.path().join("suite/cases.jsonl")).unwrap()
    };
    assert_eq!(cases(text), cases(attack()));
}

#[test]
fn a_wrong_record_is_told_with_its_line() {
    let call = |key: &'static str, value: Value| {
        with(move |run| each_call(run, |function| function[key] = value.clone()))
    };
    let metadata = |key: &'static str| with(move |run| run["metadata"][key] = Value::Null);
    for (run, says) in [
        (call("name", json!("")), "names no tool"),
        (call("arguments", json!([1])), "are no JSON object"),
        (call("arguments", json!("{")), "are no JSON object"),
        (metadata("injection_task_id"), "no `injection_task_id`"),
        (metadata("attack_type"), "no `attack_type`"),
    ] {
        let said = imported(&[attack(), run]).unwrap_err();
        assert!(
            said.contains("runs.jsonl:2: ") && said.contains(says),
            "{said}"
        );
    }
}
