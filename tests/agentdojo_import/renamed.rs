//! Another world of the same shape: every address, host, account and name turned into another, consistently, in the
//! environment and in the recordings.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
use regex::{Captures, Regex};

/// The escapes of a quoted text, which are no part of the word behind them.
const ESCAPE: &str = r"(?P<escape>\\[nrt])?";

/// A suite's public data.
pub struct World {
    suite: &'static str,
    data: PathBuf,
}

impl World {
    pub fn of(suite: &'static str, data: &Path) -> Self {
        let data = data.to_owned();
        Self { suite, data }
    }

    fn env(&self) -> PathBuf {
        self.data.join("agentdojo_env")
    }

    /// The files of the environment, by their path there.
    fn files(&self) -> Vec<PathBuf> {
        let mut files = vec![
            PathBuf::from("user_tasks.json"),
            "injection_tasks.json".into(),
        ];
        for folder in [
            PathBuf::from(self.suite),
            Path::new(self.suite).join("include"),
        ] {
            let Ok(entries) = fs::read_dir(self.env().join(&folder)) else {
                continue;
            };
            let names = entries.map(|entry| folder.join(entry.unwrap().file_name()));
            files.extend(names.filter(|name| name.extension().is_some_and(|end| end == "yaml")));
        }
        files
    }

    /// Copies recording and environment, keeps every `step`th run, and gives the recording's path.
    pub fn copy(&self, into: &Path, step: usize, rename: bool) -> PathBuf {
        let names = self.names();
        let renamed = |text: &str| {
            if rename {
                renamed(text, &names)
            } else {
                text.to_owned()
            }
        };
        for file in self.files() {
            let to = into.join("agentdojo_env").join(&file);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            let text = fs::read_to_string(self.env().join(&file)).unwrap();
            fs::write(to, renamed(&text)).unwrap();
        }
        let recording = format!("{}.jsonl.gz", self.suite);
        let packed = fs::read(self.data.join("agentdojo_traces").join(&recording)).unwrap();
        let mut text = String::new();
        MultiGzDecoder::new(&packed[..])
            .read_to_string(&mut text)
            .unwrap();
        let kept: Vec<_> = text.lines().step_by(step).collect();
        let text = renamed(&kept.join("\n"));
        let runs = into.join("runs");
        fs::create_dir(&runs).unwrap();
        let recording = runs.join(recording);
        let mut file = GzEncoder::new(fs::File::create(&recording).unwrap(), Compression::fast());
        file.write_all(text.as_bytes()).unwrap();
        file.finish().unwrap();
        recording
    }

    /// People and places: what a policy could have been tuned to beside addresses, hosts and accounts.
    fn names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        let fields = Regex::new(
            r#"(?m)^[\s-]*(?:first_name|last_name|name|sender|city): *"?([^"\n]+?)"?\s*$"#,
        )
        .unwrap();
        let addresses = Regex::new(r"([a-z.]+)@").unwrap();
        for file in self.files() {
            let text = fs::read_to_string(self.env().join(file)).unwrap();
            let said = fields.captures_iter(&text).map(|c| c[1].to_owned());
            names.extend(said.filter(|name| !name.contains(['@', '_'])));
            for address in addresses.captures_iter(&text) {
                let words = address[1].split('.').filter(|word| word.len() > 2);
                names.extend(words.map(capitalised));
            }
        }
        names.retain(|name| name.starts_with(|c: char| c.is_ascii_uppercase()));
        names
    }
}

fn capitalised(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    first.to_ascii_uppercase() + rest
}

/// Letters turned by thirteen, digits by three.
fn turned(word: &str) -> String {
    let turn = |c: char, base: u8, by: u8, of: u8| char::from(base + (c as u8 - base + by) % of);
    word.chars()
        .map(|c| match c {
            'a'..='z' => turn(c, b'a', 13, 26),
            'A'..='Z' => turn(c, b'A', 13, 26),
            '0'..='9' => turn(c, b'0', 3, 10),
            other => other,
        })
        .collect()
}

fn renamed(text: &str, names: &BTreeSet<String>) -> String {
    // Longest first: `Good Night` before `Good`.
    let mut words: Vec<_> = names.iter().map(|name| regex::escape(name)).collect();
    words.sort_by_key(|word| std::cmp::Reverse(word.len()));
    let patterns = [
        // Addresses: all but the top-level domain.
        r"(?P<name>[A-Za-z0-9._+-]+@[A-Za-z0-9-]+)(?P<rest>\.[a-z]+)".to_owned(),
        // Hosts: what stands between `www` and the top-level domain, or between the scheme and it.
        r"(?P<before>(?:https?://|www\.)+)(?P<name>[A-Za-z0-9_-]+)(?P<rest>\.[a-z]+)".to_owned(),
        // Accounts.
        r"\b(?P<name>[A-Z]{2}[0-9]{10,})\b".to_owned(),
        format!(r"\b(?P<name>{})\b", words.join("|")),
    ];
    let mut text = text.to_owned();
    for pattern in patterns {
        // An escape right before a word hides its beginning.
        let pattern = format!("{ESCAPE}{pattern}")
            .replace(&format!("{ESCAPE}\\b"), r"(?:(?P<escape>\\[nrt])|\b)");
        let pattern = Regex::new(&pattern).unwrap();
        let part = |found: &Captures<'_>, name: &str| {
            found
                .name(name)
                .map_or(String::new(), |part| part.as_str().to_owned())
        };
        text = pattern
            .replace_all(&text, |found: &Captures<'_>| {
                let [escape, before, name, rest] =
                    ["escape", "before", "name", "rest"].map(|of| part(found, of));
                format!("{escape}{before}{}{rest}", turned(&name))
            })
            .into_owned();
    }
    text
}

#[test]
fn a_name_is_another_everywhere() {
    let names = ["Ann".to_owned(), "Ann Lee".to_owned()].into();
    let text = r#"{"a": "Ann, Ann Lee\nAnn <ann.lee@mail.example.com>\nann@b.org Annex www.ann-blog.com/x DE1234567890123"}"#;
    let other = renamed(text, &names);
    assert_eq!(
        other,
        r#"{"a": "Naa, Naa Yrr\nNaa <naa.yrr@znvy.example.com>\nnaa@o.org Annex www.naa-oybt.com/x QR4567890123456"}"#
    );
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&other).unwrap()["a"]
            .as_str()
            .unwrap()
            .lines()
            .count(),
        3
    );
}
