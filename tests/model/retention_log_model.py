#!/usr/bin/env python3
"""M3, R3, R4, L4 and M1 with a retained round, as a model that is searched to the end: what a recovery finds.

One range, and of its keys one. Writes are acknowledged once they are in the log of their memtable, synced. A
pass claims the oldest rounds, the retained one before all others. If the key is hot it is logged anew, for a
memtable of its own: posted, then answered once it is synced on all members. Only then the pass' edit is
appended: it adds the run, says of the memtables of all sources that they are done, and names the new retained
memtable, the one that is live. An edit counts, or fails in doubt; then the same pass' edit is tried again,
and nothing of the pass is let go of until it counts, or another edit does, or the epoch ends. When it counts
the sources' logs are deleted, which a member may miss for ever. Where the log refuses, is late, or its group
changes before the edit, the new memtable is dropped and the same pass ends whole: it writes what it would
have kept. Every edit and every snapshot of the version names the memtable that is live, or none. A roll
forgets which memtables are done, but for a mark.

Replay takes an ordinary memtable that is not done, and a retained one if the last edit that counts names it.
A recovery puts what it has replayed on top of all runs; nobody sees it before OPEN counts, which names a
manifest with no live memtable; until then the old manifest and the logs are as they were, and a second crash
begins again.

A member is lost once: then the logs so far lie in the old group, which stays listed until no log in it is
needed, ordinary or live. What is exposed there is flushed, whole.

What must hold in every state:
  kept     gets, by the first hit from place to place, and scans, by the highest number, find the newest write
  frees    from every state the log comes to have room, and the old group leaves the record

Left out: snapshots, late writers, the order of runs but for the recovered one (retention_model.py); records:
a log's are one, for a re-log is of use only when all are answered; merges in memory, which leave logs as they
are; record numbers, tears and copies of a log (its own tests). A log that was posted, or whose deletion a
member may have missed, is found by a recovery or not, as the worst would have it, also an epoch later.
Bounds: MOST_NUMBERS, MOST_SEALED, MOST_CRASHES. What no recovery can ever replay is no part of a state.

Each variant leaves out one thing the rule says, and must be found to break, but for those that say so.

  retention_log_model.py                    all variants; exit code 1 unless each does what it must
  retention_log_model.py --variant=V        one, with the shortest way to the state that is wrong
  retention_log_model.py --large            larger bounds: some minutes
"""
import collections
import itertools
import sys

import explore

VARIANTS = {
    "rule": "the rule as it is",
    "doubt_by_another": "also safe: a pass in doubt keeps its log and begins anew, with another memtable",
    "shared_ids": "retained memtables have ids as others do, and replay asks which are done",
    "unnamed_replayed": "a retained memtable is replayed unless an edit says that it is done",
    "edits_silent": "the edits of compactions name no live memtable, and the last edit counts",
    "snapshot_silent": "the snapshot of a roll names no live memtable",
    "named_too_late": "the live memtable is named by an edit of its own, after the pass' edit",
    "doubt_is_no": "a pass whose edit failed lets go of its new memtable and log, and begins anew",
    "doubt_is_yes": "a pass whose edit failed deletes the logs of its sources",
    "edit_before_answers": "the edit is appended when the re-log is posted",
    "sources_freed_early": "the sources' logs are deleted when the re-log is answered, before the edit",
    "relog_unsynced": "the re-log is answered when it is written",
    "log_of_first_source": "the retained memtable's log goes by the number of its first source",
    "dense_numbers": "a re-logged entry has the number of the one before it and one",
    "refused_kept": "where the re-log is refused the memtable stays without",
    "refused_dropped": "where the re-log is refused the memtable goes, and the pass ends as it was",
    "relog_waits": "where the log is full the re-log waits for room",
    "group_left_early": "the old group leaves the record when no ordinary memtable's log in it is needed",
    "exposed_stays": "what is exposed is flushed round by round, and the retained round is none of them",
    "order_by_first": "the recovered run is ordered by the first number of what was replayed",
    "freed_before_open": "logs are deleted when what they held is in tables, before OPEN counts",
}
SAFE = ("rule", "doubt_by_another")
GO_BY_DONE = ("shared_ids", "unnamed_replayed")
# What may go wrong beside crashes; of some variants less, for their states are many. GO_BY_DONE only puts.
FAULTS = {v: {"doubt", "full", "member"} for v in VARIANTS} | {
    "doubt_by_another": {"doubt"}, "shared_ids": set(), "unnamed_replayed": set(), "relog_waits": {"full"},
    "exposed_stays": {"member"}}
