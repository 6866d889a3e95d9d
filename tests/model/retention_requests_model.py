#!/usr/bin/env python3
"""M2 and R5 with a retained round, as a model that is searched to the end: what somebody asks of memory.

One range, and of its keys one, which is put. Rounds are sealed and passes claimed as in retention_model.py; a
pass of a hot key keeps it, as long as one likes. Somebody may ask at any time, also between a pass' claim and
commit:

  a checkpoint   the active round is sealed, and the youngest round in memory has the request: the version
                 that its flush makes holds every write up to its boundary, and none above. If nothing is in
                 memory, the version is that already
  a flush        what is written by now is in tables once no round in memory may hold a number of then
  a release      or a restore: writes end, and all of memory is in tables

A pass with any of it is whole: it keeps nothing. What comes between claim and commit meets a pass that keeps
keys: its commit, under the lock of edits, hands a request of its rounds on to the new retained round, which
has their boundary. The next pass takes that round alone, and answers. A retained round that a flush or a
release wants is taken alone too where no sealed round is there.

What must hold in every state:
  exact    a checkpoint holds the newest write up to its boundary, and nothing newer
  flushed  when a flush or a release ends the newest write before it is in tables, or a newer one is
  answered from every state what was asked for ends, without another write

Left out: crashes, edits in doubt (the pass' edit with the pin is the one that is tried again), Level1,
snapshots. The time after which all is written (table_lag_ns) is a flush that nobody waits for. Bounds:
MOST_NUMBERS, MOST_SEALED, one request of each kind at a time.

Each variant leaves out one thing the rule says, and must be found to break.

  retention_requests_model.py                    all variants; exit code 1 unless each does what it must
  retention_requests_model.py --variant=V        one, with the shortest way to the state that is wrong
"""
import collections
import sys

import explore

VARIANTS = {
    "rule": "the rule as it is",
    "answered_by_split": "a request that came between claim and commit is answered, whatever the pass keeps",
    "left_with_source": "a request that came between claim and commit goes with the rounds that had it",
    "with_younger": "a retained round with a request is taken together with younger rounds",
    "behind_younger": "a request does not end a pass' rounds",
    "all_in_tables": "where no round is sealed the version holds everything, whatever is retained",
    "flush_splits": "a pass that a flush waits for keeps keys",
    "flush_passes_over": "a flush ends when no other round in memory holds a number of then",
    "waits_for_rounds": "the retained round is taken only together with a sealed one",
    "release_splits": "a pass that a release waits for keeps keys",
    "release_passes_over": "a release ends when no other round is in memory",
}
LASTING = "answered: what was asked for never ends"
MUST_BREAK = {v: "lasting" if v in ("left_with_source", "flush_splits", "waits_for_rounds", "release_splits")
              else "unsafe" for v in VARIANTS if v != "rule"}

MOST_NUMBERS = 6
MOST_SEALED = 3


def enlarge():
    global MOST_NUMBERS, MOST_SEALED
    MOST_NUMBERS, MOST_SEALED = 8, 4


# The newest put of the key in a round, by its number; 0: none. wanted: it has the request for a checkpoint.
# number: its first, of a retained round its first source's. boundary: its last, of a retained one the
# youngest source's.
Round = collections.namedtuple("Round", "number boundary put wanted")
# How many sealed rounds, beside the retained one; whether it keeps the key.
Pass = collections.namedtuple("Pass", "sealed keeps")
# checkpoint, flush: the boundary and the newest write at the time of asking; None: not asked for. trouble:
# what was answered wrongly.
State = collections.namedtuple(
    "State", "last number active sealed retained pass_ tables checkpoint flush releasing trouble")
FIRST = State(0, 1, 0, (), None, None, 0, None, None, False, None)


def newest(s):
    kept = s.retained.put if s.retained else 0
    return max([s.active, kept, s.tables] + [r.put for r in s.sealed])


def sealed_active(s):
    if s.active == 0:
        return s
    return s._replace(number=s.last + 1, active=0,
                      sealed=s.sealed + (Round(s.number, s.last, s.active, False),))


