//! The voting file: its layout, and reading and writing it.
//!
//! | block of 4096 bytes | content | written by |
//! |---|---|---|
//! | 0 | header; byte 0 is also the range of the reconfiguration lock | init |
//! | 1, 2 | control record: epoch, members, eviction marks; two copies | holder of that lock |
//! | 2 + K | slot of instance K; locked by its process as long as it lives | instance K |
//!
//! Every record lies in the first 512 bytes of its block, which a disk writes as a whole, and
//! carries a
//! crc32c (at 0, over the 512 bytes with the field 0).
//!
//! Control copy 2 is written only when copy 1 is durable, and an epoch counts only once it is in
//! copy
//! 2: so an epoch that anybody acted on survives its decider, who may die while writing it. A new
//! decider first completes copy 2 from copy 1.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use block::{INSTANCES_MAX, InstanceNo};
use env::{Env, IoBuf, OpenOptions, RawFile};

use crate::Error;

/// Bytes of a slot.
pub const SLOT_BYTES: u64 = 4096;
/// Length of a control record and of a slot.
pub const RECORD_BYTES: usize = 512;
const MAGIC: &[u8; 8] = b"SKEINVOT";
const FORMAT_VERSION: u32 = 1;
/// The longest address in a slot.
pub const ADDR_BYTES_MAX: usize = 120;

/// Member or former member: an instance and which life of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Life {
    pub instance: InstanceNo,
    pub incarnation: u64,
}

/// The control record.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Control {
    /// Grows with every write of the record.
    pub sequence: u64,
    pub epoch: u64,
    pub members: Vec<Life>,
    /// Who must end: they are removed in the next epoch, when they have.
    pub evicting: Vec<Life>,
}

impl Control {
    /// The member with this instance number.
    #[must_use]
    pub fn member(&self, instance: InstanceNo) -> Option<Life> {
        self.members.iter().copied().find(|m| m.instance == instance)
    }
}

/// What an instance says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SlotState {
    /// Never used.
    #[default]
    Unused,
    /// Has started and asks to be let in.
    Joining,
    /// A member that is not open to clients yet (recovery).
    Member,
    Open,
    /// Has left cleanly.
    Left,
}

impl SlotState {
    fn from_u8(v: u8) -> Option<SlotState> {
        [SlotState::Unused, SlotState::Joining, SlotState::Member, SlotState::Open, SlotState::Left]
            .get(usize::from(v))
            .copied()
    }
}

/// An instance's slot.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Slot {
    pub incarnation: u64,
    pub state: SlotState,
    pub pid: u32,
    /// With `pid`, names the process for good.
    pub pid_start: u64,
    pub heartbeat: u64,
    /// The last epoch it has seen.
    pub epoch: u64,
    /// The last epoch whose recovery it has finished; joins wait for it.
    pub done_epoch: u64,
    /// Peers to whom a channel broke in `epoch`, by instance number.
    pub broken: u16,
    /// The epoch for which `view` was taken.
    pub view_epoch: u64,
    /// Peers it could reach then, by instance number.
    pub view: u16,
    /// Members that live but hang in `epoch`, by instance number: peers that do not answer, or the
    /// instance itself.
    pub hung: u16,
    pub interconnect_addr: String,
    pub client_addr: String,
}

/// The bit of an instance in a bitmap.
#[must_use]
pub fn bit(instance: InstanceNo) -> u16 {
    1 << instance.0
}

/// Writes a record's checksum.
pub fn seal(record: &mut [u8]) {
    record[..4].fill(0);
    let crc = crc32c::crc32c(record);
    record[..4].copy_from_slice(&crc.to_le_bytes());
}

fn unseal(block: &[u8]) -> Option<Fields<'_>> {
    let record = block.get(..RECORD_BYTES)?;
    let (stored, rest) = record.split_first_chunk::<4>()?;
    let crc = crc32c::crc32c_append(crc32c::crc32c(&[0; 4]), rest);
    (u32::from_le_bytes(*stored) == crc).then_some(Fields(rest))
}

struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }
    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|b| b[0])
    }
    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }
    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }
    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }
    fn text(&mut self) -> Option<String> {
        let len = usize::from(self.u8()?);
        String::from_utf8(self.take(len)?.to_vec()).ok()
    }
    fn lives(&mut self) -> Option<Vec<Life>> {
        let count = self.u8()?;
        if count > INSTANCES_MAX {
            return None;
        }
        (0..count)
            .map(|_| Some(Life { instance: InstanceNo(self.u8()?), incarnation: self.u64()? }))
            .collect()
    }
}

fn put_lives(out: &mut Vec<u8>, lives: &[Life]) {
    debug_assert!(lives.len() <= usize::from(INSTANCES_MAX));
    out.push(lives.len() as u8);
    for life in lives {
        out.push(life.instance.0);
        out.extend_from_slice(&life.incarnation.to_le_bytes());
    }
}

fn finish(mut out: Vec<u8>) -> Vec<u8> {
    debug_assert!(out.len() <= RECORD_BYTES);
    out.resize(RECORD_BYTES, 0);
    seal(&mut out);
    out
}

impl Control {
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; 4];
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&self.epoch.to_le_bytes());
        put_lives(&mut out, &self.members);
        put_lives(&mut out, &self.evicting);
        finish(out)
    }

    /// `None`: the bytes are no such record, or only partly written.
    #[must_use]
    pub fn decode(block: &[u8]) -> Option<Control> {
        let mut f = unseal(block)?;
        Some(Control {
            sequence: f.u64()?,
            epoch: f.u64()?,
            members: f.lives()?,
            evicting: f.lives()?,
        })
    }
}

impl Slot {
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; 4];
        out.push(self.state as u8);
        for v in [self.incarnation, self.pid_start, self.heartbeat, self.epoch, self.done_epoch] {
            out.extend_from_slice(&v.to_le_bytes());
        }
        out.extend_from_slice(&self.pid.to_le_bytes());
        out.extend_from_slice(&self.broken.to_le_bytes());
        out.extend_from_slice(&self.view_epoch.to_le_bytes());
        out.extend_from_slice(&self.view.to_le_bytes());
        for addr in [&self.interconnect_addr, &self.client_addr] {
            debug_assert!(addr.len() <= ADDR_BYTES_MAX);
            out.push(addr.len() as u8);
            out.extend_from_slice(addr.as_bytes());
        }
        out.extend_from_slice(&self.hung.to_le_bytes());
        finish(out)
    }

    /// `None`: the bytes are no such record, or only partly written.
    #[must_use]
    pub fn decode(block: &[u8]) -> Option<Slot> {
        let mut f = unseal(block)?;
        let state = SlotState::from_u8(f.u8()?)?;
        let [incarnation, pid_start, heartbeat, epoch, done_epoch] =
            [f.u64()?, f.u64()?, f.u64()?, f.u64()?, f.u64()?];
        Some(Slot {
            incarnation,
            state,
            pid_start,
            heartbeat,
            epoch,
            done_epoch,
            pid: f.u32()?,
            broken: f.u16()?,
            view_epoch: f.u64()?,
            view: f.u16()?,
            interconnect_addr: f.text()?,
            client_addr: f.text()?,
            hung: f.u16()?,
        })
    }
}

/// Revisions of the arbiter's keys, and who decides by them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Basis {
    pub control: u64,
    pub decider: u64,
    /// How the storage knows the decider; 0: nobody decides.
    pub decides: u64,
}

/// Everything in the voting file at about one moment.
#[derive(Clone, Debug, Default)]
pub struct VotingView {
    /// The control record in force.
    pub control: Control,
    /// A newer one that its decider has not finished writing.
    pub unfinished: Option<Control>,
    /// Slots from instance 1 on; `None`: unreadable just now.
    pub slots: Vec<Option<Slot>>,
    /// Instances whose slot lock is held, by instance number; where lives hang on leases, those
    /// that the storage has not been told to refuse.
    pub locked: u16,
    /// What changes that follow this view rest upon; nothing where locks see to that.
    pub(crate) basis: Basis,
    /// Those of `locked` whose lease has ended: they are to be put out. None where lives hang on
    /// locks.
    pub expired: u16,
}

