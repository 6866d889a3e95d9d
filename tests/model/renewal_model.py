#!/usr/bin/env python3
"""M1 (renewal), as a model that is searched to the end: how a manifest returns to M members, and what goes wrong.

One range, M = 2. Its record names a file: the old one, on StoCs A and B, or the new one, on A and C. The owner
appends edits to the file it takes for the record's, one at a time, a member at a time, and acknowledges one
when all members have it. To renew, it cuts a snapshot (all edits acknowledged so far), has it written to the
new members, while edits go on in the old file; then edits stop, those that came meanwhile are written to the
new file, and a compare-and-set of the record is asked for, which is a message: applied at any time, or never;
its answer comes, or is lost. In doubt for long, a cancelling compare-and-set from the same version is asked
for, again and again. Afterwards the file that lost is deleted. At any time another owner may take the range
over: it replaces exactly the record that it has read (R1), fences one member of the file that the record names
(R2), whichever is the worst, and reads it (R3).

What must hold in every state:
  kept      whoever has taken over has every edit that is, or will be, acknowledged
  readable  every member of the file that the record names has it
  goes on   while the range is the old owner's, edits will be taken again

Each variant leaves out one thing the rule says, and must be found to break.

  renewal_model.py                    all variants; exit code 1 unless each does what it must
  renewal_model.py --variant=V        one, with the shortest way to the state that is wrong
"""
import collections
import sys

import explore

VARIANTS = {
    "rule": "the rule as it is",
    "edits_not_kept": "edits that come while the new file is written are not written to it",
    "cut_beside_an_edit": "the snapshot is cut while an edit is under way, which counts for the old file alone",
    "installed_first": "the record is changed before all new members have the file",
    "edits_while_asked": "edits go on in the old file while the compare-and-set is under way",
    "timeout_is_no": "in doubt the change counts as not made",
    "reread_only": "in doubt the record is read again; as it still names the old file, that goes on",
    "cancel_any_version": "the cancelling change is written whatever the version is",
    "old_deleted_first": "the old file is deleted before the record names the new one",
    "new_deleted_in_doubt": "in doubt the new file is deleted",
    "never_cancelled": "one asks once, and waits for the answer",
}
MUST_BREAK = {v: "lasting" if v == "never_cancelled" else "unsafe" for v in VARIANTS if v != "rule"}
LASTING = "goes on: no edit is ever taken again"

MOST_EDITS = 3
MOST_CHANGES = 2  # renewals
MEMBERS = {"old": "AB", "new": "AC"}
NOTHING = -1

# record: the file that it names; taken: by the other owner. old, new: edits that each member's file holds.
# phase: of the renewal. cut: edits in the snapshot. writing: members that have the edit under way, or None.
# known: the version that the owner has seen, which its changes expect. flight, answers: of changes, (kind, version). fenced: StoCs. recovered: what the other owner has read.
State = collections.namedtuple(
    "State", "record version taken old new file phase cut writing acked asked known flight answers fenced recovered")
FIRST = State("old", 0, False, (0, 0), (NOTHING, NOTHING), "old", "idle", 0, None, 0, 0, 0, frozenset(), frozenset(),
              frozenset(), None)

EDITS = {"idle", "begun"}


def takes_edits(s, variant):
    return s.phase in EDITS or (variant == "edits_while_asked" and s.phase in ("asking", "doubt"))


def put(s, file, member, edits):
    at = MEMBERS[file].index(member)
    contents = list(getattr(s, file))
    contents[at] = edits
    return s._replace(**{file: tuple(contents)})


def steps(s, variant):
    """All that may happen next: (name, state)."""
    yield from owner_steps(s, variant)
    yield from store_steps(s, variant)
    # The other owner.
    if not s.taken:
        yield "the range is taken over", s._replace(taken=True, version=s.version + 1)
    elif s.recovered is None:
        for at, stoc in enumerate(MEMBERS[s.record]):
            yield "the new owner fences %s and reads its file" % stoc, s._replace(
                fenced=s.fenced | {stoc}, recovered=getattr(s, s.record)[at])


