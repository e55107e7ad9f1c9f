//! Judges vectors for egress and recipients with the library's public matchers.
//!
//! ```text
//! cargo run --release --example vectors -- FILE
//! ```
//!
//! FILE is JSON: `policies` by name, and `vectors`, each with `id`, `kind`, `policy` and `input`. Prints one line for each,
//! `{"id": .., "verdict": "allow" | "deny", "reason": ".."}`, where the reason of a denial is the matcher's fine code. A vector that
//! cannot be understood is denied and told on standard error, and the exit code is 2; so it is for such a file.

mod destinations;
mod file;
mod people;

use std::io::Write as _;
use std::process::ExitCode;

use file::File;

fn main() -> ExitCode {
    let mut err = std::io::stderr().lock();
    let paths: Vec<_> = std::env::args_os().skip(1).collect();
    let [path] = paths.as_slice() else {
        let _ = writeln!(err, "usage: vectors FILE");
        return ExitCode::from(2);
    };
    let read = std::fs::read_to_string(path).map_err(|error| error.to_string());
    let file = match read.and_then(|text| File::read(&text)) {
        Ok(file) => file,
        Err(error) => {
            let _ = writeln!(err, "{}: {error}", path.display());
            return ExitCode::from(2);
        }
    };
    let mut out = std::io::stdout().lock();
    let mut whole = true;
    for vector in &file.vectors {
        let said = file.decide(vector).unwrap_or_else(|error| {
            let _ = writeln!(err, "{}: vector {}: {error}", path.display(), vector.id);
            whole = false;
            Err("malformed_request")
        });
        let line = serde_json::json!({
            "id": vector.id,
            "verdict": if said.is_ok() { "allow" } else { "deny" },
            "reason": said.err().unwrap_or("ok"),
        });
        whole &= writeln!(out, "{line}").is_ok();
    }
    if whole {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(2)
    }
}
