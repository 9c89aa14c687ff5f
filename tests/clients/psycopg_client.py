"""psycopg 3: parameters of both formats, prepared statements, COPY, server-side rows, errors."""
import datetime
import decimal

import psycopg

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
    with con.pipeline():
        first = con.execute("select count(*) from py_t")
        second = con.execute("select max(id) from py_t")
        assert (first.fetchone(), second.fetchone()) == ((111,), (199,))
    con.execute("drop table py_t")
print("psycopg", psycopg.__version__)
