"""What surrounds the schedules is as pinned: worlds, sites, failures, places, CEIL, forecasts, the service, figures.

One scene of each kind; see `tests.digests.pins` on how to store anew.
"""

import numpy as np
import pytest

from experiments.console import plain
from experiments.papers.rush.jobs import EXPERIMENTS, jobs_of
from experiments.papers.rush.trials import Environment, Inputs, Learnt, collect, contention_of, learn, run_trial
from experiments.runs.policies import NamedPolicy
from experiments.runs.simulate import TABLES, NamedSimulation, run_by_name, table_by
from jobcast import Simulation, Workload, clean, evaluate, generate_log, make_policy, simulate, when_will_it_start
from predictors.data.synthetic.capability import generate_capability_log, mira_like_log
from predictors.models.similar_jobs import RecentRatios
from predictors.service.replay_check import drive
from schedsim.contention.background import Background
from schedsim.engine.start_times import Requested
from schedsim.machine.allocators import ALLOCATORS, make_allocator
from schedsim.machine.dilation import Dilation
from schedsim.machine.outages import Change, Outages, Reservation
from schedsim.machine.partitions import allocator_named, widened
from schedsim.machine.topology import Topology
from schedsim.results.site_metrics import by_queue, disturbed_figures, user_figures
from schedsim.sites.cobalt.accounts import Accounts, Project
from schedsim.sites.cobalt.big_run import big_run_commands, with_big_runs
from schedsim.sites.cobalt.commands import Command
from schedsim.sites.cobalt.queues import mira_router
from schedsim.sites.cobalt.rules import Rules
from schedsim.validate.checks import busy_workload
from schedsim.workload.deadlines import drawn, with_deadlines
from schedsim.workload.dependencies import Dependencies
from schedsim.workload.shaking import shaken
from tests.digests.pins import digest, of_schedule, of_table, pinned
from tests.support.cobalt_runs import busy_mira
from tests.support.service_in_thread import running
from tests.support.variability_data import dataset

WALL = ("engine_seconds", "jobs_per_second", "fit_seconds", "predict_us_per_job")
"""Figures that tell how fast this machine is."""


def log_of(n_jobs=600, **about):
    return clean(generate_log(n_jobs, **{"seed": 11, "procs": 64, "load": 1.0, "users": 12} | about))[0]


def without_empty(found):
    """Return what was found without what is unknown or empty."""
    if isinstance(found, dict):
        return {name: without_empty(value) for name, value in found.items() if value not in (None, "", [])}
    return [without_empty(one) for one in found] if isinstance(found, list) else found


def untimed(found):
    return {name: value for name, value in plain(found).items() if name not in WALL}


# --- a machine on which jobs disturb one another ---------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["easy", "rush"])
def test_a_trial_of_rush(policy):
    jobs, environment = jobs_of(EXPERIMENTS["ADAA"], 2), Environment()
    classifier = Learnt(learn(dataset(), "adaboost"), Inputs(jobs.apps)) if policy == "rush" else None
    found = run_trial(jobs, contention_of(jobs, environment, 2), environment.allocator, classifier)
    told = {name: getattr(found, name) for name in ("makespan", "calls", "skips", "met")}
    pinned("scenes", f"trial of RUSH, {policy}", told | of_table(found.runs))


def test_control_jobs():
    found = collect(Environment(Background(tau=600, step=60)), 1, 2)
    told = {scope: digest(data.rows, data.runs.start, data.runs.end) for scope, data in found.datasets.items()}
    pinned("scenes", "control jobs", told)


@pytest.mark.parametrize("by", ["start", "mean"])
def test_dilation(by):
    workload = Workload.from_log(log_of())
    found = simulate(workload, make_policy("easy"), kill=False, run_times=Dilation(limit=0.8, by=by, seed=3))
    pinned("scenes", f"dilation by {by}", of_schedule(found))


# --- a site ----------------------------------------------------------------------------------------------------------


