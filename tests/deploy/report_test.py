"""deploy/ansible/report.py: what it sums up, and what it says of runs that failed."""
import pathlib
import subprocess
import sys
import tempfile

REPORT = pathlib.Path(__file__).resolve().parents[2] / "deploy/ansible/report.py"
GOOD = "100000 operations in 4.0 s, 25000 ops/s\nread  p50 100.0 p95 200.0 p99 300.0\n"


def report(files):
    with tempfile.TemporaryDirectory() as directory:
        for name, text in files.items():
            path = pathlib.Path(directory) / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        ran = subprocess.run([sys.executable, REPORT, directory], capture_output=True, text=True)
        summary = pathlib.Path(directory) / "summary.txt"
        return ran.returncode, summary.read_text() if summary.exists() else "", ran.stderr


code, summary, errors = report({"node-0/nova-RW50-run.out": GOOD, "node-1/nova-RW50-run.out": GOOD})
assert code == 0 and "50000 ops/s from 2 client host(s)" in summary, (code, summary, errors)

code, summary, errors = report({"node-0/nova-RW50-run.out": GOOD, "node-1/nova-RW50-run.out": "cut off"})
assert code == 1 and "25000 ops/s from 1 client host(s)" in summary, (code, summary, errors)
assert "node-1/nova-RW50-run.out" in errors, errors

code, summary, errors = report({"node-0/nova-RW50-run.out": ""})
assert code == 2 and summary == "", (code, summary, errors)
