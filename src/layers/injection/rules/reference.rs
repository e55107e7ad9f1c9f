//! The reference page of the rules, made from their own words.

use std::fmt::Write as _;

use super::{Family, WEAK_CAP, rules};

/// The page `docs/reference/injection-rules.md`.
pub fn reference() -> String {
    let mut page = format!(
        "# Rules of the injection scanner\n\n\
         Made by `holdpoint scan --rules`; a test compares. Each rule adds its weight to the score of its place: the score is what is left of \
         1 after each family has taken its weight's share, the heaviest rule of a family counting once. Families marked weak count only \
         beside others and together as at most {WEAK_CAP}.\n"
    );
    for family in Family::ALL {
        let mut of_family = rules().filter(|rule| rule.family == family).peekable();
        if of_family.peek().is_none() {
            continue;
        }
        let weak = if family.is_weak() { " (weak)" } else { "" };
        let _ = write!(page, "\n## {}{weak}\n", family.as_str());
        for rule in of_family {
            let _ = write!(
                page,
                "\n### `{}`\n\n{} Weight {}.\n",
                rule.id, rule.doc, rule.weight
            );
            for (name, text) in [("Finds", rule.example), ("Leaves alone", rule.near_miss)] {
                if !text.is_empty() {
                    let _ = write!(page, "\n- {name}: `{}`", shown(text));
                }
            }
            if !rule.false_alarm.is_empty() {
                let _ = write!(page, "\n- Known false alarms: {}", rule.false_alarm);
            }
            page.push('\n');
        }
    }
    page
}

/// With what nobody sees written out.
fn shown(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            if c.is_ascii_graphic() || c == ' ' || c.is_alphanumeric() {
                vec![c]
            } else {
                c.escape_default().collect()
            }
        })
        .collect()
}