LASTING = "frees: the log never has room again, or the old group never leaves the record"
MUST_BREAK = {v: "lasting" if v in ("relog_waits", "exposed_stays") else "unsafe"
              for v in VARIANTS if v not in SAFE}

MOST_NUMBERS = 3    # handed out
MOST_SEALED = 2     # rounds at a time
MOST_CRASHES = 1    # of an owner whose range is open; others while it recovers
MOST_MEMTABLES = 9  # ids


def enlarge():
    global MOST_CRASHES
    MOST_CRASHES = 2


# The newest version of the key in a memtable, by its number, below 0 if it deletes; 0: none. number: of the
# round. id: of a retained memtable below 0, but for shared_ids; one that nothing names is given out again.
MemTable = collections.namedtuple("MemTable", "id number version")
# state: posted; written; synced; deleted: perhaps a member has it still. exposed: it lies in the old group.
Log = collections.namedtuple("Log", "id number version state exposed")
Run = collections.namedtuple("Run", "order version")
# below: all ordinary memtables with lower ids are done. done: ids that edits name since the manifest has
# rolled, where a variant goes by them.
Manifest = collections.namedtuple("Manifest", "runs bottom done below live")
# stage: claimed, posted, answered: its edit may be appended. kept: the new memtable, perhaps of other keys
# alone; None: the pass is whole. version: what is left of the key.
Pass = collections.namedtuple("Pass", "sealed version kept stage")
# active: None while the range is recovered, `replayed` on top of its runs. newest: the newest write. doubted:
# the manifest with an edit that is in doubt.
State = collections.namedtuple(
    "State", "last next_id active sealed retained pass_ logs manifest doubted full exposed changed crashes "
    "replayed newest")
FIRST = State(0, 2, MemTable(1, 1, 0), (), None, None, (), Manifest((), 0, frozenset(), 1, 0), None,
              False, False, False, 0, None, 0)


def newest_of(versions):
    return max(versions, key=abs, default=0)


def with_log(s, log):
    return s._replace(logs=tuple(sorted([l for l in s.logs if l.id != log.id] + [log])))


def deleted(s, ids):
    return s._replace(logs=tuple(l._replace(state="deleted") if l.id in ids else l for l in s.logs))


def steps(s, variant):
    """All that may happen next: (name, state). What nobody relies on begins with "fault" or "user"."""
    for name, t in all_steps(s, variant):
        yield name, pruned(t, variant)


def pruned(s, variant):
    manifests = [s.manifest] + ([s.doubted] if s.doubted else [])

    def counts(log):
        return log.state != "deleted" or any(replays(m, log, variant) for m in manifests)
    return s if variant in GO_BY_DONE else s._replace(logs=tuple(l for l in s.logs if counts(l)))


