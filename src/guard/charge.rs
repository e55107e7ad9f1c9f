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
    ledger: Option<Arc<dyn Ledger>>,
    made: Vec<(usize, Charged)>,
    pending: bool,
}

impl fmt::Debug for Charges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Charges")
            .field("made", &self.made)
            .finish_non_exhaustive()
    }
}

impl Charges {
    pub(super) fn pending(ledger: &Arc<dyn Ledger>) -> Self {
        Self {
            ledger: Some(Arc::clone(ledger)),
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
        let Some(ledger) = &self.ledger else {
            return;
        };
        let (withdrawn, kept) = std::mem::take(&mut self.made)
            .into_iter()
            .partition(|(index, _)| refused(*index));
        self.made = kept;
        let withdrawn: Vec<(usize, Charged)> = withdrawn;
        for (_, charged) in withdrawn {
            ledger.give_back(charged).await;
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
        let Some(ledger) = self.ledger.clone() else {
            return;
        };
        self.pending = true;
        while let Some((_, charged)) = self.made.pop() {
            ledger.give_back(charged).await;
        }
    }
}

impl Drop for Charges {
    fn drop(&mut self) {
        let Some(ledger) = self.ledger.take().filter(|_| self.pending) else {
            return;
        };
        for (_, charged) in self.made.drain(..) {
            // A ledger in memory is done at once; another needs the runtime. Without one the charge stands, which is safe.
            let ledger = Arc::clone(&ledger);
            let mut given_back = async move { ledger.give_back(charged).await }.boxed();
            if (&mut given_back).now_or_never().is_none()
                && let Ok(runtime) = tokio::runtime::Handle::try_current()
            {
                runtime.spawn(given_back);
            }
        }
    }
}

impl Guard {
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
                Ok(made) => charges.made.push((index, made)),
                Err(Uncharged::Exceeded(rule)) => {
                    return Err(Finding {
                        layer: layer.id(),
                        rule,
                        reason: Reason::ConditionFailed,
                        argument: None,
                        detail: Cow::Borrowed("another call has reached the limit meanwhile"),
                    });
                }
                Err(error) => {
                    return Err(refused(&Undecided {
                        layer: LayerId::Catalog,
                        cause: format!("the ledger of limits: {error}"),
                    }));
                }
            }
        }
        Ok(())
    }
}
