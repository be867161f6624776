"""`jobcast advise` and `jobcast tune`: what a site would gain by another policy, or by an agent tuned on its log."""

import shlex
from dataclasses import replace
from pathlib import Path
from time import perf_counter, time
from typing import Any

from experiments import console
from experiments.cli.options import advise as options
from experiments.cli.options.shared import JobsOptions, names_of
from experiments.cli.reading import caution_for, read
from experiments.reports.figures import refuse_report_folder, report_folder
from experiments.reports.manifest import slug
from experiments.reports.page import PAGE, files_of, write_report
from experiments.runs.clusters import Pool
from experiments.runs.policies import NamedPolicy, machine_at
from experiments.runs.simulate import learnt_from, loaded, ready_for
from experiments.site.advise import report as advised
from experiments.site.advise.advise import Question
from experiments.site.advise.validity import lacks_of_made_requests
from experiments.site.tune import report as tuning_report
from experiments.site.tune.judge import check_seeds, judge, with_test
from experiments.site.tune.search import Objective, check_cma, found_by
from experiments.site.tune.tune import Finder, Split, Tuning
from predictors.core.errors import JobcastError, unknown_name
from predictors.data.report import ReadingReport
from predictors.data.summary import Lack, prepare
from predictors.tracking.client import log_agent
from predictors.tracking.client import register as register_run
from predictors.tracking.uri import checked_alias, checked_name
from schedsim.agents.files import check_suffix, write_agent
from schedsim.sites.slurm.files import is_slurm


def advise(args: options.Advise) -> None:
    begin, workers = perf_counter(), Pool(**vars(args.pool))
    caution = caution_for(args.site, args.ungraded)
    jobs, account = read(args.log, args.jobs_of.requests_from)
    with console.after_reading(account):
        nodes = None if args.machine is None else machine_at(args.machine)
        today = NamedPolicy.of(args.current).files if is_slurm(args.current) else None
        ready = ready_for(nodes, jobs, reading=account, sites=(today,), **vars(args.jobs_of))
        cleaned = ready.used
        lacks = (*ready.lacks(args.kill), *lacks_of_made_requests(ready.prepared.log, cleaned, args.kill))
        lacks += (Lack("ungraded", caution, ""),) if caution else ()
        question = Question(
            cleaned, args.current, args.seeds, args.measure, args.predictor, args.agent, lacks, args.soft_limits, nodes,
            args.kill,
        )  # fmt: skip
        if args.predictor and learnt_from(loaded(args.predictor), jobs, cleaned):
            raise JobcastError(
                f"{args.predictor} learnt from this very log, its future included: nothing can be advised from that. "
                "Name the predictor instead, which starts knowing nothing and learns as jobs end."
            )
        for case in question.cases:
            if case.named.tuned_on(jobs, cleaned):
                raise JobcastError(
                    f"{case.policy} was tuned on a part of this very log: nothing can be advised from that. Advise on "
                    "the months that follow; the page of jobcast tune tells what it gains on the rest of this log."
                )
        page_of = f"advise-{slug(cleaned.name)}"
        refuse_report_folder(args.out, page_of)
        with console.resumable():
            found = question.run(args.out / page_of, workers)
        folder = report_folder(args.out, page_of)
    with console.working("Drawing"):
        advice = question.advice(found)
        source = _source(args.log, args.jobs_of, args.machine, args.kill)
        made = advised.report_on(advice, found, cleaned, source, args.soft_limits)
        if caution and made.first is not None:
            made = replace(made, first=replace(made.first, remedy=made.first.remedy or caution))
        report, page = write_report(folder, made, begin), folder / PAGE
    total = account + ready.account
    for planned in question.plan.logs.values():
        total += planned.of_policies or ReadingReport(cleaned.name)
    if args.as_json:
        more: dict[str, Any] = {"lacks": [lack.to_dict() for lack in advice.lacks]}
        more |= {"advice": advice.to_json(), "account": total.to_dict(), "page": str(page), "files": files_of(folder)}
        console.print_json(report.to_json() | more)
        return
    console.print_lacks(() if advice.forbidden else advice.lacks)
    for sentence in (*report.verdict, *report.details):
        console.say(f"{sentence}\n")
    console.print_account(total, listed=args.list_account)
    console.say(f"Every number, with its command: {page} ({report.seconds:.0f} s)")


