//! The wrapped server as a process: started in a group of its own, so that a launcher such as `npx` and what it launches end
//! together; its end is asked for step by step.

use std::ffi::OsString;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// How long the server may go on after a signal. Hosts kill the wrapper two seconds after they have asked it to end.
pub(super) const STUBBORN: Duration = Duration::from_millis(1500);

/// A signal, as it is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// SIGINT, as from the keyboard.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP.
    HangUp,
    /// SIGKILL.
    Kill,
}

/// What to run.
#[derive(Debug)]
pub struct Program {
    /// The command and its arguments; not empty.
    pub command: Vec<OsString>,
    /// The whole environment of the server.
    pub environment: Vec<(OsString, OsString)>,
}

/// The running server.
pub(super) struct Process {
    child: Child,
}

impl Process {
    /// Starts it; its standard error is ours.
    pub(super) fn start(program: &Program) -> io::Result<(Self, ChildStdin, ChildStdout)> {
        let mut words = program.command.iter();
        let name = words.next().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(name);
        command
            .args(words)
            .env_clear()
            .envs(
                program
                    .environment
                    .iter()
                    .map(|(name, value)| (name, value)),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn()?;
        let stdin = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok((Self { child }, stdin, stdout))
    }

    /// Waits for its end. May be dropped and called again.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Asks the whole group. One that has ended already is fine.
    #[cfg(unix)]
    pub(super) fn ask(&mut self, ask: Ask) {
        use rustix::process::{Pid, Signal, kill_process_group};
        let signal = match ask {
            Ask::Interrupt => Signal::INT,
            Ask::Terminate => Signal::TERM,
            Ask::HangUp => Signal::HUP,
            Ask::Kill => Signal::KILL,
        };
        let group = self.child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(group) = group.and_then(Pid::from_raw) {
            let _ = kill_process_group(group, signal);
        }
    }

    /// The platform knows no other way to ask.
    #[cfg(not(unix))]
    pub(super) fn ask(&mut self, _: Ask) {
        let _ = self.child.start_kill();
    }
}

/// The exit code that tells the same: of a server that a signal has ended, 128 and the signal's number, as shells have it.
pub(super) fn code(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let signal: Option<i32> = None;
    let code = match (status.code(), signal) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => 1,
    };
    u8::try_from(code).unwrap_or(1)
}
