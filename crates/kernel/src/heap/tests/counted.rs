//! What a scan reads is counted for the segment that it scans.

use block::{Dba, layout};

use super::*;
use crate::cache::SegmentStat;

impl Table {
    fn counted(&self, stat: SegmentStat) -> u64 {
        let all = self.rig.core.cache.segment_counts();
        let own = all.iter().find(|(obj, _)| *obj == self.seg.obj);
        own.map_or(0, |(_, counts)| counts[stat as usize])
    }

    /// Its blocks below the high-water mark, without header and maps.
    async fn data_blocks(&self) -> Vec<Dba> {
        let ranges = self.rig.core.space.scan_ranges(self.ctx(), self.seg).await.unwrap();
        let blocks = |(first, count): (Dba, u32)| {
            (0..count).map(move |i| Dba::new(first.file, first.block + i))
        };
        ranges.into_iter().flat_map(blocks).collect()
    }
}

#[test]
fn blocks_that_were_never_formatted_are_read_for_the_segment_that_is_scanned() {
    let mut t = table();
    t.rig.world.block_on(t.insert_committed(b"one"));
    t.rig.crash();
    t.ctx = t.rig.session("again");
    t.rig.world.block_on(async {
        let cache = t.rig.core.cache.clone();
        let blocks = t.data_blocks().await;
        let absent = blocks.iter().filter(|dba| !cache.is_readable(**dba)).count() as u64;
        let stats = [SegmentStat::PhysicalReads, SegmentStat::PhysicalReadRequests];
        let [reads, requests] = stats.map(|stat| t.counted(stat));
        assert_eq!(t.all(&t.now()).await.len(), 1);
        let [reads, requests] = [t.counted(stats[0]) - reads, t.counted(stats[1]) - requests];
        let mut raw = 0;
        for dba in &blocks {
            let obj = cache.read(t.ctx(), *dba, layout::obj).await.unwrap();
            raw += u64::from(obj != t.seg.obj);
        }
        assert!(raw > 1 && raw <= absent, "{raw} of {absent} blocks have never been formatted");
        assert!((absent..=absent + 2).contains(&reads), "{reads} reads of {absent} blocks");
        assert!(requests < reads, "{reads} blocks are read by {requests} requests");
    });
}
