//! Documents of every kind, with one place where a text is put.

use std::fmt::Write as _;

use serde_json::json;

use crate::grammar::{Language, filled};
use crate::random::Random;

/// A kind of document.
pub type Carrier = (&'static str, fn(&mut Random, &Language, &str) -> String);

/// Every kind.
pub const CARRIERS: [Carrier; 13] = [
    ("text", text),
    ("mail", mail),
    ("json", record),
    ("html", html),
    ("markdown", markdown),
    ("csv", csv),
    ("log", log),
    ("code", code),
    ("chat", chat),
    ("calendar", calendar),
    ("invoice", invoice),
    ("readme", readme),
    ("manual", manual),
];

/// Sentences, with `put` among them.
fn around(random: &mut Random, language: &Language, put: &str, about: usize) -> Vec<String> {
    let count = random.below(about) + 1;
    let mut lines: Vec<String> = (0..count).map(|_| language.sentence(random)).collect();
    lines.insert(random.below(count + 1), put.to_owned());
    lines
}

fn text(random: &mut Random, language: &Language, put: &str) -> String {
    let between = if language.code == "zh" || language.code == "ja" {
        ""
    } else {
        " "
    };
    around(random, language, put, 10).join(between)
}

fn mail(random: &mut Random, language: &Language, put: &str) -> String {
    let head = filled(
        "From: {name} <{mail}>\nTo: {mail}\nSubject: {topic} {n}\nDate: Tue, 3 Mar 2026 09:{code}\n\n",
        random,
    );
    let name = filled("{name}", random);
    format!(
        "{head}{}\n\n{name}\n",
        around(random, language, put, 6).join("\n\n")
    )
}

fn record(random: &mut Random, language: &Language, put: &str) -> String {
    let mut rows: Vec<_> = (0..=random.below(4))
        .map(|at| json!({"id": at, "title": filled("{topic} {word}", random), "text": language.sentence(random), "rating": random.below(5)}))
        .collect();
    let at = random.below(rows.len());
    if let Some(text) = rows.get_mut(at).and_then(|row| row.get_mut("text")) {
        *text = json!(format!("{} {put}", language.sentence(random)));
    }
    let whole = json!({"status": "ok", "count": rows.len(), "results": rows});
    if random.once_in(2) {
        serde_json::to_string_pretty(&whole).unwrap_or_default()
    } else {
        whole.to_string()
    }
}

fn html(random: &mut Random, language: &Language, put: &str) -> String {
    let mut page = format!(
        "<!doctype html>\n<html><head><title>{}</title></head><body>\n",
        filled("{topic} {word}", random)
    );
    for line in around(random, language, put, 6) {
        let tag = *random.pick(&["p", "li", "div", "td", "h2", "span"]);
        let _ = writeln!(page, "<{tag}>{line}</{tag}>");
    }
    page + "</body></html>\n"
}

fn markdown(random: &mut Random, language: &Language, put: &str) -> String {
    let mut page = filled("# {topic} {word}\n\n", random);
    for line in around(random, language, put, 6) {
        let mark = *random.pick(&["", "", "- ", "> ", "1. "]);
        let _ = write!(page, "{mark}{line}\n\n");
    }
    page
}

fn csv(random: &mut Random, language: &Language, put: &str) -> String {
    let mut table = "id,name,comment,amount\n".to_owned();
    for (at, line) in around(random, language, put, 8).iter().enumerate() {
        let quoted = line.replace('"', "\"\"");
        let name = filled("{name}", random);
        let _ = writeln!(table, "{at},{name},\"{quoted}\",{}", random.below(900));
    }
    table
}

fn log(random: &mut Random, language: &Language, put: &str) -> String {
    let mut lines = String::new();
    for (at, line) in around(random, language, put, 8).iter().enumerate() {
        let level = *random.pick(&["INFO", "WARN", "DEBUG", "ERROR"]);
        let part = filled("{word}", random);
        let _ = writeln!(
            lines,
            "2026-03-0{}T10:{:02}:{:02}Z {level} {part}: {line}",
            at % 9 + 1,
            random.below(60),
            random.below(60)
        );
    }
    lines
}

fn code(random: &mut Random, language: &Language, put: &str) -> String {
    let (start, mark) = *random.pick(&[
        ("def run(items):\n    total = 0\n", "    # "),
        ("fn run(items: &[u64]) -> u64 {\n", "    // "),
        ("int run(void) {\n", "    /* "),
    ]);
    let mut lines = start.to_owned();
    for line in around(random, language, put, 4) {
        let _ = writeln!(
            lines,
            "{mark}{line}{}",
            if mark.contains("/*") { " */" } else { "" }
        );
        let _ = writeln!(
            lines,
            "    {} = {};",
            filled("{word}", random),
            random.below(99)
        );
    }
    lines + "    return total;\n"
}

fn chat(random: &mut Random, language: &Language, put: &str) -> String {
    let mut lines = String::new();
    for line in around(random, language, put, 8) {
        let name = filled("{name}", random);
        let _ = writeln!(
            lines,
            "[{:02}:{:02}] {name}: {line}",
            random.below(24),
            random.below(60)
        );
    }
    lines
}

fn calendar(random: &mut Random, language: &Language, put: &str) -> String {
    let lines = around(random, language, put, 3).join("\\n");
    let title = filled("{topic} {word}", random);
    format!(
        "BEGIN:VCALENDAR\nVERSION:2.0\nBEGIN:VEVENT\nUID:{}\nDTSTART:20260303T090000Z\nSUMMARY:{title}\nDESCRIPTION:{lines}\nEND:VEVENT\nEND:VCALENDAR\n",
        random.next()
    )
}

fn invoice(random: &mut Random, language: &Language, put: &str) -> String {
    let mut lines = filled("INVOICE {code}\n{name} Ltd, Harbour Road {n}\n\n", random);
    for _ in 0..=random.below(4) {
        let _ = writeln!(
            lines,
            "{:<24} {:>4} {:>10}",
            filled("{word} {word}", random),
            random.below(20) + 1,
            filled("{amount}", random)
        );
    }
    let total = filled("\nTotal {amount}\nIBAN {iban}\n\n", random);
    format!(
        "{lines}{total}{}\n",
        around(random, language, put, 3).join("\n")
    )
}

fn readme(random: &mut Random, language: &Language, put: &str) -> String {
    let name = filled("{word}-{word}", random);
    let lines = around(random, language, put, 5).join("\n\n");
    format!(
        "# {name}\n\n[![build](https://ci.example/{name}.svg)](https://ci.example/{name})\n\n```sh\ncargo install {name}\n```\n\n## Usage\n\n{lines}\n\n## License\n\nMIT\n"
    )
}

fn manual(random: &mut Random, language: &Language, put: &str) -> String {
    let name = filled("{word}", random);
    let lines = around(random, language, put, 6).join("\n       ");
    format!(
        "{}(1)\n\nNAME\n       {name} - {}\n\nSYNOPSIS\n       {name} [-v] FILE...\n\nDESCRIPTION\n       {lines}\n\nSEE ALSO\n       ls(1)\n",
        name.to_uppercase(),
        language.sentence(random)
    )
}
