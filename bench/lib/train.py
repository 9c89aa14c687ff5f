"""A load for the compiler: what an instrumented build of Skein does here, it is then optimised for.

usage: train.py FOLDER | --check (whether all is there that it needs)

`SKEIN_BIN` names the instrumented build. Short transactions of many kinds on one instance and on
three, in FOLDER/short; loads, scans and joins, which count in millions of rows, in FOLDER/long. What
is counted is written as an instance stops. It measures nothing.
"""
import os
import shutil
import subprocess
import sys
import tempfile

import pgbench
import sysbench
import tpch
from servers import Skein, binary

HERE = os.path.dirname(os.path.abspath(__file__))
SECONDS, ROWS, SCALE, FACTOR = 6, 20_000, 5, 0.05


class Counted(Skein):
    """Counts into a file of the folder that is named when it starts."""

    def count_into(self, folder):
        self.stop()
        os.environ["LLVM_PROFILE_FILE"] = f"{folder}/%m.profraw"
        self.start()


def load_short(server, tables, options):
    sysbench.load(server, tables)
    command = sysbench.command(server, 0, f"{HERE}/tpcb.lua", 1, 0, options)
    sysbench.run_all([[*command, "prepare"]])
    names = [f"pgbench_{t}" for t in ("accounts", "branches", "tellers")]
    server.settle(["sbtest1", "sbtest2", *names])


def short(server, folder):
    """One client program after another, all instances at once."""
    tables, options = ["--tables=2", f"--table-size={ROWS}"], [f"--scale={SCALE}"]
    load_short(server, tables, options)
    server.count_into(f"{folder}/short")
    kinds = "point_select read_only read_write update_index update_non_index insert delete"
    for kind in kinds.split():
        print(f"  {kind}", flush=True)
        sysbench.run(server, f"oltp_{kind}", 6, SECONDS, tables)
    print("  tpcb", flush=True)
    sysbench.run(server, f"{HERE}/tpcb.lua", 8, SECONDS, options)
    for mode in ("simple", "extended", "prepared"):
        print(f"  pgbench -M {mode}", flush=True)
        for script in (pgbench.SELECT, ["-b", "simple-update"]):
            command = ["pgbench", "-n", *script, "-M", mode, "-s", str(SCALE), "-c", "4"]
            command += ["-T", str(SECONDS // 2)]
            subprocess.run(command, env=server.env(), check=True, capture_output=True)


def long(server, folder, data):
    server.count_into(f"{folder}/long")
    print("  load, queries", flush=True)
    tpch.load(server, data)
    server.settle(tpch.TABLES)
    for text in tpch.queries().values():
        server.sql(text)
    server.sql("create index on orders (o_orderdate); update orders set o_shippriority = 1")


def main():
    cache = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
    clients = os.environ.get("SKEIN_CLIENTS", f"{cache}/skein/clients")
    generator = binary("tpchgen-cli", "tpchgen-cli by pip", [f"{clients}/venv/bin"])
    binary("sysbench", "sysbench")
    binary("pgbench", "postgresql-contrib")
    binary("psql", "postgresql-client")
    folder = sys.argv[1]
    if folder == "--check":
        return
    for what in ("short", "long"):
        os.makedirs(f"{folder}/{what}", exist_ok=True)
    work = tempfile.mkdtemp(prefix="train-", dir=os.environ.get("SKEIN_WORK_DIR"))
    try:
        data = f"{work}/data"
        subprocess.run([generator, "csv", "-q", "-s", str(FACTOR), "-o", data], check=True)
        for what, instances in (("short", 3), ("short", 1), ("long", 1)):
            print(f"{what}, instances: {instances}", flush=True)
            here = f"{work}/{what}{instances}"
            os.mkdir(here)
            server = Counted(here, instances=instances)
            try:
                short(server, folder) if what == "short" else long(server, folder, data)
            finally:
                server.stop()
            os.environ["LLVM_PROFILE_FILE"] = f"{work}/others-%m.profraw"
            shutil.rmtree(here)
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
