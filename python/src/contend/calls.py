"""The calls that simulate, extrapolate, check and list locks.

A keyword is a flag of the subcommand: `memory_node=1` is `--memory-node 1`, a switch is True, a list is a list. The flags with their
types are in `options`; a wrong value is a `UsageError` with the command's message.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from .executable import UsageError, Word, flags, run_json
from .pictures import run_drawn, shown, svg_of
from .progress import Progress
from .tables import CURVE, curves_frame, frame, known

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import CheckOptions, ExtrapolateOptions, ReproduceOptions, SimulateOptions

FOUND, BOUND = 1, 3
"""Exit statuses of `contend check` with results: something is wrong; nothing is, but a limit cut something off."""


@dataclass(frozen=True)
class Simulation:
    """What `simulate` gives: throughput by lock and cores with its range over the seeds, and what the simulated machine counted in the
    run of each lock on each number of cores whose throughput is the median."""

    curves: pd.DataFrame
    runs: pd.DataFrame
    document: Mapping[str, Any] = field(repr=False)
    svg: str = field(default="", repr=False)

    @classmethod
    def of(cls, document: Mapping[str, Any], svg: str = "") -> Simulation:
        """The tables of the JSON that the command printed."""
        runs = frame(counted(run) for run in document["runs"])
        return cls(curves_frame(document["curves"]), runs, document, svg)

    def _repr_html_(self) -> str:
        return shown(self.svg or svg_of(self.curves), self.curves, ("label", "machine", "cores", "value", "low", "high"))


def counted(run: Mapping[str, Any]) -> dict[str, Any]:
    """A run with the counts of the machine as a whole; those of each line and lock are in the document."""
    report = run["report"]
    of_all = {name: report[name] for name in ("all_lines", "transactions", "totals") if name in report}
    return {name: value for name, value in run.items() if name != "report"} | of_all


def simulate(workload: str, *, progress: Progress = False, **options: Unpack[SimulateOptions]) -> Simulation:
    """Runs a workload and locks on a simulated machine: `contend simulate`."""
    if options.get("sweep_back_off"):
        raise UsageError("sweep_back_off gives no curves: run `contend simulate --sweep-back-off --json`")
    return Simulation.of(*run_drawn("simulate", options, [workload], progress=progress))


CONTINUED = known(text="label verdict", whole="last_measured peak_cores collapse_cores")
LAWS = known(text="label law", number="weight value_at_last last_point_error")


@dataclass(frozen=True)
class Extrapolation:
    """What `extrapolate` gives: each curve with the points that continue it, a verdict on each, and the laws behind it."""

    curves: pd.DataFrame
    verdicts: pd.DataFrame
    laws: pd.DataFrame
    document: list[Any] = field(repr=False)

    def _repr_html_(self) -> str:
        measured = curves_frame(answer["measured"] for answer in self.document)
        return shown(svg_of(pd.concat([measured, self.curves], ignore_index=True)), self.verdicts)


def extrapolate(*measured: Word | pd.DataFrame, **options: Unpack[ExtrapolateOptions]) -> Extrapolation:
    """Says how measured curves go on with more cores: `contend extrapolate`.

    A curve is a file, or a table: of curves, or of `cores` and `throughput` with a row for each run.
    """
    with _files(measured) as files:
        document = run_json(["extrapolate", "--json", *flags(options), "--", *files])
    label = [answer["measured"]["label"] for answer in document]
    kept = ("last_measured", "peak_cores", "collapse_cores", "verdict")
    return Extrapolation(
        curves=curves_frame(answer["answer"] for answer in document),
        verdicts=frame(
            ({"label": of} | {name: answer[name] for name in kept} for of, answer in zip(label, document)), CONTINUED
        ),
        laws=frame(({"label": of} | law for of, answer in zip(label, document) for law in answer["laws"]), LAWS),
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


EXPLORATIONS = known(
    text="lock client model by verdict limit violation replay",
    whole="threads acquisitions executions_explored executions_merged executions_pruned executions_states",
    truth="complete",
)
MUTANTS = known(
    text="lock place operation change from weaken killed_client killed_violation", whole="bounds", truth="judged"
)


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
        return cls(frame(map(_explored, explorations), EXPLORATIONS), frame(mutants, MUTANTS), document)

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


def check(lock: str | None = None, *, progress: Progress = False, **options: Unpack[CheckOptions]) -> Check:
    """Explores every execution of a lock's clients: `contend check`. Without a lock, give all=True.

    What is found wrong is no exception: it is in the table.
    """
    of_lock = [] if lock is None else ["--", lock]
    words = ["check", "--json", *flags(options), *of_lock]
    return Check.of(run_json(words, statuses=(0, FOUND, BOUND), progress=progress))


@dataclass(frozen=True)
class Reproduction:
    """What `reproduce` gives: published figures beside recomputed ones, their curves, and what a reader has to know."""

    title: str
    rows: pd.DataFrame
    curves: pd.DataFrame
    notes: list[str]
    document: Mapping[str, Any] = field(repr=False)

    def _repr_html_(self) -> str:
        return shown(svg_of(self.curves), self.rows)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Reproduction:
        """The tables of the JSON that the command printed."""
        curves = [curve for plot in document["plots"] for curve in plot["curves"]]
        return cls(document["title"], frame(document["rows"]), curves_frame(curves), document["notes"], document)


def reproduce(figure: str, *, progress: Progress = False, **options: Unpack[ReproduceOptions]) -> Reproduction:
    """Recomputes a published figure: `contend reproduce`. All of them at once are a sweep."""
    if figure == "all":
        raise UsageError('one figure has one table: contend.sweep({"kind": "reproduce"}) makes all of them')
    return Reproduction.of(run_json(["reproduce", "--json", *flags(options), "--", figure], progress=progress))


def locks() -> pd.DataFrame:
    """The locks that there are: `contend locks`."""
    return frame(run_json(["locks", "--json"]))


def machines() -> pd.DataFrame:
    """The machines that predictions and simulations know, with their numbers: `contend machines`."""
    return frame(run_json(["machines", "--json"]))


@dataclass(frozen=True)
class Calibration:
    """What `calibrate` gives: the machine file, and a row for each thing that was measured for it."""

    path: Path
    measurements: pd.DataFrame
    warnings: list[str]
    document: Mapping[str, Any] = field(repr=False)


def calibrate(*, output: Word | None = None, progress: Progress = False) -> Calibration:
    """Measures what a hand-over costs on this machine: `contend calibrate`.

    Predictions use the machine file from then on; with `output` it is written there instead, and is a `machine` of other calls.
    """
    document = run_json(["calibrate", "--json", *flags({"output": output})], progress=progress)
    return Calibration(Path(document["file"]), frame(document["measurements"]), document["warnings"], document)


def workloads() -> pd.DataFrame:
    """The workloads of `simulate`: `contend simulate --list`."""
    return frame(run_json(["simulate", "--list", "--json"]))
