//! Orders of messages that the scripts' world does not make: the master alone.

use block::{Dba, InstanceNo, Mode, Scn, Version};
use global::master::EntryView;
use global::msg::{Have, HolderMsg, MasterMsg, Promoted, ReqId, Seq, Want};
use global::{Master, MasterEffect};

const ADDR: Dba = Dba { file: 4, block: 194 };
const ONE: InstanceNo = InstanceNo(1);
const TWO: InstanceNo = InstanceNo(2);

fn version(count: u64) -> Version {
    Version { format: Scn(5), count }
}

struct Alone {
    master: Master,
    out: Vec<MasterEffect>,
}

impl Alone {
    fn step(&mut self, from: InstanceNo, msg: MasterMsg) -> Vec<(InstanceNo, HolderMsg)> {
        self.master.step(0, from, ADDR, &msg, &mut self.out);
        self.sent()
    }

    fn sent(&mut self) -> Vec<(InstanceNo, HolderMsg)> {
        self.out.drain(..).map(|e| (e.to, e.msg)).collect()
    }
}

/// I1 asks for X before it hears that its past image is to become the block again. It then changes
/// the block and shares it with I2, whose request came first: what its own request said of its copy
/// is not true any more when its turn comes, and no right may rest on it. (Simulator: `three tiny
/// logs`, seed 304.)
#[test]
fn request_older_than_the_promotion_of_its_askers_past_image_is_asked_again() {
    for had in [Have::default(), Have { mode: Mode::S, version: version(1) }] {
        let mut m = Alone { master: Master::new(TWO), out: Vec::new() };
        let view = EntryView { past: vec![(ONE, version(6))], ..EntryView::default() };
        m.master.install(ADDR, &view, None);
        m.master.promote(0, ADDR, None, &mut m.out);
        let [(ONE, HolderMsg::Promote { seq })] = m.sent()[..] else { panic!("no promotion") };
        let ask = |n, want, have| MasterMsg::Request { req_id: ReqId(n), want, have, lms_us: 0 };
        assert!(m.step(TWO, ask(20, Want::S, Have::default())).is_empty());
        assert!(m.step(ONE, ask(10, Want::X, had)).is_empty());
        let outcome = Promoted::Holds { version: version(6) };
        let sent = m.step(ONE, MasterMsg::Promoted { seq, outcome });
        let [(ONE, HolderMsg::Forward { to: TWO, mode: Mode::S, seq, .. })] = sent[..] else {
            panic!("I2 is first: {sent:?}");
        };
        let taken = MasterMsg::Taken { seq, mode: Mode::S, version: version(7), past: None };
        let sent = m.step(TWO, taken);
        let retry = (ONE, HolderMsg::Retry { req_id: ReqId(10) });
        assert!(sent.contains(&retry), "{sent:?}");
        let now = Have { mode: Mode::S, version: version(7) };
        let sent = m.step(ONE, ask(11, Want::X, now));
        assert!(matches!(sent[..], [(TWO, HolderMsg::Invalidate { seq: Seq(_) })]), "{sent:?}");
    }
}

/// How long a request has waited for the master's server goes with its answer, and is not mixed
/// with what it waits for others who want the block.
#[test]
fn time_in_the_queue_of_the_masters_server_travels_with_the_answer() {
    let mut m = Alone { master: Master::new(TWO), out: Vec::new() };
    let ask = |n, lms_us| {
        let (want, have) = (Want::X, Have::default());
        MasterMsg::Request { req_id: ReqId(n), want, have, lms_us }
    };
    let [(ONE, HolderMsg::Grant { grant })] = m.step(ONE, ask(1, 1500))[..] else {
        panic!("nobody has it");
    };
    assert_eq!((grant.timings.master_lms_us, grant.timings.queue_us), (1500, 0));
    assert!(m.step(TWO, ask(2, 7)).is_empty(), "it queues behind the first");
    let taken = MasterMsg::Taken { seq: grant.seq, mode: Mode::X, version: version(1), past: None };
    m.master.step(300, ONE, ADDR, &taken, &mut m.out);
    let forwarded = m.sent().into_iter().find_map(|(to, msg)| match msg {
        HolderMsg::Forward { timings, .. } if to == ONE => Some(timings),
        _ => None,
    });
    let timings = forwarded.expect("the holder is told");
    assert_eq!((timings.master_lms_us, timings.queue_us), (7, 300));
}
