"""An explanation in plain words, one line for each stretch of waiting."""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from schedsim.explain.explain import Explanation, Stretch
from schedsim.explain.reasons import Reason, Rule
from schedsim.kernels.places.records import UNLIMITED
from schedsim.workload.demands import KB_OF_GB

MOST_LINES: Final = 12
MOST_NAMES: Final = 8

_HOW: Final = MappingProxyType(
    {
        "ready": "in the queue's order at once",
        "reserved": "in the queue's order, having held a reservation",
        "backfilled": "backfilled",
    }
)


_TIMES: Final = re.compile(r"t=(-?\d+)(?: to (-?\d+))?")  # how a sentence names a second of the log, or two


def in_words(
    explanation: Explanation,
    most_lines: int = MOST_LINES,  # stretches of waiting to show
    # returns the date of a second of the log; without it sentences have seconds, such as `t=90`
    clock: Callable[[int], str] | None = None,
) -> list[str]:
    """Return the chain as sentences; of a long one the middle is left out."""
    lines = _sentences(explanation, most_lines)
    return lines if clock is None else [_TIMES.sub(lambda found: _dated(found, clock), line) for line in lines]


def _dated(found: re.Match[str], clock: Callable[[int], str]) -> str:
    """Return one second, or two, with their dates; with the day of the second if it differs."""
    dates = [clock(int(second)) for second in found.groups() if second is not None]
    return " to ".join(dates[:1] + [date.removeprefix(dates[0][:11]) for date in dates[1:]])


def _sentences(explanation: Explanation, most_lines: int) -> list[str]:
    e = explanation
    lines = [
        f"Job {e.job_id} ({e.demand or _processors(e.procs)}, {e.requested} s requested, {e.estimate} s estimated) was "
        f"submitted at t={e.submit} and started at t={e.start}, after {e.start - e.submit} s."
    ]
    chain = [(stretch.first, _stretch(e, stretch)) for stretch in e.chain]
    if len(chain) > most_lines:
        half = most_lines // 2
        more = f"… {len(chain) - 2 * half} more changes of what kept it; see --json …"
        chain[half : len(chain) - half] = [(chain[half][0], more)]
    told = [
        (end, f"t={end}: job {by} preempted it; its run from t={start} on was lost.") for start, end, by in e.stopped
    ]
    told += chain
    for end in dict.fromkeys(end for _, end in e.stops):
        names = [str(job) for job, then in e.stops if then == end]
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        told.append((end, f"t={end}: it preempted job{'s' * (len(names) > 1)} {', '.join(names[:MOST_NAMES])}{more}."))
    lines += [text for _, text in sorted(told, key=lambda one: one[0])]
    if e.passed_by:
        lines.append(_passed(e))
    if e.looked_at < e.instants:
        lines.append(f"Examined {e.looked_at} of the {e.instants} scheduling instants at which it waited.")
    return lines


def _stretch(e: Explanation, stretch: Stretch) -> str:
    when = f"t={stretch.last}"
    if stretch.instants > 1:
        when = f"t={stretch.first} to {stretch.last} ({stretch.instants} instants), lastly"
    return f"{when}: {_SENTENCES[stretch.finding.rule](e, stretch, stretch.finding)}."


def _processors(n: int) -> str:
    return f"{n} processor{'s' if n != 1 else ''}"


def _passed(e: Explanation) -> str:
    backfilled = sum(how == "backfilled" for _, _, how in e.passed_by)
    names = ", ".join(str(job) for job, _, _ in e.passed_by[:MOST_NAMES])
    more = f" and {len(e.passed_by) - MOST_NAMES} more" if len(e.passed_by) > MOST_NAMES else ""
    return (
        f"{len(e.passed_by)} jobs that were submitted after it started before it, {backfilled} of them backfilled: "
        f"{names}{more}."
    )


def _starts(e: Explanation, stretch: Stretch, f: Reason) -> str:
    text = f"started, {_HOW[e.started_by]}{_picked(f)}; free were {f.free}"
    if f.head is None or f.shadow is None:
        return text
    if f.extra is None and stretch.would_end > f.shadow:
        return f"{text}; job {f.head} still has a place at its shadow time t={f.shadow}"
    if stretch.would_end <= f.shadow:
        return f"{text}; it would end at t={stretch.would_end}, by the shadow time t={f.shadow} of job {f.head}"
    return f"{text}; it needs {e.procs} of the {f.extra} extra next to job {f.head} at its shadow time t={f.shadow}"


