"""The calls that run or record a program, and those that read its profiles.

A keyword is a flag of the subcommand: `ops_regex="…"` is `--ops-regex`, a switch is True, a list is a list. The flags with their
types are in `options`; a wrong value is a `UsageError` with the command's message.
"""

from __future__ import annotations

import html
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from .executable import Word, flags, run, run_json
from .pictures import run_drawn, shown, svg_of
from .progress import Progress, elapsing
from .tables import csv_frame, curves_frame, frame, known

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import (
        AdviseOptions,
        AttachOptions,
        CompareOptions,
        DiffOptions,
        GateOptions,
        PredictOptions,
        ProfileOptions,
        ReportOptions,
    )

WORSE, NOT_JUDGED, FAILED = 1, 3, 4
"""Exit statuses of `contend gate` with results: a ratio is worse; the machine was busy; a program failed."""


LOCKS = known(
    text="lock process use caller file source within held_waiting_for callers released_by holder",
    whole="threads acquisitions condition_waits try_failures timeouts nested waits objects",
    number="""acquires_per_operation acquires_per_s critical_section_ns share contended_share waited_ms handover_ns
    section_same_core_ns section_other_core_ns think_ns owner_changes_share wait_p99_ns section_p99_ns condition_ms
    held_running_share held_preempted_share held_sleeping_share held_waiting_share waiting_share spinning_ms wait_ns""",
)
"""The columns of `contend report --csv`, of which each profile has those that it knows something of."""

DISTRIBUTIONS = known(text="site use quantity", number="from_ns to_ns", whole="count")


@dataclass(frozen=True)
class Profile:
    """What `profile`, `attach` and `report` give.

    `locks` has the columns of `contend report --csv`, which docs/profile.md explains; `distributions` the histograms of
    waits, holds, think times and hand-overs; `header` is about the run as a whole; `output` what the program printed.
    """

    path: Path
    locks: pd.DataFrame
    distributions: pd.DataFrame
    header: Mapping[str, Any]
    output: str = field(default="", repr=False)

    def _repr_html_(self) -> str:
        if "lock" not in self.locks:
            return shown("", self.locks)
        return shown(svg_of(self.locks), self.locks, ("lock", "use", *MAIN_COLUMNS))


MAIN_COLUMNS = ("waits", "critical_section_ns", "share", "contended_share", "waited_ms", "handover_ns", "threads")
"""What a notebook shows of a lock. docs/profile.md explains the others."""


def report(profile: Word, *more: Word, output: str = "", **options: Unpack[ReportOptions]) -> Profile:
    """Reads a profile, or adds several up: `contend report`."""
    words = [*flags(options), "--", profile, *more]
    document = run_json(["report", "--json", *words])
    locks = csv_frame(run(["report", "--csv", *words]), LOCKS)
    if "runtime" in document:  # of Go or Java, whose rows are waits and have no distributions
        header = {name: value for name, value in document.items() if name != "rows"}
        return Profile(Path(profile), locks, frame([], DISTRIBUTIONS), header, output)
    return Profile(Path(profile), locks, frame(_buckets(document["rows"]), DISTRIBUTIONS), document["header"], output)