def steps(s, variant):
    """All that may happen next: (name, state). What nobody relies on begins with "user"."""
    if s.trouble:
        return
    if not s.releasing and s.last < MOST_NUMBERS:
        yield "user: put %d" % (s.last + 1), s._replace(last=s.last + 1, active=s.last + 1)
    if len(s.sealed) < MOST_SEALED and s.active:
        yield "user: a round is sealed", sealed_active(s)
    yield from requests(s, variant)
    if s.pass_ is None:
        yield from claims(s, variant)
    else:
        yield "the pass commits", committed(s, variant)
    if s.flush and flushed_up_to(s, s.flush[0], variant):
        trouble = "flushed: a flush ended too early" if s.tables < s.flush[1] else None
        yield "the flush ends", s._replace(flush=None, trouble=trouble)
    in_memory = s.sealed or s.active or (s.retained and variant != "release_passes_over")
    if s.releasing and not in_memory and s.tables < newest(s):
        yield "the release ends", s._replace(trouble="flushed: a release ended too early")


def requests(s, variant):
    if s.checkpoint is None and not s.releasing:
        yield "user: a checkpoint is asked for", attached(sealed_active(s)._replace(
            checkpoint=(s.last, newest(s))), variant)
    if s.flush is None:
        yield "user: a flush is asked for", sealed_active(s)._replace(flush=(s.last, newest(s)))
    if not s.releasing:
        yield "user: a release begins", sealed_active(s)._replace(releasing=True)


def attached(s, variant):
    """The youngest round in memory gets the request."""
    if s.sealed:
        return s._replace(sealed=s.sealed[:-1] + (s.sealed[-1]._replace(wanted=True),))
    if s.retained and variant != "all_in_tables":
        return s._replace(retained=s.retained._replace(wanted=True))
    return made(s)


def made(s):
    """The version now is the checkpoint."""
    _, right = s.checkpoint
    if s.tables != right:
        return s._replace(trouble="exact: a checkpoint holds %d, and %d is right" % (s.tables, right))
    return s._replace(checkpoint=None)


def flushed_up_to(s, number, variant):
    rounds = ([s.retained] if s.retained and variant != "flush_passes_over" else []) + list(s.sealed)
    oldest = rounds[0].number if rounds else s.number
    return oldest > number or (not rounds and s.active == 0)


def claims(s, variant):
    alone = s.retained and s.retained.wanted and variant != "with_younger"
    flush = s.flush and variant != "flush_splits"
    asked = flush or (s.releasing and variant != "release_splits")
    if s.retained and (alone or (asked and not s.sealed)) and variant != "waits_for_rounds":
        yield "a pass of the retained round alone", s._replace(pass_=Pass(0, False))
    if alone:
        return
    for n in range(1, len(s.sealed) + 1):
        if any(r.wanted for r in s.sealed[:n - 1]) and variant != "behind_younger":
            break
        wanted = any(r.wanted for r in s.sealed[:n]) or (s.retained and s.retained.wanted)
        if asked or wanted:
            yield "a whole pass of %d rounds" % n, s._replace(pass_=Pass(n, False))
        else:
            yield "user: a pass of %d rounds, the key is cold" % n, s._replace(pass_=Pass(n, False))
            yield "user: a pass of %d rounds, the key is hot" % n, s._replace(pass_=Pass(n, True))


def committed(s, variant):
    p = s.pass_
    of = ([s.retained] if s.retained else []) + list(s.sealed[:p.sealed])
    put = max(r.put for r in of)
    wanted = any(r.wanted for r in of)
    s = s._replace(pass_=None, sealed=s.sealed[p.sealed:], retained=None)
    if p.keeps and put:
        handed_on = wanted and variant not in ("answered_by_split", "left_with_source")
        s = s._replace(retained=Round(of[0].number, of[-1].boundary, put, handed_on))
        if wanted and variant == "answered_by_split":
            return made(s)
        return s
    s = s._replace(tables=max(s.tables, put))
    return made(s) if wanted else s


def wrong(s, variant):
    return s.trouble


def good(s):
    in_memory = s.sealed or s.retained or s.active
    return s.checkpoint is None and s.flush is None and not (s.releasing and in_memory)


def counts(name):
    return not name.startswith("user")


if __name__ == "__main__":
    sys.exit(explore.main(sys.modules[__name__]))
