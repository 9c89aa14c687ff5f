"""The servers that benchmarks compare: Skein and its peers, each started in a folder of its own.

All are durable at every commit and have buffers of the same size; the rest is as shipped. What is
compared is CPU time of a server's processes for each operation, which other work on the machine
disturbs least, and throughput.
"""
import glob
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time

TICK = os.sysconf("SC_CLK_TCK")
CACHE_MB = 256


def tree(root):
    """A process and all below it."""
    pids, todo = [], [root]
    while todo:
        pid = todo.pop()
        pids.append(pid)
        try:
            for path in glob.glob(f"/proc/{pid}/task/*/children"):
                todo += [int(p) for p in open(path).read().split()]
        except FileNotFoundError:
            continue
    return pids


def cpu_s(pids):
    """CPU seconds of processes, and of the children that they have waited for."""
    ticks = 0
    for pid in pids:
        try:
            fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        ticks += sum(int(f) for f in fields[11:15])
    return ticks / TICK


def as_user(name):
    """What stands before a command of a server that refuses to run as root."""
    if os.getuid() != 0:
        return []
    return ["setpriv", f"--reuid={name}", f"--regid={name}", "--init-groups"]


def give(folder, name):
    """Gives a server its folder, which its user must be able to get to."""
    if os.getuid() != 0:
        return
    shutil.chown(folder, name)
    os.chmod(os.path.dirname(folder), 0o755)
    if subprocess.run([*as_user(name), "test", "-x", folder]).returncode != 0:
        sys.exit(
            f"the user {name} may not enter {folder}: set XDG_CACHE_HOME to a folder that "
            "everybody may enter, on the same disk"
        )


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def binary(name, package, folders=()):
    for folder in (*folders, *os.environ["PATH"].split(":"), "/usr/sbin"):
        if os.access(f"{folder}/{name}", os.X_OK):
            return f"{folder}/{name}"
    sys.exit(f"{name} is missing: install {package} (Debian's name)")


class Server:
    """`ends`: host and port of each instance; `driver`: what sysbench calls its protocol."""

    driver, user, password, database = "pgsql", "skein", "bench", "skein"

    def env(self, k=0):
        """For PostgreSQL's programs, connected to the instance with index `k`."""
        host, port = self.ends[k % len(self.ends)]
        return dict(
            os.environ, PGHOST=host, PGPORT=str(port), PGUSER=self.user, PGPASSWORD=self.password,
            PGDATABASE=self.database, PGSSLMODE="disable",
        )

    def sql(self, text, k=0):
        command = ["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", text]
        return subprocess.run(
            command, env=self.env(k), check=True, stdout=subprocess.PIPE, text=True
        ).stdout.strip()

    def cpu_s(self):
        return cpu_s([p for root in self.roots() for p in tree(root)])

    def settle(self, tables):
        """After a load: what a running system would have done meanwhile."""


class PostgreSQL(Server):
    name = "PostgreSQL 15"

    def __init__(self, work, cache_mb=CACHE_MB, settings=()):
        self.dir = f"{work}/pg"
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda p: int(p.split("/")[4]))
        self.bin = os.path.dirname(binary("initdb", "postgresql-15", found[-1:]))
        os.mkdir(self.dir)
        give(self.dir, "postgres")
        self.run("initdb", "-D", f"{self.dir}/data", "-A", "trust", "-U", self.user)
        port = free_port()
        self.ends = [("127.0.0.1", port)]
        options = f"-p {port} -k {self.dir} -c listen_addresses=127.0.0.1"
        for name, value in (("shared_buffers", f"{cache_mb}MB"), *settings):
            options += f" -c {name}={value}"
        log = f"{self.dir}/log"
        self.run("pg_ctl", "-D", f"{self.dir}/data", "-o", options, "-w", "-l", log, "start")
        subprocess.run([f"{self.bin}/createdb", self.database], env=self.env(), check=True)

    def run(self, what, *args):
        subprocess.run(
            [*as_user("postgres"), f"{self.bin}/{what}", *args], check=True,
            stdout=subprocess.DEVNULL,
        )

    def roots(self):
        return [int(open(f"{self.dir}/data/postmaster.pid").readline())]

    def settle(self, tables):
        for table in tables:
            self.sql(f"vacuum analyze {table}")
        self.sql("checkpoint")

    def stop(self):
        if os.path.exists(f"{self.dir}/data/postmaster.pid"):
            self.run("pg_ctl", "-D", f"{self.dir}/data", "-m", "fast", "stop")


