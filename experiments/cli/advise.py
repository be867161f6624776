"""`jobcast advise` and `jobcast tune`: what a site would gain by another policy, or by an agent tuned on its log."""

import shlex
from pathlib import Path
from time import perf_counter, time
from typing import Annotated, Any

import typer

from experiments.cli.options import (
    Alias,
    JobsOptions,
    Json,
    ListAccount,
    MachineFile,
    PoolOptions,
    Seed,
    StopAtRequest,
    grouped,
    resumable,
)
from experiments.compare.result import LEAST
from experiments.console import say

SEEDS = 20


@grouped
def advise(
    log: Annotated[Path, typer.Argument(help="The site's job log in any known format.", metavar="LOG")],
    current: Annotated[
        str,
        typer.Option(
            help="What the site runs today: easy, conservative, wfp, fcfs, any policy's name; slurm:FILE is its own "
            "slurm.conf, with files of sacctmgr behind commas."
        ),
    ] = "easy",
    predictor: Annotated[
        str | None,
        typer.Option(help="Try EASY-SJBF by this predictor too: a name, or a model's address, models:/NAME@ALIAS."),
    ] = None,
    agent: Annotated[
        str | None, typer.Option(help="Try an agent file too, made by jobcast tune on earlier months.", metavar="FILE")
    ] = None,
    seeds: Annotated[
        int, typer.Option(help=f"Shaken copies of the log to simulate, at least {LEAST}; more make surer.", min=1)
    ] = SEEDS,
    measure: Annotated[
        str, typer.Option(help="What decides: mean_bounded_slowdown, mean_wait_s, p99_wait_s, …")
    ] = "mean_bounded_slowdown",
    soft_limits: Annotated[
        str | None,
        typer.Option(
            help="Ask what the site's own scheduler gains by soft limits: slurm, slurm-23.11 (before 25.05.4) or pbs.",
            metavar="SCHEDULER",
        ),
    ] = None,
    machine: MachineFile = None,
    kill: StopAtRequest = True,
    *,
    jobs_of: JobsOptions,
    pool: PoolOptions,
    out: Annotated[
        Path, typer.Option(help="Folder of reports; the advice makes its own in it.", writable=True, file_okay=False)
    ] = Path("reports"),
    list_account: ListAccount = False,
    as_json: Json = False,
) -> None:
    """Say in plain words what another policy or a predictor would gain on a log, and who would wait longer.

    Stopped and started again, it goes on where it was.
    """
    from experiments.console import after_reading, print_account, print_json, print_lacks, working
    from experiments.reports.figures import report_folder
    from experiments.reports.manifest import slug
    from experiments.reports.page import files_of, write_report
    from experiments.runs.on_nodes import ready_for
    from experiments.runs.simulate import learnt_from, loaded, tuned_on
    from experiments.site.advise.advise import Question
    from experiments.site.advise.report import report_on
    from experiments.site.advise.validity import lacks_of_made_requests
    from predictors.core.errors import JobcastError
    from predictors.data.formats.detect import read_log
    from predictors.data.report import ReadingReport
    from schedsim.machine.node_groups import read_machine

    begin, workers = perf_counter(), pool.built()
    with working(f"Reading {log}"):
        jobs, account = read_log(log)
    with after_reading(account):
        nodes = None if machine is None else read_machine(machine)
        ready = ready_for(nodes, jobs, reading=account, **vars(jobs_of))
        cleaned = ready.used
        lacks = (*ready.lacks(kill), *lacks_of_made_requests(ready.prepared.log, cleaned, kill))
        question = Question(cleaned, current, seeds, measure, predictor, agent, lacks, soft_limits, nodes, kill)
        if predictor and learnt_from(loaded(predictor), jobs, cleaned):
            raise JobcastError(
                f"{predictor} learnt from this very log, its future included: nothing can be advised from that. Name "
                "the predictor instead, which starts knowing nothing and learns as jobs end."
            )
        for policy in (question.cases[0].policy, "" if agent is None else f"agent:{agent.removeprefix('agent:')}"):
            if tuned_on(policy, jobs, cleaned):
                raise JobcastError(
                    f"{policy} was tuned on a part of this very log: nothing can be advised from that. Advise on the "
                    "months that follow; the page of jobcast tune tells what it gains on the rest of this log."
                )
        folder = report_folder(out, f"advise-{slug(cleaned.name)}")
        with resumable():
            found = question.run(folder, workers)
    with working("Drawing"):
        advice, source = question.advice(found), _source(log, jobs_of, machine, kill)
        report = report_on(advice, found, cleaned, folder, source, begin, soft_limits)
        page = write_report(folder, report)
    total = account + ready.account
    for planned in question.plan.logs.values():
        total += planned.of_policies or ReadingReport(cleaned.name)
    if as_json:
        more: dict[str, Any] = {"lacks": [lack.to_dict() for lack in advice.lacks]}
        more |= {"advice": advice.to_json(), "account": total.to_dict(), "page": str(page), "files": files_of(folder)}
        print_json(report.to_json() | more)
        return
    print_lacks(() if advice.forbidden else advice.lacks)
    for sentence in (*report.verdict, *report.details):
        say(f"{sentence}\n")
    print_account(total, listed=list_account)
    say(f"Every number, with its command: {page} ({report.seconds:.0f} s)")


