//! An open disk group: address mapping, I/O in pieces, and changes of the layout.
//!
//! The layout in memory is an immutable value that is replaced as a whole; readers never wait for a
//! change. Another instance's extension is learned when an address beyond the known end is asked
//! for.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use block::{BLOCK_BYTES, Dba};
use env::buf::IO_ALIGN_BYTES;
use env::{BoxFuture, Env, FileLock, IoBuf, OpenOptions, RawFile};
use parking_lot::RwLock;

use crate::error::{Error, Result};
use crate::meta::{
    AU_BYTES, FileMeta, HEADER_BYTES, LunHeader, LunMeta, Meta, RESERVED_AUS, copy_offset_bytes,
};

/// How long a layout change waits for another instance's.
const LOCK_WAIT_S: u64 = 60;
const LOCK_RETRY: Duration = Duration::from_millis(2);
/// Copies are re-read this often before they are called unreadable: one may be in the writing.
const META_READS_MAX: u32 = 5;

/// Whether files must take direct I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DirectIo {
    /// A file system that refuses it is an error.
    Required,
    Off,
}

/// How the LUNs are opened.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub direct_io: DirectIo,
    /// Each write is durable when it has ended. Without it [`Group::sync`] makes writes durable.
    pub dsync: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { direct_io: DirectIo::Required, dsync: true }
    }
}

impl Options {
    fn for_file(self, create_new: bool) -> OpenOptions {
        let direct = self.direct_io == DirectIo::Required;
        OpenOptions { create_new, direct, dsync: self.dsync }
    }
}

/// A LUN as views show it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LunInfo {
    pub lun: u16,
    pub path: PathBuf,
    pub size_bytes: u64,
    pub free_bytes: u64,
}

struct Lun {
    path: PathBuf,
    file: Arc<dyn RawFile>,
}

/// The layout and the open LUNs that it names.
struct Layout {
    meta: Meta,
    luns: Vec<Arc<Lun>>,
}

/// One I/O: a range within one allocation unit.
struct Piece {
    lun: Arc<Lun>,
    lun_no: u16,
    offset_bytes: u64,
    len_bytes: usize,
}

/// Faults of LUNs that an experiment asks for.
#[derive(Default)]
struct Trouble {
    /// Microseconds that each read and write takes longer.
    delay_us: AtomicU64,
    /// The LUN whose reads and writes fail, plus one; 0: none.
    failing: AtomicU32,
}

/// An open disk group; see the crate's text.
pub struct Group {
    env: Env,
    dir: PathBuf,
    options: Options,
    layout: RwLock<Arc<Layout>>,
    trouble: Trouble,
}

fn lun_path(dir: &Path, lun: &LunMeta) -> PathBuf {
    // `join` lets an absolute path stand.
    dir.join(&lun.path)
}

fn lock_path(dir: &Path) -> PathBuf {
    dir.join("group.lock")
}

async fn write_file(
    file: &Arc<dyn RawFile>,
    offset_bytes: u64,
    bytes: &[u8],
) -> std::io::Result<()> {
    file.write_at(offset_bytes, IoBuf::copy_from(bytes)).await.0?;
    file.sync().await
}

/// Creates one LUN file with its space and, last, its header.
async fn make_lun(
    env: &Env,
    path: &Path,
    options: Options,
    header: &LunHeader,
) -> Result<Arc<Lun>> {
    let what = |verb: &str| format!("{verb} LUN {} ({})", header.lun, path.display());
    let file = match env.open(path, options.for_file(true)) {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
            return Err(Error::Exists(path.to_owned()));
        }
        other => other.map_err(|e| Error::io(what("create"), e))?,
    };
    let size = u64::from(header.size_aus) * AU_BYTES;
    file.allocate(size).map_err(|e| Error::io(what("allocate the space of"), e))?;
    write_file(&file, 0, &header.encode())
        .await
        .map_err(|e| Error::io(what("write the header of"), e))?;
    Ok(Arc::new(Lun { path: path.to_owned(), file }))
}

