//! A proxy in a process of its own, so that its CPU time can be told from the load's.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

/// A running child; killed when dropped.
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts the program, on the first core alone where `pinned`.
    pub fn start<S: AsRef<OsStr>>(program: &Path, arguments: &[S], pinned: bool) -> Result<Self> {
        let mut command = if pinned {
            let mut command = Command::new("taskset");
            command.args(["--cpu-list", "0"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        let child = command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { child })
    }

    /// An error where the process has ended.
    pub fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("the proxy ended early: {status}"),
            None => Ok(()),
        }
    }

    /// CPU time that its threads have had so far, user and system.
    pub fn cpu(&self) -> Result<Duration> {
        let mut nanos = 0;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let line = std::fs::read_to_string(task?.path().join("schedstat"))?;
            let first = line.split(' ').next().context("an empty schedstat")?;
            nanos += first.parse::<u64>()?;
        }
        Ok(Duration::from_nanos(nanos))
    }

    /// Resident memory in KiB.
    pub fn resident(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line
            .and_then(|rest| rest.split_whitespace().next())
            .context("no VmRSS")?;
        Ok(kib.parse()?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A loopback address that is free right now.
pub fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
