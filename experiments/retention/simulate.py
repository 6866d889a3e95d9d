#!/usr/bin/env python3
"""What reaches Level0 of W100 on a slow disk, by how a range's memory is flushed: a simulation.

  experiments/retention/simulate.py [--policy=NAME]... [--puts=N] [--disk=N] [--theta=T] [--dranges=N] [--list]

One range, entries of one size, keys ranked zipfian. Rounds fill, are sealed, merged in memory and flushed in
groups by the rules of ltc/engine/flush_policy.cc, for flushes that wait for one disk; what a younger round has
replaced is left out (docs/engine.md). A split flush is the alternative: it takes rounds and what the flush
before has kept, writes the coldest keys of them, and keeps the hottest in memory as the retained round, oldest
of all, logged anew. How hot a key is: its versions, halved with each flush that has kept it. What it keeps is
copied, and the memory that it is copied from is free once the flush has ended: a "copied" policy counts the copy
as it grows, a "reserved" one whole from the start, the others not at all.

Time is that of puts (--processor a second) and of the one disk (--disk entries a second), which writes tables,
what compactions add to each entry (--compaction), and, where there is one, the log. A put that finds no memory
waits for the flush. The second half of the puts counts.

With --dranges=N compactions are not a constant: Level0 is cut into N columns of equal load and its jobs are
those of ltc/engine/compaction_picker.cc, the embedded database's settings. Of a column with 16 runs the
youngest that are of about one size are merged, while all are less than Level1 there; else all go down, and
Level1 there is written. A job has the disk while no flush is under way, and beside one a part from 40 runs
on; from there on writers are slowed down. What jobs read is in the page cache. Every flush is in every
column: its tables may span several.

Columns: entries written to Level0 a put; entries logged anew a put; bytes for the disk a put, log included, in
entries; thousand puts a second; part of the time in which writers wait; the longest such wait; flushes; the
most that logs held, over the memory of all rounds; the mean of the memory that sealed rounds take, in rounds; with
--dranges what compactions write, an entry written, and the most runs in a column.
"""
import argparse
import bisect
import dataclasses
import itertools
import random
import sys


@dataclasses.dataclass
class Policy:
    """Defaults are the engine's."""
    starts_at: float = 0.5    # a flush begins when so much of the room for sealed rounds is taken
    group: float = 3 / 8      # most rounds that are flushed together, of all rounds
    larger: float = 3         # a merge takes a round that is at most so many times those it has
    merged: float = 1 / 4     # most rounds that a merge leaves, of all rounds
    log_share: float = 0      # how much of memory logs may hold; 0: there is no log
    log_copies: int = 0       # entries that the disk writes for each one logged
    kept_rounds: float = 0    # a split flush keeps as much; 0: flushes write all that is left
    copy: str = ""            # that takes room: "grows" with the flush, "reserved" at its start; else none


POLICIES = {
    "engine": Policy(),
    "engine, groups of 1/2": Policy(group=1 / 2),
    "engine, groups of 1/4": Policy(group=1 / 4),
    "engine, groups of 1/8": Policy(group=1 / 8),
    "engine, from 3/4 on": Policy(starts_at=3 / 4),
    "engine, merges of all": Policy(larger=10, merged=1),
    "split, keeps 2 rounds": Policy(kept_rounds=2),
    "split of all, keeps 2": Policy(group=1, kept_rounds=2),
    "split of all, keeps 3": Policy(group=1, kept_rounds=3),
    "split of all, keeps 4": Policy(group=1, kept_rounds=4),
    "split, keeps 2, copied": Policy(group=1, kept_rounds=2, copy="grows"),
    "split, keeps 3, copied": Policy(group=1, kept_rounds=3, copy="grows"),
    "split, keeps 2, reserved": Policy(group=1, kept_rounds=2, copy="reserved"),
    "split, keeps 3, reserved": Policy(group=1, kept_rounds=3, copy="reserved"),
    "log of 2, engine": Policy(log_share=2, log_copies=1),
    "log of 4, engine": Policy(log_share=4, log_copies=1),
    "log of 2, split of all, 3": Policy(log_share=2, log_copies=1, group=1, kept_rounds=3),
    "log of 1, engine": Policy(log_share=1),
    "log of 1, split of all, 3": Policy(log_share=1, group=1, kept_rounds=3),
}