/// Opens a LUN and checks that it is the one expected.
async fn open_lun(
    env: &Env,
    path: &Path,
    options: Options,
    lun: u16,
) -> Result<(Arc<Lun>, LunHeader)> {
    let path = path.to_owned();
    let file = match env.open(&path, options.for_file(false)) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Err(Error::Missing { lun, path });
        }
        other => other.map_err(|e| Error::io(format!("open LUN {lun} ({})", path.display()), e))?,
    };
    let what = || format!("read the header of LUN {lun} ({})", path.display());
    let found_bytes = file.size_bytes().map_err(|e| Error::io(what(), e))?;
    if found_bytes < HEADER_BYTES as u64 {
        let expected_bytes = AU_BYTES * u64::from(RESERVED_AUS);
        return Err(Error::Truncated { lun, path, expected_bytes, found_bytes });
    }
    let (result, buf) = file.read_at(0, IoBuf::zeroed(HEADER_BYTES)).await;
    result.map_err(|e| Error::io(what(), e))?;
    let header = match LunHeader::decode(&buf) {
        Ok(header) if header.lun == lun => header,
        Ok(_) => return Err(Error::Foreign { lun, path, why: "it has another LUN's number" }),
        Err(why) => return Err(Error::Foreign { lun, path, why }),
    };
    let expected_bytes = u64::from(header.size_aus) * AU_BYTES;
    if found_bytes < expected_bytes {
        return Err(Error::Truncated { lun, path, expected_bytes, found_bytes });
    }
    Ok((Arc::new(Lun { path, file }), header))
}

/// The newest whole copy of the metadata on one LUN.
async fn read_meta(lun: &Lun) -> std::io::Result<Option<Meta>> {
    let mut best: Option<Meta> = None;
    for parity in 0..2 {
        let at = copy_offset_bytes(parity);
        let (result, head) = lun.file.read_at(at, IoBuf::zeroed(IO_ALIGN_BYTES)).await;
        result?;
        let Some(len) = Meta::length(&head) else { continue };
        let all = if len <= head.len() {
            head
        } else {
            let buf = IoBuf::zeroed(len.next_multiple_of(IO_ALIGN_BYTES));
            let (result, all) = lun.file.read_at(at, buf).await;
            result?;
            all
        };
        if let Some(meta) = Meta::decode(&all)
            && best.as_ref().is_none_or(|b| b.sequence < meta.sequence)
        {
            best = Some(meta);
        }
    }
    Ok(best)
}

impl Group {
    /// Makes a group of `luns` files `DIR/luns/lun0…`, each of `lun_size_bytes` (rounded down to
    /// whole
    /// MiB), with the space allocated and direct I/O required. Refuses a folder that has one.
    pub async fn create(
        env: &Env,
        dir: &Path,
        luns: u16,
        lun_size_bytes: u64,
    ) -> Result<Arc<Group>> {
        Group::create_with(env, dir, luns, lun_size_bytes, Options::default()).await
    }

    /// As [`Group::create`], opened with `options`.
    pub async fn create_with(
        env: &Env,
        dir: &Path,
        luns: u16,
        lun_size_bytes: u64,
        options: Options,
    ) -> Result<Arc<Group>> {
        if luns == 0 {
            return Err(Error::BadSize("a disk group needs at least one LUN"));
        }
        let size_aus = size_aus(lun_size_bytes)?;
        if env.exists(&lock_path(dir)) || env.exists(&dir.join("luns")) {
            return Err(Error::Exists(dir.to_owned()));
        }
        env.open(&lock_path(dir), OpenOptions { create_new: true, ..OpenOptions::default() })
            .map_err(|e| Error::io(format!("create {}", lock_path(dir).display()), e))?;
        let mut id = [0; 16];
        id[..8].copy_from_slice(&env.random().to_le_bytes());
        id[8..].copy_from_slice(&env.random().to_le_bytes());
        let names: Vec<LunMeta> =
            (0..luns).map(|n| LunMeta { path: format!("luns/lun{n}"), size_aus }).collect();
        let mut open = Vec::new();
        for (n, lun) in (0..luns).zip(&names) {
            let header = LunHeader { id, lun: n, size_aus };
            open.push(make_lun(env, &lun_path(dir, lun), options, &header).await?);
        }
        let meta = Meta { id, sequence: 1, luns: names, files: Default::default() };
        let group = Group {
            env: env.clone(),
            dir: dir.to_owned(),
            options,
            layout: RwLock::new(Arc::new(Layout { meta: meta.clone(), luns: open.clone() })),
            trouble: Trouble::default(),
        };
        group.write_meta(&meta, &open).await?;
        Ok(Arc::new(group))
    }

