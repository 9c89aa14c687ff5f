//! Redo on its way to the disk: what has been taken out of the buffer and is not durable yet.
//!
//! What it promises: stretches are taken in the order of their positions, and the log is durable as
//! far as all of them are written, in whatever order that happens. What it must never do: write
//! into a log file whose header somebody else is still writing. A stretch that goes on into the
//! next file is therefore alone.

use std::collections::VecDeque;

use block::Rba;

/// Redo taken out of the buffer to be written.
pub(super) struct Taken {
    number: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) start: Rba,
    /// How many of the bytes are written.
    pub(super) written: usize,
}

enum State {
    Writing,
    /// Whoever wrote it has gone away in the middle.
    Abandoned(Taken),
    Written,
}

struct Flight {
    number: u64,
    end: Rba,
    alone: bool,
    state: State,
}

/// In the order of their positions.
pub(super) struct Flights {
    at_once_max: usize,
    next: u64,
    queue: VecDeque<Flight>,
}

impl Flights {
    pub(super) fn new(at_once_max: usize) -> Flights {
        Flights { at_once_max, next: 0, queue: VecDeque::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether another stretch may be taken now. `alone`: one that goes on into the next file.
    pub(super) fn may_take(&self, alone: bool) -> bool {
        match self.queue.back() {
            None => true,
            // Those that are written count too, up to twice as many: one that does not end must
            // not have the others run far ahead of what is durable.
            Some(last) => !alone && !last.alone && self.has_room(),
        }
    }

    fn has_room(&self) -> bool {
        let writing = self.queue.iter().filter(|f| !matches!(f.state, State::Written)).count();
        writing < self.at_once_max && self.queue.len() < 2 * self.at_once_max
    }

    /// The next stretch; the caller has asked [`Flights::may_take`].
    pub(super) fn take(&mut self, bytes: Vec<u8>, start: Rba, alone: bool) -> Taken {
        let number = self.next;
        self.next += 1;
        let end = Rba(start.0 + bytes.len() as u64);
        self.queue.push_back(Flight { number, end, alone, state: State::Writing });
        Taken { number, bytes, start, written: 0 }
    }

    pub(super) fn has_abandoned(&self) -> bool {
        self.queue.iter().any(|f| matches!(f.state, State::Abandoned(_)))
    }

    /// One that nobody writes any more.
    pub(super) fn take_abandoned(&mut self) -> Option<Taken> {
        let flight = self.queue.iter_mut().find(|f| matches!(f.state, State::Abandoned(_)))?;
        match std::mem::replace(&mut flight.state, State::Writing) {
            State::Abandoned(taken) => Some(taken),
            State::Writing | State::Written => None,
        }
    }

    pub(super) fn abandon(&mut self, taken: Taken) {
        if let Some(flight) = self.queue.iter_mut().find(|f| f.number == taken.number) {
            flight.state = State::Abandoned(taken);
        }
    }

    /// It is written: how far the log is durable now, if that has changed.
    pub(super) fn written(&mut self, taken: &Taken) -> Option<Rba> {
        if let Some(flight) = self.queue.iter_mut().find(|f| f.number == taken.number) {
            flight.state = State::Written;
        }
        let mut durable = None;
        while self.queue.front().is_some_and(|f| matches!(f.state, State::Written)) {
            durable = self.queue.pop_front().map(|f| f.end);
        }
        durable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(flights: &mut Flights, start: u64, alone: bool) -> Option<Taken> {
        flights.may_take(alone).then(|| flights.take(vec![0; 10], Rba(start), alone))
    }

    #[test]
    fn durable_is_what_has_no_hole_below_it() {
        let mut flights = Flights::new(3);
        let [a, b, c] = [0, 10, 20].map(|start| take(&mut flights, start, false).unwrap());
        assert!(take(&mut flights, 30, false).is_none(), "three at once");
        assert_eq!(flights.written(&b), None);
        let d = take(&mut flights, 30, false).expect("room again");
        assert_eq!(flights.written(&a), Some(Rba(20)));
        assert!(!flights.is_empty());
        assert_eq!(flights.written(&d), None);
        assert_eq!(flights.written(&c), Some(Rba(40)));
        assert!(flights.is_empty());
    }

    #[test]
    fn nobody_runs_far_ahead_of_one_that_does_not_end() {
        let mut flights = Flights::new(2);
        let stuck = take(&mut flights, 0, false).unwrap();
        for start in [10, 20, 30] {
            let one = take(&mut flights, start, false).unwrap();
            assert_eq!(flights.written(&one), None);
        }
        assert!(take(&mut flights, 40, false).is_none());
        assert_eq!(flights.written(&stuck), Some(Rba(40)));
    }

    #[test]
    fn who_begins_a_file_is_alone() {
        let mut flights = Flights::new(2);
        let a = take(&mut flights, 0, false).unwrap();
        assert!(take(&mut flights, 10, true).is_none());
        assert_eq!(flights.written(&a), Some(Rba(10)));
        let b = take(&mut flights, 10, true).unwrap();
        assert!(take(&mut flights, 20, false).is_none());
        assert_eq!(flights.written(&b), Some(Rba(20)));
        assert!(take(&mut flights, 20, false).is_some());
    }

    #[test]
    fn what_was_abandoned_is_finished_by_another() {
        let mut flights = Flights::new(2);
        let mut a = take(&mut flights, 0, false).unwrap();
        let b = take(&mut flights, 10, false).unwrap();
        a.written = 4;
        flights.abandon(a);
        assert_eq!(flights.written(&b), None);
        let again = flights.take_abandoned().unwrap();
        assert_eq!((again.start, again.written), (Rba(0), 4));
        assert!(flights.take_abandoned().is_none());
        assert_eq!(flights.written(&again), Some(Rba(20)));
    }
}
