//! The one place that writes to the terminal.

use std::fmt::Display;
use std::io::Write;

/// Writes a line to standard output. A reader that has gone away is no error.
pub fn print(line: impl Display) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// Writes a line to standard error.
pub fn warn(line: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