def _picked(f: Reason) -> str:
    """Return which place of its window an agent picked the job from, and its score."""
    if f.place is None:
        return ""
    ending = "th" if f.place % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(f.place % 10, "th")
    score = "" if f.score is None else f": score {f.score:.4g}"
    return f", picked {f.place}{ending} of {f.choices}{score}"


def _head(e: Explanation, stretch: Stretch, f: Reason) -> str:
    led = f"it held the reservation{_picked(f)}" if f.place is not None else "it headed the queue"
    starts = "may start" if f.lacking is None else "has a place"
    when = "it does not fit on what is up" if f.shadow is None else f"it {starts} at t={f.shadow}"
    if f.lacking is not None and f.collides is not None:
        return (
            f"{led}, but by its requested time it would run into what is reserved of the machine from t={f.collides} "
            f"on; by the estimates {when}"
        )
    if f.lacking is not None:
        return f"{led}, but {_lacking(e, f)}; by the estimates {when}"
    if f.collides is not None:
        return (
            f"{led}; {_processors(f.free)} were free, but by its requested time it would run into what "
            f"is reserved of the machine from t={f.collides} on; by the estimates {when}"
        )
    if f.shadow is None:
        return f"{led}, but needs {_processors(e.procs)} and {f.free} were free; by the estimates {when}"
    if f.room is not None and e.procs <= f.free:
        return f"{led}; {_above(e, f)}; by the estimates it may start at t={f.shadow}"
    if e.procs <= f.free:
        return f"{led}; {_no_place(e, stretch, f)}; by the estimates it has one at t={f.shadow}"
    return f"{led}, but needs {_processors(e.procs)} and {f.free} were free; by the estimates it fits at t={f.shadow}"


_RESOURCES: Final = MappingProxyType({"processors": "processors", "gpus": "GPUs", "memory": "memory"})
"""What nodes have, in words."""


def _lacking(e: Explanation, f: Reason) -> str:
    lacks = [_RESOURCES[name] for name in f.lacking or () if name in _RESOURCES]
    lacks += ["nodes that no other job holds"] if "nodes" in (f.lacking or ()) else []
    what = "its nodes lacked " + " and ".join(lacks) if lacks else "no nodes had all at once that it asks for"
    free = [_processors(f.free)]
    free += [f"{f.free_gpus} GPU{'s' if f.free_gpus != 1 else ''}"] if f.free_gpus is not None else []
    if f.free_memory is not None and f.free_memory < UNLIMITED:
        free.append(f"{f.free_memory / KB_OF_GB:,.4g} GB")
    return f"{what}: it asks for {e.demand}, and on the nodes that it may use {', '.join(free)} were free"


def _resources(e: Explanation, stretch: Stretch, f: Reason) -> str:
    head = "" if f.head is None else f"; job {f.head} headed the queue"
    return f"{_lacking(e, f)}{head}"


def _too_few(e: Explanation, stretch: Stretch, f: Reason) -> str:
    head = "" if f.head is None else f"; {'it' if f.head == e.job_id else f'job {f.head}'} headed the queue"
    own = f"; its own reservation was for t={f.reserved}" if f.reserved is not None else ""
    return f"too few processors were free: it needs {e.procs}, free were {f.free}{head}{own}"


def _no_place(e: Explanation, stretch: Stretch, f: Reason) -> str:
    return f"{_processors(f.free)} were free, but in no place for its {e.procs}"


def _turn(e: Explanation, stretch: Stretch, f: Reason) -> str:
    until = "as it does not fit on what is up" if f.shadow is None else f"until t={f.shadow} by the estimates"
    return (
        f"it was not its turn: job {f.head} headed the queue, blocked {until}, and "
        f"{f.reason or 'no job may pass the head under this policy'}"
    )


def _shadow(e: Explanation, stretch: Stretch, f: Reason) -> str:
    if f.extra is None:
        return (
            f"job {e.job_id} was not backfilled: it would end at t={stretch.would_end}, after the shadow time "
            f"t={f.shadow} of job {f.head}, and would lie in its place{_remedy(stretch, f)}"
        )
    return (
        f"job {e.job_id} was not backfilled: it would end at t={stretch.would_end}, after the shadow time t={f.shadow} "
        f"of job {f.head}, and needs {_processors(e.procs)} where {f.extra} are extra{_remedy(stretch, f)}"
    )


