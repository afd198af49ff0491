"""Grids of runs: what is varied, what is not, and what each run is.

A grid is a table, in TOML or of Python. `kind` says what its runs are; every other key is a flag of that subcommand that
decides what is computed, or its argument: a grid comes from anywhere, and writes no file but the results. A list is an
axis of the grid, and so is a text such as `1..48` or `4..48:4`; anything else is the same in all runs. The last axis
varies fastest.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import calls
from .executable import UsageError, command, flags, run_json, version
from .tables import flat

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Value = str | int | float | bool


class GridError(UsageError):
    """A grid that makes no sense."""


@dataclass(frozen=True)
class Run:
    """One run of a grid. It holds all that decides its result, so that any computer with the same command can make it."""

    kind: str
    parameters: Mapping[str, Value]
    machine_file: str | None
    """The text of the machine file, where the machine is one."""
    version: str
    """What the command was built from."""

    @property
    def key(self) -> str:
        """A digest of all that decides the result."""
        decides = [self.kind, sorted(self.parameters.items()), self.machine_file, self.version]
        return hashlib.sha256(canonical(decides).encode()).hexdigest()[:32]

    def __str__(self) -> str:
        return " ".join([self.kind, *(f"{name}={value}" for name, value in self.parameters.items())])

    def make(self) -> str:
        """Runs the command, on one core, and gives what it printed, without the times that it took."""
        if (here := version()) != self.version:
            raise UsageError(
                f"{command()} is {here}, but the sweep was begun with {self.version}: install the same wheel on all machines"
            )
        kind, parameters = KINDS[self.kind], dict(self.parameters)
        argument = str(parameters.pop(kind.argument))
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".toml") as file:
            if self.machine_file is not None:
                file.write(self.machine_file)
                file.flush()
                parameters["machine"] = file.name
            words = [self.kind, "--json", *kind.always, *flags(parameters), "--", argument]
            return canonical(without_times(run_json(words, statuses=kind.statuses, threads=1)))


def canonical(value: Any) -> str:
    """JSON that is the same for equal values. The order of fields stays, which tables take for that of columns."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def without_times(document: Any) -> Any:
    """The same without how long the computer took, which differs from run to run."""
    if isinstance(document, Mapping):
        return {name: without_times(value) for name, value in document.items() if name not in ("seconds", "host")}
    return [without_times(value) for value in document] if isinstance(document, list) else document


@dataclass(frozen=True)
class Kind:
    """What the runs of a grid can be."""

    argument: str
    """The parameter that is the subcommand's argument."""
    flags: frozenset[str]
    """The other parameters. Flags that write files or change what is printed are none of them."""
    statuses: tuple[int, ...]
    """Exit statuses with a result."""
    combinations: Callable[[dict[str, list[Value]]], Iterable[dict[str, Value]]]
    """The parameters of all runs, by the values of each axis."""
    result: Callable[[Any], Any]
    """The tables of the JSON that the command printed."""
    summary: Callable[[Any], Mapping[str, Any]]
    """What a row says of that JSON."""
    always: tuple[str, ...] = ()
    """Flags of every run."""


MOST_RUNS = 1_000_000
"""A grid of more is taken for a mistake: all of its runs are held in memory."""


