//! `docs/mcp-wrap.md` does what it says.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Value, json};

use crate::wrapped::{BINARY, Wrapped};

const PAGE: &str = include_str!("../../docs/mcp-wrap.md");

/// Blocks of a language, in order.
fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    PAGE.split(&*fence)
        .skip(1)
        .map(|rest| rest.split_once("```").unwrap().0)
        .collect()
}

fn help(words: &[&str]) -> String {
    let output = Command::new(BINARY).args(words).arg("--help").output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

#[test]
fn every_option_is_in_the_table_and_none_is_left_over() {
    let names = |text: &str, begins: &str| -> BTreeSet<String> {
        let lines = text.lines().map(str::trim_start);
        lines
            .filter_map(|line| line.strip_prefix(begins))
            .map(|rest| {
                let end = |c: char| !(c.is_ascii_lowercase() || c == '-');
                rest.split(end).next().unwrap().to_owned()
            })
            .collect()
    };
    let mut known = names(&help(&["mcp-wrap"]), "--");
    known.extend(names(&help(&["mcp-wrap"]), "-h, --"));
    assert!(known.remove("help"));
    // The end of the options, before the command.
    known.remove("");
    assert_eq!(names(PAGE, "| `--"), known);
}

#[test]
fn the_policy_is_good_and_the_configs_of_clients_work() {
    let servers: Vec<Value> = blocks("json")
        .iter()
        .map(|block| serde_json::from_str::<Value>(block).unwrap()["mcpServers"]["files"].clone())
        .collect();
    assert_eq!(servers.len(), 2);
    for server in servers {
        assert_eq!(server["command"], "holdpoint");
        let words: Vec<_> = server["args"].as_array().unwrap().iter().collect();
        let words: Vec<_> = words.iter().map(|word| word.as_str().unwrap()).collect();
        let end = words.iter().position(|word| *word == "--").unwrap();
        assert_eq!(words[0], "mcp-wrap");
        let mut wrapped = Wrapped::with("hello; next; text 2 fine; next", "", |command| {
            let folder = command.get_current_dir().unwrap().to_owned();
            std::fs::write(folder.join("files.policy.yaml"), blocks("yaml")[0]).unwrap();
            for word in &words[1..end] {
                command.arg(word.replace("/home/ann", folder.to_str().unwrap()));
            }
        });
        wrapped.shake_hands();
        if end > 1 {
            for tool in ["move_file", "write_file"] {
                wrapped.call(1, tool, &json!({"path": "a"}));
                assert_eq!(wrapped.next()["result"]["isError"], true, "{tool}");
            }
        }
        wrapped.call(2, "read_text_file", &json!({"path": "a"}));
        assert_eq!(wrapped.next()["result"]["content"][0]["text"], "fine");
    }
}

#[test]
fn the_commands_are_known() {
    let commands: Vec<_> = blocks("console")
        .iter()
        .flat_map(|block| block.lines())
        .filter_map(|line| line.strip_prefix("$ holdpoint "))
        .collect();
    assert!(!commands.is_empty());
    for command in commands {
        let words: Vec<_> = command.split_whitespace().collect();
        let help = help(&words[..2]);
        for option in words.iter().filter(|word| word.starts_with("--")) {
            assert!(help.contains(option), "{command}: {option}");
        }
    }
}
