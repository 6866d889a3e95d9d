#!/usr/bin/env python3
"""K3, K3b, K3c, K4 and L6 with a retained round, as a model that is searched to the end: what readers find.

One range, and of its keys one: what the others hold shows where a round or a run has no version of it.
Writers put and delete it; one of them may take a number and link its version later. Rounds are sealed. A
flush pass claims the oldest rounds, the retained one before all others, reads what is left of them, and
writes the key, if it is cold, or keeps it, if it is hot. Its commit takes the rounds out of memory; what was
kept is the retained round then, as old as its first source for ever, and older in memory than all others.
What a younger round has replaced for every reader may be left out. A pass that somebody asks for takes the
retained round alone, and keeps nothing. Level0's oldest runs are merged down to Level1, the bottom, where
tombstones go, or its youngest within Level0. One snapshot may live.

A run has an order: the number of the pass' youngest round; of a retained round that is written alone, the
boundary of that round's youngest source, which lies between the orders of older runs and the rounds behind
it. So a pass whose youngest round holds one number, its boundary, keeps nothing. A pass that cannot keep what
it wanted to ends whole: that is a second run, of the order of a retained round that is written alone.

What must hold in every state:
  newest   a get, now and at the snapshot, ends at its first hit from place to place, and that is the newest
  apart    no two runs of Level0 have one order, for their tables would be one run's, and overlap
  shrinks  Level0 can become empty, whatever stays in memory, and whoever asks for nothing

Left out: crashes (retention_log_model.py), range deletions (retention_deletes_model.py), what somebody asks
for (retention_requests_model.py), columns (ColumnsTest searches those). A compaction is one step; what a
flush or a compaction leaves out is decided when it begins. K3a's flag is not here: to pin, to take a number
and to see the flag is one step. A batch: each of its entries is as the key is here, and its round is one.
Times to live: in memory an expired version hides as ever. Bounds: MOST_NUMBERS, MOST_SEALED, one late writer.

Each variant leaves out one thing the rule says, and must be found to break, but for those that say so.

  retention_model.py                  all variants; exit code 1 unless each does what it must
  retention_model.py --variant=V      one, with the shortest way to the state that is wrong
  retention_model.py --large          larger bounds: some minutes
"""
import collections
import itertools
import sys

import explore

VARIANTS = {
    "rule": "the rule as it is",
    "newer_stays": "also safe: what a snapshot sees is written, the newer version stays in memory",
    "retained_left_out": "a pass takes sealed rounds alone, and what it keeps joins the retained round",
    "older_stays": "the newest version is written, what a snapshot sees stays in memory",
    "sides_at_will": "each version of a key is kept or written, at will",
    "pins_ignored": "a round is claimed while a writer of it has not linked its version",
    "snapshot_ignored": "a pass keeps or writes the newest version alone",
    "replaced_unstable": "a younger version leaves out an older one though it is above the stable number",
    "young_run_first": "a plan of Level0 goes down from the youngest run on",
    "compaction_waits": "a run of Level0 goes down only if no round, the retained one too, is as old",
    "bounds_say": "a hit in memory must be newer than whatever number a table that spans the key begins with",
    "alone_by_first": "a retained round that is written alone has the order of its first source",
    "one_number_split": "a pass may keep keys though its youngest round holds one number",
    "whole_in_one_run": "what a pass cannot keep goes into a run of the order of what it has written",
    "retained_merged": "the retained round is merged in memory with the round behind it, as its first source",
}
SAFE = ("rule", "newer_stays")
LASTING = "shrinks: Level0 never becomes empty again"
MUST_BREAK = {v: "lasting" if v == "compaction_waits" else "unsafe" for v in VARIANTS if v not in SAFE}

MOST_NUMBERS = 4  # handed out
MOST_SEALED = 2   # rounds at a time


def enlarge():
    global MOST_NUMBERS
    MOST_NUMBERS = 5


# A version is its number, below 0 if it deletes. versions: a tuple of them, by number.
Round = collections.namedtuple("Round", "number boundary versions")  # number: its first; boundary: its last
# number: of its first source; order: of the run that it was split from; boundary: of the youngest source.
Retained = collections.namedtuple("Retained", "number order boundary versions")
Run = collections.namedtuple("Run", "order versions")
# A pass under way: how many sealed rounds, and whether the retained one. `round`: what will be retained.
Pass = collections.namedtuple("Pass", "sealed retained run round")
# newest, seen: what a get finds now, and at the snapshot (0: there is none), if it is right. late: (number of
# the round, version) of the writer that has not linked it; None.
State = collections.namedtuple(
    "State", "last number active late sealed retained pass_ level0 level1 snapshot newest seen")
