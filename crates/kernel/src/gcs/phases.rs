//! How long each part of a change of membership took, for the alert log.
//!
//! What it must never do: decide anything; it only listens.

use std::fmt::Write as _;

use env::Micros;
use global::Epoch;

/// Parts of a change, by what ends them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// The connections of the new membership stand.
    Links,
    /// Every member has closed the old epoch.
    Freeze,
    /// At the recoverer: the dead threads are read.
    RedoScan,
    /// This instance's part of the directory stands again.
    Rebuild,
    /// All parts do; blocks are served.
    Thaw,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Phase::Links => "links",
            Phase::Freeze => "freeze",
            Phase::RedoScan => "redo scan",
            Phase::Rebuild => "rebuild",
            Phase::Thaw => "open",
        }
    }
}

/// The phases of the newest epoch, each with the microseconds since the one before it ended.
#[derive(Default)]
pub(super) struct Phases {
    epoch: Epoch,
    begun: Micros,
    last: Micros,
    ended: Vec<(Phase, u64)>,
}

impl Phases {
    /// The membership is known.
    pub fn begin(&mut self, epoch: Epoch, now: Micros) {
        *self = Phases { epoch, begun: now, last: now, ended: Vec::new() };
    }

    /// A part has ended; those of other epochs do not count.
    pub fn end(&mut self, epoch: Epoch, phase: Phase, now: Micros) {
        if epoch == self.epoch {
            self.ended.push((phase, now.since(self.last)));
            self.last = now;
        }
    }

    /// The line of the alert log, once blocks are served.
    pub fn line(&self) -> String {
        let ms = |us: u64| format!("{}.{} ms", us / 1000, us % 1000 / 100);
        let total = self.last.since(self.begun);
        let mut line = format!("epoch {}: blocks are served after {}", self.epoch.0, ms(total));
        for (at, (phase, us)) in self.ended.iter().enumerate() {
            let before = if at == 0 { " (" } else { ", " };
            let _ = write!(line, "{before}{} {}", phase.name(), ms(*us));
        }
        if !self.ended.is_empty() {
            line.push(')');
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_add_up_and_those_of_other_epochs_do_not_count() {
        let mut phases = Phases::default();
        phases.begin(Epoch(7), Micros(1000));
        phases.end(Epoch(7), Phase::Links, Micros(3500));
        phases.end(Epoch(6), Phase::Thaw, Micros(3600));
        phases.end(Epoch(7), Phase::Freeze, Micros(3600));
        phases.end(Epoch(7), Phase::Thaw, Micros(13_600));
        let said = "epoch 7: blocks are served after 12.6 ms (links 2.5 ms, freeze 0.1 ms, \
                    open 10.0 ms)";
        assert_eq!(phases.line(), said);
        phases.begin(Epoch(8), Micros(1));
        assert_eq!(phases.line(), "epoch 8: blocks are served after 0.0 ms");
    }
}