def product(axes: Mapping[str, list[Value]]) -> list[dict[str, Value]]:
    if (number := math.prod(len(values) for values in axes.values())) > MOST_RUNS:
        raise GridError(f"the grid has {number:,} runs, and the most is {MOST_RUNS:,}: write shorter ranges, or several grids")
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def simulations(axes: dict[str, list[Value]]) -> list[dict[str, Value]]:
    """Of each workload and each lock; a workload that takes none has no `lock`."""
    if missing := [name for name in ("workload", "cores") if name not in axes]:
        raise GridError(f"the grid has no {' and no '.join(missing)}: a simulation needs a workload, cores and, in most workloads, a lock")
    if several := [value for name in ("lock", "cores") for value in axes.get(name, ()) if "," in str(value)]:
        raise GridError(f"`{several[0]}` is several values: a run has one lock and one number of cores, write a list of them")
    if this := [name for name in ("this-machine", "this") if name in axes.get("machine", [])]:
        raise GridError(f"`{this[0]}` is another machine on each computer: `contend calibrate -o FILE` writes it down, name FILE")
    runs = product({**axes, "seed": axes.get("seed", SEEDS)})
    locking = {workload for workload in axes["workload"] if takes_lock(str(workload))}
    if "lock" not in axes:
        if locking:
            raise GridError(f"the grid has no lock: {', '.join(sorted(map(str, locking)))} needs one")
        return runs
    if not locking:
        raise GridError(f"{axes['workload'][0]} takes no lock: leave `lock`")
    # Every lock would be the same run of a workload that takes none.
    runs = [run for run in runs if run["workload"] in locking or run["lock"] == axes["lock"][0]]
    return [run if run["workload"] in locking else {name: run[name] for name in run if name != "lock"} for run in runs]


def takes_lock(workload: str) -> bool:
    """Whether a simulation of the workload takes a lock: a short one tells, which names `none` as its lock if it does not."""
    document = run_json(["simulate", "--json", "--cores=1", "--seeds=1", "--duration=1us", "--", workload])
    return any(run["lock"] != "none" for run in document["runs"])


def simulated(document: Any) -> Mapping[str, Any]:
    (run,) = document["runs"]
    return flat(calls.counted(run))


def checks(axes: dict[str, list[Value]]) -> list[dict[str, Value]]:
    """Of each lock and each model that it is checked under; mutants, which are judged under ra, beside the run of that model."""
    models = {one["lock"]: one["models"] for one in run_json(["check", "--list", "--json"])}
    locks, asked = axes.pop("lock", list(models)), axes.pop("model", None)
    if unknown := [lock for lock in locks if lock not in models]:
        raise GridError(f"contend checks no lock {unknown[0]}: `contend check --list` names them")
    known = {model for of_lock in models.values() for model in of_lock}
    if unknown := [model for model in asked or () if model not in known]:
        raise GridError(f"there is no model {unknown[0]}: `contend check --list` names them")
    pairs = [(lock, model) for lock in locks for model in asked or models[lock] if model in models[lock]]
    runs = [{"lock": lock, "model": model, **rest} for lock, model in pairs for rest in product(axes)]
    for run in runs:
        run |= {"mutate": run["mutate"] and run["model"] == "ra"} if "mutate" in run else {}
    return runs


def checked(document: Any) -> Mapping[str, Any]:
    check = calls.Check.of(document)
    (of_lock,) = document
    return {
        "verdict": "wrong" if check.wrong else "verified" if check.verified else "a bound",
        "clients": len(of_lock["explorations"]),
        "verified": sum(found["complete"] for found in of_lock["explorations"]),
        "mutants": len(of_lock["mutants"]),
        "killed": sum(mutant["killed"] is not None for mutant in of_lock["mutants"]),
    }


def reproductions(axes: dict[str, list[Value]]) -> list[dict[str, Value]]:
    known = [figure["name"] for figure in run_json(["reproduce", "--list", "--json"])]
    figures = axes.pop("figure", None) or known
    if unknown := [figure for figure in figures if figure not in known]:
        raise GridError(f"there is no figure {unknown[0]}: `contend reproduce --list` names them; a grid without `figure` has all")
    return product({"figure": figures, **axes})


def reproduced(document: Any) -> Mapping[str, Any]:
    verdicts = [row.get("verdict") for row in document["rows"]]
    counts = {verdict: verdicts.count(verdict) for verdict in ("met", "missed")}
    return {"title": document["title"], "rows": len(verdicts), **counts}


SIMULATION_FLAGS = (
    "machine lock cores threads seed duration section think per_acquisition spread placement sockets memory_node transactions "
    "buckets really_poll"
)
SEEDS: list[Value] = [1, 2, 3, 4, 5]
"""The seeds of a grid that names none: those that `contend simulate` has by itself."""
CHECK_FLAGS = "model client threads acquisitions time_limit mutate weaken"

