//! Calls that are carried out are charged to the limits of the policy, each once, before they leave.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use futures_util::FutureExt;

use super::Guard;
use crate::item::Located;
use crate::layers::Context;
use crate::ledger::{Charged, Ledger, Uncharged};
use crate::policy::Otherwise;
use crate::verdict::{Finding, LayerId, Mode, Reason, Ruling, Undecided, Verdict};

/// What the calls of one decision were charged with, by index of the item. Given back where it is dropped before the decision
/// is made; from then on it is kept unless its taker gives it back.
#[derive(Default)]
pub struct Charges {
    made: Vec<Made>,
    pending: bool,
}

/// One charge, and the ledger in which it stands.
struct Made {
    index: usize,
    ledger: Arc<dyn Ledger>,
    charged: Charged,
}

impl fmt::Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Made")
            .field(&self.index)
            .field(&self.charged)
            .finish()
    }
}

impl fmt::Debug for Charges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Charges")
            .field("made", &self.made)
            .finish_non_exhaustive()
    }
}

impl Charges {
    pub(super) const fn pending() -> Self {
        Self {
            made: Vec::new(),
            pending: true,
        }
    }

    /// Gives back those of calls that are refused after all.
    pub(super) async fn withdraw(&mut self, rulings: &[Ruling]) {
        let refused = |index: usize| {
            let verdict = rulings.get(index).map(|ruling| &ruling.verdict);
            verdict.is_none_or(|verdict| *verdict != Verdict::Allow)
        };
        let (withdrawn, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.made)
            .into_iter()
            .partition(|made| refused(made.index));
        self.made = kept;
        for made in withdrawn {
            made.ledger.give_back(made.charged).await;
        }
    }

    /// The decision is made: its taker sends the calls.
    pub(super) fn made(mut self) -> Self {
        self.pending = false;
        self
    }

    /// Whether nothing is charged.
    pub fn is_empty(&self) -> bool {
        self.made.is_empty()
    }

    /// Provably nothing was sent.
    pub async fn give_back(mut self) {
        self.pending = true;
        while let Some(made) = self.made.pop() {
            made.ledger.give_back(made.charged).await;
        }
    }
}

impl Drop for Charges {
    fn drop(&mut self) {
        if !self.pending {
            return;
        }
        for made in self.made.drain(..) {
            // A ledger in memory is done at once; another needs the runtime. Without one the charge stands, which is safe.
            let mut given_back = async move { made.ledger.give_back(made.charged).await }.boxed();
            if (&mut given_back).now_or_never().is_none()
                && let Ok(runtime) = tokio::runtime::Handle::try_current()
            {
                runtime.spawn(given_back);
            }
        }
    }
}

impl Guard {
    /// What calls came to, for rooms that send what no call carries.
    pub(crate) const fn ledger(&self) -> &Arc<dyn Ledger> {
        &self.ledger
    }

    /// Charges a call that executes here. `approved`: a person has allowed what a rule would hold.
    pub(super) async fn charge(
        &self,
        (index, located): (usize, &Located),
        context: &Context<'_>,
        approved: bool,
        charges: &mut Charges,
    ) -> Result<(), Finding> {
        for (_, layer) in self
            .layers
            .iter()
            .filter(|(mode, _)| *mode == Mode::Enforce)
        {
            let refused = |undecided: &Undecided| super::refused(layer.id(), undecided);
            let asked = layer.charges(located, context).map_err(|u| refused(&u))?;
            if asked.is_empty() {
                continue;
            }
            let entries: Vec<_> = asked
                .into_iter()
                .map(|(mut entry, otherwise)| {
                    if approved && otherwise == Otherwise::Hold {
                        entry.at_most = None;
                    }
                    entry
                })
                .collect();
            match self.ledger.charge(entries, self.clock.now()).await {
                Ok(sum) => charges.made.push(Made {
                    index,
                    ledger: Arc::clone(&self.ledger),
                    charged: sum,
                }),
                Err(Uncharged::Exceeded(rule)) => {
                    return Err(Finding {
                        layer: layer.id(),
                        rule,
                        reason: match layer.id() {
                            LayerId::Egress => Reason::BudgetExceeded,
                            _ => Reason::ConditionFailed,
                        },
                        argument: None,
                        detail: Cow::Borrowed("another call has reached the limit meanwhile"),
                    });
                }
                Err(error) => {
                    return Err(refused(&Undecided {
                        layer: layer.id(),
                        cause: format!("the ledger of limits: {error}"),
                    }));
                }
            }
        }
        self.charge_in_shadow((index, located), context, charges)
            .await;
        Ok(())
    }

    /// Layers in shadow have a ledger of their own, so that they say what they would have said: a call that they would have
    /// refused, or could not count, is not charged there.
    async fn charge_in_shadow(
        &self,
        (index, located): (usize, &Located),
        context: &Context<'_>,
        charges: &mut Charges,
    ) {
        let shadows = self.layers.iter();
        for (_, layer) in shadows.filter(|(mode, _)| *mode == Mode::Shadow) {
            let entries = layer.charges(located, context).unwrap_or_default();
            let entries: Vec<_> = entries.into_iter().map(|(entry, _)| entry).collect();
            if entries.is_empty() {
                continue;
            }
            if let Ok(sum) = self.shadow.charge(entries, self.clock.now()).await {
                charges.made.push(Made {
                    index,
                    ledger: Arc::clone(&self.shadow),
                    charged: sum,
                });
            }
        }
    }
}
