//! The one place that writes to the terminal.

use std::fmt::Display;
use std::io::{IsTerminal, Write};

/// Writes a line to standard output. A reader that has gone away is no error.
pub fn print(line: impl Display) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// Writes a line to standard error.
pub fn warn(line: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Whether problems may be coloured: standard error is a terminal and `NO_COLOR` is not set.
pub fn is_styled() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}
