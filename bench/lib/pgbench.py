"""pgbench as Debian ships it, on one instance."""
import re
import subprocess
import sys

from servers import Meter

SELECT = ["-S"]
TPCB = []


def load(server, scale):
    command = ["pgbench", "-i", "-q", "-s", str(scale)]
    subprocess.run(command, env=server.env(), check=True, capture_output=True)
    server.settle([f"pgbench_{t}" for t in ("accounts", "branches", "tellers")])


def run(server, script, clients, seconds, protocol="prepared"):
    """CPU for each transaction in us, and transactions a second."""
    command = [
        "pgbench", "-n", *script, "-M", protocol, "-c", str(clients), "-j", "2",
        "-T", str(seconds),
    ]
    with Meter(server) as m:
        done = subprocess.run(command, env=server.env(), capture_output=True, text=True)
    count = re.search(r"actually processed: (\d+)", done.stdout)
    tps = re.search(r"tps = ([\d.]+)", done.stdout)
    if done.returncode or not count or count[1] == "0":
        sys.exit(f"{server.name}: pgbench failed:\n{done.stdout}{done.stderr}")
    return m.cpu_s * 1e6 / int(count[1]), float(tps[1])