    /// Opens the group in `dir` and checks every LUN.
    pub async fn open(env: &Env, dir: &Path, direct_io: DirectIo) -> Result<Arc<Group>> {
        Group::open_with(env, dir, Options { direct_io, ..Options::default() }).await
    }

    /// As [`Group::open`], with all options.
    pub async fn open_with(env: &Env, dir: &Path, options: Options) -> Result<Arc<Group>> {
        let first = dir.join("luns/lun0");
        let (lun, header) = open_lun(env, &first, options, 0).await?;
        let empty =
            Meta { id: header.id, sequence: 0, luns: Vec::new(), files: Default::default() };
        let group = Group {
            env: env.clone(),
            dir: dir.to_owned(),
            options,
            layout: RwLock::new(Arc::new(Layout { meta: empty, luns: vec![lun] })),
            trouble: Trouble::default(),
        };
        group.refresh().await?;
        Ok(Arc::new(group))
    }

    fn layout(&self) -> Arc<Layout> {
        Arc::clone(&self.layout.read())
    }

    /// The folder of the group.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The group's number, drawn when it was made.
    #[must_use]
    pub fn id(&self) -> [u8; 16] {
        self.layout().meta.id
    }

    /// For experiments: from now on each read and write of a file takes `delay_us` longer, and what
    /// touches `failing` ends in an I/O error. Other instances, and the layout, see nothing of it.
    pub fn set_trouble(&self, delay_us: u64, failing: Option<u16>) {
        self.trouble.delay_us.store(delay_us, Ordering::Relaxed);
        let failing = failing.map_or(0, |lun| u32::from(lun) + 1);
        self.trouble.failing.store(failing, Ordering::Relaxed);
    }

    fn is_in_trouble(&self) -> bool {
        let Trouble { delay_us, failing } = &self.trouble;
        delay_us.load(Ordering::Relaxed) != 0 || failing.load(Ordering::Relaxed) != 0
    }

    /// What [`Group::set_trouble`] asks for.
    async fn suffer(
        &self,
        verb: &str,
        file: u16,
        offset_bytes: u64,
        pieces: &[Piece],
    ) -> Result<()> {
        let delay_us = self.trouble.delay_us.load(Ordering::Relaxed);
        if delay_us > 0 {
            self.env.sleep(Duration::from_micros(delay_us)).await;
        }
        let failing = self.trouble.failing.load(Ordering::Relaxed);
        if failing > 0
            && let Some(piece) = pieces.iter().find(|p| u32::from(p.lun_no) + 1 == failing)
        {
            let source = std::io::Error::other("the experiment lets this LUN fail");
            return Err(piece.error(verb, file, offset_bytes, source));
        }
        Ok(())
    }

    /// Whether writes are durable when they have ended.
    #[must_use]
    pub fn options(&self) -> Options {
        self.options
    }

    /// Learns what other instances have changed in the layout. Under their lock: a change that can
    /// be read may still be on its way to the disk, and be lost with whoever makes it; nothing may
    /// rest on it before.
    pub async fn refresh(&self) -> Result<()> {
        let layout = self.layout();
        if self.newest_meta(&layout).await?.sequence > layout.meta.sequence {
            let _lock = self.lock().await?;
            self.refresh_locked().await?;
        }
        Ok(())
    }

