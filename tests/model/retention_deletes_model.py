#!/usr/bin/env python3
"""K7 with a retained round, as a model that is searched to the end: range deletions, and when they are
forgotten.

One range, of its keys one, which is put and lies in every range that is deleted. The range has a list of its
deletions; a round's reach the manifest with the edit of its flush. A deletion of the manifest goes with an
edit once no table may hold anything that it hides: its numbers all lie above, or it was written by a job that
applied all deletions up to that one, or a newer deletion of the manifest hides as much from every reader.
Memory is not asked. So a pass keeps nothing that a deletion up to its boundary covers, whoever still sees it;
and what a job claims to have applied is below the oldest round in memory that is not retained, and below the
snapshot.

What must hold in every state:
  hidden   a get, now and at the snapshot, finds what is right: no deleted put comes back, none is missed
  retired  a deletion of the manifest goes in the end, whatever stays in memory, once no snapshot lives

Left out: crashes (retention_log_model.py: a pass leaves the deletions of its rounds in the manifest, and its
log holds none), writers that are late, deletions of a part of a table's keys, checkpoints, times to live: an
expired version hides as ever where it is kept. All runs are compacted together, into the bottom, which may
hold another key's older entry besides. Bounds: MOST_NUMBERS, MOST_SEALED, MOST_LISTED, MOST_RUNS.

Each variant leaves out one thing the rule says, and must be found to break.

  retention_deletes_model.py                    all variants; exit code 1 unless each does what it must
  retention_deletes_model.py --variant=V        one, with the shortest way to the state that is wrong
"""
import collections
import itertools
import sys

import explore

VARIANTS = {
    "rule": "the rule as it is",
    "covered_kept": "a pass keeps a hot key's newest version, whatever covers it",
    "seen_kept": "a pass keeps what a deletion covers if a snapshot still sees it",
    "filtered_by_manifest": "a pass filters what it keeps by the manifest's deletions, as compactions do",
    "deletions_kept": "a pass that keeps keys forgets the deletions of its rounds",
    "applied_below_oldest": "what a job claims to have applied is below the oldest round, be it retained",
}
LASTING = "retired: a range deletion is never forgotten"
MUST_BREAK = {v: "lasting" if v == "applied_below_oldest" else "unsafe" for v in VARIANTS if v != "rule"}

MOST_NUMBERS = 3  # handed out
MOST_SEALED = 1   # rounds at a time
MOST_LISTED = 2   # deletions
MOST_RUNS = 2


def enlarge():
    global MOST_NUMBERS, MOST_SEALED
    MOST_NUMBERS, MOST_SEALED = 4, 2


# puts, deletions: numbers, ascending.
Round = collections.namedtuple("Round", "number boundary puts deletions")
# A run. old: it holds another key's entry from before everything. applied: see above.
Run = collections.namedtuple("Run", "puts applied old")
Pass = collections.namedtuple("Pass", "sealed run kept")
# active: the round that takes writes. retained: what was kept, which may be other keys alone. listed:
# deletions, those of the manifest and of rounds; durable: the manifest's. newest, seen: the put that is right
# now, and at the snapshot; 0: none.
State = collections.namedtuple(
    "State", "last active sealed retained pass_ runs listed durable snapshot newest seen")
FIRST = State(0, Round(1, 0, (), ()), (), None, None, (), (), (), 0, 0, 0)


def steps(s, variant):
    """All that may happen next: (name, state). What nobody relies on begins with "user"."""
    a = s.active
    if s.last < MOST_NUMBERS:
        n = s.last + 1
        yield "user: put %d" % n, s._replace(last=n, newest=n, active=a._replace(puts=a.puts + (n,)))
        if len(s.listed) < MOST_LISTED:
            yield "user: delete range %d" % n, s._replace(
                last=n, newest=0, active=a._replace(deletions=a.deletions + (n,)), listed=s.listed + (n,))
    boundary = max(s.last, a.number)
    if len(s.sealed) < MOST_SEALED and boundary <= MOST_NUMBERS:
        yield "user: a round is sealed", s._replace(
            last=boundary, active=Round(boundary + 1, 0, (), ()),
            sealed=s.sealed + (a._replace(boundary=boundary),))
    if s.snapshot:
        yield "user: the snapshot ends", s._replace(snapshot=0, seen=0)
    elif s.last:
        yield "user: a snapshot at %d" % s.last, s._replace(snapshot=s.last, seen=s.newest)
    if s.pass_ is None:
        yield from claims(s, variant)
    else:
        yield "the pass commits", committed(s, variant)
    if s.runs:
        yield "a compaction", compacted(s, variant)
    if s == FIRST:
        yield "user: a table holds another key's old entry", s._replace(runs=(Run((), 0, True),))