def all_steps(s, variant):
    if s.active is None:
        yield from crashes(s, variant)
        yield "OPEN counts", opened(s)
        return
    if s.crashes < MOST_CRASHES:
        yield from crashes(s._replace(crashes=s.crashes + 1), variant)
    elif s.crashes:
        return  # nothing more can go wrong
    yield from writer_steps(s, variant)
    yield from claims(s, variant) if s.pass_ is None else pass_steps(s, variant)
    yield from other_edits(s, variant)
    if not s.full and s.logs and "full" in FAULTS[variant]:
        yield "fault: the log is full", s._replace(full=True)
    if not s.changed and "member" in FAULTS[variant]:
        yield "fault: a member is lost, the group changes", s._replace(
            changed=True, exposed=True, logs=tuple(l._replace(exposed=True) for l in s.logs))
    if s.exposed and not any(l.exposed and needed(s, l, variant) for l in s.logs):
        yield "the old group leaves the record", s._replace(
            exposed=False, logs=tuple(l for l in s.logs if not l.exposed))


def needed(s, log, variant):
    memtables = [s.active] + list(s.sealed)
    if variant != "group_left_early":
        memtables += [m for m in (s.retained, s.pass_ and s.pass_.kept) if m]
    named = [m.id for m in memtables] + ([s.doubted.live] if s.doubted else [])
    return log.state != "deleted" and log.id in named


def writer_steps(s, variant):
    if s.last < MOST_NUMBERS and not s.full:
        n = s.last + 1
        for v in (n,) if variant in GO_BY_DONE else (n, -n):
            active = s.active._replace(version=v)
            # Of a log that the group's change has split both parts are found; here it stays in the old one.
            exposed = any(l.exposed for l in s.logs if l.id == active.id)
            yield "user: %s %d" % ("put" if v > 0 else "delete", n), with_log(
                s._replace(last=n, active=active, newest=v),
                Log(active.id, active.number, v, "synced", exposed))
    boundary = max(s.last, s.active.number)
    if len(s.sealed) < MOST_SEALED and boundary <= MOST_NUMBERS and s.next_id <= MOST_MEMTABLES:
        # Where the log is full, or exposed, somebody has the round sealed.
        holds = s.active.version and (s.full or s.exposed)
        yield "%sa round is sealed" % ("" if holds else "user: "), s._replace(
            last=boundary, sealed=s.sealed + (s.active,), next_id=s.next_id + 1,
            active=MemTable(s.next_id, boundary + 1, 0))


# --- a pass

def claims(s, variant):
    for n in range(0 if s.retained and variant != "exposed_stays" else 1, len(s.sealed) + 1):
        version = newest_of([m.version for m in sources(s, n)])
        # A younger round, in whose log it is synced, may have replaced it: then it is left out.
        replaced = any(m.version for m in s.sealed[n:] + (s.active,))
        for left in {version, 0 if replaced else version}:
            # A pass that is asked for is relied on.
            why = "" if s.full or s.exposed else "user: "
            yield why + "a pass of %d rounds, whole" % n, s._replace(pass_=Pass(n, left, None, "answered"))
            if n and not s.exposed:
                number = sources(s, n)[0].number
                for kept, (t, id_) in itertools.product({left, 0}, new_retained(s, variant)):
                    yield "user: a pass of %d rounds, which keeps %d" % (n, kept), t._replace(
                        pass_=Pass(n, left, MemTable(id_, number, kept), "claimed"))


def new_retained(s, variant):
    """The id of a new retained memtable, and the state with it given out; none, if there are too many."""
    if variant in GO_BY_DONE:
        if s.next_id <= MOST_MEMTABLES:
            yield s._replace(next_id=s.next_id + 1), s.next_id if variant == "shared_ids" else -s.next_id
        return
    named = {m.id for m in (s.retained, s.pass_ and s.pass_.kept) if m} | {l.id for l in s.logs}
    named |= {s.manifest.live} | ({s.doubted.live} if s.doubted else set())
    if len(named) < MOST_MEMTABLES:
        yield s, next(-i for i in range(1, MOST_MEMTABLES) if -i not in named)


def sources(s, sealed):
    return ([s.retained] if s.retained else []) + list(s.sealed[:sealed])


