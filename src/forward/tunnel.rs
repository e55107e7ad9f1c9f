//! `CONNECT`: a tunnel to a name, for TLS with that very name.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::request::Parts;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::copy::{self, End, Patience};
use super::dial::Checked;
use super::hello;
use super::judge::Asking;
use super::{ForwardProxy, Shared, head};
use crate::guard::Cleared;
use crate::item::{EgressTarget, Leg};
use crate::layers::egress::{self, Amount, Opening, Spending, opening};
use crate::ledger::{Charged, Uncharged};
use crate::metrics::{Unscanned, UpstreamFault};
use crate::proxy::passage::Passage;
use crate::proxy::refuse::{self, Refused};
use crate::verdict::Reason;

/// At shutdown a tunnel that is silent for so long has nothing to end.
const DRAIN_IDLE: Duration = Duration::from_secs(5);
/// How long the end of a refused tunnel is awaited, so that its sender gets to read why.
const LINGER: Duration = Duration::from_secs(2);
/// So many bytes are read meanwhile.
const LINGER_BYTES: u64 = 256 << 10;

/// TLS alerts (RFC 8446 section 6) for a client that waits for a server's hello.
const ACCESS_DENIED: u8 = 49;
const INTERNAL_ERROR: u8 = 80;

/// A tunnel whose name and addresses have passed. Nothing is dialled yet.
pub struct Tunnel {
    proxy: ForwardProxy,
    asking: Asking,
    target: EgressTarget,
    name: egress::Tunnel,
    checked: Cleared<Checked>,
    /// Every byte towards the peer is charged before it leaves.
    spending: Option<Spending>,
    passage: Option<Passage>,
}

impl std::fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tunnel").finish_non_exhaustive()
    }
}

/// Judges what a `CONNECT` asks for, and checks its addresses.
pub(super) async fn open(
    proxy: &ForwardProxy,
    asking: Asking,
    target: EgressTarget,
    parts: &Parts,
) -> Result<Tunnel, Refused> {
    let shared = &proxy.0;
    let decision = asking.judge(Leg::ToUpstream, target.clone()).await?;
    let read = egress::connect(&asking.rule, &head::matcher(parts, &target));
    let plain = || head::place(&target).map(|(host, port)| egress::Tunnel { host, port });
    let name = shared.agreed(&asking, &target, read, plain).await?;
    let checked = shared
        .checked(&asking, &target, &name.host, name.port)
        .await?;
    let spending = asking.spending(&name.host);
    // What is spent already is told here; after the 200 nobody could.
    if let Some(spending) = &spending
        && let Err(why) = spending.fits(Amount::sealed(1)).await
    {
        return Err(asking.spent(&target, why).await);
    }
    Ok(Tunnel {
        spending,
        proxy: proxy.clone(),
        asking,
        target,
        name,
        checked: Cleared::seal(checked, &decision),
        passage: None,
    })
}

/// Why a tunnel was not built.
struct Closed {
    code: &'static str,
    alert: Option<u8>,
}

impl Tunnel {
    /// The tunnel counts as a request in flight until it ends.
    pub(super) fn held_by(mut self, passage: Passage) -> Self {
        self.passage = Some(passage);
        self
    }