KINDS = {
    "simulate": Kind(
        "workload", frozenset(SIMULATION_FLAGS.split()), (0,), simulations, calls.Simulation.of, simulated, always=("--seeds", "1")
    ),
    "check": Kind("lock", frozenset(CHECK_FLAGS.split()), (0, calls.FOUND, calls.BOUND), checks, calls.Check.of, checked),
    "reproduce": Kind("figure", frozenset({"variant"}), (0,), reproductions, calls.Reproduction.of, reproduced),
}

RANGE = re.compile(r"(\d+)\.\.(\d+)(?::([1-9]\d*))?")


def values_of(name: str, value: Any) -> list[Value]:
    """The values of an axis, or the one of what is no axis."""
    if isinstance(value, str) and (found := RANGE.fullmatch(value)):
        first, last, step = (int(number or 1) for number in found.groups())
        if (number := (last - first) // step + 1) > MOST_RUNS:
            raise GridError(f"`{name}` is {number:,} values, and a grid has {MOST_RUNS:,} runs at most: write a shorter range, or a step")
        return list(range(first, last + 1, step))
    if isinstance(value, Iterable) and not isinstance(value, str | os.PathLike | Mapping):
        return [one for part in value for one in values_of(name, part)]
    if isinstance(value, os.PathLike):
        return [os.fspath(value)]
    if callable(item := getattr(value, "item", None)):  # of numpy
        value = item()
    if not isinstance(value, str | int | float | bool):
        raise GridError(f"`{name}` is {value!r}: a grid has texts, numbers, true and false, and lists of them")
    return [value]


def read_grid(grid: Mapping[str, Any] | str | os.PathLike[str]) -> dict[str, Any]:
    """A grid as it is given, or out of a TOML file."""
    if isinstance(grid, Mapping):
        return dict(grid)
    try:
        return tomllib.loads(Path(grid).read_text(encoding="utf-8"))
    except OSError as error:
        raise GridError(f"cannot read the grid {os.fspath(grid)}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise GridError(f"{os.fspath(grid)} is not TOML: {error}") from error


def runs_of(grid: Mapping[str, Any] | str | os.PathLike[str]) -> list[Run]:
    """The runs of a grid, in its order."""
    asked = read_grid(grid)
    kind = asked.pop("kind", None)
    if kind not in KINDS:
        raise GridError(f"the grid's `kind` is {kind!r}: write one of {', '.join(KINDS)}")
    asked = {name.replace("-", "_"): value for name, value in asked.items()}
    known = {KINDS[kind].argument, *KINDS[kind].flags}
    if unknown := sorted(asked.keys() - known):
        raise GridError(f"`{unknown[0]}` is no key of a grid of kind {kind}: write one of {', '.join(sorted(known))}")
    axes = {name: values_of(name, value) for name, value in asked.items()}
    if empty := [name for name, values in axes.items() if not values]:
        raise GridError(f"the grid's `{empty[0]}` is an empty list: there is nothing to run")
    texts = _machine_files(axes.get("machine", []))
    here = version()
    runs = [
        Run(kind, parameters, texts.get(parameters.get("machine", "")), here)
        for parameters in KINDS[kind].combinations(axes)
    ]
    if not runs:
        raise GridError("no run is in the grid: no lock in it is checked under a model in it")
    return runs


def _machine_files(machines: Iterable[Value]) -> dict[Value, str]:
    """The texts of those that are files and none of the machines that contend carries."""
    files = [machine for machine in machines if Path(str(machine)).is_file()]
    carried = {machine["name"] for machine in run_json(["machines", "--json"])} if files else ()
    return {file: _machine_text(str(file)) for file in files if file not in carried}


def _machine_text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise GridError(f"cannot read the machine file {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise GridError(f"{file} is no machine file, as it is not text in UTF-8: {error}") from error