def tune(args: options.Tune) -> None:
    began, begin, workers = time(), perf_counter(), Pool(**vars(args.pool))
    check_suffix(args.out)
    check_seeds(args.seeds)
    if args.agent not in ("linear", "network"):
        raise unknown_name("kind of agent to tune", args.agent, ("linear", "network"))
    find: Finder = found_by
    if args.agent == "linear":
        check_cma()
    else:
        from experiments.site.tune.reinforce import trained_on as find
    aim, rules = Objective(args.objective, args.tolerance), names_of(args.reserve)
    if args.alias is not None and args.register is None:
        raise JobcastError("--alias is for a registered agent; give --register NAME.")
    if args.register is not None:
        checked_name(args.register)
        checked_alias(args.alias) if args.alias is not None else None
    jobs, account = read(args.log, args.jobs_of.requests_from)
    with console.after_reading(account):
        prepared = prepare(jobs, reading=account, **vars(args.jobs_of))
        split = Split(prepared.used, args.train)
        tuning = Tuning(split, aim, rules, args.estimates, args.generations, args.seed, args.window, find)  # type: ignore[arg-type]
        page_of = f"tune-{slug(split.log.name)}"
        refuse_report_folder(args.report, page_of)
        tuned = tuning.run(workers)
        write_agent(tuned.agent, args.out)
        folder = report_folder(args.report, page_of)
        judged = judge(tuned, split.rest, args.out, aim, folder, args.seeds, workers)
    write_agent(with_test(tuned.agent, judged), args.out)
    with console.working("Drawing"):
        report = tuning_report.report_on(tuning, tuned, judged, args.out)
        made, page = write_report(folder, report, begin), folder / PAGE
    kept = None
    if args.register is not None:
        with console.working("Writing it down in MLflow"):
            told = with_test(tuned.agent, judged)
            figures = {name: value for name, value in told.origin.items() if name.endswith("_ratio")}
            params = {name: value for name, value in told.origin.items() if name not in figures}
            frame = {"reserve": told.reserve, "window": told.window, "base": told.base}
            params |= frame | {"estimates": told.estimates, "kind": told.kind, "digest": told.digest}
            title = f"agent on {split.log.name}"
            run = log_agent(
                title, args.out, params, figures, split.log, page=made.verdict, begin=began, files=made.figures
            )
            kept = register_run(run, args.register, args.alias)
    total, lacks = account + prepared.account, prepared.lacks()
    if args.as_json:
        more: dict[str, Any] = {"lacks": [lack.to_dict() for lack in lacks], "reserve": tuned.agent.reserve}
        more |= {"agent": str(args.out), "digest": tuned.agent.digest, "train": tuned.train, "choices": tuned.choices}
        more |= {"registered": None if kept is None else kept.uri, "account": total.to_dict(), "page": str(page)}
        console.print_json(made.to_json() | more | {"files": files_of(folder)})
        return
    console.print_lacks(lacks)
    for name in ("training and test", "test part, relative to EASY"):
        table = made.tables[name]
        console.print_table(name[0].upper() + name[1:], list(table.columns), table.itertuples(index=False))
    for sentence in made.verdict:
        console.say(f"{sentence}\n")
    console.print_account(total, listed=args.list_account)
    if kept is not None:
        console.say(f"Registered as {kept.uri}")
    policy = shlex.quote(f"agent:{args.out}")
    console.say(f"Wrote {args.out} (reservation rule {tuned.agent.reserve}): jobcast simulate NEXT --policy {policy}")
    console.say(f"Every number: {page} ({made.seconds:.0f} s)")


def _source(log: Path, jobs_of: JobsOptions, machine: Path | None, kill: bool) -> str:
    """Return the log and the options by which it is read, as `jobcast simulate` takes them."""
    parts = [str(log)]
    parts += ["--machine", str(machine)] if machine is not None else []
    for name, value in vars(jobs_of).items():
        option = f"--{name.replace('_', '-')}"
        parts += [] if value in (None, False) else [option] if value is True else [option, str(value)]
    parts += [] if kill else ["--no-kill"]
    return shlex.join(parts)