    async fn refresh_locked(&self) -> Result<()> {
        let layout = self.layout();
        let meta = self.newest_meta(&layout).await?;
        self.install(meta).await
    }

    async fn newest_meta(&self, layout: &Layout) -> Result<Meta> {
        let mut why = "both copies fail the checksum";
        for _ in 0..META_READS_MAX {
            for lun in &layout.luns {
                match read_meta(lun).await {
                    Ok(Some(meta)) if meta.id == layout.meta.id => return Ok(meta),
                    Ok(Some(_)) => why = "they belong to another group",
                    Ok(None) => {}
                    Err(e) => {
                        let what = format!("read the metadata on LUN {}", lun.path.display());
                        // Other LUNs have copies; the error counts if this is the only one known.
                        if layout.luns.len() == 1 {
                            return Err(Error::io(what, e));
                        }
                    }
                }
            }
            self.env.sleep(LOCK_RETRY).await;
        }
        Err(Error::Metadata(why))
    }

    /// Makes `meta` the layout, unless a newer one is known; opens LUNs that are new in it.
    async fn install(&self, meta: Meta) -> Result<()> {
        let known = self.layout();
        if known.meta.sequence >= meta.sequence {
            return Ok(());
        }
        let mut luns = known.luns.clone();
        for (n, lun) in meta.luns.iter().enumerate() {
            if n < luns.len() && known.meta.sequence > 0 {
                continue;
            }
            let no = u16::try_from(n).map_err(|_| Error::MetadataFull)?;
            let (open, header) =
                open_lun(&self.env, &lun_path(&self.dir, lun), self.options, no).await?;
            if header.id != meta.id {
                let why = "it belongs to another disk group";
                return Err(Error::Foreign { lun: no, path: open.path.clone(), why });
            }
            if header.size_aus != lun.size_aus {
                let why = "its size is not the one the group knows";
                return Err(Error::Foreign { lun: no, path: open.path.clone(), why });
            }
            luns.truncate(n);
            luns.push(open);
        }
        let mut layout = self.layout.write();
        if layout.meta.sequence < meta.sequence {
            *layout = Arc::new(Layout { meta, luns });
        }
        Ok(())
    }

    /// Writes the copy of `meta.sequence` to LUN 0 and then to its mirrors.
    async fn write_meta(&self, meta: &Meta, luns: &[Arc<Lun>]) -> Result<()> {
        let bytes = meta.encode()?;
        for lun in luns {
            write_file(&lun.file, copy_offset_bytes(meta.sequence), &bytes).await.map_err(|e| {
                self.stop_if_fenced(&e);
                Error::io(format!("write the metadata on LUN {}", lun.path.display()), e)
            })?;
        }
        Ok(())
    }

    /// The lock of layout changes, among all instances and within this one.
    async fn lock(&self) -> Result<Box<dyn FileLock>> {
        let path = lock_path(&self.dir);
        let start = self.env.now();
        loop {
            let got = self.env.try_lock(&path, 0, 1);
            match got.map_err(|e| Error::io(format!("lock {}", path.display()), e))? {
                Some(lock) => return Ok(lock),
                None if self.env.now().since(start) > LOCK_WAIT_S * 1_000_000 => {
                    return Err(Error::Busy { path, waited_s: LOCK_WAIT_S });
                }
                None => self.env.sleep(LOCK_RETRY).await,
            }
        }
    }

    /// Changes the layout: `change` works on the newest one, under the lock of all instances.
    async fn change<T>(&self, change: impl FnOnce(&mut Meta) -> Result<T> + Send) -> Result<T> {
        let _lock = self.lock().await?;
        self.refresh_locked().await?;
        let layout = self.layout();
        let mut meta = layout.meta.clone();
        let out = change(&mut meta)?;
        meta.sequence += 1;
        self.write_meta(&meta, &layout.luns).await?;
        self.install(meta).await?;
        Ok(out)
    }

