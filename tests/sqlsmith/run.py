"""Runs sqlsmith's statements on a database of its own; see scripts/sqlsmith.

sqlsmith only writes them (--dry-run), so that each answer's SQLSTATE is seen. A refusal is fine; what is not:
XX000 and other codes of class XX, a connection that is lost, a statement that statement_timeout does not
end, and a process that has panicked."""

import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import psycopg

# What one run of sqlsmith writes; its start reads the whole catalog.
STATEMENTS = 1000
STATEMENT_TIMEOUT = "5s"
# A statement that answers neither by then nor to its timeout hangs.
HANGS_AFTER_S = 60
# What is refused most often is what is most worth doing next.
REFUSALS_SHOWN = 25
PASSWORD = "secret"

minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
seed = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time()) % 1_000_000
skein = os.environ["SKEIN_BIN"]
tables = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tables.sql")
os.environ["SKEIN_PASSWORD"] = PASSWORD


def connect(port):
    # The watch on the socket ends a statement that never answers.
    con = psycopg.connect(
        host="127.0.0.1", port=port, user="skein", password=PASSWORD, dbname="skein", autocommit=True,
        tcp_user_timeout=HANGS_AFTER_S * 1000,
    )
    con.execute(f"set statement_timeout = '{STATEMENT_TIMEOUT}'")
    return con


def answer(con, text):
    """The SQLSTATE of what a statement ends with, None if the connection is gone; and what is said."""
    try:
        with con.transaction(force_rollback=True):
            con.execute(text)
        return "00000", ""
    except psycopg.Error as e:
        said = (str(e).splitlines() or [""])[0]
        return (e.sqlstate if e.sqlstate and not con.broken else None), said


def statements(port, seed):
    target = f"host=127.0.0.1 port={port} dbname=skein user=skein password={PASSWORD}"
    command = ["sqlsmith", f"--target={target}", f"--max-queries={STATEMENTS}", "--dry-run", f"--seed={seed}"]
    made = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    for text in made.stdout.decode().split(";\n"):
        if text.strip():
            yield text.strip()


def main(folder):
    database = os.path.join(folder, "db")
    run = lambda *args: subprocess.run([skein, *args], check=True, stdout=subprocess.PIPE).stdout
    run("init", database, "--instances", "1", "--luns", "2", "--lun-size", "1G", "--port-base", "0",
        "--set", "db_cache_size=64M", "--set", "filesystemio_options=none")
    run("start", database, "--all")
    try:
        status = json.loads(run("status", database, "--json"))
        port = status["instances"][0]["listen"].rsplit(":", 1)[1]
        con = connect(port)
        with open(tables, encoding="utf-8") as f:
            con.execute(f.read())
        codes, bad, begun, turn, slowest = collections.Counter(), [], time.monotonic(), seed, 0.0
        refusals = collections.Counter()
        while time.monotonic() - begun < minutes * 60:
            for text in statements(port, turn):
                at = time.monotonic()
                if at - begun >= minutes * 60:
                    break
                code, said = answer(con, text)
                if code in ("0A000", "42601", "42883"):
                    refusals[f"{code} {re.sub(r'[0-9]+', '#', said)[:140]}"] += 1
                took = time.monotonic() - at
                slowest = max(slowest, took)
                codes[code or "lost"] += 1
                if code is None or code.startswith("XX") or took > HANGS_AFTER_S:
                    bad.append((turn, code, text))
                    print(f"-- seed {turn}: {code or 'connection lost'} after {took:.1f} s\n{text};\n", flush=True)
                if con.broken:
                    con = connect(port)
            turn += 1
        log = b"".join(
            open(os.path.join(path, name), "rb").read()
            for path, _, names in os.walk(database) for name in names if name.endswith(".log")
        )
        panics = log.count(b"panicked")
        total = sum(codes.values())
        shown = ", ".join(f"{code}: {count}" for code, count in codes.most_common())
        print(f"{total} statements of seeds {seed} to {turn - 1}; {shown}; slowest {slowest:.1f} s")
        for said, count in refusals.most_common(REFUSALS_SHOWN):
            print(f"{count:7} {said}")
        assert codes["00000"] > 0, "not one statement was carried out: the generator is of no use"
        print(f"{len(bad)} internal errors, lost connections or hangs, {panics} panics")
        return 1 if bad or panics else 0
    finally:
        run("stop", database)


folder = tempfile.mkdtemp(prefix="skein-sqlsmith-")
try:
    code = main(folder)
finally:
    shutil.rmtree(folder, ignore_errors=True)
sys.exit(code)
