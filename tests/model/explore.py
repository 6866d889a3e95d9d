"""What the models share: all states that can be reached, breadth first, and the main that runs each variant.

A model gives: VARIANTS {name: what it leaves out}, "rule" among them; MUST_BREAK {variant: kind of trouble};
FIRST; steps(state, variant), which yields (name, state); wrong(state, variant), which says what is wrong in a
state, or None; and for what must stay possible: good(state), LASTING, the trouble where from some state no
good one can be reached any more, and counts(name), whether a step may be relied on for that.
"""
import collections
import sys


def search(model, variant):
    """(states, what is wrong or None, the way there)."""
    came_from = {model.FIRST: None}
    queue = collections.deque([model.FIRST])
    edges = {}
    while queue:
        s = queue.popleft()
        trouble = model.wrong(s, variant)
        if trouble:
            return len(came_from), trouble, way(came_from, s)
        edges[s] = []
        for name, t in model.steps(s, variant):
            if model.counts(name):
                edges[s].append(t)
            if t not in came_from:
                came_from[t] = (s, name)
                queue.append(t)
    lost = hopeless(edges, model.good)
    if lost is not None:
        return len(came_from), model.LASTING, way(came_from, lost)
    return len(came_from), None, []


def hopeless(edges, good):
    """A state from which no good one can be reached, or None."""
    into = collections.defaultdict(list)
    for s, targets in edges.items():
        for t in targets:
            into[t].append(s)
    reached = [s for s in edges if good(s)]
    seen = set(reached)
    while reached:
        for s in into[reached.pop()]:
            if s not in seen:
                seen.add(s)
                reached.append(s)
    return next((s for s in edges if s not in seen), None)


def way(came_from, s):
    names = []
    while came_from[s] is not None:
        s, name = came_from[s]
        names.append(name)
    return names[::-1]


def main(model):
    chosen = [a.split("=", 1)[1] for a in sys.argv[1:] if a.startswith("--variant=")]
    failed = False
    for variant in chosen or model.VARIANTS:
        states, trouble, names = search(model, variant)
        kind = None if trouble is None else "lasting" if trouble == model.LASTING else "unsafe"
        as_expected = kind == model.MUST_BREAK.get(variant)
        failed |= not as_expected
        print("%-22s %7d states  %s%s" % (variant, states, trouble or "holds, searched to the end",
                                          "" if as_expected else "   NOT AS EXPECTED"))
        if chosen:
            for name in names:
                print("    " + name)
    return 1 if failed else 0
