"""What does a classifier see when RUSH asks, and who may answer? Live inputs, models from the registry, the oracle.

The 282 inputs of a start are those of the datasets: the window of counters as of now, from the ring that the world
feeds, over the job's tentative nodes or over all; the probes, run now on these nodes; the kind of the application.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from predictors.data.errors import JobcastError
from predictors.variability.ask import Question, ask
from predictors.variability.features import check_scope, feature_row
from predictors.variability.labels import LITTLE as FROM_LITTLE
from predictors.variability.labels import VARIATION as ABOVE
from predictors.variability.labels import Norms
from predictors.variability.ring import CounterRing
from predictors.variability.windows import WINDOW
from schedsim.contention.apps import App
from schedsim.contention.live import Live
from schedsim.gates import Candidate
from schedsim.rush import LITTLE, NONE, VARIATION

if TYPE_CHECKING:
    from predictors.saved.records import LoadedClassifier
    from predictors.variability.classifier import Classifier

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Inputs:
    """The inputs of starts, as of now.

    Parameters
    ----------
    apps : sequence of App
        The application of each job, by row of the workload.
    scope : {"all", "job"}
        Whose counters are pooled: all nodes', or the job's.
    probes : bool
        Whether the probes are run; else they are missing.
    """

    apps: Sequence[App]
    scope: str = "all"
    probes: bool = True

    def __post_init__(self) -> None:
        check_scope(self.scope)

    def row(self, live: Live, row: int, nodes: Ints) -> Floats:
        """Return the 282 inputs of a job that would start now on these nodes, in the order of `FEATURES`.

        Raises
        ------
        JobcastError
            If the world's counters are not kept in a ring.
        """
        asked = self.question(live, row, nodes)
        return feature_row(asked.window, asked.probes, asked.workload)

    def question(self, live: Live, row: int, nodes: Ints) -> Question:
        """Return what a classifier is asked about a job that would start now on these nodes.

        Raises
        ------
        JobcastError
            If the world's counters are not kept in a ring.
        """
        ring = live.sink
        if not isinstance(ring, CounterRing):
            raise JobcastError("RUSH needs the counters of the last minutes: give the world a CounterRing as its sink.")
        now = float(live.world.origin + live.now)
        pooled = nodes if self.scope == "job" else ring.nodes
        found = ring.windows(now, nodes if self.scope == "job" else None)
        probes = live.probe(row, nodes) if self.probes else None
        silent = float(found.silent[0]) / len(pooled)
        return Question(found.values[0], self.apps[row].workload, self.apps[row].name, probes, silent)


@dataclass(eq=False)
class Learnt:
    """A fitted classifier, asked live.

    Parameters
    ----------
    classifier : predictors.variability.classifier.Classifier
        Of two or three classes.
    inputs : Inputs
        What it is shown.
    abstained : int
        How often it did not know, or more nodes were silent than `predictors.variability.ask` lets pass; the job then
        starts.
    """

    classifier: "Classifier"
    inputs: Inputs
    abstained: int = 0

    def foresee(self, candidate: Candidate) -> str:
        """Return the class that the classifier says, see `schedsim.rush.Classifier`."""
        live, nodes = seen(candidate)
        found = ask(self.classifier, self.inputs.question(live, candidate.row, nodes))
        self.abstained += found.abstained
        return found.label


@dataclass(frozen=True, eq=False)
class Oracle:
    """Sees the true loads of now, and takes them to last: what no counter can tell better.

    Parameters
    ----------
    norms : Norms
        What is normal.
    apps : sequence of App
        The application of each job, by row of the workload.
    work : float64 array of shape (n_jobs,)
        How long each job takes where nobody disturbs it [s].
    """

    norms: Norms
    apps: Sequence[App]
    work: Floats = field(repr=False)

    def foresee(self, candidate: Candidate) -> str:
        """Return the class of the run time that the present would make."""
        live, nodes = seen(candidate)
        seconds = self.work[candidate.row] * live.slowdown(candidate.row, nodes).total
        z = self.norms.z([self.apps[candidate.row].name], [len(nodes)], [seconds])[0]
        return VARIATION if z > ABOVE else LITTLE if z >= FROM_LITTLE else NONE


def seen(candidate: Candidate) -> tuple[Live, Ints]:
    """Return the world and the tentative nodes.

    Raises
    ------
    JobcastError
        If there is no world that tells counters.
    """
    if not isinstance(candidate.world, Live) or candidate.nodes is None:
        raise JobcastError("RUSH asks about a machine with contention: simulate with a schedsim.contention World.")
    return candidate.world, candidate.nodes


def classifier_at(where: str) -> "LoadedClassifier":
    """Return a fitted classifier by its address.

    Parameters
    ----------
    where : str
        models:/NAME@ALIAS, models:/NAME/VERSION, runs:/RUN_ID, or a folder that `save_classifier` wrote.

    Raises
    ------
    JobcastError
        If there is none, or it learnt from windows of another length.
    """
    from predictors.tracking import load_classifier

    found = load_classifier(where)
    if found.origin.window != WINDOW:
        raise JobcastError(
            f"{where}: learnt from windows of {found.origin.window:g} s; RUSH's ring keeps {WINDOW:g} s. Train it on "
            "such windows."
        )
    return found
