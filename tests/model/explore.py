"""What the models share: all states that can be reached, breadth first, and the main that runs each variant.

A model gives: VARIANTS {name: what it leaves out}, "rule" among them; MUST_BREAK {variant: kind of trouble};
FIRST; steps(state, variant), which yields (name, state); wrong(state, variant), which says what is wrong in a
state, or None; and for what must stay possible: good(state), LASTING, the trouble where from some state no
good one can be reached any more, and counts(name), whether a step may be relied on for that. A model may give
canonical(state), the same for states that differ in names alone: one of them is searched for all; and
enlarge(), which sets the bounds for --large.
"""
import collections
import sys


def search(model, variant):
    """(states, what is wrong or None, the way there)."""
    canonical = getattr(model, "canonical", lambda state: state)
    first = canonical(model.FIRST)
    came_from = {first: None}
    queue = collections.deque([first])
    edges = {}
    while queue:
        s = queue.popleft()
        trouble = model.wrong(s, variant)
        if trouble:
            names, s = way(model, variant, canonical, came_from, s)
            return len(came_from), model.wrong(s, variant), names
        edges[s] = []
        for name, t in model.steps(s, variant):
            t = canonical(t)
            if model.counts(name):
                edges[s].append(t)
            if t not in came_from:
                came_from[t] = s
                queue.append(t)
    lost = hopeless(edges, model.good)
    if lost is not None:
        return len(came_from), model.LASTING, way(model, variant, canonical, came_from, lost)[0]
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


def way(model, variant, canonical, came_from, s):
    """The steps to s by name, and s, walked from the first state: each thing keeps its name all the way."""
    path = []
    while came_from[s] is not None:
        path.append(s)
        s = came_from[s]
    names = []
    at = model.FIRST
    for s in reversed(path):
        name, at = next((name, t) for name, t in model.steps(at, variant) if canonical(t) == s)
        names.append(name)
    return names, at


def main(model):
    chosen = [a.split("=", 1)[1] for a in sys.argv[1:] if a.startswith("--variant=")]
    if "--large" in sys.argv[1:]:
        model.enlarge()
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
