//! The lines of a trace file, and the names that statements have in them.

use std::sync::Arc;

use env::Micros;

use super::session::Used;
use super::{CURSORS_MAX, Cursor, Trace};
use crate::events::WaitEvent;
use crate::secrets::without_passwords;
use crate::statements::SqlId;

/// What kind of call a line tells of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    Parse,
    Exec,
    Fetch,
}

impl Call {
    const fn name(self) -> &'static str {
        match self {
            Call::Parse => "PARSE",
            Call::Exec => "EXEC",
            Call::Fetch => "FETCH",
        }
    }
}

/// A value that a statement is run with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bind {
    /// The field's number of the type: 1 text, 2 number, 12 date, 180 timestamp, 23 bytes.
    pub type_code: u8,
    /// Its length, 0 for NULL.
    pub length_bytes: usize,
    pub scale: u8,
    /// As it is to be shown, in quotes if it is a text or a time; `None`: NULL.
    pub value: Option<String>,
}

/// One row source of a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanLine {
    pub rows: u64,
    /// Number of the line it is an input of, from 1; 0: it is the plan's root.
    pub parent: usize,
    /// Which of its inputs, from 1.
    pub position: usize,
    /// Object number; 0: none.
    pub obj: u32,
    pub operation: String,
}

/// What statements are known by: the field's `sql_id` and hash value of a text.
#[must_use]
pub fn sql_id(text: &str) -> (String, u32) {
    let id = SqlId::of(text);
    (id.to_string(), id.hash_value())
}

/// The field's numbers and names of commands, those that [`command`] gives.
pub const COMMANDS: &[(u32, &str)] = &[
    (1, "CREATE TABLE"),
    (2, "INSERT"),
    (3, "SELECT"),
    (6, "UPDATE"),
    (7, "DELETE"),
    (9, "CREATE INDEX"),
    (10, "DROP INDEX"),
    (12, "DROP TABLE"),
    (13, "CREATE SEQUENCE"),
    (14, "ALTER SEQUENCE"),
    (15, "ALTER TABLE"),
    (16, "DROP SEQUENCE"),
    (21, "CREATE VIEW"),
    (22, "DROP VIEW"),
    (26, "LOCK TABLE"),
    (42, "ALTER SESSION"),
    (44, "COMMIT"),
    (45, "ROLLBACK"),
    (46, "SAVEPOINT"),
    (47, "PL/SQL EXECUTE"),
    (49, "ALTER SYSTEM"),
    (50, "EXPLAIN"),
    (62, "ANALYZE TABLE"),
    (85, "TRUNCATE TABLE"),
    (189, "MERGE"),
];

/// The name of a number that [`command`] gives; `None`: the field has none.
#[must_use]
pub fn command_name(number: u32) -> Option<&'static str> {
    COMMANDS.iter().find(|(of, _)| *of == number).map(|(_, name)| *name)
}

/// Whether it is a client's cursor: `declare name [binary] [insensitive] [no scroll] cursor ..`.
fn declares_cursor(text: &str) -> bool {
    let rest = text.trim_start().get("declare".len()..).unwrap_or("").trim_start();
    let rest = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"').map_or("", |(_, rest)| rest),
        None => rest.trim_start_matches(|c: char| !c.is_whitespace()),
    };
    let mut words = rest.split_whitespace().map(str::to_ascii_lowercase);
    let option = |word: &String| {
        matches!(&**word, "binary" | "insensitive" | "asensitive" | "no" | "scroll")
    };
    let is_cursor = words.find(|word| !option(word)).is_some_and(|word| word == "cursor");
    // A block's cursor has its code behind it.
    let is_block = text.split(';').skip(1).any(|rest| {
        rest.split_whitespace().next().is_some_and(|word| word.eq_ignore_ascii_case("begin"))
    });
    is_cursor && !is_block
}

