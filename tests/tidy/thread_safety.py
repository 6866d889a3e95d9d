#!/usr/bin/env python3
"""Checks the locks: clang's thread-safety analysis over every source that is no test.

    tests/tidy/thread_safety.py build/release

takes the include paths from that build's compile_commands.json; g++ ignores the annotations. Exits with 1 and clang's
words where a field is touched without its lock.
"""
import concurrent.futures
import json
import os
import shlex
import subprocess
import sys



def check(entry):
    words = shlex.split(entry["command"])
    kept = [w for w in words if w.startswith(("-I", "-D", "-std"))]
    for i, word in enumerate(words):
        if word == "-isystem":
            kept += [word, words[i + 1]]
    command = ["clang++", "-fsyntax-only", "-Wno-everything", "-Wthread-safety", "-Werror", *kept, entry["file"]]
    done = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: tests/tidy/thread_safety.py BUILD_DIRECTORY")
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    folders = tuple(os.path.join(root, f) + os.sep for f in ("common", "coordinator", "stoc", "logc", "ltc", "client"))
    with open(os.path.join(sys.argv[1], "compile_commands.json"), encoding="utf-8") as f:
        entries = {e["file"]: e for e in json.load(f) if e["file"].startswith(folders)}
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for code, words in pool.map(check, entries.values()):
            if code != 0:
                failed += 1
                sys.stderr.write(words)
    print(f"{len(entries)} sources, {failed} with a lock that is not held")
    sys.exit(1 if failed or not entries else 0)


main()
