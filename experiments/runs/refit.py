"""Training that waits for drift: a service is asked, and the champion must be beaten on the same jobs.

So a timer can run the command that trains again: it does nothing until the service says that its champion has become
worse than last-two, and a model that is no better than that champion takes no alias from it.
"""

from dataclasses import dataclass

from predictors.core.errors import JobcastError
from predictors.data.joblog import JobLog
from predictors.evaluation.drift import Drift
from predictors.evaluation.evaluate import jobs_that_count
from predictors.evaluation.metrics import ratio
from predictors.evaluation.results import Evaluation
from predictors.service.client import Client
from predictors.tracking.client import load_model

CHAMPION = "champion"


@dataclass(frozen=True)
class DriftThere:
    """What a service says of its champion."""

    url: str
    name: str  # registered name of its champion
    version: int
    drift: Drift  # whether it has become worse than last-two
    epoch: int | None  # second 0 of the service's clock in Unix time, if known

    @property
    def sentence(self) -> str:
        """What it says of the champion."""
        who = f"The champion {self.name} {self.version}"
        if self.drift.stands:
            return self.drift.sentence(who, self.epoch)
        found = f"{100 * self.drift.evidence:.2g} % of the evidence of an alarm"
        return f"{self.url}: {who} has not become worse than last-two ({found})."


def drift_at(url: str, token: str | None, name: str) -> DriftThere:
    """Ask a service whether its champion, which must have this registered name, has become worse than last-two."""
    with Client(url, token, timeout=60.0) as client:
        document = client.models()
    champion = next(one for one in document["models"] if one["role"] == CHAMPION)
    if "drift" not in champion:
        raise JobcastError(f"{url}: the service tells no drift; upgrade it.")
    if champion["name"] != name:
        raise JobcastError(
            f"{url}: its champion is {champion['name']!r}, not {name!r}; give --register {champion['name']}."
        )
    if champion["version"] is None:
        raise JobcastError(f"{url}: its champion {name!r} is no registered model; serve models:/NAME@champion.")
    epoch = 0 if document["clock"] == "unix" else None
    return DriftThere(url, name, champion["version"], Drift.from_json(champion["drift"]), epoch)


def check_beaten(found: Evaluation, predictor: str, log: JobLog, there: DriftThere) -> float:
    """Return a predictor's squared error over that of the champion on the jobs that were scored.

    Both predict each job as of its submission from the log's own history. The champion may have learnt from some of
    these jobs: that is in its favour.
    """
    champion = load_model(f"models:/{there.name}/{there.version}")
    jobs, _ = jobs_that_count(log)
    theirs = champion.predictor.predict(jobs)[-found.n_test :]
    ours = found[predictor].predicted
    beside = ratio(float(((ours - found.run_time) ** 2).sum()), float(((theirs - found.run_time) ** 2).sum()))
    if not beside < 1:
        raise JobcastError(
            f"{predictor} on the last {found.n_test:,} jobs of {found.log}: the squared error is {beside:.3f} times "
            f"that of the champion, {there.name} {there.version}, which stays. Give a newer or longer log, or another "
            "--predictor."
        )
    return beside
