#!/usr/bin/env python3
"""N4 (collection), S5 (rebuild), as a model that is searched to the end: how a copy is made, named, dropped.

One table of one range, of which two copies are wanted; three StoCs, of which two have it at first. A StoC
may go away at any time, and comes back with its files, or never.

An attempt to move a copy begins a job and chooses `from`, a listed StoC, and `to`, one that is up and not
listed. The file is copied to `to`. Where a file of that name is there, of an earlier job or epoch, it is
taken over: from then on it is this attempt's. A copy that is executed late leaves a later job's file as it
is. An edit then replaces `from` by `to` in the list, if the table is still in the version. It counts, or
fails for sure, or fails in doubt: it may be durable, until a later edit counts. An attempt deletes nothing,
and whatever became of it, the next one may choose the same StoC.

A collection of a StoC takes n, the lowest number of a job under way, then lists, then looks whether the
file is referenced on that StoC: by the version, an edit in doubt, a view, or the newest list of the table
that a view reads. It drops an unreferenced file of an earlier epoch, or of a job below n. The drop carries
n, and the StoC looks at the file's job again when it executes it. To look and to delete the file is one
step: until the file is gone its name is not free.

A compaction takes the table out of the version. When no view reads it any more, by whichever list, its
files are dropped where its last list names them, whosever they are. A view that began with an older list
reads where the newest one says. The owner may crash: the next one goes on from a version that is durable,
without views and jobs. Copies and drops that have timed out may be executed at any time later, also under
the next owner.

What must hold in every state:
  kept      each StoC that the list names, of each version that may be durable, has the file
  readable  a view reads the table, while a StoC that the newest list names is up
  settled   if nothing fails any more, both copies come to be on StoCs that are up, and surplus files go, but
            for what an edit in doubt names: that stays until the range has another edit

Left out. Which StoCs are lost or drain: an attempt may take any listed one for `from`, so what holds
here holds whatever the coordinator says; `settled` relies only on attempts that take one that is away.
Disks that lose files, and the repair of those (S3); a replaced disk is a StoC that stays away. Whose a
file is lasts as its bytes do. Files in part: one that is being written is not there yet, and while it
is, a second copy of that name fails. Reads take no time: for those under way when an edit counts a
view's own list is a reference; here `readable` would hold if it were none. Parts of a table: each is as
the table is here. A checkpoint: it counts as the version does. Tables that ranges share. Other jobs:
they only lower n. The grace of earlier epochs' files: there is none. Fences: StoCs execute what earlier
owners sent, which is the worst case. Epochs and jobs are one order, in which all of a later epoch's jobs
come later; of their numbers a state knows only how those that meet on a StoC are ordered, so there are
as many jobs, epochs and faults as one likes. The bounds are STOCS, MOST_AWAY, MOST_DOUBTS, MOST_LATE,
and one view. States that differ in the names of StoCs alone count as one.

Each variant leaves out one thing the rule says, and must be found to break.

  rebuild_model.py                    all variants; exit code 1 unless each does what it must
  rebuild_model.py --variant=V        one, with the shortest way to the state that is wrong
"""
import collections
import functools
import sys

import explore

VARIANTS = {
    "rule": "the rule as it is",
    "unconditional_drop": "a StoC executes a drop without looking at the file's job again",
    "epoch_unchecked": "a StoC compares the numbers of jobs, whatever their epochs",
    "name_freed_early": "a name is free before the dropped file is gone, which goes by its name",
    "takeover_keeps_job": "a file that is taken over stays its former job's",
    "restamped_by_lower": "a late copy makes a later job's file its own",
    "copy_refuses": "a copy fails where a file of that name is there",
    "doubt_not_retried": "a table whose edit is in doubt waits until the range has another edit to make",
    "references_by_file": "a file is referenced if it is on any StoC",
    "edit_unchecked": "an edit is applied whether or not the table is still in the version",
    "job_zero": "a copy has no job's number, and is collected as if its job had ended",
    "look_before_list": "a collection looks at the references before it takes n and lists",
    "drop_from_at_once": "the copy on `from` is dropped, by its name, as soon as the edit counts",
    "doubt_forgotten": "edits in doubt are no references",
    "old_places": "a view reads where its own list says, and nowhere else",
    "newest_forgotten": "a view's own list is a reference, the newest one of its table is none",
    "successor_dropped": "a view of an older list does not keep the table's files",
}
LASTING = "settled: never again two copies that are up, and nothing needless beside them"
MUST_BREAK = {v: "lasting" if v in ("copy_refuses", "doubt_not_retried", "references_by_file") else "unsafe"
              for v in VARIANTS if v != "rule"}