    /// Runs to its end on the agent's connection. `came`: bytes of it that were read already. Once `stop` is cancelled, a
    /// tunnel that has not begun is closed, and one that is silent ends soon.
    pub async fn run<S>(mut self, mut agent: S, came: Bytes, stop: &CancellationToken)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let shared = Arc::clone(&self.proxy.0);
        let opened = tokio::select! {
            opened = self.opened(&shared, &mut agent, came) => opened,
            () = stop.cancelled() => return,
        };
        let (peer, first) = match opened {
            Ok(opened) => opened,
            Err(closed) => {
                if let Some(passage) = &mut self.passage {
                    passage.refused(closed.code);
                }
                close(agent, closed.alert).await;
                return;
            }
        };
        self.passed(&shared, agent, peer, first, stop).await;
    }

    /// The peer, once the first bytes are a hello for the name.
    async fn opened<S: AsyncRead + Unpin>(
        &self,
        shared: &Shared,
        agent: &mut S,
        came: Bytes,
    ) -> Result<(TcpStream, Bytes), Closed> {
        let limit = shared.setup.settings.timeouts.request_head;
        let Ok(Ok((begins, first))) = timeout(limit, hello::read(agent, came)).await else {
            return Err(Closed {
                code: refuse::TUNNEL_STALLED.code,
                alert: None,
            });
        };
        if let Err(denied) = opening(&self.asking.rule, &self.name, &begins) {
            let reason = Reason::TunnelRefused;
            let refusal = self.asking.refuse(&self.target, denied, reason).await;
            let tls = matches!(begins, Opening::Hello { .. });
            return Err(Closed {
                code: refusal.code,
                alert: tls.then_some(ACCESS_DENIED),
            });
        }
        let charged = match self.spend(first.len()).await {
            Ok(charged) => charged,
            Err(why) => {
                let refusal = self.asking.spent(&self.target, why).await;
                return Err(Closed {
                    code: refusal.code,
                    alert: Some(ACCESS_DENIED),
                });
            }
        };
        match shared.dialler.dial(self.checked.message()).await {
            Ok(peer) => Ok((peer, first)),
            Err(error) => {
                if let (Some(spending), Some(charged)) = (&self.spending, charged) {
                    spending.give_back(charged).await;
                }
                shared.fault(UpstreamFault::Connect, &error);
                Err(Closed {
                    code: refuse::UPSTREAM_UNREACHABLE.code,
                    alert: Some(INTERNAL_ERROR),
                })
            }
        }
    }

    /// Charges bytes that nobody here can read.
    async fn spend(&self, bytes: usize) -> Result<Option<Charged>, Uncharged> {
        let amount = Amount::sealed(u64::try_from(bytes).unwrap_or(u64::MAX));
        match &self.spending {
            Some(spending) => spending.spend(amount).await.map(Some),
            None => Ok(None),
        }
    }

    async fn passed<S: AsyncRead + AsyncWrite>(
        &mut self,
        shared: &Shared,
        agent: S,
        mut peer: TcpStream,
        first: Bytes,
        stop: &CancellationToken,
    ) {
        let patience = Patience {
            idle: shared.setup.settings.timeouts.idle,
            draining: DRAIN_IDLE,
        };
        let sent = timeout(patience.idle, peer.write_all(&first)).await;
        if !matches!(sent, Ok(Ok(()))) {
            shared.fault(UpstreamFault::Broken, &"the hello could not be passed on");
            return;
        }
        let count = |bytes| shared.unscanned(Unscanned::Tunnel, bytes);
        count(first.len());
        let refused = OnceLock::new();
        let (tunnel, first_refusal) = (&*self, &refused);
        let may_leave = |bytes| -> BoxFuture<'_, bool> {
            Box::pin(async move {
                match tunnel.spend(bytes).await {
                    Ok(_) => true,
                    Err(why) => {
                        // The first piece that does not fit is the last.
                        drop(first_refusal.set(why));
                        false
                    }
                }
            })
        };
        match copy::both(agent, peer, patience, stop, (&may_leave, &count)).await {
            End::Idle => shared.fault(UpstreamFault::Idle, &"no byte moved in a tunnel"),
            End::Whole | End::Broken | End::Stopped => {}
        }
        if let Some(why) = refused.into_inner() {
            let refusal = self.asking.spent(&self.target, why).await;
            if let Some(passage) = &mut self.passage {
                passage.refused(refusal.code);
            }
        }
    }
}

/// Tells a TLS client why, and lets it read that.
async fn close<S: AsyncRead + AsyncWrite + Unpin>(mut agent: S, alert: Option<u8>) {
    let ended = async {
        if let Some(alert) = alert {
            // A fatal alert in a record of its own, in plain text as no keys are agreed.
            agent.write_all(&[21, 3, 3, 0, 2, 2, alert]).await?;
        }
        agent.shutdown().await?;
        let mut rest = agent.take(LINGER_BYTES);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    let _ = timeout(LINGER, ended).await;
}
