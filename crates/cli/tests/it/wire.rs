//! The protocol's bytes over a real server: what is malformed, and portals fetched in parts.

use crate::clients::connect;
use crate::db::Db;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A session over the Unix socket, where the operating system vouches for the user.
struct Raw(UnixStream);

type Message = (u8, Vec<u8>);

fn framed(tag: u8, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    [&[tag][..], &len, body].concat()
}

impl Raw {
    fn open(db: &Db) -> Raw {
        let path = db.dir().join(format!(".s.PGSQL.{}", db.port(1)));
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut raw = Raw(stream);
        raw.0.write_all(&framed(0, b"\0\x03\0\0user\0skein\0database\0skein\0\0")[1..]).unwrap();
        raw.until_ready();
        raw
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    fn message(&mut self) -> Option<Message> {
        let mut head = [0; 5];
        self.0.read_exact(&mut head).ok()?;
        let len = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let mut body = vec![0; len - 4];
        self.0.read_exact(&mut body).ok()?;
        Some((head[0], body))
    }

    fn until_ready(&mut self) -> Vec<Message> {
        let mut all = Vec::new();
        loop {
            let message = self.message().expect("closed before it was ready");
            all.push(message);
            if all.last().unwrap().0 == b'Z' {
                return all;
            }
        }
    }

    /// What comes until the server closes.
    fn until_closed(&mut self) -> Vec<Message> {
        std::iter::from_fn(|| self.message()).collect()
    }

    fn query(&mut self, sql: &str) -> Vec<Message> {
        self.send(&framed(b'Q', &[sql.as_bytes(), b"\0"].concat()));
        self.until_ready()
    }
}

/// Field `C` of the first error, if there is one.
fn sqlstate(messages: &[Message]) -> Option<String> {
    let (_, body) = messages.iter().find(|m| m.0 == b'E')?;
    let field = body.split(|b| *b == 0).find(|f| f.first() == Some(&b'C'))?;
    Some(String::from_utf8_lossy(&field[1..]).into_owned())
}

fn tags(messages: &[Message]) -> String {
    messages.iter().map(|m| char::from(m.0)).collect()
}

#[test]
fn malformed_messages_end_their_session_and_nothing_else() {
    let db = Db::open(1);
    db.sql(1, "create table t (id int primary key)");
    let mut other = Raw::open(&db);
    other.query("begin; insert into t values (1)");
    for bytes in [
        &b"?\0\0\0\x04"[..],
        b"Q\0\0\0\x03",
        b"Q\x7f\xff\xff\xff",
        b"Q\xff\xff\xff\xff",
        b"P\0\0\0\x05x",
        b"B\0\0\0\x08\0\0\xff\xff",
        b"D\0\0\0\x06?\0",
        b"E\0\0\0\x05\0",
        b"S\0\0\0\x05x",
    ] {
        let mut raw = Raw::open(&db);
        raw.query("begin; insert into t values (2)");
        raw.send(bytes);
        let _ = raw.0.shutdown(std::net::Shutdown::Write);
        let told = raw.until_closed();
        assert_eq!(sqlstate(&told).as_deref(), Some("08P01"), "{bytes:?}: {told:?}");
    }
    // Its work was taken back, and that of the others was not touched.
    assert_eq!(sqlstate(&other.query("insert into t values (2)")), None);
    assert_eq!(sqlstate(&other.query("commit")), None);
    assert_eq!(db.sql(1, "select id from t order by id"), "1\n2");
    assert_eq!(db.state(1), "OPEN");
}

#[test]
fn a_text_that_is_not_utf8_fails_its_statement_only() {
    let db = Db::open(1);
    let mut raw = Raw::open(&db);
    raw.send(&framed(b'Q', b"select '\xff\xfe'\0"));
    assert_eq!(sqlstate(&raw.until_ready()).as_deref(), Some("22021"));
    assert_eq!(tags(&raw.query("select 1")), "TDCZ");
    // A parameter in text format and one in binary of a wrong length.
    let parse = framed(b'P', b"\0select $1::int4\0\0\0");
    for (format, value, code) in [(0, &b"\xff"[..], "22021"), (1, b"abc", "22P03")] {
        let len = u32::try_from(value.len()).unwrap().to_be_bytes();
        let bind = [&b"\0\0\0\x01\0"[..], &[format], b"\0\x01", &len, value, b"\0\0"].concat();
        let execute = framed(b'E', b"\0\0\0\0\0");
        raw.send(&[&parse[..], &framed(b'B', &bind), &execute, &framed(b'S', b"")].concat());
        assert_eq!(sqlstate(&raw.until_ready()).as_deref(), Some(code));
    }
    assert_eq!(tags(&raw.query("select 1")), "TDCZ");
}

#[tokio::test(flavor = "multi_thread")]
async fn portals_give_no_more_rows_than_asked_for() {
    let db = Db::open(1);
    let mut client = connect(&db, 1).await;
    client.batch_execute("create table t (id int primary key, v int)").await.unwrap();
    client.batch_execute("insert into t select g, g from generate_series(1, 7) g").await.unwrap();
    for (sql, rows) in [
        ("select id from t where id > 2 order by id", 5),
        ("select v from t where id = 3", 1),
        ("select 1", 1),
        ("values (1), (2), (3)", 3),
        ("select id from t order by id for update", 7),
        ("update t set v = v + 1 where id > 2 returning id", 5),
        ("update t set v = v + 1 where id = 2 returning id", 1),
        ("insert into t values (8, 1), (9, 1), (10, 1) returning id", 3),
        ("insert into t select g, 0 from generate_series(11, 15) g returning id", 5),
        ("delete from t where id > 7 returning id", 8),
        ("show parameter log", 4),
        ("explain select * from t", 0),
    ] {
        let transaction = client.transaction().await.unwrap();
        let portal = transaction.bind(sql, &[]).await.unwrap();
        let mut seen = 0;
        loop {
            let part = transaction.query_portal(&portal, 2).await.unwrap();
            assert!(part.len() <= 2, "{sql}: {} rows at once", part.len());
            seen += part.len();
            if part.len() < 2 {
                break;
            }
        }
        assert!(seen == rows || rows == 0, "{sql}: {seen} rows");
        transaction.commit().await.unwrap();
    }
    let row = client.query_one("select count(*), sum(v) from t", &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (7, 28 + 6));
}
