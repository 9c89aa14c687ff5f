"""TPC-H: the tables are made by tpchgen-cli at a scale factor (0.1), loaded by COPY, and the 22
queries must answer as DuckDB does over the same files.

usage: check.py [SCALE_FACTOR]; the server is the one that PGHOST, PGPORT and so on name.
"""
import decimal
import itertools
import os
import re
import subprocess
import sys
import tempfile

import duckdb
import psycopg

HERE = os.path.dirname(os.path.abspath(__file__))
TABLES = ["region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem"]
# Quotients are rounded to another number of digits by each system.
PRECISION = decimal.Decimal("1e-6")
BUFFER_BYTES = 1 << 20


def read(name):
    return open(os.path.join(HERE, name)).read()


def queries():
    """The queries by number."""
    found = re.findall(r"^-- (\d+)\n(.*?);$", read("queries.sql"), re.S | re.M)
    assert [int(n) for n, _ in found] == list(range(1, 23)), "22 queries, in order"
    return {int(n): text for n, text in found}


def same(a, b):
    numbers = (int, float, decimal.Decimal)
    if isinstance(a, numbers) and isinstance(b, numbers):
        a, b = decimal.Decimal(a), decimal.Decimal(b)
        return abs(a - b) <= abs(b) * PRECISION
    if isinstance(a, str) and isinstance(b, str):
        # DuckDB's char(n) is not padded.
        return a.rstrip(" ") == b.rstrip(" ")
    return a == b


def load(folder, ours, peer):
    peer.execute(read("schema.sql"))
    ours.execute(read("schema.sql"))
    for table in TABLES:
        path = f"{folder}/{table}.csv"
        peer.execute(f"copy {table} from '{path}' (format csv, header)")
        with ours.cursor().copy(f"copy {table} from stdin (format csv, header)") as copy:
            with open(path, "rb") as file:
                while data := file.read(BUFFER_BYTES):
                    copy.write(data)
        count = f"select count(*) from {table}"
        got, want = (c.execute(count).fetchone()[0] for c in (ours, peer))
        assert got == want, f"{table} has {got} rows of {want}"


def main():
    factor = sys.argv[1] if len(sys.argv) > 1 else "0.1"
    generator = os.path.join(os.path.dirname(sys.executable), "tpchgen-cli")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([generator, "csv", "-q", "-s", factor, "-o", folder], check=True)
        peer, ours = duckdb.connect(), psycopg.connect("", autocommit=True)
        load(folder, ours, peer)
    for number, text in queries().items():
        want = peer.execute(text).fetchall()
        got = ours.execute(text).fetchall()
        assert len(got) == len(want), f"query {number}: {len(got)} rows of {len(want)}"
        assert want, f"query {number} finds nothing"
        for row, (a, b) in enumerate(zip(got, want)):
            assert len(a) == len(b) and all(itertools.starmap(same, zip(a, b))), (
                f"query {number}, row {row}: {a}, but DuckDB has {b}"
            )
        print(f"query {number}: {len(got)} rows", flush=True)


if __name__ == "__main__":
    main()