    /// Makes a file of `blocks` blocks.
    pub async fn create_file(&self, file_no: u16, blocks: u32) -> Result<()> {
        self.change(|meta| {
            if file_no == 0 || meta.files.contains_key(&file_no) {
                return Err(Error::FileExists(file_no));
            }
            meta.files.insert(file_no, FileMeta { blocks: 0, aus: Vec::new() });
            meta.grow(file_no, blocks).map(drop)
        })
        .await
    }

    /// Makes a file longer and returns its new size in blocks. [`Error::Full`] changes nothing.
    pub async fn extend_file(&self, file_no: u16, more_blocks: u32) -> Result<u32> {
        self.change(|meta| meta.grow(file_no, more_blocks)).await
    }

    /// Adds a LUN: a new file at `path` (within the group's folder unless absolute), or
    /// `DIR/luns/lunN`. Returns its number. Other instances open it when they meet it.
    pub async fn add_lun(&self, path: Option<&Path>, lun_size_bytes: u64) -> Result<u16> {
        let size_aus = size_aus(lun_size_bytes)?;
        let _lock = self.lock().await?;
        self.refresh_locked().await?;
        let layout = self.layout();
        let mut meta = layout.meta.clone();
        let lun = u16::try_from(meta.luns.len()).map_err(|_| Error::MetadataFull)?;
        let path = match path {
            None => self.unused_lun_name(lun),
            Some(p) => p.to_str().ok_or(Error::BadSize("a LUN's path must be UTF-8"))?.to_owned(),
        };
        let entry = LunMeta { path, size_aus };
        let header = LunHeader { id: meta.id, lun, size_aus };
        let made = make_lun(&self.env, &lun_path(&self.dir, &entry), self.options, &header).await?;
        meta.luns.push(entry);
        meta.sequence += 1;
        let mut luns = layout.luns.clone();
        luns.push(made);
        self.write_meta(&meta, &luns).await?;
        self.install(meta).await?;
        Ok(lun)
    }

    /// A name no file has: an earlier attempt that failed half-way may have left one.
    fn unused_lun_name(&self, lun: u16) -> String {
        let plain = format!("luns/lun{lun}");
        std::iter::once(plain.clone())
            .chain((1..=u16::MAX).map(|n| format!("{plain}.{n}")))
            .find(|name| !self.env.exists(&self.dir.join(name)))
            .unwrap_or(plain)
    }

    /// Size of a file in blocks, as far as this instance knows; `None`: no such file.
    #[must_use]
    pub fn file_blocks(&self, file_no: u16) -> Option<u32> {
        self.layout().meta.files.get(&file_no).map(|f| f.blocks)
    }

    /// All files with their sizes in blocks.
    #[must_use]
    pub fn files(&self) -> Vec<(u16, u32)> {
        self.layout().meta.files.iter().map(|(no, f)| (*no, f.blocks)).collect()
    }

    /// All LUNs.
    #[must_use]
    pub fn luns(&self) -> Vec<LunInfo> {
        let layout = self.layout();
        let free = layout.meta.free_aus();
        (0_u16..)
            .zip(&layout.meta.luns)
            .zip(free)
            .map(|((lun, meta), free)| LunInfo {
                lun,
                path: lun_path(&self.dir, meta),
                size_bytes: u64::from(meta.size_aus) * AU_BYTES,
                free_bytes: u64::from(free) * AU_BYTES,
            })
            .collect()
    }

    /// Where a block is: the LUN's path and the byte offset in it.
    pub fn locate(&self, dba: Dba) -> Result<(PathBuf, u64)> {
        let offset = u64::from(dba.block) * BLOCK_BYTES as u64;
        let pieces = pieces(&self.layout(), dba.file, offset, BLOCK_BYTES)?;
        Ok((pieces[0].lun.path.clone(), pieces[0].offset_bytes))
    }