def site(workload):
    """Return Mira's queues with three projects, one of which is spent soon, chains of jobs, and commands."""
    ids = workload.job_id.tolist()
    hours = float(workload.procs @ workload.requested) / 3600
    projects = (
        Project("a", "incite", hours / 4),
        Project("b", "alcc", hours / 40, spent=hours / 80),
        Project("c", "discretionary", hours, weight=2.0, start_score=5.0),
    )
    held, altered = int(workload.submit[40]), int(workload.submit[90])
    commands = [
        Command(held, "hold", ids[40]),
        Command(held + 50_000, "release", ids[40]),
        Command(altered + 1, "alter", ids[90], 1024, 7200),
        Command(altered + 9000, "big-run"),
    ]
    chains = Dependencies(np.array(ids[61:200:20]), np.array(ids[60:199:20]), np.arange(7) * 300)
    accounts = Accounts(projects, {job: number % 3 for number, job in enumerate(ids)}, 1_500_000_000)
    return Rules(mira_router(), dependencies=chains, accounts=accounts, commands=tuple(commands))


@pytest.mark.parametrize("policy", ["cobalt", "easy-sjbf", "default"])
def test_a_site(policy):
    workload = busy_mira(7)
    rules = site(workload)
    found = simulate(workload, make_policy(policy), rules=rules)
    told = {"queues": plain(by_queue(found, rules)), "asked": digest(found.workload.procs, found.workload.requested)}
    pinned("scenes", f"a site, {policy}", of_schedule(found) | told)


def test_a_log_like_miras_on_its_partitions():
    log = clean(mira_like_log(400, seed=3))[0]
    allocator = allocator_named("partitions", int(log.max_procs))
    schedule, found = run_by_name(log, "cobalt", allocator=allocator, rules=Rules(mira_router(), commands=()))
    told = {"nodes": digest(*schedule.nodes), "figures": untimed(found)}
    pinned("scenes", "a log like Mira's on its partitions", of_schedule(schedule) | told)


# --- places and failures ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["fcfs", "easy", "binpacking"])
@pytest.mark.parametrize("name", ALLOCATORS)
def test_places(name, policy):
    workload = Workload.from_log(log_of())
    found = simulate(workload, make_policy(policy), allocator=make_allocator(name, Topology(8, 8), seed=4))
    pinned("scenes", f"places, {name}, {policy}", of_schedule(found) | {"nodes": digest(*found.nodes)})


@pytest.mark.parametrize("policy", ["wfp3-easy", "easy-sjbf"])
def test_partitions(policy):
    allocator = allocator_named("partitions", 64)
    workload = widened(Workload.from_log(log_of()), allocator)
    found = simulate(workload, make_policy(policy), allocator=allocator)
    pinned("scenes", f"partitions, {policy}", of_schedule(found) | {"nodes": digest(*found.nodes)})


