"""sysbench as Debian ships it: one process for each instance, started together."""
import random
import re
import subprocess
import sys

from servers import Meter


def command(server, k, script, threads, seconds, options):
    host, port = server.ends[k % len(server.ends)]
    d = server.driver
    out = [
        "sysbench", f"--db-driver={d}", f"--{d}-host={host}", f"--{d}-port={port}",
        f"--{d}-user={server.user}", f"--{d}-password={server.password}",
        f"--{d}-db={server.database}", f"--threads={threads}", f"--time={seconds}",
        "--report-interval=0", "--rand-type=uniform", *options,
    ]
    if d == "mysql":
        # Deadlocks and failed certification; PostgreSQL's driver always repeats these.
        out.append("--mysql-ignore-errors=1213,1020,1205,1062")
    return [*out, script]


def run_all(commands, env=None):
    procs = [
        subprocess.Popen(c, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
        for c in commands
    ]
    outs = [p.communicate()[0] for p in procs]
    for c, p, out in zip(commands, procs, outs):
        if p.returncode:
            sys.exit(f"failed: {' '.join(c)}\n{out[-3000:]}")
    return outs


def share(total, parts):
    return [n for n in (total // parts + (i < total % parts) for i in range(parts)) if n]


def run(server, script, threads, seconds, options, env=None):
    """CPU for each transaction in us, transactions a second, and the share that was repeated."""
    # Processes that started in the same second would draw the same ids.
    commands = [
        [*command(server, k, script, n, seconds, options),
         f"--rand-seed={random.randrange(1, 1 << 31)}", "run"]
        for k, n in enumerate(share(threads, len(server.ends)))
    ]
    with Meter(server) as m:
        outs = run_all(commands, env)
    done = sum(int(re.search(r"transactions:\s+(\d+)", o)[1]) for o in outs)
    rate = sum(float(re.search(r"transactions:\s+\d+\s+\(([\d.]+)", o)[1]) for o in outs)
    repeated = sum(int(re.search(r"ignored errors:\s+(\d+)", o)[1]) for o in outs)
    if not done:
        sys.exit(f"{server.name}: {script} did nothing:\n{outs[0]}")
    return m.cpu_s * 1e6 / done, rate, repeated / (done + repeated)


def load(server, options):
    for verb in ("cleanup", "prepare"):
        run_all([[*command(server, 0, "oltp_read_write", 1, 0, options), verb]])
