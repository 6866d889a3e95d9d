#!/usr/bin/env python3
"""Stands in for systemctl and journalctl on a node of tests/deploy, where no systemd runs: it reads the units that were installed and
starts their ExecStart as they say - environment, user, limits, capabilities, directories, readiness by NOTIFY_SOCKET, restarts,
time limits. A directive that it does not know is an error, so that no unit relies on what was not run here.

A unit that runs has a supervisor of its own, a process of this script, and a directory RUN/UNIT with its state and its log.
"""
import os
import pathlib
import pwd
import re
import resource
import shlex
import signal
import socket
import subprocess
import sys
import time

UNITS = pathlib.Path("/etc/systemd/system")
RUN = pathlib.Path("/run/units")
KNOWN = {
    "Unit": {"Description", "Documentation", "Wants", "After", "StartLimitIntervalSec", "StartLimitBurst"},
    "Service": {"Type", "Environment", "EnvironmentFile", "ExecStart", "User", "Group", "StateDirectory", "WorkingDirectory", "LimitMEMLOCK",
                "LimitNOFILE", "LimitNICE", "AmbientCapabilities", "Restart", "RestartSec", "SuccessExitStatus", "TimeoutStartSec",
                "TimeoutStopSec"},
    "Install": {"WantedBy"},
}


class Unit:
    def __init__(self, name):
        self.name = name if name.endswith(".service") else name + ".service"
        base, at, rest = self.name.partition("@")
        self.instance = rest[: -len(".service")]
        self.file = UNITS / (f"{base}@.service" if at else self.name)
        self.directory = RUN / self.name
        self.enabled_link = UNITS / "multi-user.target.wants" / self.name
        self.values = {}

    def load(self):
        section = ""
        for line in self.file.read_text().splitlines():
            if not line or line[0] in "#;":
                continue
            if line[0] == "[":
                section = line.strip("[]")
                continue
            key, _, value = line.partition("=")
            if key not in KNOWN[section]:
                sys.exit(f"{self.file}: {key}= is not known to this stand-in")
            self.values.setdefault(key, []).append(value.replace("%i", self.instance))

    def one(self, key, default=""):
        return self.values.get(key, [default])[-1]

    def state(self):
        try:
            return (self.directory / "state").read_text()
        except FileNotFoundError:
            return "inactive"

    def set_state(self, state):
        temporary = self.directory / "state.new"
        temporary.write_text(state)
        temporary.rename(self.directory / "state")

    def environment(self):
        out = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
        for text in self.values.get("Environment", []):
            out.update(word.split("=", 1) for word in shlex.split(text))
        for name in self.values.get("EnvironmentFile", []):
            path = pathlib.Path(name.removeprefix("-"))
            if not path.exists() and name.startswith("-"):
                continue
            for line in path.read_text().splitlines():
                if line and line[0] not in "#;":
                    key, _, value = line.partition("=")
                    out[key] = value
        return out

    def command(self, environment):
        """${X} is put in as it is; $X as a word of its own becomes its words."""
        words = []
        for word in self.one("ExecStart").split():
            if re.fullmatch(r"\$\w+", word):
                words += environment.get(word[1:], "").split()
            else:
                words.append(re.sub(r"\$\{(\w+)\}", lambda m: environment.get(m.group(1), ""), word))
        return words


def set_limits(unit, log):
    """Sets what the unit asks for, cut to what this machine lets be given: raising a hard limit may need more rights than root has here."""
    for key, which in (("LimitMEMLOCK", resource.RLIMIT_MEMLOCK), ("LimitNOFILE", resource.RLIMIT_NOFILE), ("LimitNICE", resource.RLIMIT_NICE)):
        if not unit.one(key):
            continue
        wanted = resource.RLIM_INFINITY if unit.one(key) == "infinity" else int(unit.one(key))
        if key == "LimitNICE":
            wanted = 20 - wanted
        try:
            resource.setrlimit(which, (wanted, wanted))  # of the supervisor; its children have the same
        except (ValueError, PermissionError):
            hard = resource.getrlimit(which)[1]
            print(f"{key}={unit.one(key)}: this machine allows {hard}", file=log, flush=True)
            resource.setrlimit(which, (hard, hard))


