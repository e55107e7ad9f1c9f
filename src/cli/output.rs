//! The one place that writes to the terminal.

use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;

use super::Failure;

/// The first line that could not be written.
static LOST: OnceLock<io::Error> = OnceLock::new();

/// Writes a line to standard output. A reader that has gone away is no error; any other fault is told by [`finish`].
pub fn print(line: impl Display) {
    note(writeln!(io::stdout().lock(), "{line}"));
}

fn note(written: io::Result<()>) {
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
    {
        let _ = LOST.set(error);
    }
}

/// Writes out what is left.
///
/// # Errors
/// Something that was printed could not be written, such as to a full disk: whoever reads it must not take it for whole.
pub fn finish() -> Result<(), Failure> {
    note(io::stdout().flush());
    LOST.get().map_or(Ok(()), |error| {
        Err(Failure::Failed(format!(
            "error: standard output cannot be written: {error}"
        )))
    })
}

/// Writes a line to standard error.
pub fn warn(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Whether problems may be coloured: standard error is a terminal and `NO_COLOR` is not set.
pub fn is_styled() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}