impl VotingView {
    #[must_use]
    pub fn slot(&self, instance: InstanceNo) -> Option<&Slot> {
        self.slots.get(usize::from(instance.0).checked_sub(1)?)?.as_ref()
    }

    #[must_use]
    pub fn is_expired(&self, instance: InstanceNo) -> bool {
        self.expired & bit(instance) != 0
    }

    #[must_use]
    pub fn is_locked(&self, instance: InstanceNo) -> bool {
        self.locked & bit(instance) != 0
    }

    /// Whether this very life still runs: its lock is held and nobody has taken the slot over.
    #[must_use]
    pub fn is_alive(&self, life: Life) -> bool {
        // A slot that cannot be read now says nothing new: its lock decides.
        let replaced = self.slot(life.instance).is_some_and(|s| s.incarnation > life.incarnation);
        self.is_locked(life.instance) && !replaced
    }

    /// Instances of the cluster.
    pub fn instances(&self) -> impl Iterator<Item = InstanceNo> + use<> {
        (1..=self.slots.len() as u8).map(InstanceNo)
    }
}

/// An open voting file.
pub struct VotingFile {
    env: Env,
    path: PathBuf,
    file: Arc<dyn RawFile>,
    instances: u8,
}

fn offset_of(instance: InstanceNo) -> u64 {
    SLOT_BYTES * (2 + u64::from(instance.0))
}

impl VotingFile {
    /// Makes the voting file of a new database for up to `instances` instances.
    ///
    /// # Errors
    /// Also when it exists.
    pub async fn create(env: &Env, path: &Path, instances: u8, direct: bool) -> Result<(), Error> {
        if instances == 0 || instances > INSTANCES_MAX {
            return Err(Error::NoSuchInstance(InstanceNo(instances)));
        }
        let what = || format!("create the voting file {}", path.display());
        let options = OpenOptions { create_new: true, direct, dsync: true };
        let file = env.open(path, options).map_err(|e| Error::io(what(), e))?;
        let blocks = 3 + usize::from(instances);
        let mut all = IoBuf::zeroed(blocks * SLOT_BYTES as usize);
        let mut header = vec![0; 4];
        header.extend_from_slice(MAGIC);
        header.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        header.push(instances);
        let control = Control::default().encode();
        let slot = Slot::default().encode();
        let records = [finish(header), control.clone(), control];
        let records = records.into_iter().chain(std::iter::repeat(slot));
        for (block, record) in all.chunks_mut(SLOT_BYTES as usize).zip(records) {
            block[..RECORD_BYTES].copy_from_slice(&record);
        }
        file.allocate(blocks as u64 * SLOT_BYTES).map_err(|e| Error::io(what(), e))?;
        file.write_at(0, all).await.0.map_err(|e| Error::io(what(), e))
    }

    /// Opens the voting file.
    ///
    /// # Errors
    /// Also when it is none.
    pub async fn open(env: &Env, path: &Path, direct: bool) -> Result<VotingFile, Error> {
        let what = || format!("open the voting file {}", path.display());
        let options = OpenOptions { create_new: false, direct, dsync: true };
        let file = env.open(path, options).map_err(|e| Error::io(what(), e))?;
        let (result, header) = file.read_at(0, IoBuf::zeroed(SLOT_BYTES as usize)).await;
        result.map_err(|e| Error::io(what(), e))?;
        let not = |why| Error::NotVotingFile { path: path.display().to_string(), why };
        let mut f = unseal(&header).ok_or_else(|| not("its header fails the checksum"))?;
        if f.take(8) != Some(MAGIC) {
            return Err(not("it has no header"));
        }
        if f.u32() != Some(FORMAT_VERSION) {
            return Err(not("it was written by another version of the format"));
        }
        let instances = f.u8().filter(|n| (1..=INSTANCES_MAX).contains(n));
        let instances = instances.ok_or_else(|| not("its number of instances is wrong"))?;
        Ok(VotingFile { env: env.clone(), path: path.to_owned(), file, instances })
    }