/// The field's number of a command, by the words it begins with; 0 for those that it has none for.
#[must_use]
pub fn command(text: &str) -> u32 {
    let mut words = text.split(|c: char| !c.is_ascii_alphabetic()).filter(|w| !w.is_empty());
    let mut next = || words.next().unwrap_or("").to_ascii_lowercase();
    let first = next();
    match &*first {
        "insert" => 2,
        "select" | "with" | "values" | "table" => 3,
        "update" => 6,
        "delete" => 7,
        "lock" => 26,
        "commit" | "end" => 44,
        "rollback" | "abort" => 45,
        "savepoint" => 46,
        // As SQL has it, of a query; else a block's.
        "declare" if declares_cursor(text) => 3,
        "do" | "call" | "exec" | "declare" => 47,
        // A block, and not the beginning of a transaction.
        "begin" if text.contains(';') => 47,
        "explain" => 50,
        "analyze" => 62,
        "truncate" => 85,
        "merge" => 189,
        "create" | "alter" | "drop" => match (&*first, &*next()) {
            ("create", "table") => 1,
            ("create", "index" | "unique") => 9,
            ("drop", "index") => 10,
            ("drop", "table") => 12,
            ("create", "sequence") => 13,
            ("alter", "sequence") => 14,
            ("alter", "table") => 15,
            ("drop", "sequence") => 16,
            ("create", "view" | "or") => 21,
            ("drop", "view") => 22,
            ("alter", "session") => 42,
            ("alter", "system") => 49,
            _ => 0,
        },
        _ => 0,
    }
}

impl Trace {
    /// The cursor of a text; a new one is told of.
    pub(super) fn cursor(
        &mut self,
        text: &Arc<str>,
        depth: u32,
        uid: u32,
        now: Micros,
        wall: impl Fn() -> String,
    ) -> u32 {
        if let Some(cursor) = self.cursors.get(text) {
            return cursor.number;
        }
        if self.cursors.len() >= CURSORS_MAX {
            self.close_cursors(now);
        }
        self.cursors_made += 1;
        let number = self.cursors_made;
        self.cursors.insert(Arc::clone(text), Cursor { number, depth, told_plan: None });
        let ((id, hash), oct) = (sql_id(text), command(text));
        let text = without_passwords(text);
        let length = text.len();
        self.line(
            now,
            wall,
            format_args!(
                "=====================\nPARSING IN CURSOR #{number} len={length} dep={depth} \
                 uid={uid} oct={oct} lid={uid} tim={} hv={hash} ad='{hash:x}' sqlid='{id}'\n\
                 {text}\nEND OF STMT",
                now.0
            ),
        );
        number
    }

    /// The same for a statement of ours that runs inside a call.
    pub(super) fn recursive_cursor(
        &mut self,
        text: &Arc<str>,
        now: Micros,
        wall: impl Fn() -> String,
    ) -> (u32, u32) {
        let depth = self.depth().max(1);
        (self.cursor(text, depth, 0, now, wall), depth)
    }

    pub(super) fn enter(&mut self, cursor: u32) {
        self.running.push(cursor);
    }

    /// Ends the call that has begun last, and those inside it that were broken off.
    pub(super) fn leave(&mut self, cursor: u32) {
        if let Some(at) = self.running.iter().rposition(|c| *c == cursor) {
            self.running.truncate(at);
        }
    }

    #[allow(clippy::too_many_arguments)] // as the line has them
    pub(super) fn call(
        &mut self,
        call: Call,
        cursor: u32,
        depth: u32,
        used: &Used,
        rows: u64,
        plan: u32,
        now: Micros,
        wall: impl Fn() -> String,
    ) {
        let Used { cpu_us, elapsed_us, reads, consistent, current, misses } = used;
        self.line(
            now,
            wall,
            format_args!(
                "{} #{cursor}:c={cpu_us},e={elapsed_us},p={reads},cr={consistent},cu={current},\
                 mis={misses},r={rows},dep={depth},og=1,plh={plan},tim={}",
                call.name(),
                now.0
            ),
        );
    }

