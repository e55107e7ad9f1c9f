//! The command line: one room per subcommand, no logic of its own.

mod approver;
mod audit;
mod check;
mod demo;
mod doctor;
mod eval;
mod eval_import;
mod eval_recorded;
mod eval_world;
mod key;
mod mcp_wrap;
mod output;
mod overrides;
mod policy_diff;
mod progress;
mod secret;
mod serve;
mod signals;
mod ticket;
mod user;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
pub use output::{is_styled, print, warn};
pub use overrides::SetArgs;

/// Inline guardrail proxy for AI agents, with a built-in eval mode.
#[derive(Debug, Parser)]
#[command(name = "holdpoint", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the proxy.
    Serve(serve::Args),
    /// Run an MCP server on standard input and output, with the proxy between it and its client.
    McpWrap(mcp_wrap::Args),
    /// Tell what of each route is guarded, and what about the set-up is wrong or unusual.
    Doctor(doctor::Args),
    /// Check a policy.
    #[command(subcommand)]
    Policy(check::Command),
    /// Measure what each layer buys and costs.
    #[command(subcommand)]
    Eval(eval::Command),
    /// Make keys for agents.
    #[command(subcommand)]
    Key(key::Command),
    /// Register secrets that must not leave.
    #[command(subcommand)]
    Secret(secret::Command),
    /// Accounts of people who approve.
    #[command(subcommand)]
    Approver(approver::Command),
    /// List, show and answer tickets.
    #[command(subcommand)]
    Ticket(ticket::Command),
    /// Check what is noted of tickets.
    #[command(subcommand)]
    Audit(audit::Command),
    /// Show the layers at work on a small shop, without any other service.
    Demo(demo::Args),
}

/// Why a command ended without success.
#[derive(Debug)]
pub enum Failure {
    /// What the user gave is wrong: exit code 2, as for usage errors.
    Input(String),
    /// The command ran and did not succeed: exit code 1.
    Failed(String),
    /// Another program could not be started, with the exit code that says why.
    NotStarted(String, u8),
}

impl From<crate::source::Problems> for Failure {
    fn from(problems: crate::source::Problems) -> Self {
        Self::Input(problems.render(is_styled()))
    }
}

/// Parses the arguments, runs the command, and prints a failure to standard error.
pub fn main() -> ExitCode {
    let mut success = ExitCode::SUCCESS;
    let result = match Cli::parse().command {
        Command::Serve(args) => serve::run(&args),
        Command::McpWrap(args) => mcp_wrap::run(&args).map(|code| success = code),
        Command::Doctor(args) => doctor::run(&args),
        Command::Policy(command) => check::run(&command),
        Command::Eval(command) => eval::run(&command),
        Command::Key(command) => key::run(&command),
        Command::Secret(command) => secret::run(&command),
        Command::Approver(command) => approver::run(&command),
        Command::Ticket(command) => ticket::run(&command),
        Command::Audit(command) => audit::run(&command),
        Command::Demo(args) => demo::run(&args),
    };
    let result = result.and_then(|()| output::finish());
    let (message, code) = match result {
        Ok(()) => return success,
        Err(Failure::Input(message)) => (message, 2),
        Err(Failure::Failed(message)) => (message, 1),
        Err(Failure::NotStarted(message, code)) => (message, code),
    };
    warn(message.trim_end());
    ExitCode::from(code)
}
