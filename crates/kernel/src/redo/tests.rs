//! Many who wait for the log at once.

use std::time::Duration;

use block::op::Op;
use block::redo::{Body, RecordKind};
use block::{Dba, Rba, Version, Xid};
use futures::future::join_all;

use super::{Log, LogFileStatus};
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

#[test]
fn a_log_file_that_is_begun_is_noted() {
    let t = TestInstance::new(1, 256);
    let log = &t.core.log;
    assert_eq!(log.begun().len(), 1);
    let mut body = Body::new();
    body.push(Dba::new(1, 1), Version::ZERO, &Op::UndoAppend { record: vec![7; 4_096] });
    t.run(async {
        // Recovery is not to come here: nothing is kept free for it.
        while log.begun().len() == 1 {
            let (_, end, _) = log.append(&body, Xid::NONE, RecordKind::Change, None, false);
            log.flushed(end).await;
        }
    });
    let (all, (files, current)) = (log.begun(), log.files());
    assert_eq!(all[1].seq, all[0].seq + 1);
    assert!(all[1].scn >= all[0].scn && all[1].wall_us > all[0].wall_us, "{all:?}");
    assert_eq!(current, all[1].seq);
    let is = |status| files.iter().find(|file| file.status == status).and_then(|file| file.seq);
    assert_eq!(is(LogFileStatus::Current), Some(all[1].seq));
    assert_eq!(is(LogFileStatus::Active), Some(all[0].seq));
}