def _buckets(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in rows:
        for use in ("exclusive", "shared"):
            for quantity, times in row[use].items():
                if isinstance(times, dict) and "buckets" in times:
                    for bucket in times["buckets"]:
                        yield {"site": row["site"], "use": use, "quantity": quantity, **bucket}


def profile(
    *program: Word, output: Word = "p.contend", progress: bool = False, **options: Unpack[ProfileOptions]
) -> Profile:
    """Runs a program and records its locks in the file `output`: `contend profile`. `progress` shows for how many seconds it has."""
    with elapsing(progress) as watch:
        said = run(["profile", "--quiet", *flags({"output": output, **options}), "--", *program], watch=watch)
    return report(output, output=said)


def attach(
    pid: int, *, output: Word = "p.contend", progress: bool = False, **options: Unpack[AttachOptions]
) -> Profile:
    """Records in the file `output` what the threads of a running process wait for: `contend attach`.

    It returns when the process ends, or after the time `for_`. `progress` shows for how many seconds it has.
    """
    with elapsing(progress) as watch:
        run(["attach", "--quiet", *flags({"output": output, **options}), "--", str(pid)], watch=watch)
    return report(output)


MERGED = known(text="name", whole="acquisitions")


@dataclass(frozen=True)
class Merged:
    """What `merge` gives: the merged file, and a row for each profile in it.

    `acquisitions` is their sum; `twice` names the profiles that were given more than once and count once.
    """

    path: Path
    profiles: pd.DataFrame
    acquisitions: int
    twice: list[str]
    document: Mapping[str, Any] = field(repr=False)


def merge(profile: Word, *profiles: Word, output: Word = "merged.contend") -> Merged:
    """Puts profiles into the file `output`, which other calls read as one profile: `contend merge`."""
    document = run_json(["merge", "--json", *flags({"output": output}), "--", profile, *profiles])
    return Merged(
        path=Path(document["file"]),
        profiles=frame(document["profiles"], MERGED),
        acquisitions=document["acquisitions"],
        twice=document["twice"],
        document=document,
    )


MEASURES = "acquisitions contended waited_ns held_ns critical_section_ns handover_ns"
SITE_MEASURES = "waits waited_ns behind_ns hold_ns"
KERNEL_MEASURES = "waits waited_ns spun_ns share"


def _on_both_sides(measures: str) -> str:
    return " ".join(f"{side}_{measure}" for side in ("before", "after") for measure in measures.split())


CHANGES = known(text="name", number=_on_both_sides(MEASURES), truth="waits_only")
SITE_CHANGES = known(text="lock function source", number=_on_both_sides(SITE_MEASURES))
KERNEL_CHANGES = known(text="name kind", number=_on_both_sides(KERNEL_MEASURES))


@dataclass(frozen=True)
class Difference:
    """What `diff` gives: the locks, callers and call sites whose cost grew, what grew most first, and the kernel's locks.

    Figures are for one operation if both profiles counted operations (`per_operation`), else for one second.
    """

    per_operation: bool
    locks: pd.DataFrame
    callers: pd.DataFrame
    call_sites: pd.DataFrame
    kernel: pd.DataFrame
    document: Mapping[str, Any] = field(repr=False)

    def _repr_html_(self) -> str:
        return shown(svg_of(self.locks), self.locks)


def diff(before: Word, after: Word, **options: Unpack[DiffOptions]) -> Difference:
    """Tells what grew between two profiles: `contend diff`."""
    document = run_json(["diff", "--json", *flags(options), "--", before, after])
    return Difference(
        per_operation=document["per_operation"],
        locks=frame(document["locks"], CHANGES),
        callers=frame(document["callers"], CHANGES),
        call_sites=frame(document["call_sites"] or [], SITE_CHANGES),
        kernel=frame(document["kernel"] or [], KERNEL_CHANGES),
        document=document,
    )


VERDICTS = known(
    text="lock code verdict_kind verdict_words",
    whole="verdict_at verdict_at_low verdict_at_high",
    number="verdict_collapses verdict_probability",
    truth="verdict_measured",
)
ADVICE = known(text="change how instruction", whole="threads", number="times times_low times_high")


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
    svg: str = field(default="", repr=False)

    def _repr_html_(self) -> str:
        return shown(self.svg, self.verdicts)


def predict(
    profile: Word, *profiles: Word, progress: Progress = False, **options: Unpack[PredictOptions]
) -> Prediction:
    """Forecasts from profiles what a program does on more cores: `contend predict`."""
    document, svg = run_drawn("predict", options, [profile, *profiles], progress=progress)
    rows = document["rows"]
    return Prediction(
        lock=document["lock"],
        curves=curves_frame([row["curve"] for row in rows]),
        verdicts=frame(({name: row[name] for name in ("lock", "code", "verdict")} for row in rows), VERDICTS),
        advice=frame(document["advice"], ADVICE),
        document=document,
        svg=svg,
    )


FINDINGS = known(
    text="suspect lock verdict is failure",
    number="gain gain_low gain_high gain_there gain_there_low gain_there_high",
)
SUSPECTS = known(text="name kind source", number="waited", truth="by_hooks")


@dataclass(frozen=True)
class Advice:
    """What `advise` gives.

    `suspects` are the locks that were looked at. `findings` has a row for each lock that was put in the place of one of them, the best
    first, and one without a `lock` for the program as it is: `gain` is how many times the work of that it did on this machine, and
    `gain_there` is forecast for the `target`. `curves` are relative to the program as it is on the fewest threads, measured and
    forecast, with the suspect as their workload.
    """

    target: str
    suspects: pd.DataFrame
    findings: pd.DataFrame
    curves: pd.DataFrame
    warnings: list[str]
    document: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Advice:
        """The tables of the JSON that the command printed."""
        rows = [{"suspect": one["suspect"]["name"], **row} for one in document["findings"] for row in one["rows"]]
        figures = [{name: row[name] for name in row if name not in ("measured", "forecast", "unstable")} for row in rows]
        return cls(
            target=document["target"],
            suspects=frame(document["measured"]["suspects"], SUSPECTS),
            findings=frame(figures, FINDINGS),
            curves=curves_frame(curve for row in rows for curve in _advised_curves(row, document["target"])),
            warnings=document["disturbed"],
            document=document,
        )

    def _repr_html_(self) -> str:
        return shown(svg_of(self.curves), self.findings)


def _advised_curves(row: Mapping[str, Any], target: str) -> Iterator[dict[str, Any]]:
    """What a lock did here, and what it is forecast to do on the target."""
    lock = row["lock"] or "as it is"
    of_row = {"label": lock, "lock": lock, "workload": row["suspect"], "unit": "speedup"}
    yield {**of_row, "provenance": "measured", "points": row["measured"]}
    yield {**of_row, "provenance": "predicted", "machine": target, "points": row["forecast"]}


def advise(*program: Word, progress: Progress = False, **options: Unpack[AdviseOptions]) -> Advice:
    """Finds the lock that holds a program back, and what helps: `contend advise`. `{threads}` in the program stands for their number.

    Where the machine was too busy for an answer, the error has the status 3.
    """
    return Advice.of(run_json(["advise", "--json", *flags(options), "--", *program], progress=progress))


WITH_METRIC, WITHOUT = (
    known(
        text="lock verdict failure",
        number=f"{value} {value}_low {value}_high times_glibc times_glibc_low times_glibc_high cores_busy",
    )
    for value in ("metric", "elapsed_s")
)
VALUES = known(text="lock", whole="round", number="value")


@dataclass(frozen=True)
class Comparison:
    """What `compare` gives: a row for each lock, every run's value, and what disturbed the machine meanwhile.

    A lock under which the program failed has a `failure` in its row.
    """

    locks: pd.DataFrame
    values: pd.DataFrame
    warnings: list[str]
    document: Mapping[str, Any] = field(repr=False)
    svg: str = field(default="", repr=False)

    def _repr_html_(self) -> str:
        return shown(self.svg, self.locks)


def compare(*program: Word, progress: Progress = False, **options: Unpack[CompareOptions]) -> Comparison:
    """Runs a program under several locks in turn: `contend compare`."""
    document, svg = run_drawn("compare", options, program, statuses=range(256), progress=progress)
    rounds = ((lock, values) for lock, values in document["values"].items())
    values = (
        {"lock": lock, "round": number, "value": value} for lock, all_ in rounds for number, value in enumerate(all_, 1)
    )
    columns = WITH_METRIC if options.get("metric") else WITHOUT
    return Comparison(frame(document["rows"], columns), frame(values, VALUES), document["warnings"], document, svg)


RATIOS = known(
    text="ratio lock verdict missing",
    whole="threads",
    number="base base_low base_high candidate candidate_low candidate_high times_base times_base_low times_base_high",
)
ROUNDS = known(text="ratio", whole="round", number="base candidate")
GROWN = known(text="lock kind caller source", number=_on_both_sides(MEASURES))


@dataclass(frozen=True)
class Gate:
    """What `gate` gives: a row for each ratio, every round's ratios, and the locks that cost more than before.

    `outcome` is `passed`, `worse`, `busy` (the machine did something else meanwhile: not judged) or `failed` (a program failed: not
    judged); `conclusion` says it in a sentence.
    """

    outcome: str
    conclusion: str
    ratios: pd.DataFrame
    values: pd.DataFrame
    grown: pd.DataFrame
    warnings: list[str]
    document: Mapping[str, Any] = field(repr=False)

    @property
    def passed(self) -> bool:
        return self.outcome == "passed"

    def _repr_html_(self) -> str:
        return shown(f"<p>{html.escape(self.conclusion)}</p>", self.ratios)


def gate(
    *program: Word, base: Word | Sequence[Word] | None = None, progress: Progress = False, **options: Unpack[GateOptions]
) -> Gate:
    """Tells whether a program scales worse than it did: `contend gate`. `{threads}` in a program stands for their number.

    `base` is the program as it was: one word gets the arguments of `program`. Without it give profiles, as `against`. A ratio that is
    worse, and what is not judged, are no exception but the `outcome`.
    """
    of_base = [] if base is None else ["--base", *([base] if isinstance(base, str | os.PathLike) else base)]
    words = ["gate", "--json", *flags(options), *of_base, "--", *program]
    document = run_json(words, statuses=(0, WORSE, NOT_JUDGED, FAILED), progress=progress)
    rounds = ((one["name"], one["base"], one["candidate"]) for one in document["values"])
    values = (
        {"ratio": name, "round": number, "base": base, "candidate": candidate}
        for name, bases, candidates in rounds
        for number, (base, candidate) in enumerate(zip_longest(bases, candidates), 1)
    )
    grown = ({name: row[name] for name in row if name != "call_sites"} for row in document["grown"] or [])
    return Gate(
        outcome=document["outcome"],
        conclusion=document["conclusion"],
        ratios=frame(document["rows"], RATIOS),
        values=frame(values, ROUNDS),
        grown=frame(grown, GROWN),
        warnings=document["remarks"],
        document=document,
    )