@pytest.mark.parametrize("interrupted", ["requeue", "drop"])
@pytest.mark.parametrize(
    ("policy", "way"),
    [
        *((policy, "counted") for policy in ("easy", "default", "conservative-compress", "hybrid-2", "binpacking")),
        *((policy, "placed") for policy in ("fcfs", "easy", "binpacking")),  # the others plan by counts alone
    ],
)
def test_outages(policy, way, interrupted):
    workload = Workload.from_log(log_of())
    last = int(workload.submit[-1])
    reserved = [Reservation(last // 4, last // 4 + 20_000), Reservation(last // 2, last // 2 + 9_000, 30)]
    changes = [
        one
        for begin in range(last // 10, last, last // 10)
        for one in (Change(begin, "fail", 3), Change(begin + 40_000, "repair", 3))
    ]
    outages = Outages(reserved, changes, interrupted, 5)
    allocator = make_allocator("first-fit", Topology(8, 8)) if way == "placed" else None
    found = simulate(workload, make_policy(policy), outages=outages, allocator=allocator)
    told = {"runs": digest(found.disturbed.runs), "dropped": int(found.disturbed.dropped.sum())}
    told |= {"figures": plain(disturbed_figures(found))}
    pinned("scenes", f"outages, {policy}, {interrupted}, {way}", of_schedule(found) | told)


def test_big_runs():
    workload = busy_mira(9)
    outages = Outages([Reservation(150_000, 190_000), Reservation(500_000, 520_000)])
    for name in ("easy", "cobalt"):
        policy, rules = make_policy(name), None
        if name == "cobalt":
            rules = Rules(mira_router(), commands=big_run_commands(outages, workload.machine_procs))
        else:
            policy = with_big_runs(policy, outages, workload.machine_procs)
        found = simulate(workload, policy, rules=rules, outages=outages)
        pinned("scenes", f"big runs, {name}", of_schedule(found))


# --- CEIL ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["ceil", "easy+ceil", "fcfs+ceil", "easy-sjbf+promise+ceil"])
def test_ceil(policy):
    workload = Workload.from_log(log_of())
    workload = with_deadlines(workload, drawn(workload, 0.3, 2))
    found = simulate(workload, make_policy(policy), kill=False, run_times=Dilation(limit=0.9, seed=1))
    told = {"deadlines": digest(workload.deadline), "users": plain(user_figures(found))}
    pinned("scenes", f"ceil, {policy}", of_schedule(found) | told)


# --- looks at a schedule ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimates", ["requested", "last-two", "default"])
@pytest.mark.parametrize("policy", ["easy", "default", "conservative-replan", "hybrid-2+promise", "cobalt", "ceil"])
def test_figures_explanations_and_laws(policy, estimates):
    log = log_of(300)
    named = NamedSimulation(log, NamedPolicy.of(policy), estimates, "incremental")
    schedule, found = named.run()
    told = untimed(found) | {by: plain(table_by(schedule, by)) for by in TABLES}
    waited = np.argsort(-schedule.wait, kind="stable")[:2]
    why = {str(job): named.explain(schedule, job).to_dict() for job in schedule.workload.job_id[waited].tolist()}
    told |= {"explained": without_empty(plain(why)), "laws": named.check(schedule)}
    pinned("looks", f"{policy} by {estimates}", told)


@pytest.mark.parametrize("policy", ["easy", "default", "cobalt", "hybrid-2"])
def test_start_times(policy):
    log = log_of(300)
    simulation = Simulation(Workload.from_log(log), make_policy(policy), log.values["requested_time"])
    simulation.run(until=int(log.values["submit"][200]))
    ratios = RecentRatios(log)
    ratios.advance(simulation.events())
    found = {}
    for job in simulation.workload.job_id[simulation.queued[:5]].tolist():
        for name, sampler in (("ratios", ratios), ("requested", Requested(simulation.workload.requested))):
            found[f"{job} by {name}"] = when_will_it_start(simulation, job, sampler, n=20, seed=6).starts.tolist()
    assert found
    pinned("scenes", f"start times, {policy}", found)


def test_events():
    """The event log of a simulation that was copied in between."""
    simulation = Simulation(busy_workload(seed=3), make_policy("easy-sjbf"))
    simulation.run(until=900)
    copy = simulation.fork()
    for one in (simulation, copy):
        one.run()
        pinned("scenes", "events", {"sha256": digest(one.events())})


# --- logs and evaluations --------------------------------------------------------------------------------------------


def test_generated_logs():
    logs = {
        "synthetic": generate_log(500, seed=3),
        "like Mira's": mira_like_log(500, seed=3),
        "of capability": generate_capability_log([(500, 0.1), (700, 0.2)], seed=3),
        "shaken": shaken(log_of(), 9),
    }
    pinned(
        "scenes", "generated logs", {name: [log.digest(), digest(*log.values.values())] for name, log in logs.items()}
    )


def test_an_evaluation():
    found = evaluate(log_of(), ["user-mean", "similar", "online-linear"], seed=1)
    pinned("looks", "evaluation", [untimed(score.to_json(detailed=True)) for score in found.scores])


# --- the service -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 50], ids=["one by one", "batches"])
@pytest.mark.parametrize("name", ["last-two", "online-linear", "similar"])
def test_a_service(tmp_path, name, batch):
    log = generate_log(100, seed=6)
    with running(tmp_path, name, time_zone=log.time_zone, machine_procs=log.max_procs) as one, one.client() as client:
        found = drive(client, log, batch=batch)
    told = {"sha256": digest(found.seconds), "answered_by": digest(found.answered_by), "last": found.last}
    pinned("scenes", f"service, {name}", told)
