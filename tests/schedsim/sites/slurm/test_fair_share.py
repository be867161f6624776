"""Slurm's fair-share: the published algorithms by a plain second reading, and their laws."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictors.core.errors import JobcastError
from schedsim.sites.slurm.fair_share import FairShare, Shares, decay_of
from schedsim.sites.slurm.usage import OF_PARENT, end_using, go_on, start_using


@st.composite
def trees(draw, parents=True):
    """A tree of accounts and users with usage; usage is whole, so that ties are ties."""
    n = draw(st.integers(2, 14))
    parent, is_user = [-1], [False]
    for _ in range(1, n):
        accounts = [i for i, user in enumerate(is_user) if not user]
        parent.append(draw(st.sampled_from(accounts)))
        is_user.append(draw(st.booleans()))
    least = OF_PARENT if parents else 0
    shares = draw(st.lists(st.integers(least, 4), min_size=n, max_size=n))
    usage = draw(st.lists(st.sampled_from([0, 1, 2, 4, 8, 64]), min_size=n, max_size=n))
    return Shares(np.array(parent), np.array(shares), np.array(is_user)), np.array(usage, dtype=float)


def plainly(tree, usage):
    """Return fair tree's factors by recursion, as Slurm 26.05 has them: it does not merge accounts that are equal."""
    parent, shares, is_user = tree.parent.tolist(), tree.shares.tolist(), tree.is_user.tolist()
    n = len(parent)

    def below(i):
        return usage[i] if is_user[i] else sum(below(j) for j in range(n) if parent[j] == i)

    def children(i):
        found = []
        for j in range(n):
            if parent[j] == i:
                found += [j] if is_user[j] or shares[j] != OF_PARENT else [j, *children(j)]
        return sorted(found)

    def fairness(i, above):
        if shares[i] == OF_PARENT:
            return math.inf if is_user[i] else 2**32 - 2
        if shares[i] == 0:
            return 0.0
        share = shares[i] / max(1, sum(max(0, shares[j]) for j in children(above)))
        part = below(i) / below(above) if below(above) else 0
        return share / part if part else math.inf

    users, ranks = sum(is_user), [0.0] * n
    state = {"rank": users, "next": users}

    def walk(siblings, tied_above):
        before = None
        for one, level in sorted(siblings, key=lambda one: (-one[1], not is_user[one[0]])):
            tied = tied_above if before is None else level == before
            if is_user[one]:
                if not tied:
                    state["rank"] = state["next"]
                ranks[one] = state["rank"] / users
                state["next"] -= 1
            elif shares[one] != OF_PARENT:
                walk([(j, fairness(j, one)) for j in children(one)], tied)
            before = level

    walk([(j, fairness(j, 0)) for j in children(0)], False)
    return ranks


def classic(tree, usage, damp):
    """Return 2^(-U/S/d) by recursion."""
    parent, shares, is_user = tree.parent.tolist(), tree.shares.tolist(), tree.is_user.tolist()
    used = [
        sum(usage[j] for j in range(len(parent)) if is_user[j] and i in ancestors(parent, j))
        for i in range(len(parent))
    ]

    def level(i):
        return sum(shares[j] for j in range(len(parent)) if parent[j] == parent[i])

    def normal(i):
        return 1.0 if i == 0 else normal(parent[i]) * shares[i] / max(1, level(i))

    def effective(i):
        own = used[i] / used[0] if used[0] else 0.0
        if i == 0 or parent[i] == 0:
            return own
        above = effective(parent[i])
        return above if level(i) == 0 else own + (above - own) * shares[i] / level(i)

    return [2 ** (-effective(i) / normal(i) / damp) if is_user[i] and normal(i) else 0.0 for i in range(len(parent))]


def ancestors(parent, i):
    """Return an entry and all above it."""
    return {i} if i == 0 else {i} | ancestors(parent, parent[i])


