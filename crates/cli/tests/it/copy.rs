//! COPY by real clients: binary in and out, and what is wrong with a row.

use crate::clients::connect;
use crate::db::{Db, all_text, succeed};
use bytes::Bytes;
use futures::{SinkExt, TryStreamExt};
use tokio_postgres::Client;

const TABLE: &str = "create table t (a int8 primary key, b int4, c int2, d float8, e bool, \
                     f numeric(10,3), g varchar(5), h char(4), i text, j bytea, k date, \
                     l timestamp, m timestamptz)";

const ROWS: &str = "insert into t values \
    (1, -2, 3, 1.5, true, -12.345, 'abc', 'x', E'tab\\there', '\\x00ff', '2024-02-29', \
     '2024-02-29 12:34:56.789', '2024-02-29 12:34:56.789+00'), \
    (2, null, null, null, null, null, null, null, null, null, null, null, null), \
    (3, 0, 0, -0.25, false, 0, '', '', '', '', '1999-12-31', '1999-12-31', '1999-12-31')";

async fn copy_out(client: &Client, sql: &str) -> Vec<u8> {
    let stream = client.copy_out(sql).await.unwrap();
    let parts: Vec<Bytes> = stream.try_collect().await.unwrap();
    parts.concat()
}

/// Sends `bytes` in pieces of `step`; the number of rows, or the SQLSTATE.
async fn copy_in(client: &Client, sql: &str, bytes: &[u8], step: usize) -> Result<u64, String> {
    let state = |e: tokio_postgres::Error| e.code().map_or(e.to_string(), |c| c.code().to_owned());
    let sink = client.copy_in::<_, Bytes>(sql).await.map_err(state)?;
    let mut sink = std::pin::pin!(sink);
    for piece in bytes.chunks(step) {
        sink.send(Bytes::copy_from_slice(piece)).await.map_err(state)?;
    }
    sink.finish().await.map_err(state)
}

#[tokio::test(flavor = "multi_thread")]
async fn binary_rows_come_back_as_they_were() {
    let db = Db::open(2);
    let client = connect(&db, 1).await;
    client.batch_execute(TABLE).await.unwrap();
    client.batch_execute(ROWS).await.unwrap();
    let all = copy_out(&client, "copy t to stdout (format binary)").await;
    assert!(all.starts_with(b"PGCOPY\n\xff\r\n\0") && all.ends_with(&[255, 255]));
    let before = db.sql(1, "select * from t order by a");
    for step in [1, 7, 1 << 16] {
        client.batch_execute("delete from t").await.unwrap();
        let copy = "copy t from stdin (format binary)";
        assert_eq!(copy_in(&client, copy, &all, step).await, Ok(3), "in pieces of {step}");
        assert_eq!(db.sql(2, "select * from t order by a"), before);
    }
    // A query, some columns, and the old way to say it.
    let some = copy_out(&client, "copy (select a, i from t where a < 3) to stdout binary").await;
    client.batch_execute("create table u (i text, a int8)").await.unwrap();
    assert_eq!(copy_in(&client, "copy u (a, i) from stdin with binary", &some, 100).await, Ok(2));
    assert_eq!(db.sql(1, "select a, i is null from u order by a"), "1|f\n2|t");
    // Some clients leave out the trailer.
    let short = &some[..some.len() - 2];
    assert_eq!(copy_in(&client, "copy u (a, i) from stdin binary", short, 9).await, Ok(2));
    // psql as well.
    let file = db.dir().join("rows.bin");
    let psql = |sql: String| succeed(db.client("psql", 1).args(["-X", "-c", &sql]));
    psql(format!("\\copy t to '{}' binary", file.display()));
    psql("delete from t".to_owned());
    psql(format!("\\copy t from '{}' binary", file.display()));
    assert_eq!(db.sql(2, "select * from t order by a"), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_row_fails_the_copy_and_leaves_nothing() {
    let db = Db::open(1);
    let client = connect(&db, 1).await;
    client.batch_execute("create table t (id int primary key, s varchar(3))").await.unwrap();
    client.batch_execute("insert into t values (7, 'old')").await.unwrap();
    let head = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
    let row = |id: i32, s: &[u8]| {
        let len = u32::try_from(s.len()).unwrap().to_be_bytes();
        [&b"\0\x02\0\0\0\x04"[..], &id.to_be_bytes(), &len, s].concat()
    };
    let whole = |rows: &[Vec<u8>]| [&head[..], &rows.concat(), b"\xff\xff"].concat();
    for (bytes, code) in [
        (whole(&[row(1, b"a"), row(1, b"b")]), "23505"),
        (whole(&[row(1, b"a"), row(7, b"b")]), "23505"),
        (whole(&[row(1, b"long")]), "22001"),
        (whole(&[row(1, b"\xff")]), "22021"),
        (whole(&[b"\0\x01\0\0\0\x04\0\0\0\x01".to_vec()]), "22P04"),
        (whole(&[b"\0\x02\0\0\0\x02\0\x01\xff\xff\xff\xff".to_vec()]), "22P03"),
        (b"1\tabc\n".to_vec(), "22P04"),
        ([&head[..], &row(1, b"a")[..5]].concat(), "22P04"),
        (head[..15].to_vec(), "22P04"),
        ([&whole(&[row(1, b"a")])[..], b"more"].concat(), "22P04"),
    ] {
        let done = copy_in(&client, "copy t from stdin binary", &bytes, 10).await;
        assert_eq!(done, Err(code.to_owned()), "{bytes:?}");
    }
    for (text, code) in [
        ("1\ta\n1\tb\n", "23505"),
        ("1\tlong\n", "22001"),
        ("1\n", "22P04"),
        ("1\ta\tb\n", "22P04"),
        ("x\ta\n", "22P02"),
        ("99999999999\ta\n", "22003"),
        ("\\N\ta\n", "23502"),
    ] {
        let done = copy_in(&client, "copy t from stdin", text.as_bytes(), 3).await;
        assert_eq!(done, Err(code.to_owned()), "{text}");
    }
    assert_eq!(db.sql(1, "select id, s from t"), "7|old");
    // The error names the place.
    let mut psql = db.client("psql", 1);
    psql.args(["-X", "-c", "\\copy t from program 'printf \"1\\ta\\n2\\tlong\\n\"'"]);
    let said = all_text(&psql.output().unwrap());
    assert!(said.contains("COPY t, line 2"), "{said}");
    db.sql_error(1, "42601", "copy t to stdout (format binary, delimiter ',')");
}

#[test]
fn a_client_killed_amid_a_copy_leaves_nothing() {
    use std::io::Write as _;
    let db = Db::open(1);
    db.sql(1, "create table t (id int primary key, v text)");
    let mut psql = db.client("psql", 1);
    psql.args(["-X", "-c", "copy t from stdin"]).stdin(std::process::Stdio::piped());
    let mut child = psql.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    for id in 0..50_000 {
        writeln!(input, "{id}\tsome text of a row").unwrap();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // Its locks are gone with it, and so are its rows.
    db.sql(1, "insert into t values (1, 'mine')");
    assert_eq!(db.sql(1, "select count(*) from t"), "1");
}