class Skein(Server):
    name = "Skein"

    def __init__(
        self, work, cache_mb=CACHE_MB, instances=1, settings=(), lun_size="512M", program=None
    ):
        self.bin, self.dir = program or os.environ["SKEIN_BIN"], f"{work}/db"
        command = [self.bin, "init", self.dir, "--port-base", "0", "--lun-size", lun_size]
        command += ["--instances", str(instances)]
        for name, value in (("db_cache_size", f"{cache_mb}M"), *settings):
            command += ["--set", f"{name}={value}"]
        env = dict(os.environ, SKEIN_PASSWORD=self.password)
        subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
        self.start()

    def start(self):
        subprocess.run(
            [self.bin, "start", self.dir, "--all"], check=True, stdout=subprocess.DEVNULL
        )
        status = json.loads(subprocess.check_output([self.bin, "status", self.dir, "--json"]))
        self.pids = [i["pid"] for i in status["instances"]]
        self.ends = [tuple(i["listen"].rsplit(":", 1)) for i in status["instances"]]

    def roots(self):
        return self.pids

    def settle(self, tables):
        for table in tables:
            self.sql(f"analyze {table}")

    def stop(self):
        subprocess.run([self.bin, "stop", self.dir], stdout=subprocess.DEVNULL)


class Galera(Server):
    """MariaDB with Galera: nodes that each hold a copy and certify one another's commits."""

    name, driver = "Galera", "mysql"

    def __init__(self, work, cache_mb=CACHE_MB, nodes=3):
        self.dir, self.procs = f"{work}/galera", []
        self.mariadbd = binary("mariadbd", "mariadb-server")
        provider = glob.glob("/usr/lib/galera/libgalera_smm.so")
        if not provider:
            sys.exit("libgalera_smm.so is missing: install galera-4 (Debian's name)")
        binary("rsync", "rsync")
        os.mkdir(self.dir)
        give(self.dir, "mysql")
        # Galera tells nodes apart by address, and a port's neighbours are used too.
        self.ends = [(f"127.0.0.{11 + k}", free_port()) for k in range(nodes)]
        self.group = [free_port() for _ in range(nodes)]
        for k in range(nodes):
            self.configure(k, cache_mb, provider[0])
        self.create()
        for k in range(nodes):
            self.start(k)

    def configure(self, k, cache_mb, provider):
        host, port = self.ends[k]
        members = ",".join(f"{h}:{p}" for (h, _), p in zip(self.ends, self.group))
        options = (
            f"gcache.size=256M;gmcast.listen_addr=tcp://{host}:{self.group[k]};"
            f"ist.recv_addr={host}:{free_port()}"
        )
        text = f"""[mariadbd]
datadir = {self.dir}/data{k}
pid_file = {self.dir}/pid{k}
socket = {self.dir}/sock{k}
log_error = {self.dir}/log{k}
bind_address = {host}
port = {port}
innodb_buffer_pool_size = {cache_mb}M
innodb_flush_log_at_trx_commit = 1
innodb_doublewrite = 1
binlog_format = ROW
default_storage_engine = InnoDB
innodb_autoinc_lock_mode = 2
wsrep_on = ON
wsrep_provider = {provider}
wsrep_cluster_name = bench
wsrep_cluster_address = gcomm://{members}
wsrep_node_name = n{k}
wsrep_node_address = {host}
wsrep_node_incoming_address = {host}:{port}
wsrep_sst_method = rsync
wsrep_sst_receive_address = {host}:{free_port()}
wsrep_slave_threads = 4
wsrep_provider_options = "{options}"
"""
        with open(f"{self.dir}/conf{k}", "w") as f:
            f.write(text)
        command = ["mariadb-install-db", "--no-defaults", f"--datadir={self.dir}/data{k}"]
        command += ["--auth-root-authentication-method=normal"]
        subprocess.run(
            [*as_user("mysql"), *command], check=True, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def create(self):
        """Database and account, while the first node is neither on the network nor in a group."""
        text = (
            f"FLUSH PRIVILEGES; CREATE DATABASE {self.database};"
            f"CREATE USER '{self.user}'@'%' IDENTIFIED BY '{self.password}';"
            f"GRANT ALL ON *.* TO '{self.user}'@'%' WITH GRANT OPTION;"
            "DELETE FROM mysql.global_priv WHERE User = '';"
        ).replace(";", ";\n")
        command = [self.mariadbd, "--no-defaults", f"--datadir={self.dir}/data0", "--bootstrap"]
        subprocess.run(
            [*as_user("mysql"), *command], input=text, text=True, check=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )

    def start(self, k):
        command = [*as_user("mysql"), self.mariadbd, f"--defaults-file={self.dir}/conf{k}"]
        if k == 0:
            command.append("--wsrep-new-cluster")
        log = open(f"{self.dir}/out{k}", "w")
        # A scheduling group of its own, as Skein's instances and PostgreSQL's processes have.
        self.procs.append(
            subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        )
        deadline = time.monotonic() + 120
        while "Synced" not in self.sql("show status like 'wsrep_local_state_comment'", k, False):
            if self.procs[k].poll() is not None or time.monotonic() > deadline:
                sys.exit(f"Galera's node {k} does not start: {open(f'{self.dir}/log{k}').read()}")
            time.sleep(0.2)

    def sql(self, text, k=0, check=True):
        host, port = self.ends[k]
        command = ["mariadb", "--no-defaults", "-h", host, "-P", str(port), "-u", self.user]
        command += [f"-p{self.password}", "-N", "-B", "-D", self.database, "-e", text]
        out = subprocess.run(
            command, check=check, text=True, stdout=subprocess.PIPE,
            stderr=None if check else subprocess.DEVNULL,
        )
        return out.stdout.strip()

    def roots(self):
        return [p.pid for p in self.procs]

    def settle(self, tables):
        for table in tables:
            self.sql(f"analyze table {table}")
        # DDL that a node is still applying would abort its clients.
        for k in range(len(self.ends)):
            self.sql("set session wsrep_sync_wait = 15; select 1; show tables", k)

    def stop(self):
        for proc in reversed(self.procs):
            proc.terminate()
            proc.wait()


class Meter:
    """Wall time and the server's CPU time between entry and exit."""

    def __init__(self, server):
        self.server = server

    def __enter__(self):
        self.cpu_before, self.at = self.server.cpu_s(), time.monotonic()
        return self

    def __exit__(self, *_):
        self.wall_s = time.monotonic() - self.at
        # A process of a session that has ended counts once its parent has waited for it.
        time.sleep(0.3)
        self.cpu_s = self.server.cpu_s() - self.cpu_before


def compare(servers, rounds, measure, unit="operation", what="a second"):
    """Runs `measure(server)`, which gives CPU in us for an operation and a rate, on each server in
    turn; prints medians and returns ours over the peer's, of CPU. The last server is ours."""
    got = {s.name: [] for s in servers}
    for _ in range(rounds):
        for s in servers:
            got[s.name].append(measure(s))
    medians = {}
    for name, runs in got.items():
        medians[name], rate = (statistics.median(x) for x in zip(*runs))
        print(f"  {name:14}{medians[name]:10.1f} us CPU for each {unit} {rate:12.1f} {what}")
    ratio = medians[servers[-1].name] / medians[servers[0].name]
    print(f"  CPU, ours over {servers[0].name}'s: {ratio:.2f}", flush=True)
    return ratio
