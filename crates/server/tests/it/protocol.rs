//! Hand-made bytes over the Unix socket, where the operating system vouches for the user.

use crate::engine::{Toy, ToyEngine, wait_until};
use server::{Server, ServerConfig};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub struct Running {
    pub toy: Arc<Toy>,
    pub server: Option<Server>,
    pub dir: PathBuf,
}

impl Running {
    pub fn start(name: &str, max_connections: usize) -> Running {
        let dir = std::env::temp_dir().join(format!("skein-server-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let toy = Arc::new(Toy::new());
        let config = ServerConfig {
            listen: "127.0.0.1:0".into(),
            socket_dir: Some(dir.clone()),
            max_connections,
            reserved_connections: 0,
            tls: None,
            open_cursors: 10,
        };
        let engine = Arc::new(ToyEngine(Arc::clone(&toy)));
        Running { toy, server: Some(Server::start(engine, config).unwrap()), dir }
    }

    pub fn port(&self) -> u16 {
        self.server.as_ref().unwrap().address().port()
    }

    fn raw(&self) -> UnixStream {
        let stream =
            UnixStream::connect(self.dir.join(format!(".s.PGSQL.{}", self.port()))).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// A session; also the number and secret it was told.
    fn session(&self) -> (UnixStream, Vec<u8>) {
        let mut s = self.raw();
        s.write_all(&startup("ann")).unwrap();
        let messages = until_ready(&mut s);
        let key = messages.iter().find(|m| m.0 == b'K').unwrap().1.clone();
        (s, key)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop(Duration::from_secs(10));
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn startup(user: &str) -> Vec<u8> {
    let body = format!("\0\x03\0\0user\0{user}\0database\0toy\0\0");
    framed(None, body.as_bytes())
}

fn framed(tag: Option<u8>, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(body.len() + 4).unwrap();
    let mut bytes: Vec<u8> = tag.into_iter().collect();
    bytes.extend_from_slice(&len.to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

fn message(tag: u8, body: &str) -> Vec<u8> {
    framed(Some(tag), body.as_bytes())
}

type Messages = Vec<(u8, Vec<u8>)>;

fn read_message(s: &mut UnixStream) -> Option<(u8, Vec<u8>)> {
    let mut header = [0; 5];
    s.read_exact(&mut header).ok()?;
    let len = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
    let mut body = vec![0; len - 4];
    s.read_exact(&mut body).ok()?;
    Some((header[0], body))
}

fn until_ready(s: &mut UnixStream) -> Messages {
    let mut messages = Vec::new();
    loop {
        let message = read_message(s).expect("closed before ReadyForQuery");
        messages.push(message);
        if messages.last().unwrap().0 == b'Z' {
            return messages;
        }
    }
}

fn until_closed(s: &mut UnixStream) -> Messages {
    std::iter::from_fn(|| read_message(s)).collect()
}

fn tags(messages: &Messages) -> String {
    messages.iter().map(|m| m.0 as char).collect()
}

fn has(message: &(u8, Vec<u8>), text: &str) -> bool {
    String::from_utf8_lossy(&message.1).contains(text)
}

#[test]
fn an_extended_batch_is_answered_by_one_write() {
    let r = Running::start("batch", 5);
    let (mut s, _) = r.session();
    let before = r.toy.writes.load(Ordering::SeqCst);
    let batch = [
        message(b'P', "p\0rows 3\0\0\0"),
        message(b'B', "\0p\0\0\0\0\0\0\0"),
        message(b'D', "P\0"),
        message(b'E', "\0\0\0\0\x02"),
        message(b'E', "\0\0\0\0\0"),
        message(b'S', ""),
    ]
    .concat();
    s.write_all(&batch).unwrap();
    assert_eq!(tags(&until_ready(&mut s)), "12TDDsDCZ");
    assert_eq!(r.toy.writes.load(Ordering::SeqCst) - before, 1);
}

#[test]
fn an_error_skips_to_sync_and_no_further() {
    let r = Running::start("skip", 5);
    let (mut s, _) = r.session();
    let batch = [
        message(b'P', "\0bad\0\0\0"),
        message(b'B', "\0\0\0\0\0\0\0\0"),
        message(b'E', "\0\0\0\0\0"),
        message(b'S', ""),
        message(b'B', "\0nosuch\0\0\0\0\0\0\0"),
        message(b'S', ""),
        message(b'E', "nosuch\0\0\0\0\0"),
        message(b'S', ""),
        message(b'Q', "rows 1\0"),
    ]
    .concat();
    s.write_all(&batch).unwrap();
    for code in ["42601", "26000", "34000"] {
        let answer = until_ready(&mut s);
        assert_eq!(tags(&answer), "EZ");
        assert!(has(&answer[0], code), "{code}");
    }
    assert_eq!(tags(&until_ready(&mut s)), "TDCZ");
}

#[test]
fn discard_all_reaches_prepared_statements() {
    let r = Running::start("discard", 5);
    let (mut s, _) = r.session();
    let bind = [message(b'B', "\0p\0\0\0\0\0\0\0"), message(b'S', "")].concat();
    s.write_all(&[message(b'P', "p\0rows 1\0\0\0"), bind.clone()].concat()).unwrap();
    assert_eq!(tags(&until_ready(&mut s)), "12Z");
    s.write_all(&[message(b'Q', "discard\0"), bind].concat()).unwrap();
    assert_eq!(tags(&until_ready(&mut s)), "CZ");
    assert!(has(&until_ready(&mut s)[0], "26000"));
}

#[test]
fn simple_queries_run_until_one_fails() {
    let r = Running::start("simple", 5);
    let (mut s, _) = r.session();
    s.write_all(&message(b'Q', "rows 1; notice; fail; rows 2\0")).unwrap();
    let answer = until_ready(&mut s);
    assert_eq!(tags(&answer), "TDCNCEZ");
    assert!(has(&answer[5], "22012") && !answer.iter().any(|m| has(m, "never seen")));
    s.write_all(&message(b'Q', "  \0")).unwrap();
    assert_eq!(tags(&until_ready(&mut s)), "IZ");
    s.write_all(&message(b'Q', "begin; fail\0")).unwrap();
    assert_eq!(until_ready(&mut s).last().unwrap().1, b"E");
    s.write_all(&message(b'Q', "commit\0")).unwrap();
    assert_eq!(until_ready(&mut s).last().unwrap().1, b"I");
}

#[test]
fn a_panic_ends_the_statement_and_not_the_session() {
    let r = Running::start("panic", 5);
    let (mut s, _) = r.session();
    s.write_all(&message(b'Q', "panic\0")).unwrap();
    let answer = until_ready(&mut s);
    assert_eq!(tags(&answer), "EZ");
    assert!(has(&answer[0], "XX000") && has(&answer[0], "a bug"));
    s.write_all(&message(b'Q', "rows 2\0")).unwrap();
    assert_eq!(tags(&until_ready(&mut s)), "TDDCZ");
}

#[test]
fn copy_in_goes_on_with_the_rest_of_the_query() {
    let r = Running::start("copyin", 5);
    let (mut s, _) = r.session();
    s.write_all(&message(b'Q', "copyin; rows 1\0")).unwrap();
    assert_eq!(read_message(&mut s).unwrap().0, b'G');
    s.write_all(&[message(b'd', "a\nb"), message(b'd', "\nc\n"), message(b'c', "")].concat())
        .unwrap();
    let answer = until_ready(&mut s);
    assert_eq!(tags(&answer), "CTDCZ");
    assert!(has(&answer[0], "COPY 3"));
}

#[test]
fn a_failed_copy_swallows_what_the_client_had_sent() {
    let r = Running::start("copyfail", 5);
    let (mut s, _) = r.session();
    s.write_all(&message(b'Q', "copyin; rows 1\0")).unwrap();
    assert_eq!(read_message(&mut s).unwrap().0, b'G');
    let sent = [message(b'd', "bad\n"), message(b'd', "b\n"), message(b'c', "")].concat();
    s.write_all(&sent).unwrap();
    let answer = until_ready(&mut s);
    assert_eq!(tags(&answer), "EZ");
    assert!(has(&answer[0], "22P04"));
    s.write_all(&message(b'Q', "copyin\0")).unwrap();
    assert_eq!(read_message(&mut s).unwrap().0, b'G');
    s.write_all(&message(b'f', "why\0")).unwrap();
    let answer = until_ready(&mut s);
    assert!(has(&answer[0], "57014") && has(&answer[0], "why"));
}

#[test]
fn copy_out_streams_lines() {
    let r = Running::start("copyout", 5);
    let (mut s, _) = r.session();
    s.write_all(&message(b'Q', "copyout 100000\0")).unwrap();
    let answer = until_ready(&mut s);
    let all = tags(&answer);
    assert!(all.starts_with("Hdd") && all.ends_with("dcCZ"));
    assert_eq!(all.len(), 100_000 + 4);
}

#[test]
fn malformed_bytes_end_the_connection_with_08p01_and_nothing_else() {
    let r = Running::start("malformed", 10);
    for bytes in [
        &b"?\0\0\0\x04"[..],
        b"Q\0\0\0\x03",
        b"Q\xff\xff\xff\xff",
        b"Q\x7f\xff\xff\xff",
        b"P\0\0\0\x05\0",
        b"B\0\0\0\x08\0\0\xff\xff",
        b"p\0\0\0\x08abcd",
    ] {
        let (mut s, _) = r.session();
        s.write_all(bytes).unwrap();
        let answer = until_closed(&mut s);
        assert_eq!(tags(&answer), "E", "{bytes:?}");
        assert!(has(&answer[0], "08P01") && has(&answer[0], "FATAL"), "{bytes:?}");
    }
    for bytes in [
        &b"\0\0\0\x04"[..],
        b"\x7f\xff\xff\xff",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\0\0\x09\0\x03\0\0x",
    ] {
        let mut s = r.raw();
        s.write_all(bytes).unwrap();
        let answer = until_closed(&mut s);
        assert_eq!(tags(&answer), "E", "{bytes:?}");
    }
    let (mut s, _) = r.session();
    s.write_all(&message(b'Q', "rows 1\0")).unwrap();
    assert_eq!(tags(&until_ready(&mut s)), "TDCZ", "the server goes on");
}

#[test]
fn text_that_is_not_utf8_fails_the_statement_only() {
    let r = Running::start("utf8", 5);
    let (mut s, _) = r.session();
    s.write_all(&framed(Some(b'Q'), b"\xff\xfe\0")).unwrap();
    let answer = until_ready(&mut s);
    assert!(tags(&answer) == "EZ" && has(&answer[0], "22021"));
}

#[test]
fn a_cancel_needs_the_secret() {
    let r = Running::start("cancel", 5);
    let (mut s, key) = r.session();
    s.write_all(&message(b'Q', "wait\0")).unwrap();
    let cancel = |key: &[u8]| {
        let mut c = r.raw();
        c.write_all(&framed(None, &[&80_877_102_i32.to_be_bytes()[..], key].concat())).unwrap();
        assert!(until_closed(&mut c).is_empty(), "a cancel request gets no answer");
    };
    let mut wrong = key.clone();
    wrong[7] ^= 1;
    cancel(&wrong);
    s.set_nonblocking(true).unwrap();
    assert!(s.read(&mut [0; 1]).is_err(), "still waiting");
    s.set_nonblocking(false).unwrap();
    // The request may be read before the session is marked busy: then it is asked again.
    let mut answer = None;
    wait_until("the statement is cancelled", || {
        cancel(&key);
        s.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        answer = read_message(&mut s);
        answer.is_some()
    });
    assert!(has(&answer.unwrap(), "57014"));
}

#[test]
fn encryption_requests_are_declined_and_newer_versions_negotiated() {
    let r = Running::start("negotiate", 5);
    let mut s = r.raw();
    for code in [80_877_103_i32, 80_877_104] {
        s.write_all(&framed(None, &code.to_be_bytes())).unwrap();
        let mut answer = [0];
        s.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"N");
    }
    let body = b"\0\x03\0\x02user\0ann\0database\0toy\0_pq_.x\0on\0\0";
    s.write_all(&framed(None, body)).unwrap();
    let answer = until_ready(&mut s);
    assert!(answer[0].0 == b'v' && has(&answer[0], "_pq_.x"));
    let mut s = r.raw();
    s.write_all(&framed(None, b"\0\x02\0\0user\0ann\0\0")).unwrap();
    assert!(has(&until_closed(&mut s)[0], "0A000"));
}

#[test]
fn one_connection_too_many_is_told_so_and_the_place_comes_back() {
    let r = Running::start("limit", 2);
    let (one, _two) = (r.session(), r.session());
    let mut s = r.raw();
    s.write_all(&startup("ann")).unwrap();
    assert!(has(&until_closed(&mut s)[0], "53300"));
    drop(one);
    wait_until("the place is free", || {
        let mut s = r.raw();
        s.write_all(&startup("ann")).unwrap();
        read_message(&mut s).is_some_and(|m| m.0 == b'R')
    });
}

#[test]
fn a_client_that_leaves_a_running_statement_is_noticed() {
    let r = Running::start("abandon", 5);
    let (mut s, _) = r.session();
    s.write_all(&message(b'Q', "wait\0")).unwrap();
    drop(s);
    wait_until("the session is closed", || r.toy.closed.load(Ordering::SeqCst) == 1);
}

#[test]
fn stopping_tells_busy_and_idle_sessions() {
    let mut r = Running::start("stop", 5);
    let ((mut idle, _), (mut busy, _)) = (r.session(), r.session());
    busy.write_all(&message(b'Q', "wait\0")).unwrap();
    let server = r.server.take().unwrap();
    assert!(server.stop(Duration::from_secs(10)));
    assert!(has(&until_closed(&mut idle)[0], "57P01"));
    assert!(has(&until_closed(&mut busy)[0], "57P01"));
    assert_eq!(r.toy.closed.load(Ordering::SeqCst), 2);
}

/// A generator that gives the same numbers for the same seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % n
    }
}

#[test]
fn spoiled_conversations_end_and_the_server_goes_on() {
    let r = Running::start("spoiled", 50);
    let whole = [
        startup("ann"),
        message(b'P', "p\0echo x\0\0\x01\0\0\0\x19"),
        message(b'B', "\0p\0\0\0\0\x01\0\0\0\x02hi\0\0"),
        message(b'D', "P\0"),
        message(b'E', "\0\0\0\0\0"),
        message(b'S', ""),
        message(b'Q', "copyin; rows 2\0"),
        message(b'd', "a\n"),
        message(b'c', ""),
    ]
    .concat();
    for seed in 0..300 {
        let mut numbers = Numbers(seed);
        let mut bytes = whole.clone();
        for _ in 0..=numbers.below(4) {
            let at = numbers.below(bytes.len());
            match numbers.below(3) {
                0 => bytes[at] = u8::try_from(numbers.below(256)).unwrap(),
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, u8::try_from(numbers.below(256)).unwrap()),
            }
        }
        let mut s = r.raw();
        // The server may close before it has read everything.
        let _ = s.write_all(&bytes);
        let _ = s.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = s.read_to_end(&mut answer);
    }
    let (mut s, _) = r.session();
    s.write_all(&message(b'Q', "rows 1\0")).unwrap();
    assert_eq!(tags(&until_ready(&mut s)), "TDCZ");
    let alerts = r.toy.alerts.lock().unwrap();
    assert!(!alerts.iter().any(|a| a.contains("XX000")), "{alerts:?}");
}