def _remedy(stretch: Stretch, f: Reason) -> str:
    least = (f.shadow or 0) - stretch.last
    return f" (an estimate of at most {least} s would have let it start)" if least > 0 else ""


def _promise(e: Explanation, stretch: Stretch, f: Reason) -> str:
    place = "would lie in its place then"
    if f.extra is not None:
        place = f"it needs {_processors(e.procs)} where {f.extra} are free next to it then"
    return (
        f"job {e.job_id} was not backfilled: by its requested time it would end at t={stretch.last + e.requested}, "
        f"after t={f.shadow}, which job {f.head} was promised, and {place}"
    )


def _reservation(e: Explanation, stretch: Stretch, f: Reason) -> str:
    names = ", ".join(map(str, f.blockers[:MOST_NAMES])) + (", …" if len(f.blockers) > MOST_NAMES else "")
    own = f"; its own is for t={f.reserved}" if f.reserved is not None else ""
    jobs = f"job{'s' if len(f.blockers) > 1 else ''} {names}"
    return (
        f"job {e.job_id} was not backfilled: it would end at t={stretch.would_end}, and from t={f.collides} on needs "
        f"processors that are reserved for {jobs}{own}"
    )


def _outage(e: Explanation, stretch: Stretch, f: Reason) -> str:
    head = "" if f.head in (None, e.job_id) else f"; job {f.head} headed the queue"
    own = "" if f.reserved is None else f"; its own reservation is for t={f.reserved}"
    return (
        f"{_processors(f.free)} were free, but by its requested time it would run until "
        f"t={stretch.last + e.requested}, into what is reserved of the machine from t={f.collides} on{own}{head}"
    )


def _gate(e: Explanation, stretch: Stretch, f: Reason) -> str:
    return f"it could have started, but was held: {f.reason or 'the gate gives no reason'}"


def _not_chosen(e: Explanation, stretch: Stretch, f: Reason) -> str:
    return f"it would fit into the {f.free} free processors, but the policy chose other jobs"


def _window(e: Explanation, stretch: Stretch, f: Reason) -> str:
    return "it was too far back in the queue for the policy to consider it"


def _above(e: Explanation, f: Reason) -> str:
    return (
        f"{_processors(f.free)} were free, but under the ceiling on utilisation it may use {max(0, f.room or 0)} of "
        f"them and needs {e.procs}"
    )


def _ceiling(e: Explanation, stretch: Stretch, f: Reason) -> str:
    return f"{_above(e, f)}{'' if f.head is None else f'; job {f.head} headed the queue'}"


def _postponed(e: Explanation, stretch: Stretch, f: Reason) -> str:
    return f"it was postponed until t={f.due} at the latest{'' if f.head is None else _why_not(e, stretch, f)}"


def _why_not(e: Explanation, stretch: Stretch, f: Reason) -> str:
    if f.lacking is not None:
        return f"; {_lacking(e, f)}"
    if f.room is not None and e.procs > f.room:
        return f"; as a backfill it had {f.room} processors and needs {e.procs}"
    return f"; as a backfill it would have delayed job {f.head}"


def _share(e: Explanation, stretch: Stretch, f: Reason) -> str:
    if e.procs > (f.room or 0):
        return (
            f"its queue may use a share of the machine, of which {f.room or 0} processors were left, and it needs "
            f"{e.procs}; by the estimates its share suffices at t={f.shadow}"
        )
    return (
        f"its queue may use a share of the machine, and what is left of it is reserved for another job at t={f.shadow}"
    )


def _held(e: Explanation, stretch: Stretch, f: Reason) -> str:
    return f"it was held, since {f.reason}"


_SENTENCES: Final[Mapping[Rule, Callable[[Explanation, Stretch, Reason], str]]] = MappingProxyType(
    {
        "starts": _starts,
        "head": _head,
        "processors": _too_few,
        "place": _no_place,
        "turn": _turn,
        "shadow": _shadow,
        "promise": _promise,
        "reservation": _reservation,
        "gate": _gate,
        "outage": _outage,
        "resources": _resources,
        "not chosen": _not_chosen,
        "window": _window,
        "ceiling": _ceiling,
        "put off": _postponed,
        "share": _share,
        "held": _held,
    }
)
