"""Rates as files that LDMS would have stored, for tests of what reads telemetry."""

from itertools import chain

import numpy as np

from predictors.data.telemetry.counters import COUNTERS, SAMPLERS, counters_of

DEVICE = {"sysclassib": "#hfi1_0.1", "opa_info": "", "lustre2_client": "#llite.lustre"}


def write_ldms(
    folder, nodes, samples, period=10.0, *, epoch=0.0, rollover=None, altheader=False, milliseconds=False, bits=None,
    begin=0, lost=0.0, skew=0.0, seed=0,
):  # fmt: skip
    """Write `FOLDER/SAMPLER/SAMPLER[.EPOCH]` for each sampler; return the number of rows.

    Parameters
    ----------
    folder : Path
        Made if it is not there.
    nodes : sequence of int
        Node 12 is the producer `nid00012`.
    samples : iterable of (float, array of shape (k, 90))
        Times [s], and the rates per second since the time before; NaN leaves the cell empty. One period before the
        first sample there is a row with the counters' first values.
    period : float
        How often samples come [s].
    epoch : float
        Added to all times [s].
    rollover : float, optional
        A new file every so many seconds, its name ending in the second of its first row; absent: one file.
    altheader : bool
        Write the header to a file of its own, NAME.HEADER.
    milliseconds : bool
        Times as Time_msec,Time_usec (`time_format=1`) rather than Time,Time_usec.
    bits : {32, 64}, optional
        Width of all counters; absent: that of each. A counter begins again at 0 after its largest value.
    begin : int
        First value of all counters.
    lost : float
        Share of rows that are lost, each sampler's by itself.
    skew : float
        Each node's clock is off by up to this [s], always by the same.
    seed : int
        Of the rows that are lost and of the skew.
    """
    nodes, random, rows = list(nodes), np.random.default_rng(seed), 0
    counters = np.full((len(nodes), len(COUNTERS)), begin, dtype=np.uint64)
    fractions = np.zeros(counters.shape)
    largest = np.array([2 ** (bits or counter.bits) - 1 for counter in COUNTERS], dtype=np.uint64)
    skews = np.rint(random.uniform(-1, 1, len(nodes)) * skew * 1e6).astype(np.int64)
    samples = ((time + epoch, np.asarray(rates, dtype=np.float32).astype(np.float64)) for time, rates in samples)
    first = next(samples)
    begun = [(first[0] - period, np.zeros(counters.shape))] if first[0] >= period else []
    before, ending, until = (begun or [first])[0][0], "", -np.inf
    for time, rates in chain(begun, [first], samples):
        moved = np.nan_to_num(rates) * (time - before) + fractions
        counters += np.floor(moved).astype(np.uint64)
        fractions, before = moved - np.floor(moved), time
        cells = np.where(np.isnan(rates), "", (counters & largest).astype("U20"))
        fresh = time >= until
        if fresh and rollover:
            ending, until = f".{int(time)}", (time // rollover + 1) * rollover
        elif fresh:
            until = np.inf
        clocks = [divmod(int(us), 1000 if milliseconds else 10**6) for us in np.maximum(round(time * 1e6) + skews, 0)]
        stamps = [f"{whole},{part}" if milliseconds else f"{whole}.{part:06},{part}" for whole, part in clocks]
        left = 0
        for sampler in SAMPLERS:
            right = left + len(counters_of(sampler))
            kept = np.flatnonzero(random.random(len(nodes)) >= lost)
            device = ",hfi1_0,1" if sampler == "opa_info" else ""
            lines = [
                f"{stamps[k]},nid{nodes[k]:05},{nodes[k]},0,0{device},{','.join(cells[k, left:right])}\n" for k in kept
            ]
            path = folder / sampler / f"{sampler}{ending}"
            if fresh:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("" if altheader else header(sampler, milliseconds))
            if fresh and altheader:
                path.with_name(f"{sampler}.HEADER{ending}").write_text(header(sampler, milliseconds))
            with path.open("a") as file:
                file.writelines(lines)
            left, rows = right, rows + len(lines)
    return rows


def header(sampler, milliseconds=False):
    """Return the first line of a sampler's file."""
    device = ",ca_name,port" if sampler == "opa_info" else ""
    names = "".join(f",{counter.column}{DEVICE[sampler]}" for counter in counters_of(sampler))
    time = "Time_msec" if milliseconds else "Time"
    return f"#{time},Time_usec,ProducerName,component_id,job_id,app_id{device}{names}\n"
