"""The subcommands of contend as calls that give tables.

A keyword is a flag of the subcommand: `memory_node=1` is `--memory-node 1`, a switch is True, a list is a list. What the
flags are, `contend SUBCOMMAND --help` says; a wrong one is a `UsageError` with the command's message.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from .executable import UsageError, Word, flags, run, run_json
from .tables import CURVE, csv_frame, curves_frame, frame

FOUND, BOUND = 1, 3
"""Exit statuses of `contend check` with results: something is wrong; nothing is, but a limit cut something off."""


@dataclass(frozen=True)
class Simulation:
    """What `simulate` gives: throughput by lock and cores with its range over the seeds, and what the simulated machine counted in the
    run of each lock on each number of cores whose throughput is the median."""

    curves: pd.DataFrame
    runs: pd.DataFrame
    document: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Simulation:
        """The tables of the JSON that the command printed."""
        runs = frame(counted(run) for run in document["runs"])
        return cls(curves_frame(document["curves"]), runs, document)


def counted(run: Mapping[str, Any]) -> dict[str, Any]:
    """A run with the counts of the machine as a whole; those of each line and lock are in the document."""
    report = run["report"]
    of_all = {name: report[name] for name in ("all_lines", "transactions", "totals") if name in report}
    return {name: value for name, value in run.items() if name != "report"} | of_all


def simulate(workload: str, **options: Any) -> Simulation:
    """Runs a workload and locks on a simulated machine: `contend simulate`."""
    if options.get("sweep_back_off"):
        raise UsageError("sweep_back_off gives no curves: run `contend simulate --sweep-back-off --json`")
    return Simulation.of(run_json(["simulate", "--json", *flags(options), "--", workload]))


@dataclass(frozen=True)
class Profile:
    """What `profile` and `report` give.

    `locks` has the columns of `contend report --csv`, which docs/profile.md explains; `distributions` the histograms of
    waits, holds, think times and hand-overs; `header` is about the run as a whole; `output` what the program printed.
    """

    path: Path
    locks: pd.DataFrame
    distributions: pd.DataFrame
    header: Mapping[str, Any]
    output: str = field(default="", repr=False)


def report(profile: Word, *, output: str = "", **options: Any) -> Profile:
    """Reads a profile: `contend report`."""
    words = [*flags(options), "--", profile]
    document = run_json(["report", "--json", *words])
    locks = csv_frame(run(["report", "--csv", *words]))
    return Profile(Path(profile), locks, frame(_buckets(document["rows"])), document["header"], output)


def _buckets(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in rows:
        for use in ("exclusive", "shared"):
            for quantity, times in row[use].items():
                if isinstance(times, dict) and "buckets" in times:
                    for bucket in times["buckets"]:
                        yield {"site": row["site"], "use": use, "quantity": quantity, **bucket}


def profile(*program: Word, output: Word = "p.contend", **options: Any) -> Profile:
    """Runs a program and records its locks in the file `output`: `contend profile`."""
    said = run(["profile", "--quiet", *flags({"output": output, **options}), "--", *program])
    return report(output, output=said)


@dataclass(frozen=True)
class Prediction:
    """What `predict` gives.

    `curves` are relative to one thread of the baseline, with their ranges. `verdicts` has a row for each of them; `advice` what to
    change, with what that gives.
    """

    lock: str
    curves: pd.DataFrame
    verdicts: pd.DataFrame
    advice: pd.DataFrame
    document: Mapping[str, Any] = field(repr=False)


def predict(profile: Word, *profiles: Word, **options: Any) -> Prediction:
    """Forecasts from profiles what a program does on more cores: `contend predict`."""
    document = run_json(["predict", "--json", *flags(options), "--", profile, *profiles])
    kept: tuple[str, ...]
    if document["engine"] == "chain":
        lock = document["lock"]
        answers = lock["predictions"]
        kept = ("name", "as_it_is", "peak_cores", "peak_speedup", "collapse_cores", "verdict")
        name = lock["observed"]["name"]
    else:
        answers, name = document["rows"], document["lock"]
        kept = ("lock", "code", "verdict")
    return Prediction(
        lock=name,
        curves=curves_frame([one["curve"] for one in answers]),
        verdicts=frame({name: answer[name] for name in kept} for answer in answers),
        advice=frame(document["advice"]),
        document=document,
    )


@dataclass(frozen=True)
class Extrapolation:
    """What `extrapolate` gives: each curve with the points that continue it, a verdict on each, and the laws behind it."""

    curves: pd.DataFrame
    verdicts: pd.DataFrame
    laws: pd.DataFrame
    document: list[Any] = field(repr=False)


def extrapolate(*measured: Word | pd.DataFrame, **options: Any) -> Extrapolation:
    """Says how measured curves go on with more cores: `contend extrapolate`.

    A curve is a file, or a table: of curves, or of `cores` and `throughput` with a row for each run.
    """
    with _files(measured) as files:
        document = run_json(["extrapolate", "--json", *flags(options), "--", *files])
    label = [answer["measured"]["label"] for answer in document]
    kept = ("last_measured", "peak_cores", "collapse_cores", "verdict")
    return Extrapolation(
        curves=curves_frame(answer["answer"] for answer in document),
        verdicts=frame({"label": of} | {name: answer[name] for name in kept} for of, answer in zip(label, document)),
        laws=frame({"label": of} | law for of, answer in zip(label, document) for law in answer["laws"]),
        document=document,
    )


@contextmanager
def _files(measured: tuple[Word | pd.DataFrame, ...]) -> Iterator[list[Word]]:
    """A file for each table, as long as it is needed."""
    with tempfile.TemporaryDirectory(prefix="contend-") as folder:
        files: list[Word] = []
        for number, one in enumerate(measured, 1):
            if isinstance(one, pd.DataFrame):
                path = Path(folder, f"table-{number}.csv")
                known = [name for name in (*CURVE, "cores", "value", "low", "high") if name in one]
                columns = known if "label" in one else ["cores", "throughput"]
                if missing := [name for name in columns if name not in one]:
                    raise UsageError(
                        f"the table has no column {', '.join(missing)}: it needs cores and throughput, or those of a curve"
                    )
                one.to_csv(path, columns=columns, index=False)
                files.append(path)
            else:
                files.append(one)
        yield files


@dataclass(frozen=True)
class Check:
    """What `check` gives: a row for each client and model, and one for each mutant if it was asked for them.

    `verified` tells whether every execution of every client was seen, and nothing was wrong in any; `wrong` whether
    something was. With neither, a limit cut something off.
    """

    explorations: pd.DataFrame
    mutants: pd.DataFrame
    document: list[Any] = field(repr=False)

    @classmethod
    def of(cls, document: list[Any]) -> Check:
        """The tables of the JSON that the command printed."""
        explorations = [{"lock": one["lock"], **found} for one in document for found in one["explorations"]]
        mutants = [{"lock": one["lock"], **mutant} for one in document for mutant in one["mutants"]]
        return cls(frame(map(_explored, explorations)), frame(mutants), document)

    @property
    def verified(self) -> bool:
        return all(found["complete"] for found in _explorations(self.document))

    @property
    def wrong(self) -> bool:
        sizes = ([found, *found["smaller"]] for found in _explorations(self.document))
        return any(size["counterexample"] for found in sizes for size in found)


def _explorations(document: list[Any]) -> Iterator[dict[str, Any]]:
    for one in document:
        yield from one["explorations"]


def _explored(found: dict[str, Any]) -> dict[str, Any]:
    """An exploration with what a counterexample violates and the words that replay it; its steps are in the document."""
    counterexample = found["counterexample"] or {}
    named = {"lock": found["lock"], "client": found["client"], "model": found["model"]}
    found = {name: value for name, value in found.items() if name not in ("counterexample", "smaller")}
    return named | found | {name: counterexample.get(name) for name in ("violation", "replay")}


def check(lock: str | None = None, **options: Any) -> Check:
    """Explores every execution of a lock's clients: `contend check`. Without a lock, give all=True.

    What is found wrong is no exception: it is in the table.
    """
    of_lock = [] if lock is None else ["--", lock]
    return Check.of(run_json(["check", "--json", *flags(options), *of_lock], statuses=(0, FOUND, BOUND)))


@dataclass(frozen=True)
class Comparison:
    """What `compare` gives: a row for each lock, every run's value, and what disturbed the machine meanwhile.

    A lock under which the program failed has a `failure` in its row.
    """

    locks: pd.DataFrame
    values: pd.DataFrame
    warnings: list[str]
    document: Mapping[str, Any] = field(repr=False)


def compare(*program: Word, **options: Any) -> Comparison:
    """Runs a program under several locks in turn: `contend compare`."""
    document = run_json(["compare", "--json", *flags(options), "--", *program], statuses=range(256))
    rounds = ((lock, values) for lock, values in document["values"].items())
    values = (
        {"lock": lock, "round": number, "value": value} for lock, all_ in rounds for number, value in enumerate(all_, 1)
    )
    return Comparison(frame(document["rows"]), frame(values), document["warnings"], document)


@dataclass(frozen=True)
class Reproduction:
    """What `reproduce` gives: published figures beside recomputed ones, their curves, and what a reader has to know."""

    title: str
    rows: pd.DataFrame
    curves: pd.DataFrame
    notes: list[str]
    document: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Reproduction:
        """The tables of the JSON that the command printed."""
        curves = [curve for plot in document["plots"] for curve in plot["curves"]]
        return cls(document["title"], frame(document["rows"]), curves_frame(curves), document["notes"], document)


def reproduce(figure: str, **options: Any) -> Reproduction:
    """Recomputes a published figure: `contend reproduce`. All of them at once are a sweep."""
    if figure == "all":
        raise UsageError('one figure has one table: contend.sweep({"kind": "reproduce"}) makes all of them')
    return Reproduction.of(run_json(["reproduce", "--json", *flags(options), "--", figure]))


def locks() -> pd.DataFrame:
    """The locks that there are: `contend locks`."""
    return frame(run_json(["locks", "--json"]))


def machines() -> pd.DataFrame:
    """The machines that predictions and simulations know, with their numbers: `contend machines`."""
    return frame(run_json(["machines", "--json"]))


def workloads() -> pd.DataFrame:
    """The workloads of `simulate`: `contend simulate --list`."""
    return frame(run_json(["simulate", "--list", "--json"]))