@given(trees())
@settings(max_examples=60, deadline=None)
def test_fair_tree_equals_a_plain_second_reading(made):
    tree, usage = made
    found = tree.factors(usage)
    assert found[tree.is_user].tolist() == [
        one for one, user in zip(plainly(tree, usage), tree.is_user, strict=True) if user
    ]


@pytest.mark.parametrize(
    ("parent", "shares", "users", "factors"),
    [
        # equal to the user before it, the second account hands that on to its first child, which has no user
        ([-1, 0, 0, 1, 1, 0, 0, 0], [0, 0, 0, 0, 1, 0, 0, 0], [2, 3], [1.0, 0.5]),
        ([-1, 0, 0, 1, 1], [1, 1, 1, 1, 0], [2, 3], [1.0, 1.0]),
        # the same where that first child is an account with its parent's shares
        ([-1, 0, 0, 1, 1], [0, 0, 0, OF_PARENT, 0], [2, 4], [1.0, 0.5]),
        # of equal accounts the second one's first user has the rank of the first one's last user
        ([-1, 0, 0, 1, 1, 2, 2], [1, 1, 1, 1, 0, 0, 1], [3, 4, 5, 6], [1.0, 0.75, 0.25, 0.75]),
    ],
)
def test_ties_of_fair_tree(parent, shares, users, factors):
    tree = Shares(np.array(parent), np.array(shares), np.isin(np.arange(len(parent)), users))
    assert (
        tree.factors(np.zeros(len(parent)))[users].tolist()
        == factors
        == np.array(plainly(tree, np.zeros(len(parent))))[users].tolist()
    )


@given(trees(parents=False), st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_the_classic_factor_equals_a_plain_second_reading(made, damp):
    tree, usage = made
    assert np.allclose(tree.factors(usage, "classic", damp), classic(tree, usage, damp), rtol=1e-12)


@given(trees(), st.sampled_from(["fair-tree", "classic", "depth-oblivious"]), st.integers(2, 9))
@settings(max_examples=40, deadline=None)
def test_laws_of_factors(made, algorithm, times):
    """From 0 to 1; more shares for all change nothing; more usage of all changes nothing; equals are equal."""
    tree, usage = made
    found = tree.factors(usage, algorithm)
    assert ((found >= 0) & (found <= 1)).all()
    assert (found[~tree.is_user] == 0).all()
    more = Shares(tree.parent, np.where(tree.shares > 0, tree.shares * times, tree.shares), tree.is_user)
    assert np.allclose(more.factors(usage, algorithm), found, rtol=1e-9)
    assert np.allclose(tree.factors(usage * 2.0**times, algorithm), found, rtol=1e-9)
    for i in np.flatnonzero(tree.is_user):
        alike = tree.is_user & (tree.parent == tree.parent[i]) & (tree.shares == tree.shares[i]) & (usage == usage[i])
        assert np.ptp(found[alike]) == 0


def test_who_uses_more_of_equal_shares_ranks_lower():
    tree = Shares(np.array([-1, 0, 0, 1, 1, 2]), np.ones(6, dtype=int), np.array([False] * 3 + [True] * 3))
    usage = np.array([0, 0, 0, 10.0, 20.0, 31.0])
    assert tree.factors(usage)[3:].tolist() == [1.0, 2 / 3, 1 / 3]
    assert tree.factors(usage[[0, 1, 2, 4, 3, 5]])[3:].tolist() == [2 / 3, 1.0, 1 / 3]


@pytest.mark.parametrize("algorithm", ["classic", "depth-oblivious"])
def test_a_user_with_the_shares_of_the_root_has_half_whatever_was_used(algorithm):
    """The root's effective usage is 1 in Slurm, also before the first job."""
    tree = Shares(np.array([-1, 0, 0]), np.array([1, OF_PARENT, 1]), np.array([False, True, True]))
    for used in (0.0, 7.0):
        assert tree.factors(np.array([0.0, used, 0.0]), algorithm).tolist() == [0.0, 0.5, 1.0]


def run_through(rule, events, until):
    """Return usage after rows (time, "start" or "end", job)."""
    usage = rule.begun()
    for time, what, row in events:
        (start_using if what == "start" else end_using)(usage, row, time)
    go_on(usage, until)
    return usage.entries["used"]


@given(
    st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 5000), st.integers(0, 2)), min_size=1, max_size=8),
    st.sampled_from([0, 3600, 100_000]),
    st.sampled_from([(), (2400,), (600, 4800)]),
)
@settings(max_examples=30, deadline=None)
def test_usage_equals_ticks_one_by_one(jobs, half_life, resets):
    """Each tick: all usage decays, then what ran since the last one is added, decayed by its length."""
    tree = Shares(np.array([-1, 0, 0, 0]), np.ones(4, dtype=int), np.array([False, True, True, True]))
    rule = FairShare(tree, np.array([user + 1 for *_, user in jobs]), np.full(len(jobs), 2.0), half_life, 300, resets)
    events = sorted([(start, "start", i) for i, (start, *_) in enumerate(jobs)]
                    + [(start + run, "end", i) for i, (start, run, _) in enumerate(jobs)],
                    key=lambda one: (one[0], one[1] == "start"))  # fmt: skip
    until = max(one[0] for one in events) + 1000
    factor = 1.0 if half_life == 0 else 1 - 0.693 / half_life
    expected, last, left = np.zeros(4), 0, list(resets)
    ticks, ends = set(range(300, until + 1, 300)), {start + run for start, run, _ in jobs}
    for now in sorted(ticks | ends):
        for start, run, user in jobs:
            if start + run == now:
                seconds = now - max(start, last)
                expected[user + 1] += 2.0 * seconds * factor**seconds
        if now not in ticks:
            continue
        while left and left[0] <= now:
            expected[:] = 0
            left.pop(0)
        expected *= factor**300
        for start, run, user in jobs:
            if start < now < start + run:
                seconds = now - max(start, last)
                expected[user + 1] += 2.0 * seconds * factor**seconds
        last = now
    assert np.allclose(run_through(rule, events, until), expected, rtol=1e-9, atol=1e-6)


