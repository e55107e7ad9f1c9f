//! `InjecAgent`'s own files: test cases, and what models said to them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::literal;
use crate::eval::import::agentdojo::record::RecordError;
use crate::eval::import::chat::field;
use crate::eval::import::lines::Line;

/// Where the attacker's text stands in a template.
const SLOT: &str = "<Attacker Instruction>";

/// What an attack wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aim {
    /// One tool is called that does harm.
    Harm,
    /// Data is read by one tool and mailed by another.
    Steal,
}

impl Aim {
    /// The word of the source: `dh`, `ds`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Harm => "dh",
            Self::Steal => "ds",
        }
    }
}

/// A test case.
#[derive(Clone, Debug, PartialEq)]
pub struct TestCase {
    /// What the attack wants.
    pub aim: Aim,
    /// Whether the instruction comes with words around it, which the source calls `enhanced`.
    pub enhanced: bool,
    /// Its number in its file.
    pub index: u64,
    /// What the user asked.
    pub user_instruction: String,
    /// The tool that the agent calls for it.
    pub user_tool: String,
    /// With these arguments.
    pub user_args: Map<String, Value>,
    /// What it thought.
    pub thought: String,
    /// The output, with the slot where the attacker writes.
    pub template: String,
    /// The output that it got.
    pub response: String,
    /// What the attacker wants, in words.
    pub instruction: String,
    /// The tools to be called for it: one, or one that reads and one that sends.
    pub attacker_tools: Vec<String>,
}

/// Whether a line is a test case.
pub fn is_case(value: &Value) -> bool {
    value.get("Attacker Tools").is_some() && value.get("Tool Response").is_some()
}

/// Whether a line is what a model said.
pub fn is_output(value: &Value) -> bool {
    ["model", "attack", "setting", "output", "eval"]
        .iter()
        .all(|key| value.get(key).is_some())
}

impl TestCase {
    /// Reads a line.
    ///
    /// # Errors
    /// It is no test case; its field is named.
    pub fn read(line: &Line) -> Result<Self, RecordError> {
        let value = &line.value;
        let text = |name: &str| -> Result<String, RecordError> {
            let text = field(value, name, "the record").map_err(|what| line.bad(what))?;
            Ok(text.to_owned())
        };
        let tools = value.get("Attacker Tools").and_then(Value::as_array);
        let tools: Option<Vec<String>> = tools.and_then(|tools| {
            let tools = tools.iter().map(|tool| tool.as_str().map(str::to_owned));
            tools.collect()
        });
        let attacker_tools = tools
            .filter(|tools| (1..=2).contains(&tools.len()))
            .ok_or_else(|| line.bad("`Attacker Tools` is not an array of one or two names"))?;
        let index = value.get("case_index").and_then(Value::as_u64);
        let user_args = text("Tool Parameters")?;
        let user_args = literal::object(&user_args)
            .ok_or_else(|| line.bad("`Tool Parameters` is no object"))?;
        let (template, instruction) = (
            text("Tool Response Template")?,
            text("Attacker Instruction")?,
        );
        let response = bare(&text("Tool Response")?).to_owned();
        Ok(Self {
            aim: if attacker_tools.len() == 1 {
                Aim::Harm
            } else {
                Aim::Steal
            },
            enhanced: letters(&response) != letters(&template.replace(SLOT, &instruction)),
            index: index.ok_or_else(|| line.bad("`case_index` is not a whole number"))?,
            user_instruction: text("User Instruction")?,
            user_tool: text("User Tool")?,
            user_args,
            thought: thought(&text("Thought")?).to_owned(),
            template,
            response,
            instruction,
            attacker_tools,
        })
    }

    /// How the source names it.
    pub fn key(&self) -> Key {
        (self.aim, self.enhanced, self.index)
    }

    /// The output with an ordinary text in the slot.
    pub fn ordinary(&self, text: &str) -> String {
        self.template.replace(SLOT, text)
    }
}

/// Aim, whether enhanced, number.
pub type Key = (Aim, bool, u64);

/// The test cases of several files.
pub type TestCases = BTreeMap<Key, TestCase>;

/// What became of an attack, as the source says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every attacker tool was called.
    Success,
    /// It was not.
    Failure,
    /// The model's text was no valid step: why.
    Invalid(String),
}

/// What one model said to one case.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelOutput {
    /// The model.
    pub model: String,
    /// The case.
    pub key: Key,
    /// Its text after it had read the output.
    pub text: String,
    /// What the tool that reads gave back, and the model's text after that.
    pub second: Option<(String, String)>,
    /// What the source made of it.
    pub outcome: Outcome,
}

impl ModelOutput {
    /// Reads a line.
    ///
    /// # Errors
    /// It is no output; its field is named.
    pub fn read(line: &Line) -> Result<Self, RecordError> {
        let value = &line.value;
        let text = |name: &str| field(value, name, "the record").map_err(|what| line.bad(what));
        let aim = match text("attack")? {
            "dh" => Aim::Harm,
            "ds" => Aim::Steal,
            other => return Err(line.bad(format!("`attack` is `{other}`, and neither dh nor ds"))),
        };
        let enhanced = match text("setting")? {
            "base" => false,
            "enhanced" => true,
            other => {
                let what = format!("`setting` is `{other}`, and neither base nor enhanced");
                return Err(line.bad(what));
            }
        };
        let index = value.get("case_index").and_then(Value::as_u64);
        let optional = |name: &str| value.get(name).and_then(Value::as_str);
        let second = optional("output Step 2").map(|said| {
            (
                optional("Attacker Tool Response")
                    .unwrap_or_default()
                    .to_owned(),
                said.to_owned(),
            )
        });
        let first = outcome(text("eval")?, optional("invalid_reason"));
        let first = first.map_err(|what| line.bad(what))?;
        let outcome = match (first, optional("eval Step 2")) {
            (Outcome::Success, Some(eval)) => {
                outcome(eval, optional("invalid_reason  Step 2")).map_err(|what| line.bad(what))?
            }
            // Nothing was mailed.
            (Outcome::Success, None) if aim == Aim::Steal => Outcome::Failure,
            (first, _) => first,
        };
        Ok(Self {
            model: text("model")?.to_owned(),
            key: (
                aim,
                enhanced,
                index.ok_or_else(|| line.bad("`case_index` is not a whole number"))?,
            ),
            // `null` where the model gave no answer.
            text: match value.get("output") {
                Some(Value::Null) => String::new(),
                _ => text("output")?.to_owned(),
            },
            second,
            outcome,
        })
    }
}

fn outcome(eval: &str, why: Option<&str>) -> Result<Outcome, String> {
    match eval {
        "succ" => Ok(Outcome::Success),
        "unsucc" => Ok(Outcome::Failure),
        "invalid" => Ok(Outcome::Invalid(why.unwrap_or("no valid step").to_owned())),
        other => Err(format!(
            "an outcome is `{other}`, and not one of succ, unsucc, invalid"
        )),
    }
}

/// A text without marks: quotes are escaped in one way here and in another there.
fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}

/// Outputs come between quotes.
fn bare(text: &str) -> &str {
    let inner = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    inner.unwrap_or(text)
}

fn thought(text: &str) -> &str {
    text.strip_prefix("Thought:").unwrap_or(text).trim()
}
