#!/usr/bin/env python3
"""R5 (release), as a model that is searched to the end: how an owner lets go of a range, and what goes wrong.

One range. Its record in the store has a version, and says "owned" (epoch 1, the old owner) or "released" or
"moved" (epoch 2, the new owner). The old owner stops writes, has everything in tables (the log is not listed
any more once the record says released), stops reads, and asks for the record to be changed by
compare-and-set. Such a change is a message: it is applied at any time, or never; its answer comes, or is lost.
The owner that has had no answer for long is in doubt; it then asks for a cancelling compare-and-set from the
same version, again and again. The new owner takes a released record, opens from the tables, and serves. One
client writes and reads at either, whoever answers; the old owner's lease never ends, which is the worst case.

What must hold in every state:
  fresh    a read begun after a write was acknowledged returns that write, or a later one
  kept     what was acknowledged is in the tables, the log or the memory of whoever serves the range next
  bright   from every state in which nobody serves, one can be reached in which somebody does

Each variant leaves out one thing the rule says, and must be found to break.

  release_model.py                    all variants; exit code 1 unless each does what it must
  release_model.py --variant=V        one, with the shortest way to the state that is wrong
"""
import collections
import sys

import explore

VARIANTS = {
    "rule": "the rule as it is",
    "reads_after_released": "reads go on until the answer of the compare-and-set is there",
    "writes_during_flush": "writes go on until the record is asked to be changed",
    "reread_only": "in doubt the record is read again; as it still says owned, the range is served on",
    "cancel_any_version": "the cancelling change is written whatever the version is",
    "timeout_is_no": "in doubt the change counts as not made",
    "never_cancelled": "one asks once, and waits for the answer",
}
MUST_BREAK = {v: "lasting" if v == "never_cancelled" else "unsafe" for v in VARIANTS if v != "rule"}

MOST_WRITES = 2   # acknowledged, all owners together
MOST_CHANGES = 3  # compare-and-sets asked for, by the old owner

# phase: of the old owner; asked_from: the version that its changes expect. flight: changes not applied yet,
# (kind, version). answers: of those that were, and arrive yet, (kind, version). old, tables, new: the last
# write that the old owner, the tables, the new owner know.
State = collections.namedtuple(
    "State", "record version phase asked_from flight answers asked acked old tables new_open new")
FIRST = State("owned", 0, "serving", None, frozenset(), frozenset(), 0, 0, 0, 0, False, 0)

WRITES = {"serving"}
READS = {"serving", "flushing", "flushed"}


def old_serves(s, variant, what):
    if what == "writes":
        return s.phase in WRITES or (variant == "writes_during_flush" and s.phase in ("flushing", "flushed"))
    return s.phase in READS or (variant == "reads_after_released" and s.phase in ("asking", "doubt"))


def steps(s, variant):
    """All that may happen next: (name, state)."""
    # The client.
    if s.acked < MOST_WRITES:
        n = s.acked + 1
        if old_serves(s, variant, "writes"):
            yield "old owner acknowledges write %d" % n, s._replace(acked=n, old=n)
        if s.new_open:
            yield "new owner acknowledges write %d" % n, s._replace(acked=n, new=n)
    # The old owner.
    if s.phase == "serving" and s.asked < MOST_CHANGES:
        yield "writes end", s._replace(phase="flushing")
    if s.phase == "flushing":
        yield "everything is flushed", s._replace(phase="flushed", tables=s.old)
    if s.phase == "flushed" and s.asked < MOST_CHANGES:
        yield "reads end; the release is asked for", s._replace(
            phase="asking", asked=s.asked + 1, asked_from=s.version,
            flight=s.flight | {("release", s.version)})
    if s.phase == "asking" and variant != "never_cancelled":
        yield "no answer for long", s._replace(phase="doubt")
    if s.phase == "doubt":
        yield from in_doubt(s, variant)
    for kind, version in s.answers:
        if s.phase in ("asking", "doubt") and version == s.asked_from:
            yield "the old owner hears that the %s was made" % kind, s._replace(
                phase="gone" if kind == "release" else "serving", answers=frozenset())
    # The store. What a change expects is in it; one may also be lost, as if it were never applied.
    for kind, version in s.flight:
        left = s._replace(flight=s.flight - {(kind, version)})
        yield "the %s is lost" % kind, left
        if version == s.version or (variant == "cancel_any_version" and kind == "cancel"):
            now = left._replace(version=s.version + 1, record="released" if kind == "release" else "owned")
            yield "the %s is applied, its answer lost" % kind, now
            yield "the %s is applied" % kind, now._replace(answers=now.answers | {(kind, version)})
    # The new owner: R1, then it opens from what the record lists: tables, and no log.
    if s.record == "released":
        yield "the range opens at the new owner", s._replace(
            record="moved", version=s.version + 1, new_open=True, new=s.tables)


def in_doubt(s, variant):
    if variant == "timeout_is_no":
        yield "the old owner serves on", s._replace(phase="serving")
    elif variant == "reread_only":
        if s.record == "owned":
            yield "it reads: owned; and serves on", s._replace(phase="serving")
        else:
            yield "it reads: released", s._replace(phase="gone")
    elif s.version == s.asked_from or variant == "cancel_any_version":
        if ("cancel", s.asked_from) not in s.flight and s.asked_from is not None:
            yield "the cancel is asked for", s._replace(flight=s.flight | {("cancel", s.asked_from)})
    else:
        # It is refused, for the version is another: one of the two was made, and reading says which.
        yield "the cancel is refused; it reads: %s" % s.record, s._replace(
            phase="serving" if s.record == "owned" else "gone")


def wrong(s, variant):
    newest = s.acked
    if old_serves(s, variant, "reads") and s.old < newest:
        return "fresh: the old owner answers a read without write %d" % newest
    if s.new_open and s.new < newest:
        return "kept: the new owner does not know write %d" % newest
    if s.record in ("released", "moved") and not s.new_open and s.tables < newest:
        return "kept: write %d is in no table, and the record lists no log" % newest
    return None


LASTING = "bright: nobody serves the range, ever again"


def good(s):
    return s.new_open or s.phase in READS


def counts(name):
    return True


if __name__ == "__main__":
    sys.exit(explore.main(sys.modules[__name__]))
