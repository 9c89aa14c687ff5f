//! Sequences: no value comes twice, whoever dies, and those of an ordered one come in the order in
//! which they were asked for, whichever instance is asked.

use std::collections::BTreeSet;
use std::sync::Arc;

use env::BoxFuture;
use kernel::dict::{self, NewSequence};
use kernel::instance::Instance;
use kernel::row::TypeKind;
use kernel::txn::{Isolation, Transaction};
use kernel::{Error, Result, seq};
use observe::Ctx;
use parking_lot::Mutex;

use crate::load::{Counts, Load, is_disk_trouble};

/// Values that an instance takes at once; the first sequence takes few.
const CACHE: i64 = 5;
/// Values of one transaction, at most.
const VALUES: u64 = 4;

/// A sequence of user-level defaults: from 1 on, one by one.
#[must_use]
pub fn plain_sequence(name: &str, cache: i64, order: bool) -> NewSequence {
    NewSequence {
        schema: "public".to_owned(),
        name: name.to_owned(),
        owner: dict::SUPERUSER_OBJ,
        kind: TypeKind::Int8,
        start: 1,
        increment: 1,
        min: 1,
        max: i64::MAX,
        cache,
        cycle: false,
        order,
        table: None,
    }
}

#[derive(Default)]
struct Told {
    /// By sequence.
    values: Vec<BTreeSet<i64>>,
    counts: Counts,
}

/// Some sequences; every other one is ordered.
pub struct Sequences {
    count: usize,
    told: Mutex<Told>,
}

fn name(no: usize) -> String {
    format!("sequence_{no}")
}

fn is_ordered(no: usize) -> bool {
    no % 2 == 1
}

impl Sequences {
    #[must_use]
    pub fn new(count: usize) -> Sequences {
        let told = Told { values: vec![BTreeSet::new(); count], ..Told::default() };
        Sequences { count, told: Mutex::new(told) }
    }

    async fn make(&self, ctx: &Ctx, at: &Arc<Instance>) -> Result<()> {
        let txn = at.begin(ctx, Isolation::ReadCommitted);
        for no in 0..self.count {
            let cache = 1 + CACHE * i64::try_from(no).expect("few sequences");
            let new = plain_sequence(&name(no), cache, is_ordered(no));
            dict::create_sequence(ctx, &txn, new).await?;
        }
        txn.commit(ctx).await.map(drop)
    }

    async fn next(&self, ctx: &Ctx, txn: &Arc<Transaction>, no: usize) -> Result<()> {
        let def = dict::sequence(ctx, txn, "public", &name(no)).await?;
        let def = def.ok_or_else(|| Error::UndefinedObject(name(no)))?;
        let before = self.told.lock().values[no].last().copied();
        let value = seq::nextval(ctx, txn, &def).await?;
        let mut told = self.told.lock();
        assert!(told.values[no].insert(value), "{}: {value} came twice", name(no));
        let ordered = !is_ordered(no) || before.is_none_or(|before| before < value);
        assert!(ordered, "{}: {value} came after {before:?}, which was there before", name(no));
        Ok(())
    }

    async fn work(&self, ctx: &Ctx, at: &Arc<Instance>) -> Result<()> {
        let env = &at.core.env;
        let no = usize::try_from(env.random() % self.count as u64).expect("small");
        let txn = at.begin(ctx, Isolation::ReadCommitted);
        for _ in 0..=env.random() % VALUES {
            if let Err(e) = self.next(ctx, &txn, no).await {
                txn.rollback(ctx).await?;
                return Err(e);
            }
        }
        // A rollback gives no value back.
        if env.random().is_multiple_of(8) {
            self.told.lock().counts.refused += 1;
            return txn.rollback(ctx).await;
        }
        txn.commit(ctx).await?;
        self.told.lock().counts.acknowledged += 1;
        Ok(())
    }
}

impl Load for Sequences {
    fn set_up<'a>(&'a self, ctx: &'a Ctx, at: &'a Arc<Instance>) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.make(ctx, at))
    }

    fn step<'a>(&'a self, ctx: &'a Ctx, at: &'a Arc<Instance>, _: u8) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            match self.work(ctx, at).await {
                Ok(()) => {}
                Err(e) if is_disk_trouble(&e) => self.told.lock().counts.disk_errors += 1,
                // Of the dictionary, with no retention of undo.
                Err(Error::SnapshotTooOld(_)) => self.told.lock().counts.too_old += 1,
                Err(e) => panic!("instance {}: {e}", at.me),
            }
        })
    }

    fn check<'a>(&'a self, ctx: &'a Ctx, at: &'a Arc<Instance>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let txn = at.begin(ctx, Isolation::ReadCommitted);
            for no in 0..self.count {
                self.next(ctx, &txn, no).await?;
            }
            txn.commit(ctx).await.map(drop)
        })
    }

    fn counts(&self) -> Counts {
        self.told.lock().counts
    }
}