    #[must_use]
    pub fn instances(&self) -> u8 {
        self.instances
    }

    /// Takes the lock of an instance's slot; `None`: its process runs.
    pub(crate) fn lock_slot(
        &self,
        instance: InstanceNo,
    ) -> io::Result<Option<Box<dyn env::FileLock>>> {
        self.env.try_lock(&self.path, offset_of(instance), SLOT_BYTES)
    }

    /// Whether a process holds the lock of this slot.
    pub(crate) fn is_slot_locked(&self, instance: InstanceNo) -> io::Result<bool> {
        self.env.is_locked(&self.path, offset_of(instance), SLOT_BYTES)
    }

    /// Takes the reconfiguration lock; `None`: another has it.
    pub(crate) fn lock_reconfiguration(&self) -> io::Result<Option<Box<dyn env::FileLock>>> {
        self.env.try_lock(&self.path, 0, 1)
    }

    /// Reads everything. The locks are looked at first: a slot is then at least as new as its lock.
    pub async fn view(&self) -> Result<VotingView, Error> {
        let what = || format!("read the voting file {}", self.path.display());
        let mut locked = 0;
        for n in 1..=self.instances {
            let offset = offset_of(InstanceNo(n));
            let held = self.env.is_locked(&self.path, offset, SLOT_BYTES);
            if held.map_err(|e| Error::io(what(), e))? {
                locked |= bit(InstanceNo(n));
            }
        }
        let len = (2 + usize::from(self.instances)) * SLOT_BYTES as usize;
        let (result, buf) = self.file.read_at(SLOT_BYTES, IoBuf::zeroed(len)).await;
        result.map_err(|e| Error::io(what(), e))?;
        let mut blocks = buf.chunks(SLOT_BYTES as usize);
        let [first, second] = [(); 2].map(|()| blocks.next().and_then(Control::decode));
        let slots = blocks.map(Slot::decode).collect();
        let (control, unfinished) = match (first, second) {
            (Some(first), Some(second)) if first.sequence > second.sequence => {
                (second, Some(first))
            }
            (_, Some(second)) => (second, None),
            // Copy 2 is being written: what is in copy 1 is durable.
            (Some(first), None) => (first.clone(), Some(first)),
            (None, None) => {
                let path = self.path.display().to_string();
                return Err(Error::NotVotingFile { path, why: "both control records are bad" });
            }
        };
        Ok(VotingView { control, unfinished, slots, locked, ..VotingView::default() })
    }

    async fn write(&self, offset_bytes: u64, record: &[u8], what: &str) -> Result<(), Error> {
        let (result, _) = self.file.write_at(offset_bytes, IoBuf::copy_from(record)).await;
        result.map_err(|e| Error::io(format!("{what} to {}", self.path.display()), e))
    }

    pub(crate) async fn write_slot(&self, instance: InstanceNo, slot: &Slot) -> Result<(), Error> {
        self.write(offset_of(instance), &slot.encode(), "write a heartbeat").await
    }

    /// Writes the control record; only the holder of the reconfiguration lock may.
    pub(crate) async fn write_control(&self, control: &Control) -> Result<(), Error> {
        let record = control.encode();
        for copy in [1, 2] {
            self.write(SLOT_BYTES * copy, &record, "write the epoch").await?;
        }
        Ok(())
    }
}

/// Reads the voting file once, as `skein status` does.
pub async fn read(env: &Env, path: &Path, direct: bool) -> Result<VotingView, Error> {
    VotingFile::open(env, path, direct).await?.view().await
}
