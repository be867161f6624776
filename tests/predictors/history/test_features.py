"""The table of features: complete, consistent with the compiled step, and Reis's sixteen in order."""

import re

from predictors.history import _layout as at
from predictors.history.features import (
    CATEGORIES,
    FEATURES,
    REIS_FEATURES,
    RICH_FEATURES,
    WIDE_FEATURES,
    families_of,
    feature_plan,
    page,
)


def test_every_fact_has_exactly_one_name():
    assert sorted(feature.position for feature in FEATURES.values()) == list(range(at.N_FACTS))


def test_every_feature_says_what_it_is():
    for name, feature in FEATURES.items():
        assert feature.unit and feature.definition, name
        assert feature.kind in ("number", "category"), name


def test_reis_features_are_sixteen_of_which_the_last_five_are_categories():
    assert len(REIS_FEATURES) == 16
    assert [name in CATEGORIES for name in REIS_FEATURES] == [False] * 11 + [True] * 5


def test_plan_and_families_follow_the_names():
    assert feature_plan(["user", "procs"]).tolist() == [at.F_USER, at.F_PROCS]
    assert families_of(["procs"]) == at.JOB_FAMILY
    assert families_of(REIS_FEATURES) == at.JOB_FAMILY | at.CALENDAR_FAMILY | at.ENDED_FAMILY | at.RUNNING_FAMILY


def test_rich_features_are_forty_and_known():
    assert len(set(RICH_FEATURES)) == len(RICH_FEATURES) == 40
    assert feature_plan(RICH_FEATURES).size == 40
    assert len(set(WIDE_FEATURES)) == len(WIDE_FEATURES) == 61
    assert feature_plan(WIDE_FEATURES).size == 61 and WIDE_FEATURES[:40] == RICH_FEATURES


def test_the_page_tells_of_every_feature():
    _, alone, groups, facts = page().split("\n## ")
    named = [re.findall(r"^\* `(\w+)`: ", part, re.MULTILINE) for part in (alone, groups, facts)]
    told = named[0] + [f"{group}_{fact}" for group in named[1] for fact in named[2]]
    assert sorted(told) == sorted(FEATURES)
