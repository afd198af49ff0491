"""Sweeps: the runs of a grid, on this computer's cores or on a cluster's, kept as they come.

What is in the folder of a sweep:

| file                 | written by            | meaning                                                  |
|----------------------|-----------------------|----------------------------------------------------------|
| `parts/KEY.parquet`  | process that began it | what one run gave; KEY is a digest of all that decides it |
| `runs.parquet`       | the same, at the end  | a row for each run, in the order of the grid             |

A file is written under another name and then renamed, so that it is whole if it is there.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from .executable import ContendError, UsageError, interrupt_running
from .grids import KINDS, Run, runs_of
from .progress import Progress, counting, print_progress
from .tables import arrow, curves_frame, pandas

if TYPE_CHECKING:
    from distributed import Client

Outcome = str | Exception
"""What a run printed, or why it failed."""


class SweepError(ContendError):
    """Runs of a sweep failed. The others are kept."""


@dataclass(frozen=True)
class Sweep:
    """What `sweep` gives: a row for each run, in the order of the grid.

    The columns are the grid's parameters, a summary of the result, and the result itself, as `document`.
    """

    path: Path
    kind: str
    parameters: tuple[str, ...]
    runs: pd.DataFrame

    def results(self) -> list[Any]:
        """The tables of each run: what `simulate`, `check` or `reproduce` would have given."""
        return [KINDS[self.kind].result(json.loads(document)) for document in self.runs["document"]]

    def curves(self) -> pd.DataFrame:
        """The curves of simulations; of several seeds the median and the range."""
        if self.kind != "simulate":
            raise UsageError(f"a sweep of {self.kind} has no curves of its own: results() has the tables of each run")
        named = [name for name in self.parameters if name not in ("cores", "seed")]
        told = [
            name
            for name in named
            if name not in ("lock", "workload", "machine") and self.runs[name].nunique(dropna=False) > 1
        ]
        curves: dict[tuple[Any, ...], dict[str, Any]] = {}
        for row in self.runs.to_dict("records"):
            curve = json.loads(row["document"])["curves"][0]
            label = ", ".join([curve["label"], *(f"{name} {row[name]}" for name in told)])
            at_cores = curves.setdefault(tuple(row[name] for name in named), {**curve, "label": label, "points": {}})["points"]
            for point in curve["points"]:
                at_cores.setdefault(point["cores"], []).append(point["value"])
        return curves_frame({**curve, "points": _points(curve["points"])} for curve in curves.values())


def _points(at_cores: Mapping[int, list[float]]) -> list[dict[str, float]]:
    return [
        {"cores": cores, "value": statistics.median(values), "low": min(values), "high": max(values)}
        for cores, values in sorted(at_cores.items())
    ]


def sweep(
    grid: Mapping[str, Any] | str | os.PathLike[str],
    *,
    on: Client | None = None,
    output: str | os.PathLike[str] = "sweep",
    progress: Progress = False,
) -> Sweep:
    """Makes the runs of a grid that the folder `output` does not have yet, and gives all of them.

    They run on this computer's cores, or on the workers of `on`, whose machines need this package too. The same grid gives
    the same bytes in `runs.parquet` wherever it ran. With `progress=True` a bar of tqdm shows how many runs are finished, or lines on
    standard error where tqdm is not installed; a function is called with the number of finished runs and of all, when one is
    finished.
    """
    runs = runs_of(grid)
    folder = Path(output)
    parts = folder / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    documents = {run.key: document for run in runs if (document := _kept(parts, run)) is not None}
    pending = [run for run in runs if run.key not in documents]
    failures: dict[str, Exception] = {}
    with counting(progress) as count:
        if progress is True:  # what was kept is finished from the beginning
            count(len(documents), len(runs), "run")
        for run, outcome in _on_cores(pending) if on is None else _on_cluster(on, pending):
            if isinstance(outcome, Exception):
                failures[run.key] = outcome
                continue
            _keep(parts, run, outcome)
            documents[run.key] = outcome
            count(len(documents), len(runs), "run")
    if failures:
        first = next(run for run in pending if run.key in failures)
        why = failures[first.key]
        raise SweepError(
            f"{len(failures)} of {len(runs)} runs failed; the others are kept in {folder}, where the sweep goes on when it is "
            f"begun again. The first is `{first}`: {why}"
        ) from why
    return _merged(folder, runs, documents)


def _merged(folder: Path, runs: Sequence[Run], documents: Mapping[str, str]) -> Sweep:
    kind = runs[0].kind
    rows = []
    for run in runs:
        document = documents[run.key]
        summary = KINDS[kind].summary(json.loads(document))
        rows.append({**summary, **run.parameters, "document": document})
    parameters = tuple(dict.fromkeys(name for run in runs for name in run.parameters))
    table = arrow(rows)
    summaries = [name for name in table.column_names if name not in (*parameters, "document")]
    table = table.select([*parameters, *summaries, "document"])
    path = folder / "runs.parquet"
    _write(table, path)
    return Sweep(path, kind, parameters, pandas(table))


def _on_cores(runs: Sequence[Run]) -> Iterator[tuple[Run, Outcome]]:
    threads: set[int] = set()
    with ThreadPoolExecutor(len(os.sched_getaffinity(0)), initializer=lambda: threads.add(threading.get_ident())) as pool:
        futures = {pool.submit(run.make): run for run in runs}
        try:
            for future in as_completed(futures):
                yield futures[future], future.exception() or future.result()  # type: ignore[misc]
        finally:
            # None is left, unless the sweep is cut short.
            for pending in futures:
                pending.cancel()
            interrupt_running(threads)


def _on_cluster(client: Client, runs: Sequence[Run]) -> Iterator[tuple[Run, Outcome]]:
    """The scheduler gives the run of a worker that died to another one."""
    from distributed import as_completed as as_finished

    _ensure_package_at_scheduler(client)
    futures = {client.submit(Run.make, run, key=f"contend-{run.key}"): run for run in runs}
    try:
        for future in as_finished(list(futures)):
            yield futures.pop(future), future.exception() or future.result()
    finally:
        client.cancel(list(futures))


def _ensure_package_at_scheduler(client: Client) -> None:
    """Dask's scheduler reads the runs that it hands out, which takes their class. Of a worker that lacks it Dask itself tells."""

    def has_package() -> bool:  # within a function, so that Dask sends its text and not the name of this module
        import importlib.util

        return importlib.util.find_spec("contend") is not None

    if not client.run_on_scheduler(has_package):
        raise UsageError(
            "the scheduler of the cluster does not have the package contend: install the same wheel into the environment of the "
            "scheduler and of each worker"
        )


