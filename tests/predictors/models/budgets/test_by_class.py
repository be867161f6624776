"""A budget of underestimation in each class of jobs."""

import numpy as np
import pytest

from jobcast import JobcastError, generate_log, make_predictor
from predictors.history.history import Outcome
from predictors.models.budgets.by_class import BudgetByClass, class_of
from predictors.models.forest import Forest

BUDGET = 0.1


def rates(name, log, classes, **settings):
    """The share of the newest fifth of the jobs that ran longer than predicted, by class."""
    outran = make_predictor(name, budget=BUDGET, **settings).fit(log).predict(log) < log.filled("run_time")
    newest = slice(len(log) - len(log) // 5, None)
    return [float(outran[newest][classes[newest] == one].mean()) for one in range(4)]


def test_no_class_is_beyond_the_budget_where_one_share_for_all_leaves_some() -> None:
    for seed in (0, 4):
        log = generate_log(4000, seed=seed)
        classes = class_of(log.filled("requested_time").astype(float), "request")
        assert max(rates("with-budget-by-class", log, classes)) <= BUDGET + 0.005
        assert max(rates("with-budget", log, classes)) > BUDGET + 0.05


def test_an_outcome_moves_its_own_class_alone() -> None:
    model = BudgetByClass(budget=BUDGET)
    model.learn_one(Outcome(np.array([600.0, 100.0]), 100.0, 500.0, True, 0))
    before = model.class_shares_
    assert (before[1:] == 0).all() and before[0, 0] > 0
    model.learn_one(Outcome(np.array([86_400.0, 100.0]), 100.0, 50.0, True, 0))
    assert (model.class_shares_[:3] == before[:3]).all() and model.class_shares_[3, 0] < 0
    assert before[3, 0] == 0  # a copy that shares the table does not move


@pytest.mark.slow
def test_by_width_needs_the_processors() -> None:
    log = generate_log(1000, seed=2)
    with pytest.raises(JobcastError, match="by='procs' needs a predictor that reads the processors; similar reads"):
        BudgetByClass(by="procs").fit(log)
    model = BudgetByClass(by="procs", budget=0.3, predictor=Forest(n_estimators=2, max_nodes=50)).fit(log)
    assert len(set(model.class_shares_[:, 0].tolist())) > 1 and np.isfinite(model.predict(log)).all()