    pub(super) fn wait(
        &mut self,
        event: WaitEvent,
        p: [u64; 3],
        us: u64,
        now: Micros,
        wall: impl Fn() -> String,
    ) {
        let cursor = self.running.last().copied().unwrap_or(0);
        let labels = event.p_labels();
        let label = |i: usize| match (labels[i], i) {
            ("", 0) => "p1",
            ("", 1) => "p2",
            ("", _) => "p3",
            (label, _) => label,
        };
        self.line(
            now,
            wall,
            format_args!(
                "WAIT #{cursor}: nam='{}' ela= {us} {}={} {}={} {}={} obj#=-1 tim={}",
                event.name(),
                label(0),
                p[0],
                label(1),
                p[1],
                label(2),
                p[2],
                now.0
            ),
        );
    }

    pub(super) fn binds(
        &mut self,
        cursor: u32,
        binds: &[Bind],
        now: Micros,
        wall: impl Fn() -> String,
    ) {
        self.line(now, wall, format_args!("BINDS #{cursor}:"));
        let mut offset = 0;
        for (i, bind) in binds.iter().enumerate() {
            let Bind { type_code, length_bytes, scale, value } = bind;
            let room = length_bytes.next_multiple_of(8).max(8);
            let flag = if value.is_some() { 5 } else { 1 };
            self.line(
                now,
                String::new,
                format_args!(
                    " Bind#{i}\n  oacdty={type_code:02} mxl={room}({length_bytes:02}) mxlc=00 \
                     mal=00 scl={scale:02} pre=00\n  oacflg=00 fl2=0000 frm=00 csi=00 siz={room} \
                     off={offset}\n  kxsbbbfp={i:08x} bln={room} avl={length_bytes:02} \
                     flg={flag:02}",
                ),
            );
            if let Some(value) = value {
                self.line(now, String::new, format_args!("  value={value}"));
            }
            offset += room;
        }
    }

    /// Whether this plan of a cursor is still to be told: another one was the last, or none.
    /// `every`: each time.
    pub(super) fn wants_plan(&self, text: &str, plan: u32, every: bool) -> bool {
        self.cursors.get(text).is_some_and(|cursor| every || cursor.told_plan != Some(plan))
    }

    pub(super) fn plan(&mut self, text: &str, plan: u32, lines: &[PlanLine], now: Micros) {
        let Some(cursor) = self.cursors.get_mut(text) else { return };
        cursor.told_plan = Some(plan);
        let number = cursor.number;
        for (i, line) in lines.iter().enumerate() {
            let PlanLine { rows, parent, position, obj, operation } = line;
            let operation = operation.replace(['\'', '\n'], "\"");
            self.line(
                now,
                String::new,
                format_args!(
                    "STAT #{number} id={} cnt={rows} pid={parent} pos={position} obj={obj} \
                     op='{operation}'",
                    i + 1
                ),
            );
        }
    }

    pub(super) fn transaction_end(
        &mut self,
        rolled_back: bool,
        read_only: bool,
        now: Micros,
        wall: impl Fn() -> String,
    ) {
        let (rolled_back, read_only) = (u8::from(rolled_back), u8::from(read_only));
        self.line(
            now,
            wall,
            format_args!("XCTEND rlbk={rolled_back}, rd_only={read_only}, tim={}", now.0),
        );
    }

    /// `cursor`: the one that has been told of the text; `None`: none has.
    pub(super) fn parse_error(
        &mut self,
        cursor: Option<u32>,
        text: &str,
        uid: u32,
        code: &str,
        now: Micros,
        wall: impl Fn() -> String,
    ) {
        let oct = command(text);
        let text = without_passwords(text);
        let length = text.len();
        // A cursor's call is the innermost one that runs.
        let depth = self.depth().saturating_sub(u32::from(cursor.is_some()));
        let number = cursor.unwrap_or_else(|| {
            self.cursors_made += 1;
            self.cursors_made
        });
        self.line(
            now,
            wall,
            format_args!(
                "=====================\nPARSE ERROR #{number}:len={length} dep={depth} \
                 uid={uid} oct={oct} lid={uid} tim={} err={code}\n{text}",
                now.0
            ),
        );
    }

    pub(super) fn error(
        &mut self,
        cursor: u32,
        code: &str,
        now: Micros,
        wall: impl Fn() -> String,
    ) {
        self.line(now, wall, format_args!("ERROR #{cursor}:err={code} tim={}", now.0));
    }
}
