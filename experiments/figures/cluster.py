"""A cluster of processes on this machine, for one run of one cell: ZooKeeper, a coordinator, LTCs, StoCs.

Where a figure is of servers with a disk each, StoC i and LTC i say that they are on host node-i. StoCs serve
from disks without a limit until `limit_disks`, so that loading takes seconds.

Thread safety: one thread.
Ownership:     a cluster ends its processes, by id, and removes its directory; so does ZooKeeper.
Errors:        ClusterError, one line; what a process logged last is part of it.
"""
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import time
import urllib.request

_START_SECONDS = 60  # for a process to say that it is ready
_TICKS = os.sysconf("SC_CLK_TCK")


class ClusterError(Exception):
    pass


class Process:
    """One program; `address` and `pages` are what its ready line says."""

    def __init__(self, name, words, log):
        self.name, self._log = name, log
        with open(log, "ab") as errors:
            self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                             stderr=errors)
        self.address = self.pages = None

    @property
    def pid(self):
        return self._process.pid

    def wait_ready(self):
        out = self._process.stdout
        if select.select([out], [], [], _START_SECONDS)[0]:
            words = out.readline().decode().split()
            if len(words) == 4 and words[0] == "ready":
                self.address, self.pages = words[2], words[3]
                return
        raise ClusterError(f"{self.name} did not start: {self.last_line()}")

    def last_line(self):
        with open(self._log, encoding="utf-8", errors="replace") as f:
            lines = f.read().splitlines()
        errors = [line for line in lines if re.match("(error|[EF][0-9])", line)]
        return (errors or lines or ["it said nothing"])[-1]

    def runs(self):
        return self._process.poll() is None

    def end(self, how=signal.SIGKILL):
        """Ends it and waits; one that does not end in order within 20 s is killed."""
        if self.runs():
            self._process.send_signal(how)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def cpu_seconds(self):
        return cpu_seconds(self.pid)