STOCS = "ABC"
MOST_AWAY = 2    # StoCs, at a time
MOST_DOUBTS = 1  # edits in doubt, at a time
MOST_LATE = 1    # copies and drops that have timed out and are not executed yet, at a time
COPIES = 2

# Jobs are numbers above 0, on each StoC for itself: 1 is the first of those that meet there. A drop deletes
# files of jobs below a number; below EVER: whosever the file is.
NONE, EVER = 0, 99
NO_JOB = -1  # of job_zero: below all numbers

# file: the job whose file is here. listed, viewed: the version's list names the StoC, a view's list does.
# doubted: those of the versions that the edits in doubt would make do, one flag for each. last: the table is
# in no version, and its file is to be dropped here. role: in the attempt. job: the attempt's, if this is its
# `to`. collected: its collection is under way. n: the collection's, once it is taken. late_copy: the job of a
# copy that is yet to be executed. late_drop: a drop is yet to be executed, of files of jobs below this.
Stoc = collections.namedtuple(
    "Stoc", "up file listed doubted viewed last role job collected n late_copy late_drop")
# doubts: how many edits are in doubt. attempt: "begun" or "copied". collection: "begun", "listed" or
# "looked"; of look_before_list "to list".
State = collections.namedtuple("State", "stocs doubts attempt collection")

WITH = Stoc(True, 1, True, (), False, False, "", NONE, False, NONE, NONE, NONE)
WITHOUT = WITH._replace(file=NONE, listed=False)
FIRST = State((WITH,) * COPIES + (WITHOUT,) * (len(STOCS) - COPIES), 0, "", "")
ALL = range(len(STOCS))


def canonical(s):
    return with_stocs(s, sorted(s.stocs))


def with_stocs(s, stocs):
    return State(tuple(stocs), s.doubts, s.attempt, s.collection)


@functools.cache
def changed(t, changes):
    return t._replace(**dict(changes))


def at(s, x, **changes):
    t = changed(s.stocs[x], tuple(changes.items()))
    return with_stocs(s, s.stocs[:x] + (t,) + s.stocs[x + 1:])


def everywhere(s, **changes):
    changes = tuple(changes.items())
    return with_stocs(s, [changed(t, changes) for t in s.stocs])


def named(flags):
    return "".join(STOCS[x] for x in ALL if flags[x]) or "no table"


def in_version(s):
    return any(t.listed for t in s.stocs)


def viewed(s):
    return any(t.viewed for t in s.stocs)


def late(s):
    return sum((t.late_copy != NONE) + (t.late_drop != NONE) for t in s.stocs)


# --- numbers

def next_job(t):
    return 1 + max(t.file, t.late_copy, t.job, NONE)


@functools.cache
def renumbered(t):
    """The same order in the lowest numbers. A late drop that no file can be below any more is none."""
    jobs = sorted({j for j in (t.file, t.late_copy, t.job) if j > NONE})
    rank = {j: 1 + i for i, j in enumerate(jobs)}

    def bound(n):
        return n if n in (NONE, EVER) else 1 + sum(j < n for j in jobs)
    late_drop = bound(t.late_drop)
    return t._replace(
        file=rank.get(t.file, t.file), late_copy=rank.get(t.late_copy, t.late_copy),
        job=rank.get(t.job, t.job), n=bound(t.n), late_drop=NONE if late_drop == 1 else late_drop)


def steps(s, variant):
    """All that may happen next: (name, state). What nobody relies on begins with "fault" or "user"."""
    for name, t in all_steps(s, variant):
        yield name, with_stocs(t, map(renumbered, t.stocs))


def all_steps(s, variant):
    for x in ALL:
        t = s.stocs[x]
        if not t.up:
            yield "fault: %s comes back" % STOCS[x], at(s, x, up=True)
        elif sum(not u.up for u in s.stocs) < MOST_AWAY:
            yield "fault: %s goes away" % STOCS[x], at(s, x, up=False)
        if t.up and (t.late_copy or t.late_drop):
            yield from late_steps(s, x, variant)
        if t.last:
            yield from table_dropped(s, x, variant)
    yield from attempt_steps(s, variant) if s.attempt else begin_steps(s, variant)
    yield from collection_steps(s, variant) if s.collection else collection_begins(s, variant)
    yield from range_steps(s, variant)


# --- files on a StoC

def copied(s, x, job, variant):
    """A copy is executed on x."""
    file = s.stocs[x].file
    if file != NONE:
        if variant in ("takeover_keeps_job", "copy_refuses"):
            return s
        if variant != "restamped_by_lower":
            job = max(job, file)
    return at(s, x, file=job)


