//! Many who wait for the log at once.

use std::time::Duration;

use block::redo::{Body, RecordKind};
use block::{Rba, Xid};
use futures::future::join_all;

use super::Log;
use crate::testing::TestInstance;

fn append(log: &Log) -> Rba {
    let (_, end, _) = log.append(&Body::new(), Xid::NONE, RecordKind::Change, None, false);
    end
}

/// Sessions that write for themselves, some of which go away in the middle, and others that have
/// the log writer do it.
async fn one(t: &TestInstance, who: usize) {
    for _ in 0..4 {
        t.env.sleep(Duration::from_micros(t.env.random() % 100)).await;
        let end = append(&t.core.log);
        match who % 3 {
            0 => t.core.log.flushed(end).await,
            1 if t.env.random().is_multiple_of(4) => {
                let patience = Duration::from_micros(t.env.random() % 500);
                let _ = t.env.timeout(patience, t.core.log.flush(end)).await;
                continue;
            }
            _ => t.core.log.flush(end).await,
        }
        assert!(t.core.log.durable() >= end);
    }
}

#[test]
fn everybody_is_told_whoever_writes() {
    for seed in 0..4 {
        let mut t = TestInstance::new(seed, 256);
        // In short rounds: who is forgotten would be written for by those who come later.
        for round in 0..500 {
            t.run(join_all((0..3 + round % 6).map(|who| one(&t, who))));
        }
        let durable = t.core.log.durable();
        t.crash();
        assert!(t.core.log.next() >= durable, "seed {seed}");
    }
}

#[test]
fn a_crash_in_the_middle_loses_nothing_acknowledged() {
    for seed in 100..116 {
        let mut t = TestInstance::new(seed, 256);
        let limit = Duration::from_micros(t.env.random() % 2_000);
        let ended = t.run(t.env.timeout(limit, join_all((0..6).map(|who| one(&t, who)))));
        let durable = t.core.log.durable();
        t.crash();
        assert!(t.core.log.next() >= durable, "seed {seed}, ended: {}", ended.is_ok());
    }
}