FIRST = State(0, 1, (), None, (), None, None, (), (), 0, 0, 0)


def at_most(versions, upto):
    return max((v for v in versions if abs(v) <= upto), key=abs, default=0)


def added(versions, v):
    return tuple(sorted(versions + (v,), key=abs))


def left_of(versions, snapshot):
    """The newest version, and the newest at or below the snapshot."""
    kept = {at_most(versions, snapshot), at_most(versions, MOST_NUMBERS)} - {0}
    return tuple(sorted(kept, key=abs))


def stable(s):
    return s.last if s.late is None else abs(s.late[1]) - 1


def steps(s, variant):
    """All that may happen next: (name, state). What nobody relies on begins with "user"."""
    yield from writer_steps(s)
    if s.pass_ is None:
        yield from claims(s, variant)
    else:
        yield "the pass commits", committed(s)
        if s.pass_.round:
            yield "the pass ends whole", ended_whole(s, variant)
    yield from compactions(s, variant)
    if s.snapshot:
        yield "user: the snapshot ends", s._replace(snapshot=0, seen=0)
    elif s.last and s.late is None:
        yield "user: a snapshot at %d" % s.last, s._replace(snapshot=s.last, seen=s.newest)
    if variant == "retained_merged" and s.pass_ is None and s.retained and s.sealed:
        first, old = s.sealed[0], s.retained
        versions = left_of(old.versions + first.versions, s.snapshot)
        yield "the retained round is merged with the next", s._replace(
            retained=None, sealed=(Round(old.number, first.boundary, versions),) + s.sealed[1:])


def writer_steps(s):
    if s.last < MOST_NUMBERS:
        n = s.last + 1
        for v in (n, -n):
            yield "user: %s %d" % ("put" if v > 0 else "delete", n), s._replace(
                last=n, active=added(s.active, v), newest=v)
        yield "user: another key is put", s._replace(last=n)
        if s.late is None:
            yield "user: a writer takes %d" % n, s._replace(last=n, late=(s.number, n))
    if s.late is not None:
        yield "the writer links %d" % s.late[1], linked(s._replace(late=None), *s.late)
    boundary = max(s.last, s.number)  # where nobody wrote it holds an entry of another key
    if len(s.sealed) < MOST_SEALED and boundary <= MOST_NUMBERS:
        yield "user: a round is sealed", s._replace(
            last=boundary, number=boundary + 1, active=(),
            sealed=s.sealed + (Round(s.number, boundary, s.active),))


def linked(s, number, v):
    s = s._replace(newest=at_most((v, s.newest), MOST_NUMBERS))
    if number == s.number:
        return s._replace(active=added(s.active, v))
    return s._replace(sealed=tuple(
        r._replace(versions=added(r.versions, v)) if r.number == number else r for r in s.sealed))


def claims(s, variant):
    if s.retained:
        order = s.retained.number if variant == "alone_by_first" else s.retained.boundary
        left = left_of(s.retained.versions, s.snapshot)
        yield "user: a pass of the retained round alone", s._replace(
            pass_=Pass(0, True, Run(order, left), None))
    with_retained = variant != "retained_left_out" and s.retained is not None
    for n in range(1, len(s.sealed) + 1):
        taken = s.sealed[:n]
        if s.late and s.late[0] in [r.number for r in taken] and variant != "pins_ignored":
            continue
        number = s.retained.number if s.retained else taken[0].number
        of_rounds = [r.versions for r in taken] + ([s.retained.versions] if with_retained else [])
        versions = tuple(itertools.chain.from_iterable(of_rounds))
        for left in {left_of(versions, 0 if variant == "snapshot_ignored" else s.snapshot),
                     unreplaced(s, n, versions, variant)}:
            for written, kept in splits(s, left, taken[-1], variant):
                if not with_retained and s.retained and kept:
                    kept = left_of(kept + s.retained.versions, s.snapshot)
                round_ = Retained(number, taken[-1].number, taken[-1].boundary, kept) if kept else None
                if not with_retained and round_ is None:
                    round_ = s.retained
                yield "user: a pass of %d rounds writes %s, keeps %s" % (n, written, kept), s._replace(
                    pass_=Pass(n, with_retained, Run(taken[-1].number, written), round_))