def pass_steps(s, variant):
    p = s.pass_
    if p.stage in ("claimed", "posted"):
        yield from relog_steps(s, variant)
    elif p.kept and s.exposed and s.doubted is None and variant not in ("group_left_early", "exposed_stays"):
        yield "the group has changed: the pass ends whole", ended_whole(s, variant)
        return
    if p.stage == "answered" or (p.stage == "posted" and variant == "edit_before_answers"):
        yield "the edit counts", edit_counts(s, variant)
        if s.doubted is None and "doubt" in FAULTS[variant]:
            yield "fault: the edit is in doubt", in_doubt(s, variant)
    if s.doubted and s.doubted.live == (p.kept and p.kept.id) and variant == "doubt_by_another":
        for t, id_ in new_retained(s, variant):
            yield "user: the pass begins anew", t._replace(
                pass_=p._replace(kept=p.kept._replace(id=id_), stage="claimed"))


def relog_steps(s, variant):
    p = s.pass_
    log = Log(p.kept.id, p.kept.number, p.kept.version, "posted", False)
    if variant == "dense_numbers" and abs(log.version) > 1:
        log = log._replace(version=log.version - (1 if log.version > 0 else -1))
    if p.stage == "claimed" and not s.full:
        yield "the re-log is posted", with_log(s._replace(pass_=p._replace(stage="posted")), log)
    if p.stage == "posted":
        log = log._replace(state="written" if variant == "relog_unsynced" else "synced", exposed=s.exposed)
        answered = with_log(s._replace(pass_=p._replace(stage="answered")), log)
        if variant == "sources_freed_early":
            answered = deleted(answered, [m.id for m in sources(s, p.sealed)])
        yield "the re-log is answered", answered
    if variant != "relog_waits":
        yield "the re-log is refused, or late", ended_whole(s, variant)


def ended_whole(s, variant):
    p = s.pass_
    if variant == "refused_kept":
        return s._replace(pass_=p._replace(stage="answered"))
    version = 0 if variant == "refused_dropped" and p.kept.version else p.version
    if variant == "shared_ids":  # an edit says that it is done, and the next roll forgets it
        s = s._replace(manifest=s.manifest._replace(done=s.manifest.done | {p.kept.id}))
    return deleted(s._replace(pass_=Pass(p.sealed, version, None, "answered")), [p.kept.id])


def with_edit(s, variant):
    """The manifest with the pass' edit."""
    p, m = s.pass_, s.manifest
    of = sources(s, p.sealed)
    cold = p.version if not p.kept or p.kept.version == 0 else 0
    run = (Run(of[-1].number, cold),) if cold else ()
    m = m._replace(runs=m.runs + run, live=p.kept.id if p.kept else 0)
    if variant in GO_BY_DONE:
        return m._replace(done=m.done | {x.id for x in of})
    return m._replace(below=min(x.id for x in s.sealed[p.sealed:] + (s.active,)))


def edit_counts(s, variant):
    p = s.pass_
    ids = [m.id for m in sources(s, p.sealed)]
    if variant == "log_of_first_source" and p.kept:
        ids.append(p.kept.id)
    t = without_other_tries(deleted(s, ids), variant)
    manifest = with_edit(s, variant)
    if variant == "named_too_late":
        manifest = manifest._replace(live=s.manifest.live)
    return t._replace(manifest=manifest, doubted=None, sealed=s.sealed[p.sealed:], retained=p.kept,
                      pass_=None, full=False)


def without_other_tries(s, variant):
    """An edit counts: what earlier tries of the pass have logged goes."""
    if variant != "doubt_by_another":
        return s
    live = [m.id for m in (s.retained, s.pass_ and s.pass_.kept) if m]
    return deleted(s, [l.id for l in s.logs if l.id < 0 and l.id not in live])


def in_doubt(s, variant):
    p = s.pass_
    t = s._replace(doubted=with_edit(s, variant))
    if variant == "doubt_is_no" and p.kept:
        return deleted(t._replace(pass_=None), [p.kept.id])
    if variant == "doubt_is_yes":
        return deleted(t, [m.id for m in sources(s, p.sealed)])
    return t


