//! The `holdpoint` binary: arguments in, exit code out.

use std::process::ExitCode;

fn main() -> ExitCode {
    holdpoint::cli::main()
}