class Round:
    def __init__(self):
        self.entries = 0    # in memory: all versions, until a merge has left one of each key
        self.logged = 0     # entries that its logs hold
        self.versions = {}  # by key; of a retained round its heat
        self.merged = False


class Flush:
    """Under way; the disk has written all slices before `next` at `ends`."""

    def __init__(self, rounds, kept, slices, now):
        self.rounds, self.kept, self.slices = rounds, kept, slices
        self.next, self.ends, self.begun = 0, now, now
        self.written = []  # keys, for Level0


class Level0:
    TRIGGER, SLOW, STOP = 16, 40, 60  # runs in a column
    CUT_BY = 5                        # the flush whose keys are cut into equal parts; those before do not count

    def __init__(self, options):
        self.flushes = 0
        # Of each column its runs, the oldest first, as sets of keys.
        self.columns = [[] for _ in range(options.dranges)]
        self.level1 = [options.records / options.dranges] * options.dranges
        self.cuts = None
        self.job = None  # [column, first run, one behind the last, entries to write, what is left in Level0]
        self.moved = self.deepest = 0

    def add(self, keys):
        """A run; keys ascending."""
        self.flushes += 1
        if self.flushes < self.CUT_BY or not keys:
            return
        n = len(self.columns)
        if self.cuts is None:
            self.cuts = [keys[i * len(keys) // n] for i in range(1, n)]
            ends = [0] + self.cuts + [int(sum(self.level1))]
            self.level1 = [b - a for a, b in zip(ends, ends[1:])]
        at = [0] + [bisect.bisect_left(keys, c) for c in self.cuts] + [len(keys)]
        for column, a, b in zip(self.columns, at, at[1:]):
            if a < b:
                column.append(set(keys[a:b]))
        self.deepest = max(self.deepest, self.depth())

    def depth(self):
        return max(map(len, self.columns))

    def part_beside_flush(self):
        """What a job may write beside a flush, for each entry of that."""
        over = (self.depth() - self.SLOW) / (self.STOP - self.SLOW)
        return 0 if over < 0 else 0.5 + 5.5 * min(over, 1)

    def slowness(self):
        """Of writers, in the rate of flushes: 0 is not slowed down."""
        over = (self.depth() - self.SLOW) / (self.STOP - self.SLOW)
        return 0 if over < 0 else 1 / (2 - over) if over < 1 else 2 ** ((self.depth() - self.STOP) / 4)

    def advance(self, entries):
        """Jobs may write so many; how many they wrote."""
        wrote = 0
        while wrote < entries and self.begin_job():
            step = min(self.job[3], entries - wrote)
            self.job[3] -= step
            wrote += step
            if self.job[3] <= 0:
                column, first, end, _, left = self.job
                self.columns[column][first:end] = left
                self.job = None
        self.moved += wrote
        return wrote

    def begin_job(self):
        if self.job is None and self.depth() >= self.TRIGGER:
            c = max(range(len(self.columns)), key=lambda i: len(self.columns[i]))
            runs = self.columns[c]
            first = self.first_of_like_size(runs)
            if sum(map(len, runs)) < self.level1[c] and first < len(runs) - 1:
                union = set().union(*runs[first:])
                self.job = [c, first, len(runs), len(union), [union]]
            else:
                self.job = [c, 0, len(runs), self.level1[c], []]
        return self.job is not None

    @staticmethod
    def first_of_like_size(runs):
        """Of the youngest runs that are of about one size."""
        taken, count = 0, 0
        for i in range(len(runs) - 1, -1, -1):
            if len(runs[i]) * count > 2 * taken:
                return i + 1
            taken, count = taken + len(runs[i]), count + 1
        return 0


class Range:
    def __init__(self, policy, options):
        self.p, self.o = policy, options
        self.round_entries = options.memory // options.rounds
        self.now = 0.0
        self.active, self.sealed, self.flush = Round(), [], None  # sealed: youngest first
        self.written = self.logged_anew = self.flushes = 0
        self.waited = self.longest_wait = 0.0
        self.most_logged, self.sealed_shares = 0, []
        self.level0 = Level0(options) if options.dranges else None
        self.disk_at = 0.0   # until when the disk's time is accounted for, while no flush is under way
        self.drained = None  # entries put a second, of the last flush

    # --- the room for rounds

    def share(self, entries, logged):
        logs = logged / self.p.log_share if self.p.log_share else 0
        return max(entries, logs) / self.round_entries

    def taken(self):
        return sum(self.share(r.entries, r.logged) for r in self.sealed)

    def room(self):
        return self.o.rounds - 1 - self.taken() - self.copied()

    def copied(self):
        """What the flush under way has kept, in rounds."""
        f = self.flush
        if f is None or self.p.copy == "":
            return 0
        if self.p.copy == "reserved":
            return self.p.kept_rounds
        return self.share(len(f.kept), len(f.kept)) * f.next / len(f.slices)

    # --- writers

    def put(self, keys):
        self.progress()
        while self.active.entries + len(keys) > self.round_entries and not self.seal():
            self.wait()
        for key in keys:
            self.active.versions[key] = self.active.versions.get(key, 0) + 1
        self.active.entries += len(keys)
        self.active.logged += len(keys)
        self.now += len(keys) * (1 / self.o.processor + self.p.log_copies / self.o.disk)
        if self.level0 and self.drained and self.level0.slowness():
            slowed = len(keys) * self.level0.slowness() / self.drained
            self.now += slowed
            self.waited += slowed

    def seal(self):
        if self.room() < 1:
            return False
        self.sealed.insert(0, self.active)
        self.active = Round()
        self.sealed_shares.append(self.taken())
        self.most_logged = max(self.most_logged, sum(r.logged for r in self.sealed))
        self.progress()
        return True

    def wait(self):
        if self.flush is None:
            self.begin_flush()
        wait = max(0.0, self.flush.ends - self.now)
        self.now += wait
        self.waited += wait
        self.longest_wait = max(self.longest_wait, wait)
        self.progress()

    # --- merges and flushes

    def progress(self):
        """All that has ended by now, and what begins then."""
        if self.level0 and self.flush is None:
            self.level0.advance((self.now - self.disk_at) * self.o.disk)
            self.disk_at = self.now
        while self.flush is not None and self.flush.ends <= self.now:
            if self.flush.next < len(self.flush.slices):
                self.write_slice()
            else:
                self.end_flush()
        while self.merge():
            pass
        if self.flush is None and self.taken() >= self.p.starts_at * (self.o.rounds - 1):
            self.begin_flush()

    def merge(self):
        """RoundsToMerge, and the merge, which takes no time."""
        waiting = len(self.sealed) - (len(self.flush.rounds) if self.flush else 0)
        left, count = 0.0, 0
        for r in self.sealed[:waiting]:
            of_it = self.share(len(r.versions), r.logged)
            if count == 0 and (r.merged or of_it > 0.75 * self.share(r.entries, r.logged)):
                break
            if count > 0 and (of_it > self.p.larger * left or left + of_it > self.p.merged * self.o.rounds):
                break
            if 1.1 * (left + of_it) > self.room():
                break
            left, count = left + of_it, count + 1
        if count == 0:
            return False
        merged = Round()
        merged.merged = True
        for r in self.sealed[:count]:
            merged.logged += r.logged
            for key, versions in r.versions.items():
                merged.versions[key] = merged.versions.get(key, 0) + versions
        merged.entries = len(merged.versions)
        self.sealed[:count] = [merged]
        return True

    def begin_flush(self):
        """RoundsToFlush, and which keys a split flush keeps."""
        count, share = 0, 0.0
        for r in reversed(self.sealed):
            share += self.share(r.entries, r.logged)
            if count > 0 and share > max(1, self.p.group * self.o.rounds):
                break
            count += 1
        rounds = self.sealed[len(self.sealed) - count:]
        heat = {}
        for r in rounds:
            for key, versions in r.versions.items():
                heat[key] = heat.get(key, 0) + versions
        kept = {}
        if self.p.kept_rounds:
            younger = self.younger_than(rounds)
            hot = sorted(((h, key) for key, h in heat.items() if not any(key in r for r in younger)), reverse=True)
            kept = {key: h / 2 for h, key in hot[:int(self.p.kept_rounds * self.round_entries)]}
        keys = sorted(heat)
        step = max(1, len(keys) // 24)
        self.flush = Flush(rounds, kept, [keys[i:i + step] for i in range(0, len(keys), step)], self.now)
        self.write_slice()

    def younger_than(self, rounds):
        return [self.active.versions] + [r.versions for r in self.sealed[:len(self.sealed) - len(rounds)]]

    def write_slice(self):
        f = self.flush
        younger = self.younger_than(f.rounds)
        entries = sum(1 for key in f.slices[f.next]
                      if key not in f.kept and not any(key in versions for versions in younger))
        self.written += entries
        f.next += 1
        beside = self.o.compaction * entries
        if self.level0:
            f.written += [key for key in f.slices[f.next - 1]
                          if key not in f.kept and not any(key in versions for versions in younger)]
            beside = self.level0.advance(entries * self.level0.part_beside_flush())
        f.ends = max(f.ends, self.now) + (entries + beside) / self.o.disk
        if f.next == len(f.slices):
            f.ends += len(f.kept) * self.p.log_copies / self.o.disk

    def end_flush(self):
        f, self.flush = self.flush, None
        if self.level0:
            self.level0.add(f.written)
            self.disk_at = f.ends
            self.drained = sum(r.logged for r in f.rounds) / max(f.ends - f.begun, 1e-3)
        younger = self.younger_than(f.rounds)
        del self.sealed[len(self.sealed) - len(f.rounds):]
        self.flushes += 1
        if f.kept:
            retained = Round()
            retained.merged = True
            retained.versions = {k: h for k, h in f.kept.items() if not any(k in v for v in younger)}
            retained.entries = retained.logged = len(retained.versions)
            self.logged_anew += retained.entries
            self.sealed.append(retained)

    def counts(self):
        moved = self.level0.moved if self.level0 else self.o.compaction * self.written
        return self.written, self.logged_anew, self.now, self.waited, self.flushes, moved


def simulate(policy, options):
    draw = random.Random(1)
    weights = list(itertools.accumulate((i + 1) ** -options.theta for i in range(options.records)))
    keys, batch = range(options.records), options.memory // options.rounds // 20
    r, half = Range(policy, options), None
    for done in range(0, options.puts, batch):
        if half is None and done >= options.puts // 2:
            half, r.longest_wait = r.counts(), 0.0
            first = done
        r.put(draw.choices(keys, cum_weights=weights, k=batch))
    puts = done + batch - first
    written, anew, took, waited, flushes, moved = (b - a for a, b in zip(half, r.counts()))
    logs = policy.log_copies * (1 + anew / puts)
    level0 = [f"{moved / written:.2f}", str(r.level0.deepest)] if r.level0 else ["", ""]
    return [f"{written / puts:.3f}", f"{anew / puts:.3f}",
            f"{logs + (written + moved) / puts:.2f}", f"{puts / took / 1000:.1f}",
            f"{100 * waited / took:.0f} %", f"{1000 * r.longest_wait:.0f} ms", str(flushes),
            f"{r.most_logged / options.memory:.1f}", f"{sum(r.sealed_shares) / len(r.sealed_shares):.1f}"] + level0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", action="append", choices=list(POLICIES), metavar="NAME")
    parser.add_argument("--list", action="store_true", help="names of policies")
    parser.add_argument("--puts", type=int, default=10_000_000)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--memory", type=int, default=480_000, help="of all rounds, in entries")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--theta", type=float, default=0.99)
    parser.add_argument("--disk", type=float, default=50_000, help="entries a second")
    parser.add_argument("--compaction", type=float, default=0.3, help="moved for each entry written")
    parser.add_argument("--dranges", type=int, default=0, help="columns of Level0; 0: --compaction")
    parser.add_argument("--processor", type=float, default=1_000_000, help="puts a second")
    o = parser.parse_args()
    if o.list:
        print("\n".join(POLICIES))
        return
    line = "%-26s %8s %8s %8s %6s %6s %8s %8s %6s %8s %6s %5s"
    print(line % ("policy", "written", "relogged", "bytes", "K/s", "waits", "longest", "flushes", "logs", "sealed",
                  "moved", "runs"))
    for name in o.policy or POLICIES:
        print(line % (name, *simulate(POLICIES[name], o)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