def test_usage_halves_in_a_half_life():
    tree = Shares(np.array([-1, 0]), np.array([1, 1]), np.array([False, True]))
    rule = FairShare(tree, np.array([0]), np.ones(1), 100_000, 500, usage=np.array([0.0, 64.0]))
    assert run_through(rule, [], 100_000)[1] == pytest.approx(32.0, rel=1e-3)
    assert decay_of(0, 100) == 1.0


@pytest.mark.parametrize(
    ("parent", "shares", "is_user", "says"),
    [
        ([0], [1], [False], "is its root"),
        ([-1, 2, 0], [1, 1, 1], [False, True, False], "Entry 1 of a tree of shares has no account before it"),
        ([-1, 0, 1], [1, 1, 1], [False, True, True], "Entry 2 of a tree of shares has no account before it"),
        ([-1, 0], [1, -2], [False, True], "or parent; got -2"),
    ],
)
def test_no_tree(parent, shares, is_user, says):
    with pytest.raises(JobcastError, match=says):
        Shares(np.array(parent), np.array(shares), np.array(is_user))


def test_a_rule_out_of_range_is_refused():
    tree = Shares(np.array([-1]), np.array([1]), np.array([False]))
    for more, says in (
        ({"algorithm": "fair-three"}, "did you mean 'fair-tree'"),
        ({"calc_period": 0}, "calc_period is 1 or more"),
        ({"half_life": 0.5}, "half_life is 0, or 1 s or more"),
        ({"damp": 0.5}, "damp is 1 or more"),
    ):
        with pytest.raises(JobcastError, match=says):
            FairShare(tree, np.empty(0, dtype=int), np.empty(0), **more)