def _kept(parts: Path, run: Run) -> str | None:
    """What the run gave before, if that is kept."""
    try:
        document = pq.read_table(parts / f"{run.key}.parquet")["document"][0].as_py()
    except (OSError, pa.ArrowException):
        return None
    return str(document)


def _keep(parts: Path, run: Run, document: str) -> None:
    table = pa.table({"run": [str(run)], "version": [run.version], "document": [document]})
    _write(table, parts / f"{run.key}.parquet")


def _write(table: pa.Table, path: Path) -> None:
    """Puts a whole file there, or none."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", suffix=".tmp", delete=False) as file:
        try:
            pq.write_table(table, file, compression="zstd")
            file.flush()
            os.fchmod(file.fileno(), 0o666 & ~_mask())  # as of any file, and not the author's alone
            os.fsync(file.fileno())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def _mask() -> int:
    """The bits that new files do not get. It can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def main(arguments: Sequence[str] | None = None) -> int:
    """What `contend sweep` runs, and gives as its exit status."""
    parser = argparse.ArgumentParser(
        prog="contend sweep",
        description="Make the runs of a grid, on this computer's cores or on a Dask cluster, and write them as one Parquet file.",
        epilog="A sweep that was ended goes on where it stopped. docs/python.md explains grids.",
    )
    parser.add_argument("grid", metavar="FILE", help="the grid, as TOML")
    parser.add_argument("-o", "--output", metavar="DIR", help="where the results go [default: the FILE's name without its ending]")
    parser.add_argument("--scheduler", metavar="SCHEDULER", help="the scheduler of a Dask cluster, such as tcp://head:8786")
    parser.add_argument("-q", "--quiet", action="store_true", help="print only where the results are")
    asked = parser.parse_args(arguments)

    progress: Progress = False if asked.quiet else lambda finished, all_: print_progress(finished, all_, "run")
    # The end that a batch system gives is an interrupt too: runs that have begun are ended, and what is finished is kept.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    output = asked.output or str(Path(asked.grid).with_suffix(""))
    try:
        if asked.scheduler is None:
            done = sweep(asked.grid, output=output, progress=progress)
        else:
            from distributed import Client

            with Client(asked.scheduler) as client:
                done = sweep(asked.grid, on=client, output=output, progress=progress)
    except ModuleNotFoundError as error:
        print(f"contend: {error}: a cluster needs `pip install contend[cluster]`", file=sys.stderr)
        return 1
    except (ContendError, OSError) as error:
        print(f"contend: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        print(f"contend: cut short; what is finished is kept in {output}, where the sweep goes on when it is begun again", file=sys.stderr)
        return 130
    print(done.path)
    return 0
