//! What is measured: the backend itself, and proxies in front of it, each in a process of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::load::Api;
use crate::process::{Process, free_address};
use crate::{load, support};

/// How long a proxy may take to come up.
const START: Duration = Duration::from_secs(20);

/// Where the load goes.
pub struct Target {
    pub name: &'static str,
    pub address: SocketAddr,
    /// Whether it has a path prefix for each API.
    routed: bool,
    /// None for the backend itself.
    pub process: Option<Process>,
}

impl Target {
    /// Where requests of this API go.
    pub const fn path(&self, api: Api) -> &'static str {
        match (api, self.routed) {
            (Api::Chat, false) => "/v1/chat/completions",
            (Api::Chat, true) => "/openai/v1/chat/completions",
            (Api::Messages, false) => "/v1/messages",
            (Api::Messages, true) => "/anthropic/v1/messages",
        }
    }
}

/// Everything that is measured, in the report's order: the backend first, the bare proxy second.
pub async fn all(backend: SocketAddr, folder: &Path, pinned: bool) -> Result<Vec<Target>> {
    let direct = Target {
        name: "direct",
        address: backend,
        routed: false,
        process: None,
    };
    let mut targets = vec![direct, passthru(backend, pinned).await?];
    targets.extend(nginx(backend, folder, pinned).await?);
    for (name, mode) in [("layers off", "off"), ("layers on", "enforce")] {
        targets.push(holdpoint(name, mode, backend, folder, pinned).await?);
    }
    Ok(targets)
}

async fn passthru(backend: SocketAddr, pinned: bool) -> Result<Target> {
    let address = free_address()?;
    let arguments = [
        "--passthru".to_owned(),
        address.to_string(),
        backend.to_string(),
    ];
    let mut process = Process::start(&std::env::current_exe()?, &arguments, pinned)?;
    up(&mut process, address, "/")
        .await
        .context("the bare proxy")?;
    Ok(Target {
        name: "bare proxy",
        address,
        routed: false,
        process: Some(process),
    })
}

/// Another yardstick, where it is installed.
async fn nginx(backend: SocketAddr, folder: &Path, pinned: bool) -> Result<Option<Target>> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let Some(binary) = std::env::split_paths(&path)
        .map(|folder| folder.join("nginx"))
        .find(|binary| binary.is_file())
    else {
        return Ok(None);
    };
    let (address, folder) = (free_address()?, folder.join("nginx"));
    std::fs::create_dir(&folder)?;
    let config = format!(
        "\
daemon off;
master_process off;
pid nginx.pid;
events {{ worker_connections 512; }}
http {{
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  client_max_body_size 32m; client_body_buffer_size 256k; proxy_buffers 16 64k; proxy_buffer_size 64k;
  keepalive_requests 100000000;
  upstream backend {{ server {backend}; keepalive 64; keepalive_requests 100000000; }}
  server {{
    listen {address};
    location / {{ proxy_pass http://backend; proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_buffering off; }}
  }}
}}
"
    );
    let file = folder.join("nginx.conf");
    std::fs::write(&file, config)?;
    let arguments = [
        "-e".as_ref(),
        "stderr".as_ref(),
        "-p".as_ref(),
        folder.as_os_str(),
        "-c".as_ref(),
        file.as_os_str(),
    ];
    let mut process = Process::start(&binary, &arguments, pinned)?;
    up(&mut process, address, "/").await.context("nginx")?;
    Ok(Some(Target {
        name: "nginx",
        address,
        routed: false,
        process: Some(process),
    }))
}

/// Waits until a GET answers 200.
async fn up(process: &mut Process, address: SocketAddr, path: &str) -> Result<()> {
    let started = Instant::now();
    while !load::answers(address, path).await.unwrap_or(false) {
        process.check()?;
        ensure!(started.elapsed() < START, "does not come up");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

async fn holdpoint(
    name: &'static str,
    mode: &str,
    backend: SocketAddr,
    folder: &Path,
    pinned: bool,
) -> Result<Target> {
    let (address, operations) = (free_address()?, free_address()?);
    let config = write_config(folder, mode, backend, address, operations)?;
    let arguments = [
        "serve".as_ref(),
        "--log-level=warn".as_ref(),
        "--config".as_ref(),
        config.as_os_str(),
    ];
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_holdpoint"));
    let mut process = Process::start(&binary, &arguments, pinned)?;
    up(&mut process, operations, "/readyz")
        .await
        .context("holdpoint")?;
    Ok(Target {
        name,
        address,
        routed: true,
        process: Some(process),
    })
}

/// The config and policy of one Holdpoint, in a folder of its own. Every layer is in `mode`.
fn write_config(
    folder: &Path,
    mode: &str,
    backend: SocketAddr,
    agents: SocketAddr,
    operations: SocketAddr,
) -> Result<PathBuf> {
    let folder = folder.join(mode);
    std::fs::create_dir(&folder)?;
    let config = format!(
        "\
policy: policy.yaml
listen: {{agents: \"{agents}\", operations: \"{operations}\"}}
upstreams:
  openai: {{url: \"http://{backend}\"}}
routes:
  - {{name: model, prefix: /openai, upstream: openai, protocol: openai_chat, note: true}}
  - {{name: other, prefix: /anthropic, upstream: openai, protocol: anthropic_messages, note: true}}
principal:
  fixed: {{tenant: shop, subject: {subject}, agent: bench}}
session: {{header: holdpoint-session}}
stores:
  commerce: {{sqlite: shop.db}}
tickets: {{store: tickets.db}}
",
        subject = support::SUBJECT,
    );
    let path = folder.join("holdpoint.yaml");
    std::fs::write(&path, config)?;
    std::fs::write(folder.join("policy.yaml"), support::policy(mode))?;
    support::make_shop(&folder.join("shop.db"))?;
    Ok(path)
}
