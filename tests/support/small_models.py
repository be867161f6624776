"""Parameters with which predictors are quick to learn."""

SMALL = {
    "forest": {"n_estimators": 4, "max_nodes": 400}, "boosted": {"n_estimators": 4},
    "average": {"n_boosted": 2, "n_forest": 2}, "stack": {"n_boosted": 2, "n_forest": 2},
    "censored": {"n_estimators": 4}, "chain": {"predictor": "boosted", "settings": {"n_estimators": 4}},
}  # fmt: skip
