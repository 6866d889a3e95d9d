#!/usr/bin/python3
"""Measures the tree: how long functions are, how big classes, how much of the headers is comment, which
folders include each other. docs/architecture.md has its table.

    tests/tidy/house.py build/release            the table
    tests/tidy/house.py build/release --classes  and each class by its methods, members, mutexes, atomics

takes the compile options from that build's compile_commands.json and parses every source that is no test with
libclang (Debian: python3-clang). Methods are counted without constructors, destructors and operators; members
without constants of the class; a class has the lines of its definition and those of its methods.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import re
import shlex
import statistics

import clang.cindex as cx

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDERS = ("common", "coordinator", "stoc", "logc", "ltc", "client")
LONG_FUNCTION = 70
LONG_LINE = 110
BIG_CLASS = 300
METHODS, MEMBERS, MUTEXES = 45, 25, 1  # of one class, at most

CLASSES = (cx.CursorKind.CLASS_DECL, cx.CursorKind.STRUCT_DECL, cx.CursorKind.CLASS_TEMPLATE)
FUNCTIONS = (cx.CursorKind.FUNCTION_DECL, cx.CursorKind.CXX_METHOD, cx.CursorKind.CONSTRUCTOR,
             cx.CursorKind.DESTRUCTOR, cx.CursorKind.FUNCTION_TEMPLATE)
SCOPES = (cx.CursorKind.NAMESPACE, cx.CursorKind.UNEXPOSED_DECL, cx.CursorKind.LINKAGE_SPEC, *CLASSES)


def sources(suffixes):
    for folder in FOLDERS:
        for where, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in names:
                if name.endswith(suffixes):
                    yield os.path.join(where, name)


def lines_of(path):
    with open(path, encoding="utf-8") as f:
        return f.read().splitlines()


def qualified(cursor):
    names = []
    while cursor is not None and cursor.kind != cx.CursorKind.TRANSLATION_UNIT:
        if cursor.spelling and not cursor.spelling.startswith("("):
            names.append(cursor.spelling)
        cursor = cursor.semantic_parent
    return "::".join(reversed(names)).removeprefix("nova::")


def has_sentence(lines, cursor):
    """True if a comment ends on the line before the declaration, or stands behind it."""
    first, last = cursor.extent.start.line - 1, cursor.extent.end.line - 1
    before = first - 1
    return "//" in lines[last] or (before >= 0 and lines[before].lstrip().startswith("//"))


def is_plain_method(cursor):
    return (cursor.kind in (cx.CursorKind.CXX_METHOD, cx.CursorKind.FUNCTION_TEMPLATE)
            and not cursor.spelling.startswith("operator"))


def measure_class(cursor, lines):
    methods = [c for c in cursor.get_children() if is_plain_method(c)]
    fields = [c for c in cursor.get_children() if c.kind == cx.CursorKind.FIELD_DECL]
    private = [c for c in methods if c.access_specifier == cx.AccessSpecifier.PRIVATE]
    types = [f.type.spelling for f in fields]
    return {
        "where": os.path.relpath(cursor.location.file.name, ROOT),
        "methods": len({c.spelling + c.type.spelling for c in methods}),
        "members": len(fields),
        "mutexes": sum(bool(re.search(r"\bMutex$", t)) for t in types),
        "atomics": sum("std::atomic" in t for t in types),
        "lines": cursor.extent.end.line - cursor.extent.start.line + 1,
        "private": len(private),
        "silent": sorted(c.spelling for c in private if not has_sentence(lines, c)),
    }


def measure(entry):
    """The classes and functions of ours that one source defines or includes."""
    words = shlex.split(entry["command"])
    kept = [w for w in words if w.startswith(("-I", "-D", "-std"))]
    for i, word in enumerate(words):
        if word == "-isystem":
            kept += [word, words[i + 1]]
    unit = cx.Index.create().parse(entry["file"], kept)
    classes, functions, texts = {}, {}, {}

    def text(name):
        if name not in texts:
            texts[name] = lines_of(name)
        return texts[name]

    def visit(cursor):
        for c in cursor.get_children():
            where = c.location.file
            if where is None or not where.name.startswith(ROOT + "/") or "/build/" in where.name:
                continue
            if c.kind in CLASSES and c.is_definition() and c.spelling:
                classes[qualified(c)] = measure_class(c, text(where.name))
            if c.kind in FUNCTIONS and c.is_definition() and not c.is_default_method():
                parent = c.semantic_parent
                owner = qualified(parent) if parent is not None and parent.kind in CLASSES else ""
                outside = c.lexical_parent.kind not in CLASSES
                functions[(where.name, c.extent.start.line)] = (
                    qualified(c), c.extent.end.line - c.extent.start.line + 1, owner if outside else "")
            if c.kind in SCOPES:
                visit(c)

    visit(unit.cursor)
    return classes, functions


def folder_pairs():
    """Folders that include each other."""
    include = re.compile(r'^#include "((?:' + "|".join(FOLDERS) + r')/[a-z_0-9/]+)/[a-z_0-9]+\.h"')
    arrows = set()
    for path in sources((".h", ".cc")):
        own = os.path.relpath(os.path.dirname(path), ROOT)
        for line in lines_of(path):
            if (m := include.match(line)) and m.group(1) != own:
                arrows.add((own, m.group(1)))
    return sorted((a, b) for a, b in arrows if a < b and (b, a) in arrows)


def quantile(values, q):
    return sorted(values)[min(len(values) - 1, int(q * len(values)))]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    arguments.add_argument("build", help="a build directory")
    arguments.add_argument("--classes", action="store_true", help="print each class that has methods")
    arguments = arguments.parse_args()
    wanted = set(sources((".cc",)))
    with open(os.path.join(arguments.build, "compile_commands.json"), encoding="utf-8") as f:
        entries = {e["file"]: e for e in json.load(f) if e["file"] in wanted}
    classes, functions = {}, {}
    with concurrent.futures.ProcessPoolExecutor() as pool:
        for more_classes, more_functions in pool.map(measure, entries.values()):
            classes.update(more_classes)
            functions.update(more_functions)
    outside = collections.Counter()
    for _, lines, owner in functions.values():
        outside[owner] += lines
    for name, c in classes.items():
        c["lines"] += outside[name]

    sizes = [lines for _, lines, _ in functions.values()]
    headers = [line for path in sources((".h",)) for line in lines_of(path) if line.strip()]
    all_lines = [line for path in sources((".h", ".cc")) for line in lines_of(path)]
    by_methods = sorted(classes.items(), key=lambda c: -c[1]["methods"])
    over = [(n, c) for n, c in by_methods
            if c["methods"] > METHODS or c["members"] > MEMBERS or c["mutexes"] > MUTEXES]
    silent = {n: c for n, c in classes.items() if c["lines"] > BIG_CLASS and c["silent"]}
    pairs = folder_pairs()

    def row(what, value):
        print(f"| {what} | {value} |")

    row("sources parsed", len(entries))
    row("folder pairs that include each other", ", ".join(f"{a} {b}" for a, b in pairs) or 0)
    row(f"function lines: median / p99 / most; over {LONG_FUNCTION}",
        f"{statistics.median(sizes):.0f} / {quantile(sizes, .99)} / {max(sizes)}; "
        f"{100 * sum(s > LONG_FUNCTION for s in sizes) / len(sizes):.2f} %")
    row("header lines that are comments",
        f"{100 * sum(line.lstrip().startswith('//') for line in headers) / len(headers):.0f} %")
    row(f"lines over {LONG_LINE} columns", sum(len(line) > LONG_LINE for line in all_lines))
    name, c = by_methods[0]
    row("the class with the most methods: methods / members / mutexes / atomics",
        f"{name} {c['methods']} / {c['members']} / {c['mutexes']} / {c['atomics']}")
    row(f"classes over {METHODS} methods, {MEMBERS} members or {MUTEXES} mutex",
        ", ".join(f"{n} {c['methods']} / {c['members']} / {c['mutexes']}" for n, c in over) or 0)
    row(f"private methods without a sentence, of classes over {BIG_CLASS} lines",
        f"{sum(len(c['silent']) for c in silent.values())} of "
        f"{sum(c['private'] for c in classes.values() if c['lines'] > BIG_CLASS)}")
    for n, c in sorted(silent.items()):
        print(f"  {n} ({c['where']}, {c['lines']} lines): {', '.join(c['silent'])}")
    if arguments.classes:
        for n, c in by_methods:
            if c["methods"] > 0:
                counts = (c["methods"], c["members"], c["mutexes"], c["atomics"], c["lines"])
                print("".join(f"{number:6}" for number in counts), "", n, c["where"])


main()
