//! One item before every layer that it reaches.

use std::borrow::Cow;
use std::time::Instant;

use super::{Guard, LAYER_TIMEOUT, combine};
use crate::item::{Item, Located, UnreadableCall};
use crate::layers::{Context, Layer};
use crate::names::RuleId;
use crate::verdict::{Finding, LayerId, Mode, Opinion, Reason, Ruling, Undecided, Verdict};

impl Guard {
    pub(super) async fn judge(&self, located: &Located, context: &Context<'_>) -> Ruling {
        if let Item::Unreadable(call) = &located.item {
            return Ruling {
                place: located.place.clone(),
                verdict: Verdict::Deny(unreadable(call)),
                opinions: Vec::new(),
            };
        }
        // Texts are many and meet one layer.
        let mut opinions = Vec::with_capacity(1);
        let mut denied = false;
        for (mode, layer) in &self.layers {
            if *mode == Mode::Off && !self.track_reached {
                continue;
            }
            if !layer.reaches(located, context) {
                continue;
            }
            let started = Instant::now();
            let verdict = if *mode == Mode::Off {
                Verdict::Allow
            } else {
                ask(layer.as_ref(), located, context).await
            };
            opinions.push(Opinion {
                layer: layer.id(),
                mode: *mode,
                reached: !denied,
                elapsed: started.elapsed(),
                undeclared: *mode != Mode::Off && layer.has_undeclared(located, context),
                verdict,
            });
            denied |= *mode == Mode::Enforce
                && opinions
                    .last()
                    .is_some_and(|o| matches!(o.verdict, Verdict::Deny(_)));
        }
        Ruling {
            place: located.place.clone(),
            verdict: combine::strongest(&opinions),
            opinions,
        }
    }
}

async fn ask(layer: &dyn Layer, located: &Located, context: &Context<'_>) -> Verdict {
    let judged = tokio::time::timeout(LAYER_TIMEOUT, layer.judge(located, context)).await;
    match judged {
        Ok(Ok(verdict)) => combine::fitting(layer.id(), &located.item, verdict),
        Ok(Err(undecided)) => Verdict::Deny(refused(layer.id(), &undecided)),
        Err(_) => Verdict::Deny(refused(
            layer.id(),
            &Undecided {
                layer: layer.id(),
                cause: format!("no verdict within {LAYER_TIMEOUT:?}"),
            },
        )),
    }
}

/// Not a layer's opinion: it holds with every layer off. It stands under the layer that binds arguments.
fn unreadable(call: &UnreadableCall) -> Finding {
    Finding {
        layer: LayerId::Tickets,
        rule: RuleId::from("guard.unreadable"),
        reason: Reason::ArgumentsUnreadable,
        argument: None,
        detail: Cow::Owned(call.cause.clone()),
    }
}

/// A failure is a refusal: no layer can fail open.
pub(super) fn refused(layer: LayerId, undecided: &Undecided) -> Finding {
    tracing::error!(layer = layer.as_str(), cause = %undecided.cause, "a layer could not decide");
    Finding {
        layer,
        rule: RuleId::from("guard.undecided"),
        reason: Reason::Undecided,
        argument: None,
        detail: Cow::Owned(undecided.cause.clone()),
    }
}