def supervise(unit):
    """In a process of its own: runs the unit until it is told to stop, or ends for good."""
    os.setsid()
    stopping = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(1))
    (unit.directory / "pid").write_text(str(os.getpid()))
    user = pwd.getpwnam(unit.one("User", "root"))
    for name in unit.one("StateDirectory").split():
        path = pathlib.Path("/var/lib") / name
        path.mkdir(parents=True, exist_ok=True)
        os.chown(path, user.pw_uid, user.pw_gid)
    environment = unit.environment()
    listener = None
    if unit.one("Type") == "notify":
        path = str(unit.directory / "notify")
        pathlib.Path(path).unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        listener.bind(path)
        os.chmod(path, 0o777)
        environment["NOTIFY_SOCKET"] = path
    capabilities = ["--inh-caps", "+sys_nice", "--ambient-caps", "+sys_nice"] if unit.one("AmbientCapabilities") == "CAP_SYS_NICE" else []
    command = ["setpriv", "--reuid", user.pw_name, "--regid", unit.one("Group", "root"), "--init-groups", *capabilities, *unit.command(environment)]

    starts = []
    with open(unit.directory / "log", "a") as log:
        set_limits(unit, log)
        while True:
            starts.append(time.monotonic())
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
                                     cwd=unit.one("WorkingDirectory", "/"))
            code = run(unit, child, listener, stopping)
            again = unit.one("Restart") == "always" or (unit.one("Restart") == "on-failure" and code != 0)
            if stopping or not again:
                break
            if len([s for s in starts if s > time.monotonic() - int(unit.one("StartLimitIntervalSec"))]) >= int(unit.one("StartLimitBurst")):
                break
            unit.set_state("activating")
            time.sleep(int(unit.one("RestartSec")))
        good = code in [0] + [int(c) for c in unit.one("SuccessExitStatus").split()] or (stopping and code == -signal.SIGTERM)
        print(f"the unit ended with {code}", file=log)
    unit.set_state("inactive" if good else "failed")


def run(unit, child, listener, stopping):
    """One run of the unit's program; its exit code."""
    ready = listener is None
    if ready:
        unit.set_state("active")
    else:
        listener.settimeout(0.1)
    begin, asked = time.monotonic(), None
    while child.poll() is None:
        if listener is None:
            time.sleep(0.1)
        else:
            try:
                if b"READY=1" in listener.recv(4096).split(b"\n"):
                    ready = True
                    unit.set_state("active")
            except TimeoutError:
                pass
        if not ready and time.monotonic() > begin + int(unit.one("TimeoutStartSec", "90")):
            child.kill()
        if stopping and asked is None:
            asked = time.monotonic()
            unit.set_state("deactivating")
            child.terminate()
        if asked is not None and time.monotonic() > asked + int(unit.one("TimeoutStopSec", "90")):
            child.kill()
    return child.returncode


def start(unit):
    unit.load()
    if unit.state() in ("active", "activating"):
        return 0
    unit.directory.mkdir(parents=True, exist_ok=True)
    unit.set_state("activating")
    if os.fork() == 0:
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        code = 1
        try:
            supervise(unit)
            code = 0
        except BaseException as e:  # nobody reads what this process prints
            (unit.directory / "log").open("a").write(f"{e!r}\n")
            unit.set_state("failed")
        os._exit(code)
    while unit.state() == "activating":
        time.sleep(0.05)
    if unit.state() == "active":
        return 0
    print(f"Job for {unit.name} failed.", file=sys.stderr)
    return 1


def stop(unit):
    if unit.state() not in ("active", "activating"):
        return 0
    os.kill(int((unit.directory / "pid").read_text()), signal.SIGTERM)
    while unit.state() not in ("inactive", "failed"):
        time.sleep(0.05)
    return 0


def enable(unit):
    unit.enabled_link.parent.mkdir(exist_ok=True)
    if not unit.enabled_link.is_symlink():
        unit.enabled_link.symlink_to(unit.file)
    return 0


def disable(unit):
    unit.enabled_link.unlink(missing_ok=True)
    return 0


def is_enabled(unit):
    print("enabled" if unit.enabled_link.is_symlink() else "disabled")
    return 0 if unit.enabled_link.is_symlink() else 1


def is_active(unit):
    print(unit.state())
    return 0 if unit.state() == "active" else 3


def show(unit):
    print(f"Id={unit.name}\nLoadState={'loaded' if unit.file.exists() else 'not-found'}\nActiveState={unit.state()}")
    return 0


def journal(words):
    unit = Unit(words[words.index("-u") + 1])
    log = unit.directory / "log"
    lines = log.read_text().splitlines() if log.exists() else []
    count = int(words[words.index("-n") + 1]) if "-n" in words else len(lines)
    print("\n".join(lines[-count:]))
    return 0


def main():
    words = sys.argv[1:]
    if os.path.basename(sys.argv[0]) == "journalctl":
        return journal(words)
    verbs = {"start": start, "stop": stop, "enable": enable, "disable": disable, "is-enabled": is_enabled, "is-active": is_active, "show": show}
    if words == ["daemon-reload"]:
        return 0
    if len(words) < 2 or words[0] not in verbs:
        sys.exit(f"{' '.join(words)} is not known to this stand-in")
    return verbs[words[0]](Unit(words[1]))


if __name__ == "__main__":
    sys.exit(main())
