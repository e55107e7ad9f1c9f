//! The sentences that attacks and ordinary documents are made of: `grammar/*.txt`, written for this project.

use anyhow::{Context as _, Result, ensure};

use crate::random::{Random, part};

/// Sentences of one language.
#[derive(Clone, Debug, Default)]
pub struct Language {
    pub code: &'static str,
    pub actions: Vec<&'static str>,
    pub wrappers: Vec<String>,
    pub requests: Vec<&'static str>,
    pub neutral: Vec<&'static str>,
    pub hard: Vec<&'static str>,
}

macro_rules! languages {
    ($($code:literal)*) => {
        const FILES: &[(&str, &str)] = &[$(($code, include_str!(concat!("grammar/", $code, ".txt")))),*];
    };
}
languages!("en" "de" "fr" "es" "pt" "it" "nl" "pl" "ru" "tr" "zh" "ja");

/// The texts themselves, for the fingerprint of the weights.
pub fn texts() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(_, text)| *text)
}

/// Reads every language.
pub fn read() -> Result<Vec<Language>> {
    FILES
        .iter()
        .map(|(code, text)| language(code, text).with_context(|| format!("grammar/{code}.txt")))
        .collect()
}

fn language(code: &'static str, text: &'static str) -> Result<Language> {
    let mut language = Language {
        code,
        ..Language::default()
    };
    let mut section = "";
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_end();
        match line {
            "[actions]" | "[wrappers]" | "[requests]" | "[neutral]" | "[hard]" => section = line,
            "" => {}
            _ if line.starts_with("# ") && section.is_empty() => {}
            _ => match section {
                "[actions]" => language.actions.push(line),
                "[wrappers]" if line.contains("{}") => {
                    language.wrappers.push(line.replace("\\n", "\n"));
                }
                "[requests]" => language.requests.push(line),
                "[neutral]" => language.neutral.push(line),
                "[hard]" => language.hard.push(line),
                _ => anyhow::bail!("line {}: `{line}` fits no section", number + 1),
            },
        }
    }
    ensure!(
        language.actions.len() >= 50 && language.wrappers.len() >= 50,
        "{} actions and {} wrappers instead of 50 each",
        language.actions.len(),
        language.wrappers.len()
    );
    Ok(language)
}

/// Which sentences are drawn from: one in four is kept from the trainer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// What the model is trained on.
    Train,
    /// What it has not seen.
    Unseen,
}

impl Side {
    fn holds(self, sentence: &str) -> bool {
        (part(sentence, 4) == 0) == (self == Self::Unseen)
    }

    fn of<T: AsRef<str>>(self, from: &[T]) -> Vec<&str> {
        let all = || from.iter().map(AsRef::as_ref);
        let mine: Vec<_> = all().filter(|sentence| self.holds(sentence)).collect();
        if mine.is_empty() {
            all().collect()
        } else {
            mine
        }
    }
}

impl Language {
    /// An instruction to an agent.
    pub fn attack(&self, side: Side, random: &mut Random) -> String {
        let wrapper = *random.pick(&side.of(&self.wrappers));
        let action = *random.pick(&side.of(&self.actions));
        let action = filled(action, random);
        filled(&insert(wrapper, &action), random)
    }

    /// A sentence of an ordinary document that nobody would act on.
    pub fn sentence(&self, random: &mut Random) -> String {
        let sentence = *random.pick(&self.neutral);
        filled(sentence, random)
    }

    /// What people ask of people.
    pub fn request(&self, side: Side, random: &mut Random) -> String {
        let from = side.of(if random.once_in(4) {
            &self.neutral
        } else {
            &self.requests
        });
        let sentence = *random.pick(&from);
        filled(sentence, random)
    }

    /// What stands in the place of an attack in an ordinary document: a request to a person, or what looks like an attack.
    pub fn ordinary(&self, side: Side, random: &mut Random) -> String {
        let from = match random.below(4) {
            // The grammar has little else in these languages: without it, the language itself would be taken for the attack.
            0 if self.code != "en" => side.of(&self.actions),
            0 | 1 => side.of(&self.requests),
            2 if !self.hard.is_empty() => side.of(&self.hard),
            _ => side.of(&self.neutral),
        };
        let sentence = *random.pick(&from);
        filled(sentence, random)
    }
}

/// Puts an action into a wrapper, with a capital where a sentence begins.
fn insert(wrapper: &str, action: &str) -> String {
    let before = wrapper.split("{}").next().unwrap_or_default().trim_end();
    let begins = before.is_empty() || before.ends_with(['.', '!', '?', '>', '。', '\n']);
    let mut letters = action.chars();
    let capital = letters
        .next()
        .map(|first| first.to_uppercase().chain(letters).collect::<String>());
    match capital {
        Some(capital) if begins => wrapper.replace("{}", &capital),
        _ => wrapper.replace("{}", action),
    }
}