def dropped(s, x, below):
    """A drop is executed on x."""
    return at(s, x, file=NONE) if s.stocs[x].file < below else s


def late_steps(s, x, variant):
    t = s.stocs[x]
    if t.late_copy:
        left = at(s, x, late_copy=NONE)
        yield "the late copy to %s is lost" % STOCS[x], left
        yield "the late copy to %s is executed" % STOCS[x], copied(left, x, t.late_copy, variant)
    if t.late_drop:
        left = at(s, x, late_drop=NONE)
        yield "the late drop on %s is lost" % STOCS[x], left
        yield "the late drop on %s is executed" % STOCS[x], dropped(left, x, t.late_drop)


# --- an attempt

def begin_steps(s, variant):
    if s.doubts and variant == "doubt_not_retried":
        return
    for x in ALL:
        for y in ALL:
            t = s.stocs[y]
            if s.stocs[x].listed and t.up and not t.listed:
                why = "user: %s drains; " % STOCS[x] if s.stocs[x].up else ""
                yield "%sa job begins: from %s to %s" % (why, STOCS[x], STOCS[y]), at(
                    at(s._replace(attempt="begun"), x, role="from"), y, role="to", job=next_job(t))


def attempt_steps(s, variant):
    source = next(x for x in ALL if s.stocs[x].role == "from")
    to = next(x for x in ALL if s.stocs[x].role == "to")
    t = s.stocs[to]
    job = NO_JOB if variant == "job_zero" else t.job
    if s.attempt == "copied":
        yield from edit_steps(s, source, to, variant)
        return
    if t.up and t.file and variant != "copy_refuses":
        yield "the file on %s is taken over" % STOCS[to], copied(
            s._replace(attempt="copied"), to, job, variant)
    elif t.up and not t.file and any(u.up and u.file and (u.listed or u.last) for u in s.stocs):
        yield "the copy is on %s" % STOCS[to], copied(s._replace(attempt="copied"), to, job, variant)
    yield "the copy fails", ended(s)
    if late(s) < MOST_LATE and not t.late_copy:
        yield "fault: the copy times out", ended(at(s, to, late_copy=job))


def edit_steps(s, source, to, variant):
    if not in_version(s) and variant != "edit_unchecked":
        yield "the edit is void", ended(s)
        return
    before = [t.listed if in_version(s) else t.last for t in s.stocs]
    names = tuple((b or t.role == "to") and t.role != "from" for b, t in zip(before, s.stocs))
    counted = "the edit counts: %s" % named(names)
    applied = ended(edit_counts(with_list(s, names)))
    if variant == "drop_from_at_once":
        if late(s) < MOST_LATE:
            yield counted + "; the drop on %s times out" % STOCS[source], at(applied, source, late_drop=EVER)
        if s.stocs[source].up:
            applied = dropped(applied, source, EVER)
    yield counted, applied
    if s.doubts < MOST_DOUBTS:
        yield "fault: the edit %s is in doubt" % named(names), ended(in_doubt(s, names))
    yield "fault: the edit fails", ended(s)


def edit_counts(s):
    return everywhere(s._replace(doubts=0), doubted=())


def in_doubt(s, names):
    stocs = tuple(t._replace(doubted=t.doubted + (n,)) for t, n in zip(s.stocs, names))
    return s._replace(doubts=s.doubts + 1, stocs=stocs)


def with_list(s, names):
    return with_stocs(s, [changed(t, (("listed", n),)) for t, n in zip(s.stocs, names)])


def ended(s):
    """The job ends: a collection that begins now takes a higher n."""
    return everywhere(s._replace(attempt=""), role="", job=NONE)


# --- a collection

def referenced(s, x, variant):
    if variant == "references_by_file":
        return any(t.listed or any(t.doubted) or t.viewed for t in s.stocs)
    t = s.stocs[x]
    newest = t.last and viewed(s) and variant != "newest_forgotten"
    return t.listed or t.viewed or newest or (any(t.doubted) and variant != "doubt_forgotten")


def takes_n(s, x):
    """The attempt's number; where it has none, or places nothing here, one above all that are here."""
    return at(s, x, n=s.stocs[x].job or next_job(s.stocs[x]))


def collection_begins(s, variant):
    for x in ALL:
        if not s.stocs[x].up:
            continue
        begun = at(s, x, collected=True)
        if variant != "look_before_list":
            yield "a collection of %s takes n" % STOCS[x], takes_n(begun, x)._replace(collection="begun")
        elif not referenced(s, x, variant):
            yield "a collection looks: unreferenced on %s" % STOCS[x], begun._replace(collection="to list")


