//! Who waits for redo to become durable.
//!
//! What it promises: after a write exactly those are woken whose redo it made durable, and one of
//! the others that may write itself, so that somebody goes on. Waking all of them would have each
//! commit pay for several wake-ups in vain. What it must never do: lose the turn with a waiter that
//! goes away.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use block::Rba;
use parking_lot::Mutex;

/// Those who wait, in the order in which they came.
#[derive(Default)]
pub(super) struct Waiters(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    next: u64,
    waiting: VecDeque<Entry>,
}

struct Entry {
    number: u64,
    upto: Rba,
    /// Would write what is in the buffer if nobody else does.
    may_write: bool,
    told: bool,
    waker: Option<Waker>,
}

/// One who waits: ready once its redo is durable, or once it is its turn to write.
pub(super) struct Waiting<'a> {
    all: &'a Waiters,
    number: u64,
}

impl Waiters {
    /// From now on the caller is told of what is written.
    pub(super) fn join(&self, upto: Rba, may_write: bool) -> Waiting<'_> {
        let mut queue = self.0.lock();
        let number = queue.next;
        queue.next += 1;
        queue.waiting.push_back(Entry { number, upto, may_write, told: false, waker: None });
        Waiting { all: self, number }
    }

    /// What is below `durable` has been written, what is below `taken` is on its way, and there is
    /// room for another write.
    pub(super) fn tell(&self, durable: Rba, taken: Rba) {
        let mut wakers = Vec::new();
        let mut queue = self.0.lock();
        // One that has been chosen and has not run yet is enough.
        let mut chosen = queue.waiting.iter().any(|e| e.told && e.upto > taken);
        for entry in &mut queue.waiting {
            let chosen_now = !chosen && entry.may_write && entry.upto > taken;
            if entry.told || !(entry.upto <= durable || chosen_now) {
                continue;
            }
            entry.told = true;
            wakers.extend(entry.waker.take());
            chosen |= chosen_now;
        }
        drop(queue);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Future for Waiting<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut queue = self.all.0.lock();
        let at = queue.waiting.iter().position(|e| e.number == self.number);
        let Some(entry) = at.and_then(|at| queue.waiting.get_mut(at)) else {
            return Poll::Ready(());
        };
        if !entry.told {
            entry.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let at = at.expect("found");
        queue.waiting.remove(at);
        Poll::Ready(())
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut queue = self.all.0.lock();
        let Some(at) = queue.waiting.iter().position(|e| e.number == self.number) else { return };
        let gone = queue.waiting.remove(at).expect("found");
        // It may have been the one that was to write: the one whose redo is last takes its place,
        // since that of others may be on its way. That its own redo was durable is not known here;
        // one look too many costs little.
        if gone.told && gone.may_write {
            let others = queue.waiting.iter_mut().filter(|e| e.may_write && !e.told);
            let next = others.max_by_key(|e| e.upto);
            let waker = next.and_then(|next| {
                next.told = true;
                next.waker.take()
            });
            drop(queue);
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    fn ready(waiting: &mut Waiting<'_>) -> bool {
        waiting.now_or_never().is_some()
    }

    #[test]
    fn who_is_durable_is_told_and_one_of_the_others() {
        let all = Waiters::default();
        let mut a = all.join(Rba(10), true);
        let mut lazy = all.join(Rba(20), false);
        let mut b = all.join(Rba(30), true);
        let mut c = all.join(Rba(40), true);
        assert!(![&mut a, &mut lazy, &mut b, &mut c].into_iter().any(ready));
        all.tell(Rba(10), Rba(10));
        assert_eq!([&mut a, &mut lazy, &mut b, &mut c].map(ready), [true, false, true, false]);
        all.tell(Rba(40), Rba(40));
        assert_eq!([&mut lazy, &mut c].map(ready), [true, true]);
        drop((a, b));
        assert_eq!(all.0.lock().waiting.len(), 0);
    }

    #[test]
    fn who_is_on_its_way_is_not_chosen() {
        let all = Waiters::default();
        let mut a = all.join(Rba(10), true);
        let mut b = all.join(Rba(20), true);
        assert!(!ready(&mut a) && !ready(&mut b));
        all.tell(Rba(5), Rba(10));
        assert!(!ready(&mut a) && ready(&mut b));
        all.tell(Rba(10), Rba(20));
        assert!(ready(&mut a));
    }

    #[test]
    fn one_chosen_is_enough() {
        let all = Waiters::default();
        let mut a = all.join(Rba(10), true);
        let mut b = all.join(Rba(20), true);
        assert!(!ready(&mut a) && !ready(&mut b));
        all.tell(Rba(5), Rba(5));
        all.tell(Rba(6), Rba(6));
        assert!(ready(&mut a) && !ready(&mut b));
    }

    #[test]
    fn the_turn_of_one_that_goes_away_is_the_next_ones() {
        let all = Waiters::default();
        let mut a = all.join(Rba(10), true);
        let mut b = all.join(Rba(20), true);
        assert!(!ready(&mut a) && !ready(&mut b));
        all.tell(Rba(5), Rba(5));
        drop(a);
        assert!(ready(&mut b));
    }
}