def unreplaced(s, n, versions, variant):
    """What is left without what younger rounds hide from every reader."""
    younger = s.active + tuple(itertools.chain.from_iterable(r.versions for r in s.sealed[n:]))
    floor = MOST_NUMBERS if variant == "replaced_unstable" else stable(s)
    if variant == "replaced_unstable" and s.late and s.late[0] not in [r.number for r in s.sealed[:n]]:
        younger += (s.late[1],)  # the memtable has it, and no reader is to see it yet

    def hidden(v):
        return any(abs(v) < abs(y) <= floor and not abs(v) <= s.snapshot < abs(y) for y in younger)
    return tuple(v for v in left_of(versions, s.snapshot) if not hidden(v))


def splits(s, left, youngest, variant):
    """(written, kept)"""
    yield left, ()
    if youngest.number == youngest.boundary and variant != "one_number_split":
        return
    if len(left) == 1:
        yield (), left
    elif variant == "newer_stays" and left:
        yield left[:-1], left[-1:]
    elif variant == "older_stays" and left:
        yield left[-1:], left[:-1]
    elif variant == "sides_at_will":
        for kept in itertools.product((False, True), repeat=len(left)):
            yield (tuple(v for v, k in zip(left, kept) if not k), tuple(v for v, k in zip(left, kept) if k))
    if variant == "sides_at_will" and len(left) == 1:
        yield left, left


def committed(s):
    p = s.pass_
    runs = s.level0
    if p.run.versions or p.round:  # one without the key is of other keys
        runs = tuple(sorted(runs + (p.run,), key=lambda r: r.order))
    retained = p.round if p.round or p.retained else s.retained
    return s._replace(pass_=None, sealed=s.sealed[p.sealed:], retained=retained, level0=runs)


def ended_whole(s, variant):
    """What would have been kept is a second run."""
    kept = s.pass_.round
    t = committed(s._replace(pass_=s.pass_._replace(round=None, retained=True)))
    order = kept.order if variant == "whole_in_one_run" else kept.boundary
    runs = t.level0 + (Run(order, kept.versions),)
    if order == s.pass_.run.order:  # of other keys
        runs += (s.pass_.run,)
    return t._replace(level0=tuple(sorted(runs, key=lambda r: r.order)))


def compactions(s, variant):
    runs = s.level0
    for n in range(1, len(runs) + 1):
        taken, rest = (runs[-n:], runs[:-n]) if variant == "young_run_first" else (runs[:n], runs[n:])
        waits = variant == "compaction_waits" and s.retained and taken[-1].order >= s.retained.number
        if not waits:
            yield "%d runs go down" % n, s._replace(level0=rest, level1=bottom(s, taken))
    for n in range(2, len(runs) + 1):
        versions = left_of(sum((r.versions for r in runs[-n:]), ()), s.snapshot)
        yield "%d runs are merged within Level0" % n, s._replace(
            level0=runs[:-n] + (Run(runs[-1].order, versions),))


def bottom(s, runs):
    left = left_of(s.level1 + sum((r.versions for r in runs), ()), s.snapshot)
    while left and left[0] < 0 and -left[0] <= stable(s):
        left = left[1:]
    return left


# --- what must hold

def first_hit(s, upto):
    places = [s.active] + [r.versions for r in reversed(s.sealed)]
    places += [s.retained.versions] if s.retained else []
    places += [r.versions for r in reversed(s.level0)] + [s.level1]
    return next((v for v in (at_most(p, upto) for p in places) if v), 0)


def wrong(s, variant):
    for upto, right in ((MOST_NUMBERS, s.newest), (s.snapshot, s.seen)):
        got = first_hit(s, upto)
        if max(got, 0) != max(right, 0):
            at = "at the snapshot" if upto == s.snapshot else "now"
            return "newest: a get %s finds %d, and %d is right" % (at, got, right)
    if len({r.order for r in s.level0}) < len(s.level0):
        return "apart: two runs of Level0 have one order"
    in_memory = first_hit(s._replace(level0=(), level1=()), MOST_NUMBERS)
    if variant == "bounds_say" and in_memory and any(r.order > abs(in_memory) for r in s.level0):
        return "the check of K3 ends the process, and the hit is right"
    return None


def good(s):
    return not s.level0


def counts(name):
    return not name.startswith("user")


if __name__ == "__main__":
    sys.exit(explore.main(sys.modules[__name__]))