def cpu_seconds(pid):
    """Of a process and all its threads; 0 of one that is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            fields = f.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


class Zookeeper:
    """A server that all cells of a run share, each under a path of its own."""

    _JARS = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar"

    def __init__(self, directory):
        self._directory = os.path.join(directory, "zookeeper")
        os.makedirs(os.path.join(self._directory, "data"))
        self.port = free_port()
        config = os.path.join(self._directory, "zoo.cfg")
        with open(config, "w", encoding="utf-8") as f:
            f.write(f"tickTime=500\ndataDir={self._directory}/data\nclientPort={self.port}\n"
                    "clientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n"
                    "minSessionTimeout=1000\nmaxSessionTimeout=60000\n")
        if shutil.which("java") is None:
            raise ClusterError("there is no java: deploy/packages.sh")
        self.process = Process("zookeeper", [
            "java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", self._JARS,
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
            "org.apache.zookeeper.server.quorum.QuorumPeerMain", config],
            os.path.join(self._directory, "log"))
        until = time.monotonic() + _START_SECONDS
        while not self._listens():
            if not self.process.runs() or time.monotonic() > until:
                raise ClusterError(f"zookeeper did not start: {self.process.last_line()}")
            time.sleep(0.1)

    def _listens(self):
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) == 0

    def end(self):
        self.process.end()
        shutil.rmtree(self._directory, ignore_errors=True)


class Cluster:
    def __init__(self, binaries, zookeeper, directory, settings):
        self._bin, self._zookeeper, self._directory, self._s = binaries, zookeeper, directory, settings
        self._chroot = "/" + os.path.basename(directory)
        self._nodes = {}
        os.makedirs(directory)

    # --- from its start to its end

    def start(self):
        """Until every range is open, and each LTC has as many."""
        self._launch_all("coordinator", 1, lambda i: [f"--address=127.0.0.1:{free_port()}"])
        self.coordinators = self._nodes["coordinator-0"].address
        self._launch_all("stoc", self._s["stocs"], self._stoc_words)
        self._launch_all("ltc", self._s["ltcs"], self._ltc_words)
        ranges = self._s["ltcs"] * self._s["ranges_per_ltc"]
        splits = [f"user{10**18 + i * (82 * 10**17 // ranges)}" for i in range(1, ranges)]
        created = self.nova("create-ranges", *splits)
        if created.returncode != 0:
            raise ClusterError(f"create-ranges: {created.stderr.strip()}")
        self._wait(60, "the ranges are not open, as many at each LTC", self._is_open)

    def limit_disks(self):
        """StoCs start again, on modelled disks from now on."""
        stocs = self._named("stoc")
        for stoc in stocs:
            stoc.end(signal.SIGTERM)
        self._launch_all("stoc", len(stocs), lambda i: self._stoc_words(i) + disk_words(self._s, i))
        self._wait(60, "StoCs that started again are not up", lambda status: all(
            s["presence"] == "up" for s in status["stocs"]))

    def settle(self, seconds=180):
        """Until StoCs have written nothing for 3 s: nothing is flushed or compacted any more."""
        before, since, until = None, time.monotonic(), time.monotonic() + seconds
        while time.monotonic() - since < 3:
            now = self.metrics("stoc", "nova_stoc_disk_bytes_total", "write")
            if now != before:
                before, since = now, time.monotonic()
            if time.monotonic() > until:
                raise ClusterError(f"flushes and compactions do not end within {seconds} s of the load")
            time.sleep(0.2)

    def end(self):
        for node in self._nodes.values():
            node.end()
        shutil.rmtree(self._directory, ignore_errors=True)

    # --- what it is asked

    def nova_words(self, *words):
        return [os.path.join(self._bin, "nova"), f"--coordinators={self.coordinators}", *words]

    def nova(self, *words):
        return subprocess.run(self.nova_words(*words), capture_output=True, text=True, check=False)

    def metrics(self, kind, name, label=""):
        """Of each node of the kind, the sum of the values whose labels contain `label`."""
        sums = []
        for node in self._named(kind):
            page = urllib.request.urlopen(f"http://{node.pages}/metrics", timeout=10).read().decode()
            found = re.findall(rf"^{name}(\{{[^}}]*\}})? ([0-9.e+-]+)", page, re.M)
            sums.append(sum(float(value) for labels, value in found if label in labels))
        return sums

    def cpu_seconds(self, kind=None):
        """Of the nodes of the kind; None: of all nodes and ZooKeeper."""
        if kind is not None:
            return sum(node.cpu_seconds() for node in self._named(kind))
        return self._zookeeper.process.cpu_seconds() + sum(n.cpu_seconds() for n in self._nodes.values())

    def check(self):
        """ClusterError where a process has ended."""
        for node in self._nodes.values():
            if not node.runs():
                raise ClusterError(f"{node.name} ended: {node.last_line()}")

    # --- how nodes are started

    def _named(self, kind):
        return [n for name, n in self._nodes.items() if name.startswith(kind)]

    def _launch_all(self, kind, count, words_of):
        for i in range(count):
            name = f"{kind}-{i}"
            words = [os.path.join(self._bin, f"nova_{kind}"), f"--name={name}", f"--chroot={self._chroot}",
                     f"--zookeeper=127.0.0.1:{self._zookeeper.port}", f"--log_dir={self._directory}"]
            if kind != "coordinator":
                words += [f"--coordinators={self.coordinators}", f"--host=node-{i}"]
            log = os.path.join(self._directory, name + ".log")
            self._nodes[name] = Process(name, words + words_of(i), log)
        for node in self._named(kind):
            node.wait_ready()

    def _stoc_words(self, i):
        s = self._s
        # enough for the logs of all ranges, whichever StoCs have them
        log_mb = max(64, 4 * s["tau_mb"] * s["delta"] * s["ranges_per_ltc"] * s["ltcs"])
        return [f"--data={self._directory}/stoc-{i}", f"--log_memory_mb={log_mb}", "--file_buffer_mb=64",
                "--disk_reserve_mb=0", "--scrub_period=0", *flag_words(s["stoc_flags"])]

    def _ltc_words(self, _):
        return ltc_words(self._s)

    def _status(self):
        said = self.nova("status", "--json")
        return json.loads(said.stdout) if said.returncode == 0 else None

    def _is_open(self, status):
        owners = [r["owner"] for r in status["ranges"] if r["state"] == "open"]
        counts = {owner: owners.count(owner) for owner in owners}
        return len(counts) == self._s["ltcs"] and set(counts.values()) == {self._s["ranges_per_ltc"]}

    def _wait(self, seconds, why, is_true):
        until = time.monotonic() + seconds
        while True:
            status = self._status()
            if status is not None and is_true(status):
                return
            self.check()
            if time.monotonic() > until:
                raise ClusterError(f"{why} within {seconds} s")
            time.sleep(0.2)


def free_port():
    """One that nobody listens at now. LTCs and StoCs take what the system gives them."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ltc_words(s):
    """nova_ltc's flags for settings; the paper's symbols are those of flag_file.py."""
    memory = s["tau_mb"] * s["delta"] * s["ranges_per_ltc"]
    # Level0 is bounded by runs, of a round each: five times as many as begin a compaction (nova_ltc --help)
    level0_runs = round(s["level0_mb"] / (s["tau_mb"] * s["alpha"]) / 5)
    return [f"--log_mode={s['log_mode']}", f"--table_replicas={s['copies']}",
            f"--manifest_replicas={s['copies']}", f"--scatter_width={s['rho']}",
            f"--scatter_by_load={str(s['by_load']).lower()}", f"--power_of_d={s['d']}",
            f"--memtable_mb={s['tau_mb']}", f"--active_memtables={s['alpha']}",
            f"--max_rounds={s['delta'] // s['alpha']}", f"--table_mb={s['tau_mb']}",
            f"--level1_mb={s['level1_mb']}", f"--level0_runs={min(16, max(1, level0_runs))}",
            # memtables are bounded by their number, and no range is slowed down for the process' sake
            f"--memtable_limit_mb={2 * memory + 64}", f"--block_cache_mb={s['cache_mb']}",
            # an LTC alone decides; two for each disk over all LTCs, which do not know of each other
            f"--compaction_threads={0 if s['ltcs'] == 1 else max(2, 2 * s['stocs'] // s['ltcs'])}",
            *flag_words(s["ltc_flags"])]


def disk_words(s, i):
    """nova_stoc's flags for the disk of StoC i."""
    return flag_words({"disk_bandwidth_mb": disks_mb(s)[i], "disk_reads_cached": s["page_cache"]})


def disks_mb(s):
    """MB/s of each StoC's disk."""
    return [s["slow_disk_mb"] or s["disk_mb"]] + [s["disk_mb"]] * (s["stocs"] - 1)


def flag_words(flags):
    return [f"--{name}={str(value).lower() if isinstance(value, bool) else value}"
            for name, value in flags.items()]


def known_flags(binaries, program):
    """Names of the flags that a program has."""
    words = [os.path.join(binaries, program), "--helpxml"]
    try:
        said = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError as e:
        raise ClusterError(f"{words[0]}: {e.strerror}; to build it: cmake --preset release, "
                           "ninja -C build/release nova_packages") from None
    return set(re.findall("<name>([a-z0-9_]+)</name>", said.stdout))
