//! `ReAct` text: what a model thought, which actions it named, and how it ended.

use serde_json::{Map, Value};

use super::literal;

/// One action.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Action {
    /// The tool.
    pub(super) tool: String,
    /// Its arguments. Text that is no object is kept as `input`.
    pub(super) args: Map<String, Value>,
}

/// What stands at the beginning of a line.
const MARKS: [&str; 5] = [
    "Thought:",
    "Action:",
    "Action Input:",
    "Observation:",
    "Final Answer:",
];

/// The actions of an output, in order. `None`, `N/A` and the like are no actions.
pub(super) fn actions(output: &str) -> Vec<Action> {
    let sections = sections(output);
    let mut actions: Vec<Action> = Vec::new();
    let mut open = false;
    for (mark, text) in &sections {
        match *mark {
            "Action:" => {
                let tool = tool(text);
                open = tool.is_some();
                actions.extend(tool.map(|tool| Action {
                    tool,
                    args: Map::new(),
                }));
            }
            "Action Input:" if open => {
                if let Some(action) = actions.last_mut() {
                    action.args = args(text);
                }
                open = false;
            }
            _ => {}
        }
    }
    actions
}

/// What the model said before its first action or its answer.
pub(super) fn thought(output: &str) -> String {
    let before = sections(output)
        .into_iter()
        .take_while(|(mark, _)| !matches!(*mark, "Action:" | "Final Answer:"))
        .map(|(_, text)| text.trim().to_owned())
        .filter(|text| !text.is_empty());
    before.collect::<Vec<_>>().join("\n")
}

/// The final answer, where there is one.
pub(super) fn answer(output: &str) -> Option<String> {
    let (_, text) = sections(output)
        .into_iter()
        .rfind(|(mark, _)| *mark == "Final Answer:")?;
    Some(text.trim().to_owned())
}

/// The text in pieces, each with the mark before it.
fn sections(output: &str) -> Vec<(&'static str, String)> {
    let mut sections: Vec<(&'static str, String)> = vec![("Thought:", String::new())];
    for line in output.lines() {
        let bare = line.trim_start();
        let marked = MARKS
            .iter()
            .find_map(|mark| Some((*mark, bare.strip_prefix(mark)?)));
        let (mark, text) = marked.map_or((None, line), |(mark, text)| (Some(mark), text));
        let within = within(text).filter(|_| matches!(mark, None | Some("Thought:")));
        let said = within.map_or(text, |(before, _)| before);
        match (mark, sections.last_mut()) {
            (None, Some((_, section))) => {
                section.push('\n');
                section.push_str(said);
            }
            (mark, _) => sections.push((mark.unwrap_or("Thought:"), said.to_owned())),
        }
        if let Some((_, tool)) = within {
            sections.push(("Action:", tool.to_owned()));
        }
    }
    sections
}

/// An action that is named at the end of a thought's line.
fn within(line: &str) -> Option<(&str, &str)> {
    let (before, tool) = line.rsplit_once("Action:")?;
    let one = tool.split_whitespace().count() == 1;
    one.then_some((before, tool))
}

/// The name of a tool, without what a model writes around it.
fn tool(text: &str) -> Option<String> {
    let word = text.split_whitespace().next()?;
    let word = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '_');
    let none =
        word.is_empty() || ["none", "n/a", "na"].contains(&word.to_ascii_lowercase().as_str());
    (!none).then(|| word.to_owned())
}

fn args(text: &str) -> Map<String, Value> {
    let text = text.trim();
    if let Some(object) = literal::object(text) {
        return object;
    }
    if text.is_empty() || text.eq_ignore_ascii_case("none") {
        return Map::new();
    }
    Map::from_iter([("input".to_owned(), text.into())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_read_in_order_with_their_arguments() {
        let output = "Thought: I look.\nAction: ShopGetItem\nAction Input: {'id': 'x',\n 'n': 2}\nObservation: {}\n\n\
                      Thought: done\nAction: \"MailSend\"\nAction Input: to nobody\nFinal Answer: Sent.";
        let read = actions(output);
        let tools: Vec<_> = read.iter().map(|action| action.tool.as_str()).collect();
        assert_eq!(tools, ["ShopGetItem", "MailSend"]);
        assert_eq!(
            Value::Object(read[0].args.clone()),
            serde_json::json!({"id": "x", "n": 2})
        );
        assert_eq!(
            Value::Object(read[1].args.clone()),
            serde_json::json!({"input": "to nobody"})
        );
        assert_eq!(thought(output), "I look.");
        assert_eq!(answer(output).as_deref(), Some("Sent."));
    }

    #[test]
    fn an_action_may_end_a_thought() {
        let read = actions("Thought: I obey. Action: LockUnlock\nAction Input:{\"door\": 1}");
        assert_eq!(read.len(), 1);
        assert_eq!(read[0].args["door"], 1);
        assert_eq!(actions("Thought: the Action: is to wait for it"), []);
    }

    #[test]
    fn no_action_is_none() {
        assert_eq!(
            actions("Thought: hm\nAction: None\nAction Input: None\nFinal Answer: No."),
            []
        );
        assert_eq!(actions("I will not."), []);
        assert_eq!(answer("I will not."), None);
    }
}
