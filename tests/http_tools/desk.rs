//! A desk with tools that take arguments from everywhere, behind rules for them.

use std::fmt::Write as _;

use crate::support::rig::Rig;
use crate::support::upstream::{Upstream, json};

/// Every URL of a call must lead to the shop.
pub const EGRESS: &str = "version: 1
name: egress
layers: {catalog: off, identity: off, egress: enforce, recipients: off, ownership: off, injection: off, tickets: off}
lists: {ours: {hosts: [shop.example]}}
egress: {allow: [ours]}
tools: [{tool: '*'}]
";

/// The URL of a stranger, and one of the shop.
pub const EVIL: &str = "https://evil.example/x";
pub const FINE: &str = "https://shop.example/x";

/// The config: tools of a desk, and what else it needs.
pub fn config(upstream: &str, more: &str) -> String {
    format!(
        "upstreams:
  desk: {{url: \"{upstream}\"}}
routes:
  - name: desk
    prefix: /desk
    upstream: desk
    protocol: http_tools
    tools:
      - {{tool: find, method: GET, path: \"/find/{{what}}\"}}
      - {{tool: send, method: POST, path: /send, headers: [X-Account, X-Reply-To]}}
      - {{tool: upload, method: POST, path: \"/folders/{{folder}}\", body: multipart}}
      - {{tool: log, method: PUT, path: /log, body: [json, form]}}
principal: {{fixed: {{tenant: t, subject: ann, agent: bot}}}}
{more}
"
    )
}

pub struct Desk {
    pub rig: Rig,
    pub upstream: Upstream,
}

impl Desk {
    pub async fn start(policy: &str, more: &str) -> Self {
        let upstream = Upstream::start(|_| json("{\"ok\":true}")).await;
        let rig = Rig::start(&config(&upstream.url(), more), policy).await;
        Self { rig, upstream }
    }

    pub async fn egress() -> Self {
        Self::start(EGRESS, "").await
    }

    /// The code of the refusal; nothing has reached the upstream.
    pub async fn refused(&self, request: impl AsRef<[u8]>) -> (u16, String) {
        let before = self.upstream.received().len();
        let answer = self.rig.ask(request).await;
        assert_eq!(self.upstream.received().len(), before, "{answer:?}");
        assert_eq!(answer.header("x-should-retry"), Some("false"));
        (answer.status, answer.code())
    }
}

pub const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
pub const BOUNDARY: &str = "----WebKitFormBoundary7MA4YWxkTrZu0gW";

pub fn multipart_type() -> String {
    format!("multipart/form-data; boundary={BOUNDARY}")
}

/// A body of parts, each with its headers and content.
pub fn parts(parts: &[(&str, &str)]) -> String {
    let mut body = String::new();
    for (head, content) in parts {
        let _ = write!(body, "--{BOUNDARY}\r\n{head}\r\n\r\n{content}\r\n");
    }
    let _ = write!(body, "--{BOUNDARY}--\r\n");
    body
}

/// The headers of a text part.
pub fn named(name: &str) -> String {
    format!("Content-Disposition: form-data; name=\"{name}\"")
}

/// The headers of a file.
pub fn file(name: &str, filename: &str, content_type: &str) -> String {
    format!(
        "Content-Disposition: form-data; name=\"{name}\"; filename=\"{filename}\"\r\nContent-Type: {content_type}"
    )
}
