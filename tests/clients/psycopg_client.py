"""psycopg 3: parameters of both formats, prepared statements, COPY, server-side rows, errors."""
import datetime
import decimal
import enum

import psycopg
from psycopg.types.enum import EnumInfo, register_enum

with psycopg.connect("", autocommit=True) as con:
    con.execute("drop table if exists py_t")
    con.execute(
        "create table py_t (id int primary key, name varchar(20), price numeric(8,2), "
        "made timestamp, day date, raw bytea, ok boolean, ratio float8)"
    )
    row = (
        1, "été", decimal.Decimal("12.50"), datetime.datetime(2024, 2, 29, 12, 34, 56),
        datetime.date(2024, 2, 29), b"\0\xff", True, 0.25,
    )
    for binary in (False, True):
        con.execute("delete from py_t")
        con.execute("insert into py_t values (%s, %s, %s, %s, %s, %s, %s, %s)", row)
        for prepare in (False, True):
            cur = con.cursor(binary=binary)
            got = cur.execute("select * from py_t where id = %s", (1,), prepare=prepare).fetchone()
            assert got == row, got
    cur = con.cursor()
    cur.executemany(
        "insert into py_t (id, name) values (%s, %s)", [(i, f"n{i}") for i in range(2, 12)]
    )
    assert cur.rowcount == 10
    try:
        con.execute("insert into py_t (id) values (1)")
        raise AssertionError("a duplicate key was taken")
    except psycopg.errors.UniqueViolation as e:
        assert e.diag.constraint_name == "py_t_pkey", e.diag.constraint_name
    with con.transaction():
        try:
            with con.transaction():
                con.execute("delete from py_t")
                raise psycopg.Rollback
        except psycopg.Rollback:
            pass
    with con.cursor().copy("copy py_t (id, name) from stdin") as copy:
        for i in range(100, 200):
            copy.write_row((i, f"c{i}"))
    with con.cursor().copy("copy (select id from py_t where id >= 100) to stdout") as copy:
        assert sum(1 for _ in copy.rows()) == 100
    with con.cursor().copy("copy (select id, name from py_t where id >= 198 order by id) to stdout (format binary)") as copy:
        copy.set_types(["int4", "text"])
        assert list(copy.rows()) == [(198, "c198"), (199, "c199")]
    with con.transaction(), con.cursor("py_named") as named:
        named.itersize = 10
        named.execute("select id from py_t where id >= %s order by id", (190,))
        assert [row[0] for row in named] == list(range(190, 200))
    with con.pipeline():
        first = con.execute("select count(*) from py_t")
        second = con.execute("select max(id) from py_t")
        assert (first.fetchone(), second.fetchone()) == ((111,), (199,))
    con.execute("drop table py_t")
    con.execute("drop type if exists py_mood cascade")
    con.execute("create type py_mood as enum ('sad', 'ok', 'happy')")
    con.execute("create table py_e (id int primary key, mood py_mood)")
    Mood = enum.Enum("Mood", ["sad", "ok", "happy"])
    info = EnumInfo.fetch(con, "py_mood")
    assert list(info.labels) == ["sad", "ok", "happy"], info.labels
    register_enum(info, con, Mood)
    for i, (mood, binary) in enumerate([(Mood.happy, False), (Mood.sad, True), (Mood.ok, True)]):
        mark = "%b" if binary else "%t"
        con.execute(f"insert into py_e values (%s, {mark})", (i, mood))
    con.execute("insert into py_e values (9, %s)", ("ok",))
    for binary in (False, True):
        cur = con.cursor(binary=binary)
        got = cur.execute("select mood from py_e order by mood, id").fetchall()
        assert got == [(Mood.sad,), (Mood.ok,), (Mood.ok,), (Mood.happy,)], got
        got = cur.execute("select id from py_e where mood = %s", (Mood.happy,)).fetchall()
        assert got == [(0,)], got
        assert cur.execute("select mood from py_e").description[0].type_code == info.oid
    with con.cursor().copy("copy py_e from stdin") as copy:
        copy.write_row((20, "sad"))
    with con.cursor().copy("copy py_e from stdin with (format binary)") as copy:
        copy.set_types(["int4", "py_mood"])
        copy.write_row((21, Mood.happy))
    with con.cursor().copy("copy (select mood from py_e where id >= 20 order by id) to stdout") as copy:
        assert list(copy.rows()) == [("sad",), ("happy",)]
    con.execute("drop table py_e")
    con.execute("drop type py_mood")
print("psycopg", psycopg.__version__)
