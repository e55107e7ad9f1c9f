//! Whether a tool reads or writes, guessed from its name alone. A guess is said to be one wherever it is used.

/// What a tool seems to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guess {
    /// It only reads.
    Read,
    /// It changes something; also where nothing tells.
    Write,
}

/// Words of tools that read.
const READS: [&str; 26] = [
    "get",
    "list",
    "search",
    "find",
    "read",
    "view",
    "fetch",
    "show",
    "query",
    "lookup",
    "check",
    "retrieve",
    "describe",
    "count",
    "browse",
    "navigate",
    "calculate",
    "think",
    "explain",
    "summarize",
    "status",
    "inspect",
    "look",
    "grep",
    "glob",
    "ls",
];

/// Words of tools that write, whatever else their name says.
const WRITES: [&str; 34] = [
    "set", "create", "add", "update", "delete", "remove", "send", "post", "put", "write", "edit",
    "modify", "cancel", "book", "buy", "pay", "transfer", "withdraw", "deposit", "share", "grant",
    "unlock", "execute", "run", "manage", "schedule", "upload", "move", "disable", "enable",
    "reset", "invite", "publish", "submit",
];

/// Guesses: a name with a word of reading and none of writing reads.
pub fn guess(tool: &str) -> Guess {
    let words = words(tool);
    let any = |known: &[&str]| words.iter().any(|word| known.contains(&word.as_str()));
    if any(&READS) && !any(&WRITES) {
        Guess::Read
    } else {
        Guess::Write
    }
}

/// `GmailReadEmail`, `gmail_read_email` and `gmail.read-email` are `gmail`, `read`, `email`.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before: Option<char> = None;
    for c in name.chars() {
        let begins = match before {
            None => true,
            Some(last) => !last.is_alphanumeric() || (c.is_uppercase() && !last.is_uppercase()),
        };
        before = Some(c);
        if !c.is_alphanumeric() {
            continue;
        }
        if begins {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.extend(c.to_lowercase());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verb_tells_however_the_name_is_written() {
        for name in [
            "GmailReadEmail",
            "get_user",
            "db.list-rows",
            "TeladocViewReviews",
            "think",
        ] {
            assert_eq!(guess(name), Guess::Read, "{name}");
        }
        for name in [
            "GmailSendEmail",
            "get_and_delete",
            "frobnicate",
            "BankManagerPayBill",
            "getaway",
            "",
        ] {
            assert_eq!(guess(name), Guess::Write, "{name}");
        }
    }
}