@grouped
def tune(
    log: Annotated[Path, typer.Argument(help="The site's job log in any known format.", metavar="LOG")],
    train: Annotated[
        str, typer.Option(help="What is tuned on: a share of the jobs (0.5) or the first months (6mo, of 30 days).")
    ] = "0.5",
    objective: Annotated[
        str,
        typer.Option(
            help="constrained: wait and slowdown, while p99, the longest wait and the widest 5 % stay within the "
            "tolerance; five: all five figures, the worst counting most; slowdown or wait alone, which lets others pay."
        ),
    ] = "constrained",
    tolerance: Annotated[
        float, typer.Option(help="How much longer those three may become than under EASY: 0.05 is 5 %.")
    ] = 0.05,
    reserve: Annotated[
        str, typer.Option(help="Rules for the reserved job to choose from, in the training part: kept, oldest, again.")
    ] = "kept,oldest,again",
    estimates: Annotated[
        str,
        typer.Option(
            help="What the agent sees and the policy plans by: requested, any that jobcast simulate takes, or by role, "
            "order=NAME: the agent sees predictions, plans are made by requested times."
        ),
    ] = "requested",
    agent: Annotated[
        str,
        typer.Option(
            help="linear: twelve weights, searched by CMA-ES; network: a small network shared by all jobs, which "
            "learns by REINFORCE and fits machines of any size."
        ),
    ] = "linear",
    window: Annotated[int, typer.Option(help="How many jobs at the front of the queue the agent sees.")] = 50,
    generations: Annotated[
        int, typer.Option(help="Of the search, 12 agents each, or of the training; a network of 0 is untrained.", min=0)
    ] = 60,
    seed: Seed = 0,
    seeds: Annotated[int, typer.Option(help="Shaken copies of the test part, 5 or more.", min=1)] = 10,
    *,
    jobs_of: JobsOptions,
    pool: PoolOptions,
    out: Annotated[
        Path, typer.Option(help="The agent file: .npz, or .json to be read by people.", writable=True)
    ] = Path("agent.npz"),
    report: Annotated[
        Path, typer.Option(help="Folder of reports; the page makes its own in it.", writable=True, file_okay=False)
    ] = Path("reports"),
    register: Annotated[
        str | None, typer.Option(help="Register the agent in MLflow under this name.", metavar="NAME")
    ] = None,
    alias: Alias = None,
    list_account: ListAccount = False,
    as_json: Json = False,
) -> None:
    """Tune an agent on the first part of a log, test it on the rest, and say who would gain and who would pay.

    Then: jobcast simulate NEXT --policy agent:FILE. Needs the extra rl.
    """
    from experiments.cli.evaluate import names_of
    from experiments.console import after_reading, print_account, print_json, print_lacks, print_table, working
    from experiments.reports.figures import refuse_report_folder, report_folder
    from experiments.reports.manifest import slug
    from experiments.reports.page import files_of, write_report
    from experiments.site.tune.judge import check_seeds, judge, with_test
    from experiments.site.tune.objective import Objective
    from experiments.site.tune.report import report_on
    from experiments.site.tune.search import check_cma, found_by
    from experiments.site.tune.tune import Split, Tuning
    from predictors.core.errors import JobcastError, unknown_name
    from predictors.data.formats.detect import read_log
    from predictors.data.summary import prepare
    from predictors.tracking.client import log_agent
    from predictors.tracking.client import register as register_run
    from predictors.tracking.uri import checked_alias, checked_name
    from schedsim.agents.files import check_suffix, write_agent

    began, begin, workers = time(), perf_counter(), pool.built()
    check_suffix(out)
    check_seeds(seeds)
    if agent not in ("linear", "network"):
        raise unknown_name("kind of agent to tune", agent, ("linear", "network"))
    find = found_by
    if agent == "linear":
        check_cma()
    else:
        from experiments.site.tune.reinforce import trained_on as find  # type: ignore[assignment]  # needs Gymnasium
    aim, rules = Objective(objective, tolerance), names_of(reserve)
    if alias is not None and register is None:
        raise JobcastError("--alias is for a registered agent; give --register NAME.")
    if register is not None:
        checked_name(register)
        checked_alias(alias) if alias is not None else None
    with working(f"Reading {log}"):
        jobs, account = read_log(log)
    with after_reading(account):
        prepared = prepare(jobs, reading=account, **vars(jobs_of))
        split = Split(prepared.used, train)
        tuning = Tuning(split, aim, rules, estimates, generations, seed, window, find)  # type: ignore[arg-type]
        page_of = f"tune-{slug(split.log.name)}"
        refuse_report_folder(report, page_of)
        tuned = tuning.run(workers)
        write_agent(tuned.agent, out)
        folder = report_folder(report, page_of)
        judged = judge(tuned, split.rest, out, aim, folder, seeds, workers)
    write_agent(with_test(tuned.agent, judged), out)
    with working("Drawing"):
        made = report_on(tuning, tuned, judged, out, folder, begin)
        page = write_report(folder, made)
    kept = None
    if register is not None:
        with working("Writing it down in MLflow"):
            told = with_test(tuned.agent, judged)
            figures = {name: value for name, value in told.origin.items() if name.endswith("_ratio")}
            params = {name: value for name, value in told.origin.items() if name not in figures}
            frame = {"reserve": told.reserve, "window": told.window, "base": told.base}
            params |= frame | {"estimates": told.estimates, "kind": told.kind, "digest": told.digest}
            title = f"agent on {split.log.name}"
            run = log_agent(title, out, params, figures, split.log, page=made.verdict, begin=began, files=made.figures)
            kept = register_run(run, register, alias)
    total, lacks = account + prepared.account, prepared.lacks()
    if as_json:
        more: dict[str, Any] = {"lacks": [lack.to_dict() for lack in lacks], "reserve": tuned.agent.reserve}
        more |= {"agent": str(out), "digest": tuned.agent.digest, "train": tuned.train, "choices": tuned.choices}
        more |= {"registered": None if kept is None else kept.uri, "account": total.to_dict(), "page": str(page)}
        print_json(made.to_json() | more | {"files": files_of(folder)})
        return
    print_lacks(lacks)
    for name in ("training and test", "test part, relative to EASY"):
        table = made.tables[name]
        print_table(name[0].upper() + name[1:], list(table.columns), table.itertuples(index=False))
    for sentence in made.verdict:
        say(f"{sentence}\n")
    print_account(total, listed=list_account)
    if kept is not None:
        say(f"Registered as {kept.uri}")
    policy = shlex.quote(f"agent:{out}")
    say(f"Wrote {out} (reservation rule {tuned.agent.reserve}): jobcast simulate NEXT --policy {policy}")
    say(f"Every number: {page} ({made.seconds:.0f} s)")


def _source(log: Path, jobs_of: JobsOptions, machine: Path | None, kill: bool) -> str:
    """Return the log and the options by which it is read, as `jobcast simulate` takes them."""
    parts = [str(log)]
    parts += ["--machine", str(machine)] if machine is not None else []
    for name, value in vars(jobs_of).items():
        option = f"--{name.replace('_', '-')}"
        parts += [] if value in (None, False) else [option] if value is True else [option, str(value)]
    parts += [] if kill else ["--no-kill"]
    return shlex.join(parts)