def other_edits(s, variant):
    """Of compactions and rolls. One that counts says that an edit in doubt never does."""
    m = s.manifest
    s = without_other_tries(s._replace(doubted=None), variant)
    if variant == "named_too_late" and s.retained and m.live != s.retained.id:
        yield "an edit names the live memtable", s._replace(manifest=m._replace(live=s.retained.id))
    for n in range(1, len(m.runs) + 1):
        bottom = newest_of([m.bottom] + [r.version for r in m.runs[:n]])
        yield "user: %d runs go down" % n, s._replace(manifest=m._replace(
            runs=m.runs[n:], bottom=max(bottom, 0), live=0 if variant == "edits_silent" else m.live))
    ids = [x.id for x in s.sealed + (s.active,)]
    if variant == "shared_ids" and s.retained:
        ids.append(s.retained.id)
    yield "user: the manifest rolls", s._replace(manifest=m._replace(
        done=frozenset(), below=min(ids), live=0 if variant == "snapshot_silent" else m.live))


# --- crashes and recoveries

def crashes(s, variant):
    for manifest in [s.manifest] + ([s.doubted] if s.doubted else []):
        unsure = [l for l in s.logs if l.state in ("posted", "deleted") and replays(manifest, l, variant)]
        for found in itertools.product((False, True), repeat=len(unsure)):
            lost = {l.id for l, f in zip(unsure, found) if not f}
            for power in (False, True):
                if power and all(l.state != "written" for l in s.logs):
                    continue
                logs = [l for l in s.logs if l.id not in lost and not (power and l.state == "written")]
                fault = "loss of power" if power else "death"
                yield "fault: %s; found: %s" % (fault, [l.id for l in logs]), recovered(
                    s._replace(manifest=manifest), logs, variant)


def replays(manifest, log, variant):
    if log.id > 0 or variant == "unnamed_replayed":
        return log.id not in manifest.done and not 0 < log.id < manifest.below
    return log.id == manifest.live


def recovered(s, logs, variant):
    replayed = [l for l in logs if replays(s.manifest, l, variant)]
    run = Run(min((l.number for l in replayed), default=0), newest_of([l.version for l in replayed]))
    s = s._replace(active=None, sealed=(), retained=None, pass_=None, doubted=None, replayed=run, full=False)
    return deleted(s, [l.id for l in s.logs]) if variant == "freed_before_open" else s


def runs_of(s):
    runs = s.manifest.runs
    if s.replayed is None or not s.replayed.version:
        return runs
    return runs + (s.replayed,)


def opened(s):
    manifest = Manifest(runs_of(s), s.manifest.bottom, frozenset(), s.next_id, 0)
    s = deleted(s, [l.id for l in s.logs])._replace(exposed=False, changed=True)
    return s._replace(manifest=manifest, replayed=None, active=MemTable(s.next_id, s.last + 1, 0),
                      next_id=s.next_id + 1)


# --- what must hold

def wrong(s, variant):
    runs = list(runs_of(s))
    if variant == "order_by_first":
        runs.sort(key=lambda r: r.order)
    memory = [m.version for m in (s.active,) + s.sealed[::-1] + (s.retained,) if m]
    places = memory + [r.version for r in reversed(runs)] + [s.manifest.bottom]
    got = next((v for v in places if v), 0)
    if max(got, 0) != max(s.newest, 0):
        return "kept: a get finds %d, and %d is right" % (got, s.newest)
    got = newest_of(places)
    if max(got, 0) != max(s.newest, 0):
        return "kept: a scan finds %d, and %d is right" % (got, s.newest)
    return None


def good(s):
    return not s.full and not s.exposed


def counts(name):
    return not name.startswith(("fault", "user"))


if __name__ == "__main__":
    sys.exit(explore.main(sys.modules[__name__]))
