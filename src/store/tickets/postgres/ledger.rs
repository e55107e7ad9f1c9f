//! What calls came to, in the same database, so that every process that serves it counts the same.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use rust_decimal::Decimal;

use super::db::{Db, Fault, Pg, Tx};
use crate::ledger::{Account, Charged, Entry, Ledger, Uncharged, Window};
use crate::store::tickets::columns::Columns;

/// A ledger that several processes share.
pub(super) struct PostgresLedger(pub(super) Arc<Db>);

/// The account's name in the database.
fn name(account: &Account) -> Pg<String> {
    let rule = (account.rule.as_str(), &account.of);
    let who = &account.owner.who;
    match &account.owner.session {
        Some(key) => super::calls::json(&("session", rule, key)),
        None => super::calls::json(&("principal", rule, &who.tenant, &who.issuer, &who.subject)),
    }
}

/// The first entry that does not fit; nobody else charges these accounts until the transaction ends.
async fn unfit(tx: &Tx, entries: &[Entry], now: i64) -> Pg<Option<Uncharged>> {
    let mut names = entries
        .iter()
        .map(|entry| name(&entry.account))
        .collect::<Pg<Vec<_>>>()?;
    names.sort_unstable();
    names.dedup();
    for name in &names {
        tx.exclusively(name).await?;
    }
    let mut added: Vec<(String, Decimal)> = Vec::new();
    for entry in entries {
        let account = name(&entry.account)?;
        let row = tx
            .row(
                "SELECT coalesce(sum(amount), 0)::text AS total FROM ledger WHERE account = $1 AND part >= $2",
                &[&account, &Window::of(entry.window).first(now)],
            )
            .await?
            .ok_or_else(Fault::missing)?;
        let known = row.named("total", |text| Decimal::from_str_exact(text).ok())?;
        let own = added
            .iter()
            .filter(|(name, _)| *name == account)
            .try_fold(entry.amount, |sum: Decimal, (_, amount)| {
                sum.checked_add(*amount)
            });
        let total = own.and_then(|own| known.checked_add(own));
        let fits = match (total, entry.at_most) {
            (Some(total), Some(at_most)) => total <= at_most,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if !fits {
            return Ok(Some(Uncharged::Exceeded(entry.account.rule.clone())));
        }
        added.push((account, entry.amount));
    }
    Ok(None)
}

async fn write(tx: &Tx, entries: &[Entry], now: i64) -> Pg<Charged> {
    let mut charged = Vec::with_capacity(entries.len());
    for entry in entries {
        let window = Window::of(entry.window);
        let part = window.index(now);
        tx.execute(
            "INSERT INTO ledger (account, part, amount, until) VALUES ($1, $2, $3::text::numeric, $4)
             ON CONFLICT (account, part) DO UPDATE SET amount = ledger.amount + excluded.amount,
                                                       until = greatest(ledger.until, excluded.until)",
            &[
                &name(&entry.account)?,
                &part,
                &entry.amount.to_string(),
                &window.until(now),
            ],
        )
        .await?;
        charged.push((entry.account.clone(), part, entry.amount));
    }
    Ok(Charged(charged))
}

impl Ledger for PostgresLedger {
    fn check(&self, entries: Vec<Entry>, now: Timestamp) -> BoxFuture<'_, Result<(), Uncharged>> {
        let entries = Arc::new(entries);
        Box::pin(async move {
            let said = self.0.step(move |tx| {
                let entries = Arc::clone(&entries);
                Box::pin(async move { unfit(tx, &entries, now.as_millisecond()).await })
            });
            match said.await {
                Ok(None) => Ok(()),
                Ok(Some(unfit)) => Err(unfit),
                Err(error) => Err(Uncharged::Failed(error.to_string())),
            }
        })
    }

    fn charge(
        &self,
        entries: Vec<Entry>,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<Charged, Uncharged>> {
        let entries = Arc::new(entries);
        Box::pin(async move {
            let said = self.0.step(move |tx| {
                let entries = Arc::clone(&entries);
                Box::pin(async move {
                    let now = now.as_millisecond();
                    match unfit(tx, &entries, now).await? {
                        Some(unfit) => Ok(Err(unfit)),
                        None => write(tx, &entries, now).await.map(Ok),
                    }
                })
            });
            said.await
                .unwrap_or_else(|error| Err(Uncharged::Failed(error.to_string())))
        })
    }

    fn give_back(&self, charged: Charged) -> BoxFuture<'_, ()> {
        let charged = Arc::new(charged.0);
        Box::pin(async move {
            let said = self.0.step(move |tx| {
                let charged = Arc::clone(&charged);
                Box::pin(async move {
                    for (account, part, amount) in charged.iter() {
                        tx.execute(
                            "UPDATE ledger SET amount = greatest(amount - $3::text::numeric, 0) WHERE account = $1 AND part = $2",
                            &[&name(account)?, part, &amount.to_string()],
                        )
                        .await?;
                    }
                    Ok(())
                })
            });
            // What stays charged only makes a limit narrower.
            if let Err(error) = said.await {
                tracing::error!(%error, "a charge for a call that was not sent could not be given back");
            }
        })
    }
}