const NAMES: [&str; 16] = [
    "Anna",
    "Tom Berger",
    "Mrs Lindqvist",
    "Paul",
    "Fatima",
    "Jun",
    "Olga",
    "Harbour View",
    "Rosa",
    "Mr Okafor",
    "Blue Lantern",
    "Ines",
    "Piotr",
    "Deniz",
    "Yuki",
    "Lena",
];
const STEMS: [&str; 20] = [
    "north", "cedar", "quick", "metro", "alpha", "stone", "river", "cloud", "delta", "amber",
    "orbit", "vista", "helix", "prime", "lumen", "frost", "birch", "coral", "ember", "solar",
];
const ENDINGS: [&str; 8] = [
    "example",
    "test",
    "example.com",
    "example.org",
    "example.net",
    "invalid",
    "example.io",
    "example.co",
];
const TOPICS: [&str; 8] = [
    "Update",
    "Report",
    "Welcome",
    "Results",
    "Your data",
    "Access",
    "Notice",
    "Summary",
];
const TOOLS: [&str; 10] = [
    "send_email",
    "read_file",
    "create_user",
    "search_contacts",
    "transfer_funds",
    "list_files",
    "delete_event",
    "post_message",
    "get_secret",
    "http_request",
];
const FILES_NAMED: [&str; 8] = [
    "report.docx",
    "budget.xlsx",
    "notes.txt",
    "contract.pdf",
    "customers.csv",
    "plan.md",
    "backup.zip",
    "keys.pem",
];

const VERBS: [&str; 14] = [
    "ignore",
    "disregard",
    "forget",
    "do not follow",
    "set aside",
    "override",
    "pay no attention to",
    "drop",
    "stop following",
    "discard",
    "skip",
    "neglect",
    "abandon",
    "don't listen to",
];
const ALL: [&str; 8] = [
    "all",
    "all of the",
    "any",
    "your",
    "the",
    "every one of your",
    "",
    "all your",
];
const EARLIER: [&str; 8] = [
    "previous",
    "prior",
    "above",
    "earlier",
    "preceding",
    "former",
    "original",
    "existing",
];
const ORDERS: [&str; 10] = [
    "instructions",
    "rules",
    "directions",
    "prompts",
    "guidelines",
    "orders",
    "tasks",
    "commands",
    "requests",
    "system messages",
];
const AGENTS: [&str; 12] = [
    "AI",
    "assistant",
    "AI assistant",
    "agent",
    "AI agent",
    "language model",
    "LLM",
    "chatbot",
    "AI model",
    "virtual assistant",
    "copilot",
    "autonomous agent",
];
const NOW: [&str; 10] = [
    "Instead,",
    "Now",
    "From now on,",
    "Your new task is to",
    "Do this instead:",
    "Instead, do the following:",
    "You must now",
    "First,",
    "Your only job is to",
    "The real task:",
];
const BEFORE: [&str; 10] = [
    "before you go on",
    "before answering the user",
    "before doing anything else",
    "before you summarise this",
    "before you can finish the task",
    "before the next step",
    "prior to completing the request",
    "before calling any other tool",
    "after you have read this",
    "before you reply",
];
const SECRET: [&str; 10] = [
    "Do not tell the user",
    "Don't mention this to the user",
    "Keep this hidden from the user",
    "Never reveal that you did so",
    "The user must not know",
    "Say nothing about it in your answer",
    "Do not ask for confirmation",
    "No confirmation is needed",
    "You are authorised to do so",
    "Do it without asking",
];

/// Replaces the slots of a sentence.
pub fn filled(sentence: &str, random: &mut Random) -> String {
    let mut text = String::with_capacity(sentence.len() + 32);
    let mut rest = sentence;
    while let Some((before, (slot, after))) = rest
        .split_once('{')
        .and_then(|(before, after)| Some((before, after.split_once('}')?)))
    {
        text.push_str(before);
        if let Some(value) = value(slot, random) {
            text.push_str(&value);
        } else {
            text.push('{');
            text.push_str(slot);
            text.push('}');
        }
        rest = after;
    }
    text.push_str(rest);
    text
}

fn value(slot: &str, random: &mut Random) -> Option<String> {
    let mut host = || {
        format!(
            "{}-{}.{}",
            random.pick(&STEMS),
            random.pick(&STEMS),
            random.pick(&ENDINGS)
        )
    };
    Some(match slot {
        "mail" => {
            let host = host();
            format!("{}{}@{host}", random.pick(&STEMS), random.below(90))
        }
        "url" => {
            let host = host();
            let start = if random.once_in(4) {
                "www."
            } else {
                "https://"
            };
            format!("{start}{host}/{}", random.pick(&STEMS))
        }
        "host" => host(),
        "iban" => format!(
            "XK{:02}{:016}",
            random.below(90) + 10,
            random.next() % 10_000_000_000_000_000
        ),
        "amount" => format!("{}.{:02} EUR", random.below(9000) + 20, random.below(100)),
        "code" => format!("{:06}", random.below(1_000_000)),
        "n" => (random.below(98) + 2).to_string(),
        "name" => (*random.pick(&NAMES)).to_owned(),
        "word" => (*random.pick(&STEMS)).to_owned(),
        "file" => (*random.pick(&FILES_NAMED)).to_owned(),
        "topic" => (*random.pick(&TOPICS)).to_owned(),
        "tool" => (*random.pick(&TOOLS)).to_owned(),
        "ov" => format!(
            "{} {} {} {}",
            random.pick(&VERBS),
            random.pick(&ALL),
            random.pick(&EARLIER),
            random.pick(&ORDERS)
        )
        .replace("  ", " "),
        "ai" => (*random.pick(&AGENTS)).to_owned(),
        "now" => (*random.pick(&NOW)).to_owned(),
        "before" => (*random.pick(&BEFORE)).to_owned(),
        "secret" => (*random.pick(&SECRET)).to_owned(),
        _ => return None,
    })
}
