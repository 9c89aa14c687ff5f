"""What the benchmarks share: a database of their own, and a client that needs no package.

The client speaks the protocol over the Unix socket in the database's folder, which lets in the
operating-system user who owns it.
"""
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import tempfile
import time


class SqlError(Exception):
    """An error of the server."""

    def __init__(self, fields):
        super().__init__(f"{fields.get('C')}: {fields.get('M')}")
        self.code = fields.get("C")


class Client:
    """One session; results come as lists of tuples of strings."""

    def __init__(self, folder, port):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(f"{folder}/.s.PGSQL.{port}")
        self.buf = b""
        body = struct.pack("!I", 196608) + b"user\0skein\0database\0skein\0\0"
        self.sock.sendall(struct.pack("!I", len(body) + 4) + body)
        self._until_ready()
        self.named = {}

    def close(self):
        self.sock.close()

    def _read(self, n):
        while len(self.buf) < n:
            got = self.sock.recv(65536)
            if not got:
                raise ConnectionError("the server has closed the connection")
            self.buf += got
        out, self.buf = self.buf[:n], self.buf[n:]
        return out

    def _message(self):
        kind, length = struct.unpack("!cI", self._read(5))
        return kind, self._read(length - 4)

    def _until_ready(self):
        rows, error = [], None
        while True:
            kind, body = self._message()
            if kind == b"Z":
                break
            if kind == b"E":
                parts = [p.decode() for p in body.split(b"\0") if p]
                error = {p[0]: p[1:] for p in parts}
            elif kind == b"D":
                rows.append(self._row(body))
        if error:
            raise SqlError(error)
        return rows

    @staticmethod
    def _row(body):
        (n,), at, row = struct.unpack_from("!H", body), 2, []
        for _ in range(n):
            (size,) = struct.unpack_from("!i", body, at)
            at += 4
            row.append(None if size < 0 else body[at:at + size].decode())
            at += max(size, 0)
        return tuple(row)

    def sql(self, text):
        """Runs statements by the simple protocol."""
        self.sock.sendall(b"Q" + struct.pack("!I", len(text.encode()) + 5) + text.encode() + b"\0")
        return self._until_ready()

    def one(self, text):
        return self.sql(text)[0][0]

    def run(self, text, *params):
        """Runs one statement prepared: parsed at its first use, then bound and executed."""
        return self.run_all(text, [params])

    def run_all(self, text, rows):
        """Runs one statement prepared, once with each of `rows` of values, in one message."""
        out = b""
        if text not in self.named:
            name = self.named[text] = f"s{len(self.named)}".encode()
            body = name + b"\0" + text.encode() + b"\0\0\0"
            out += b"P" + struct.pack("!I", len(body) + 4) + body
        name = self.named[text]
        for params in rows:
            values = [str(p).encode() for p in params]
            body = b"\0" + name + b"\0" + struct.pack("!HH", 0, len(values))
            body += b"".join(struct.pack("!i", len(v)) + v for v in values)
            body += struct.pack("!H", 0)
            out += b"B" + struct.pack("!I", len(body) + 4) + body
            out += b"E" + struct.pack("!I", 9) + b"\0" + struct.pack("!I", 0)
        self.sock.sendall(out + b"S\0\0\0\4")
        return self._until_ready()


class Database:
    """A database in a folder of its own, removed at the end."""

    def __init__(self, instances=3, settings=(), luns=4, lun_size="1G"):
        self.bin = os.environ["SKEIN_BIN"]
        self.work = tempfile.mkdtemp(prefix="bench-", dir=os.environ.get("SKEIN_WORK_DIR"))
        self.dir, self.procs = f"{self.work}/db", {}
        command = [
            self.bin, "init", self.dir, "--port-base", "0", "--instances", str(instances),
            "--luns", str(luns), "--lun-size", lun_size,
        ]
        for name, value in settings:
            command += ["--set", f"{name}={value}"]
        env = dict(os.environ, SKEIN_PASSWORD="bench")
        subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)

    def set_for(self, k, name, value):
        """Sets a parameter of instance `k` alone, for its next start."""
        path = f"{self.dir}/skein.toml"
        text = open(path).read()
        section = f"[instance.{k}]\n"
        open(path, "w").write(text.replace(section, f'{section}{name} = "{value}"\n'))

    def start(self, k):
        """Starts instance `k` and returns when it is open."""
        log = open(f"{self.work}/out{k}.log", "a")
        self.procs[k] = subprocess.Popen(
            [self.bin, "start", self.dir, "--instance", str(k)], stdout=log, stderr=log
        )
        deadline = time.monotonic() + 60
        while self.state(k) != "OPEN":
            if self.procs[k].poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"instance {k} does not open: {self.work}/out{k}.log")
            time.sleep(0.02)

    def status(self, k):
        text = subprocess.check_output([self.bin, "status", self.dir, "--json"])
        return next(i for i in json.loads(text)["instances"] if i["instance"] == k)

    def state(self, k):
        return self.status(k)["state"]

    def port(self, k):
        return int(self.status(k)["listen"].rsplit(":", 1)[1])

    def pid(self, k):
        return self.status(k)["pid"]

    def client(self, k):
        return Client(self.dir, self.port(k))

    def kill(self, k):
        self.procs[k].kill()
        self.procs[k].wait()

    def stop(self, k):
        subprocess.run(
            [self.bin, "stop", self.dir, "--instance", str(k)], stdout=subprocess.DEVNULL
        )
        self.procs[k].wait()

    def alerts(self, k):
        """The lines of instance `k`'s alert log."""
        return open(f"{self.dir}/alert_{k}.log").read().splitlines()

    def remove(self):
        for proc in self.procs.values():
            if proc.poll() is None:
                proc.kill()
                proc.wait()
        if not os.environ.get("SKEIN_KEEP"):
            shutil.rmtree(self.work, ignore_errors=True)


class Awake:
    """Keeps every processor from going idle: a process of the idle class on each, which gives way to
    any other. An idle virtual processor takes longer to wake than what is measured here takes."""

    def __enter__(self):
        self.pids = []
        for cpu in os.sched_getaffinity(0):
            pid = os.fork()
            if pid == 0:
                os.sched_setaffinity(0, {cpu})
                os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
                parent = os.getppid()
                # The kernel shares the processor among sessions first: in that of the clients it
                # would not give way to the servers.
                os.setsid()
                with contextlib.suppress(OSError), open("/proc/self/autogroup", "w") as f:
                    f.write("19")
                while os.getppid() == parent:
                    sum(range(10_000))
                os._exit(0)
            self.pids.append(pid)
        return self

    def __exit__(self, *_):
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def quantile(values, q):
    values = sorted(values)
    return values[min(int(q * len(values)), len(values) - 1)]


def spread(values):
    """Median, 95th percentile, highest."""
    return statistics.median(values), quantile(values, 0.95), max(values)


def pss_kib(pid):
    """Proportional memory of a process."""
    text = open(f"/proc/{pid}/smaps_rollup").read()
    return int(re.search(r"^Pss:\s+(\d+)", text, re.M)[1])