    /// The I/Os of a byte range; asks for the newest layout if the known file is too short.
    async fn pieces(&self, file: u16, offset_bytes: u64, len_bytes: usize) -> Result<Vec<Piece>> {
        match pieces(&self.layout(), file, offset_bytes, len_bytes) {
            Err(Error::BeyondEnd { .. } | Error::NoSuchFile(_)) => {
                self.refresh().await?;
                pieces(&self.layout(), file, offset_bytes, len_bytes)
            }
            other => other,
        }
    }

    /// Reads `len_bytes` at `offset_bytes` of a file, both multiples of 4096.
    pub async fn read_at(&self, file: u16, offset_bytes: u64, len_bytes: usize) -> Result<IoBuf> {
        let pieces = self.pieces(file, offset_bytes, len_bytes).await?;
        if self.is_in_trouble() {
            self.suffer("read", file, offset_bytes, &pieces).await?;
        }
        // All I/Os start here; awaiting them one after the other costs nothing.
        let reads: Vec<BoxFuture<'_, (std::io::Result<()>, IoBuf)>> = pieces
            .iter()
            .map(|p| p.lun.file.read_at(p.offset_bytes, IoBuf::zeroed(p.len_bytes)))
            .collect();
        let mut whole = (pieces.len() > 1).then(|| IoBuf::zeroed(len_bytes));
        let mut at = 0;
        for (piece, read) in pieces.iter().zip(reads) {
            let (result, buf) = read.await;
            result.map_err(|e| {
                self.stop_if_fenced(&e);
                piece.error("read", file, offset_bytes + at as u64, e)
            })?;
            match &mut whole {
                None => return Ok(buf),
                Some(whole) => whole[at..at + piece.len_bytes].copy_from_slice(&buf),
            }
            at += piece.len_bytes;
        }
        Ok(whole.unwrap_or_else(|| IoBuf::zeroed(0)))
    }

    /// Writes the buffer at `offset_bytes` of a file, a multiple of 4096. When it returns, no part
    /// of it is still under way, and with `dsync` all is durable.
    pub async fn write_at(&self, file: u16, offset_bytes: u64, buf: IoBuf) -> Result<()> {
        let pieces = self.pieces(file, offset_bytes, buf.len()).await?;
        if self.is_in_trouble() {
            self.suffer("write", file, offset_bytes, &pieces).await?;
        }
        let mut writes = Vec::with_capacity(pieces.len());
        if let [only] = &pieces[..] {
            writes.push(only.lun.file.write_at(only.offset_bytes, buf));
        } else {
            let mut rest = &buf[..];
            for piece in &pieces {
                let (head, tail) = rest.split_at(piece.len_bytes);
                rest = tail;
                writes.push(piece.lun.file.write_at(piece.offset_bytes, IoBuf::copy_from(head)));
            }
        }
        let (mut at, mut failed) = (offset_bytes, None);
        for (piece, write) in pieces.iter().zip(writes) {
            // Every piece is waited for, failed or not: a write that lands later than its error
            // could overwrite a newer one.
            if let Err(e) = write.await.0 {
                self.stop_if_fenced(&e);
                failed.get_or_insert_with(|| piece.error("write", file, at, e));
            }
            at += piece.len_bytes as u64;
        }
        failed.map_or(Ok(()), Err)
    }

    /// Reads `count` blocks from `first_block`, one I/O for each allocation unit touched, in
    /// parallel.
    pub async fn read_blocks(&self, file: u16, first_block: u32, count: u32) -> Result<IoBuf> {
        let offset = u64::from(first_block) * BLOCK_BYTES as u64;
        self.read_at(file, offset, count as usize * BLOCK_BYTES).await
    }

    /// Reads one block.
    pub async fn read_block(&self, dba: Dba) -> Result<IoBuf> {
        self.read_blocks(dba.file, dba.block, 1).await
    }