def left_of(puts, deletions, snapshot):
    """Of the puts that not everybody misses: the newest, and the newest at or below the snapshot."""
    shown = [p for p in puts if not any(p < d and not p <= snapshot < d for d in deletions)]
    newest = {max((p for p in shown if p <= upto), default=0) for upto in (snapshot, MOST_NUMBERS)}
    return tuple(sorted(newest - {0}))


def oldest(s, variant):
    if variant == "applied_below_oldest" and s.retained:
        return s.retained
    return s.sealed[0] if s.sealed else s.active


def below_snapshot(s, number):
    return min(number, s.snapshot) if s.snapshot else number


def claims(s, variant):
    for n in range(0 if s.retained else 1, len(s.sealed) + 1):
        of = ([s.retained] if s.retained else []) + list(s.sealed[:n])
        puts = tuple(itertools.chain.from_iterable(r.puts for r in of))
        known = tuple(d for d in s.listed if d <= of[-1].boundary)
        applied = below_snapshot(s, oldest(s, variant).number - 1) if s.snapshot else of[-1].boundary
        left = left_of(puts, known, s.snapshot)
        yield "user: a whole pass of %d rounds" % n, s._replace(
            pass_=Pass(n, Run(left, applied, False), None))
        for written, kept in splits(s, puts, left, known, variant) if n else ():
            yield "user: a pass of %d rounds writes %s, keeps %s" % (n, written, kept), s._replace(
                pass_=Pass(n, Run(written, applied, False), Round(of[0].number, of[-1].boundary, kept, ())))


def splits(s, puts, left, known, variant):
    """(written, kept); keys beside it are kept in either case."""
    yield left, ()
    if variant == "covered_kept" and puts:
        yield (), puts[-1:]
    if variant == "filtered_by_manifest":
        left = left_of(puts, s.durable, s.snapshot)
        known = s.durable
    covered = variant != "seen_kept" and any(p < d for p in left for d in known)
    if len(left) == 1 and not covered:
        yield (), left


def committed(s, variant):
    p = s.pass_
    deletions = tuple(itertools.chain.from_iterable(r.deletions for r in s.sealed[:p.sealed]))
    durable = tuple(sorted(set(s.durable + deletions)))
    kept = p.kept
    if variant == "deletions_kept" and kept:
        durable = s.durable
    run = (p.run,) if p.run.puts else ()
    runs = s.runs + run
    if len(runs) > MOST_RUNS:  # a compaction has come before
        runs = (merged(s, s.runs, variant),) + run
    return retired(s._replace(
        pass_=None, sealed=s.sealed[p.sealed:], retained=kept, runs=runs, durable=durable),
        deletions, variant)


def merged(s, runs, variant):
    puts = tuple(itertools.chain.from_iterable(r.puts for r in runs))
    applied = below_snapshot(s, oldest(s, variant).number - 1)
    return Run(left_of(puts, s.durable, s.snapshot), applied, any(r.old for r in runs))


def compacted(s, variant):
    run = merged(s, s.runs, variant)
    return retired(s._replace(runs=(run,) if run.puts or run.old else ()), (), variant)


def retired(s, deletions, variant):
    """The edit drops deletions that hide nothing any more."""
    def holds_hidden(run, d):
        return run.applied < d and (run.old or any(p < d for p in run.puts))

    def needless(d):
        by_newer = any(d < e and not d <= s.snapshot < e for e in s.durable)
        return by_newer or not any(holds_hidden(r, d) for r in s.runs)
    gone = {d for d in s.durable if needless(d)}
    if variant == "deletions_kept":  # they lose their rounds, and are in no manifest
        gone |= set(deletions) - set(s.durable)
    return s._replace(durable=tuple(d for d in s.durable if d not in gone),
                      listed=tuple(d for d in s.listed if d not in gone))


# --- what must hold

def get(s, upto):
    places = [s.active.puts] + [r.puts for r in reversed(s.sealed)]
    places += [s.retained.puts] if s.retained else []
    places += [r.puts for r in reversed(s.runs)]
    for puts in places:
        hit = max((p for p in puts if p <= upto), default=0)
        if hit:
            return 0 if any(hit < d <= upto for d in s.listed) else hit
    return 0


def wrong(s, variant):
    for upto, right in ((MOST_NUMBERS, s.newest), (s.snapshot, s.seen)):
        got = get(s, upto)
        if got != right:
            at = "at the snapshot" if upto == s.snapshot else "now"
            return "hidden: a get %s finds %d, and %d is right" % (at, got, right)
    return None


def good(s):
    return s.snapshot or not s.durable


def counts(name):
    return not name.startswith("user")


if __name__ == "__main__":
    sys.exit(explore.main(sys.modules[__name__]))
