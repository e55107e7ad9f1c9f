//! Where trials run, one after the other: a world, its judge, and what the guard's look-ups ask. Made once per worker.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Suite;
use crate::eval::judge::{Change, Connect, Judge};
use crate::eval::snapshot::Snapshot;
use crate::eval::sql::Bindings;
use crate::eval::world::{Fault, Sandbox};
use crate::store::sql::{ReadOnlySql, SqlError};

/// Why there is no site.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// The judge is not independent.
    #[error("{0}")]
    Judge(SqlError),
    /// The world.
    #[error("{0}")]
    World(Fault),
}

/// Where the time of trials went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// How many there were.
    pub trials: u32,
    /// Making the world what it was.
    pub reset: Duration,
    /// Guard and proxy, made anew.
    pub guard: Duration,
    /// The conversation, with all that follows but the judge's own part.
    pub replay: Duration,
    /// Of that: what the layers took.
    pub judging: Duration,
    /// Of that: what the world took.
    pub sandbox: Duration,
    /// Both snapshots.
    pub snapshot: Duration,
    /// Assertions, permissions, and what differs.
    pub judge: Duration,
}

impl Spent {
    /// Adds what another worker spent.
    pub fn add(&mut self, other: &Self) {
        self.trials += other.trials;
        self.reset += other.reset;
        self.guard += other.guard;
        self.replay += other.replay;
        self.judging += other.judging;
        self.sandbox += other.sandbox;
        self.snapshot += other.snapshot;
        self.judge += other.judge;
    }
}

/// A world with its judge.
pub struct Site {
    /// Away during a trial; `None` between two: it was lost, and is made anew.
    pub(super) world: Option<Sandbox>,
    pub(super) judge: Judge,
    pub(super) lookups: Arc<dyn ReadOnlySql>,
    /// The world as it was made.
    pub(super) start: Snapshot,
    pub(super) spent: Spent,
    path: PathBuf,
}

impl Site {
    pub(super) async fn open(
        suite: &Suite,
        connect: &Connect,
        path: PathBuf,
    ) -> Result<Self, SiteError> {
        let world = suite.image.sandbox(path.clone()).await;
        let world = world.map_err(SiteError::World)?;
        let mut judge = world.judge(connect).await.map_err(SiteError::Judge)?;
        let start = judge.snapshot(&[], &Bindings::default()).await;
        let failed = |error: SqlError| SiteError::World(Fault::here(error.to_string()));
        Ok(Self {
            lookups: world.lookups().map_err(failed)?,
            world: Some(world),
            judge,
            start: start.map_err(failed)?,
            spent: Spent::default(),
            path,
        })
    }

    /// Where the time went so far.
    pub const fn spent(&self) -> &Spent {
        &self.spent
    }

    /// The world as it was made, and the judge's first look at it.
    ///
    /// # Errors
    /// It is not as it was made, although it was made anew; or the database failed.
    pub(super) async fn begin(
        &mut self,
        suite: &Suite,
        connect: &Connect,
        changes: &[&Change],
        bound: &Bindings,
    ) -> Result<(Sandbox, Snapshot), Fault> {
        let started = Instant::now();
        let mut world = match self.world.take() {
            Some(mut world) => {
                world.reset().await?;
                world
            }
            None => self.reopened(suite, connect).await?,
        };
        self.spent.reset += started.elapsed();
        let before = self.seen(changes, bound).await?;
        if self.start.is_as(&before) {
            return Ok((world, before));
        }
        // A call has changed more than rows.
        let failed = |error: SqlError| Fault::here(error.to_string());
        world.renew().await?;
        self.judge = world.judge(connect).await.map_err(failed)?;
        self.lookups = world.lookups().map_err(failed)?;
        let before = self.seen(changes, bound).await?;
        if self.start.is_as(&before) {
            return Ok((world, before));
        }
        let differing = self.start.difference(&before);
        let tables: Vec<_> = differing.iter().map(|it| it.table.as_str()).collect();
        Err(Fault::here(format!(
            "the world cannot be reset: it is not as it was at the start ({})",
            tables.join(", ")
        )))
    }

    /// A look of the judge.
    pub(super) async fn seen(
        &mut self,
        changes: &[&Change],
        bound: &Bindings,
    ) -> Result<Snapshot, Fault> {
        let started = Instant::now();
        let seen = self.judge.snapshot(changes, bound).await;
        self.spent.snapshot += started.elapsed();
        seen.map_err(|error| Fault {
            cause: format!("the judge failed: {error}"),
            gone: self.judge.is_gone(),
        })
    }

    async fn reopened(&mut self, suite: &Suite, connect: &Connect) -> Result<Sandbox, Fault> {
        let opened = Self::open(suite, connect, self.path.clone()).await;
        let mut opened = opened.map_err(|error| match error {
            SiteError::World(fault) => fault,
            SiteError::Judge(error) => Fault::here(error.to_string()),
        })?;
        let world = opened.world.take();
        opened.spent = self.spent;
        *self = opened;
        world.ok_or_else(|| Fault::here("the world is gone"))
    }
}