def collection_steps(s, variant):
    x = next(x for x in ALL if s.stocs[x].collected)
    if not s.stocs[x].up:
        yield "the collection of %s fails" % STOCS[x], over(s)
    elif s.collection == "to list":
        yield "it takes n and lists what is on %s" % STOCS[x], takes_n(s, x)._replace(collection="looked")
    elif s.collection == "begun":
        if s.stocs[x].file and s.stocs[x].file < s.stocs[x].n:
            yield "it lists the file on %s" % STOCS[x], s._replace(collection="listed")
        else:
            yield "it lists nothing to drop on %s" % STOCS[x], over(s)
    elif s.collection == "listed":
        if referenced(s, x, variant):
            yield "it looks: referenced on %s" % STOCS[x], over(s)
        else:
            yield "it looks: unreferenced on %s" % STOCS[x], s._replace(collection="looked")
    else:
        yield from drop_steps(s, x, variant)


def drop_steps(s, x, variant):
    t = s.stocs[x]
    below = EVER if variant == "unconditional_drop" else t.n
    yield "its drop on %s is executed" % STOCS[x], over(dropped(s, x, below))
    if late(s) < MOST_LATE and not t.late_drop:
        yield "fault: its drop on %s times out" % STOCS[x], over(at(s, x, late_drop=below))
        if variant == "name_freed_early" and t.file and t.file < below:
            yield "its drop on %s frees the name; the file is not gone" % STOCS[x], over(
                at(s, x, file=NONE, late_drop=EVER))


def over(s):
    return everywhere(s._replace(collection=""), collected=False, n=NONE)


# --- compactions, views, the owner

# What a StoC's part of the state is to the next owner.
FORGOTTEN = dict(doubted=(), viewed=False, last=False, role="", job=NONE, collected=False, n=NONE)


def range_steps(s, variant):
    if in_version(s):
        yield "user: a compaction takes the table out", edit_counts(with_stocs(
            s, [t._replace(listed=False, last=t.listed) for t in s.stocs]))
        if s.doubts < MOST_DOUBTS:
            yield "fault: a compaction's edit is in doubt", in_doubt(s, (False,) * len(STOCS))
        if not viewed(s):
            yield "user: a view begins", with_stocs(s, [t._replace(viewed=t.listed) for t in s.stocs])
    if s.doubts:
        yield "user: another edit counts", edit_counts(s)
    if viewed(s):
        yield "the view ends", everywhere(s, viewed=False)
    durable = [tuple(t.listed for t in s.stocs)]
    durable += [tuple(t.doubted[i] for t in s.stocs) for i in range(s.doubts)]
    forgotten = everywhere(State(s.stocs, 0, "", ""), **FORGOTTEN)
    if variant == "epoch_unchecked":  # the next owner's first jobs have lower numbers
        forgotten = with_stocs(
            forgotten, [t._replace(late_drop=EVER if t.late_drop else NONE) for t in forgotten.stocs])
    for names in durable:
        yield "fault: the owner crashes; the next one reads: %s" % named(names), with_list(forgotten, names)


def table_dropped(s, x, variant):
    """The files of a table that no version has."""
    own = [t.viewed for t in s.stocs]
    if viewed(s) and (variant != "successor_dropped" or own == [t.last for t in s.stocs]):
        return
    left = at(s, x, last=False)
    if s.stocs[x].up and s.stocs[x].file:
        yield "the table's file on %s is dropped" % STOCS[x], dropped(left, x, EVER)
    yield "the drop of the table's file on %s is lost" % STOCS[x], left


# --- what must hold

def wrong(s, variant):
    for x in ALL:
        t = s.stocs[x]
        if not t.file and (t.listed or any(t.doubted)):
            return "kept: %s, which a durable version may list, lacks the file" % STOCS[x]
    if viewed(s):
        newest = [t for t in s.stocs if t.listed or t.last]
        places = [t for t in s.stocs if t.viewed] if variant == "old_places" else newest
        living = not newest or any(t.up for t in newest)
        if living and not any(t.up and t.file for t in places):
            return "readable: a view cannot read the table, of which a copy should be up"
    return None


def good(s):
    if any(t.up and t.file and not t.listed and not any(t.doubted) for t in s.stocs):
        return False
    copies = sum(t.up and t.listed for t in s.stocs)
    possible = copies > 0 and sum(t.up for t in s.stocs) >= COPIES
    return copies == COPIES or not possible


def counts(name):
    return not name.startswith(("fault", "user"))


if __name__ == "__main__":
    sys.exit(explore.main(sys.modules[__name__]))