def owner_steps(s, variant):
    # An edit, a member at a time.
    if takes_edits(s, variant) and s.writing is None and s.acked < MOST_EDITS:
        yield "edit %d begins" % (s.acked + 1), s._replace(writing=frozenset())
    if s.writing is not None:
        for stoc in MEMBERS[s.file]:
            if stoc not in s.fenced and stoc not in s.writing:
                yield "edit %d is at %s" % (s.acked + 1, stoc), put(
                    s._replace(writing=s.writing | {stoc}), s.file, stoc, s.acked + 1)
        if set(s.writing) == set(MEMBERS[s.file]):
            yield "edit %d is acknowledged" % (s.acked + 1), s._replace(writing=None, acked=s.acked + 1)
    # The renewal.
    if s.phase == "idle" and s.file == "old" and s.asked < MOST_CHANGES:
        if s.writing is None or variant == "cut_beside_an_edit":
            yield "the snapshot is cut", s._replace(phase="begun", cut=s.acked)
    if s.phase == "begun":
        for at, stoc in enumerate(MEMBERS["new"]):
            if s.new[at] == NOTHING and stoc not in s.fenced:
                yield "the new file is at %s" % stoc, put(s, "new", stoc, s.cut)
        whole = NOTHING not in s.new or variant == "installed_first"
        if whole and s.writing is None:
            yield from caught_up(s, variant)
    if s.phase == "caught_up":
        yield "the new file is asked for", s._replace(
            phase="asking", asked=s.asked + 1, flight=s.flight | {("new", s.known)})
    if s.phase == "asking" and variant != "never_cancelled":
        yield "no answer for long", s._replace(phase="doubt")
    if s.phase == "doubt":
        yield from in_doubt(s, variant)
    for kind, version in s.answers:
        if s.phase in ("asking", "doubt") and version == s.known and s.writing is None:
            yield "the owner hears: %s" % kind, settled(s._replace(answers=frozenset()), kind, version + 1)


def caught_up(s, variant):
    if variant == "edits_not_kept" or s.cut == s.acked:
        edits = s.new
    elif set(MEMBERS["new"]) & s.fenced:
        return
    else:
        # What the snapshot lacks; of an edit that was under way when it was cut the variant knows nothing.
        seen = s.cut if variant == "cut_beside_an_edit" else s.acked
        edits = tuple(n if n == NOTHING else seen for n in s.new)
    t = s._replace(phase="caught_up", new=edits)
    yield "edits stop, the new file has them all", (
        t._replace(old=(NOTHING, NOTHING)) if variant == "old_deleted_first" else t)


def in_doubt(s, variant):
    if variant == "timeout_is_no":
        yield "it counts as not made", settled(s, "old", s.known)
    elif variant == "reread_only":
        if not s.taken:
            yield "it reads: %s" % s.record, settled(s, s.record, s.version)
    elif variant == "new_deleted_in_doubt" and s.new != (NOTHING, NOTHING):
        yield "the new file is deleted", s._replace(new=(NOTHING, NOTHING))
    elif s.version == s.known or variant == "cancel_any_version":
        if ("old", s.known) not in s.flight:
            yield "the cancel is asked for", s._replace(flight=s.flight | {("old", s.known)})
    elif not s.taken:
        # It is refused, for the version is another: one of the two was made, and reading says which.
        yield "the cancel is refused; it reads: %s" % s.record, settled(s, s.record, s.version)


def settled(s, file, known):
    gone = "old" if file == "new" else "new"
    return s._replace(phase="idle", file=file, known=known, **{gone: (NOTHING, NOTHING)})


def store_steps(s, variant):
    for kind, version in s.flight:
        left = s._replace(flight=s.flight - {(kind, version)})
        yield "the change to %s is lost" % kind, left
        if version == s.version or (variant == "cancel_any_version" and kind == "old" and not s.taken):
            now = left._replace(version=s.version + 1, record=kind)
            yield "the change to %s is applied, its answer lost" % kind, now
            yield "the change to %s is applied" % kind, now._replace(answers=now.answers | {(kind, version)})


def wrong(s, variant):
    if NOTHING in getattr(s, s.record) and s.recovered is None:
        return "readable: a member of the file that the record names lacks it"
    if s.recovered is not None and s.recovered < s.acked:
        return "kept: the new owner does not have edit %d" % s.acked
    return None


def good(s):
    return s.taken or s.phase in EDITS


def counts(name):
    return name != "the range is taken over"


if __name__ == "__main__":
    sys.exit(explore.main(sys.modules[__name__]))
