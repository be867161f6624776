"""The loops of the synthetic job log, compiled: run-time quantiles, sessions of users, waits."""

from typing import Final

import numpy as np

from predictors.core.arrays import Floats, Ints
from predictors.core.jit import compiled

OPEN: Final = 8  # so many sessions are open at once at most; the one longest silent gives way


@compiled
def mixture_quantile(
    # share, weight: shape (n,); probability below the value looked for; weight of the first distribution
    share: Floats,
    weight: Floats,
    first: Floats,  # first, second: shape (n_knots,); cumulative distributions, not decreasing, beginning at 0
    second: Floats,
) -> Floats:
    """Invert the cut distribution weight * first + (1 - weight) * second, both tabulated at equal steps.

    Positions in the table are linear between knots; the table's last knot is the largest value there is.
    """
    position = np.empty(len(share))
    last = len(first) - 1
    for i in range(len(share)):
        w = weight[i]
        target = share[i] * (w * first[last] + (1.0 - w) * second[last])
        low, high = 0, last
        while high - low > 1:
            middle = (low + high) // 2
            if w * first[middle] + (1.0 - w) * second[middle] <= target:
                low = middle
            else:
                high = middle
        below = w * first[low] + (1.0 - w) * second[low]
        step = w * first[high] + (1.0 - w) * second[high] - below
        position[i] = low + (min((target - below) / step, 1.0) if step > 0.0 else 0.0)
    return position


@compiled
def sessions(
    times: Floats,  # shape (n_jobs,); submissions [s]
    # shape (n_jobs, 3); uniform in [0, 1): does a session go on; which session or which user's; running what
    chances: Floats,
    normals: Floats,  # shape (n_jobs,); standard normal: how an application's inputs change with a session
    user_cdf: Floats,  # shape (n_users,); cumulated activity of the users
    apps_per_user: int,  # so many applications a user has in hand
    # shape (5,); longest pause within a session [s]; chance that a job belongs to an open session; that a session runs
    # what the user ran before; that it runs something new; correlation of inputs between sessions
    rules: Floats,
) -> tuple[Ints, Ints, Floats]:
    """Assign each job a user and an application: sessions that go on while the pauses between their jobs are short.

    Returns
    -------
    user, app : int64 arrays of shape (n_jobs,)
        From 0; applications are numbered as they appear.
    inputs : float64 array of shape (n_jobs,)
        Standard normal, equal within a session.
    """
    pause, go_on, same, new, memory = rules[0], rules[1], rules[2], rules[3], rules[4]
    n_users = len(user_cdf)
    user, app, inputs = np.empty(len(times), np.int64), np.empty(len(times), np.int64), np.empty(len(times))
    in_hand = np.full((n_users, apps_per_user), -1, np.int64)
    state = np.zeros((n_users, apps_per_user))
    current = np.zeros(n_users, np.int64)
    owner, slot, latest = np.zeros(OPEN, np.int64), np.zeros(OPEN, np.int64), np.zeros(OPEN)
    n_open, n_apps = 0, 0
    for i in range(len(times)):
        kept = 0
        for k in range(n_open):
            if times[i] - latest[k] <= pause:
                owner[kept], slot[kept], latest[kept] = owner[k], slot[k], latest[k]
                kept += 1
        n_open = kept
        if n_open > 0 and chances[i, 0] < go_on:
            k = int(chances[i, 1] * n_open)
        else:
            u = min(int(np.searchsorted(user_cdf, chances[i, 1])), n_users - 1)
            chance = chances[i, 2]
            k = 0
            while k < n_open and owner[k] != u:
                k += 1
            if k == OPEN:
                k = int(np.argmin(latest))
            n_open = max(n_open, k + 1)
            if chance >= same:
                current[u] = int((chance - same) / (1.0 - same) * apps_per_user)
            c = current[u]
            if in_hand[u, c] < 0 or chance < new:
                in_hand[u, c] = n_apps
                n_apps += 1
                state[u, c] = normals[i]
            else:
                state[u, c] = memory * state[u, c] + np.sqrt(1.0 - memory * memory) * normals[i]
            owner[k], slot[k] = u, c
        latest[k] = times[i]
        user[i] = owner[k]
        app[i] = in_hand[owner[k], slot[k]]
        inputs[i] = state[owner[k], slot[k]]
    return user, app, inputs


@compiled
def earliest_starts(
    submit: Ints,  # submit, procs, run_time: shape (n_jobs,); sorted by submission; no job wider than `machine`
    procs: Ints,
    run_time: Ints,
    machine: int,  # processors there are
) -> Ints:
    """Give each job, in order of submission, the earliest start at which it holds back no job before it.

    Conservative backfilling by a clairvoyant: run times known, plans never changed. At no time do running jobs exceed
    the machine.
    """
    start = np.empty(len(submit), np.int64)
    at, free = np.empty(1024, np.int64), np.empty(1024, np.int64)
    at[0], free[0] = 0, machine
    head, end = 0, 1
    for i in range(len(submit)):
        while head + 1 < end and at[head + 1] <= submit[i]:
            head += 1
        at[head] = max(at[head], submit[i])
        if end == len(at):
            length = end - head
            room = max(1024, 4 * length)
            at_new, free_new = np.empty(room, np.int64), np.empty(room, np.int64)
            at_new[:length], free_new[:length] = at[head:end], free[head:end]
            at, free, head, end = at_new, free_new, 0, length
        first = k = head
        while True:
            if free[k] < procs[i]:
                first = k + 1
            elif k + 1 == end or at[k + 1] >= at[first] + run_time[i]:
                break
            k += 1
        start[i] = at[first]
        stop = at[first] + run_time[i]
        if k + 1 == end or at[k + 1] > stop:
            for j in range(end, k + 1, -1):
                at[j], free[j] = at[j - 1], free[j - 1]
            at[k + 1], free[k + 1] = stop, free[k]
            end += 1
        for j in range(first, k + 1):
            free[j] -= procs[i]
    return start