    /// Writes blocks from `first_block`; the buffer is a whole number of them.
    pub async fn write_blocks(&self, file: u16, first_block: u32, buf: IoBuf) -> Result<()> {
        if !buf.len().is_multiple_of(BLOCK_BYTES) {
            return Err(Error::BadSize("a write of blocks must be whole blocks"));
        }
        self.write_at(file, u64::from(first_block) * BLOCK_BYTES as u64, buf).await
    }

    /// Writes one block.
    pub async fn write_block(&self, dba: Dba, buf: IoBuf) -> Result<()> {
        self.write_blocks(dba.file, dba.block, buf).await
    }

    /// Makes all completed writes durable; does nothing where each write is durable by itself.
    pub async fn sync(&self) -> Result<()> {
        if self.options.dsync {
            return Ok(());
        }
        let layout = self.layout();
        let syncs: Vec<_> = layout.luns.iter().map(|l| (l, l.file.sync())).collect();
        for (lun, sync) in syncs {
            if let Err(e) = sync.await {
                self.stop_if_fenced(&e);
                return Err(Error::io(format!("sync LUN {}", lun.path.display()), e));
            }
        }
        Ok(())
    }

    /// Whoever is put out of the cluster may not go on for a moment: the others count on its end,
    /// and what it has in its memory is no longer true.
    fn stop_if_fenced(&self, e: &std::io::Error) {
        if env::arbiter::is_fenced(e) {
            self.env
                .abort_instance("the storage refuses its reads and writes: it has been put out");
        }
    }
}

impl Piece {
    fn error(&self, verb: &str, file: u16, at: u64, source: std::io::Error) -> Error {
        let block = at / BLOCK_BYTES as u64;
        let what = format!(
            "{verb} {} bytes at block {file}.{block} from LUN {} ({}) at offset {}",
            self.len_bytes,
            self.lun_no,
            self.lun.path.display(),
            self.offset_bytes
        );
        Error::io(what, source)
    }
}

fn size_aus(lun_size_bytes: u64) -> Result<u32> {
    let aus = u32::try_from(lun_size_bytes / AU_BYTES)
        .map_err(|_| Error::BadSize("a LUN has at most 4 PiB"))?;
    if aus <= RESERVED_AUS {
        return Err(Error::BadSize("a LUN needs at least 4 MiB"));
    }
    Ok(aus)
}

fn pieces(layout: &Layout, file: u16, offset_bytes: u64, len_bytes: usize) -> Result<Vec<Piece>> {
    if !offset_bytes.is_multiple_of(IO_ALIGN_BYTES as u64)
        || !len_bytes.is_multiple_of(IO_ALIGN_BYTES)
    {
        return Err(Error::BadSize("reads and writes are multiples of 4096 bytes"));
    }
    let meta = layout.meta.files.get(&file).ok_or(Error::NoSuchFile(file))?;
    let end = offset_bytes.saturating_add(len_bytes as u64);
    if end > u64::from(meta.blocks) * BLOCK_BYTES as u64 {
        let block = end.div_ceil(BLOCK_BYTES as u64) - 1;
        return Err(Error::BeyondEnd { file, block, blocks: meta.blocks });
    }
    let mut out = Vec::with_capacity(1);
    let mut at = offset_bytes;
    while at < end {
        let within = at % AU_BYTES;
        let len = (AU_BYTES - within).min(end - at);
        let au = meta.aus[usize::try_from(at / AU_BYTES).map_err(|_| Error::MetadataFull)?];
        out.push(Piece {
            lun: Arc::clone(&layout.luns[usize::from(au.lun)]),
            lun_no: au.lun,
            offset_bytes: u64::from(au.au) * AU_BYTES + within,
            len_bytes: usize::try_from(len).map_err(|_| Error::MetadataFull)?,
        });
        at += len;
    }
    Ok(out)
}
