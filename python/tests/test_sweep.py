"""Sweeps give the same bytes wherever they ran, and whichever process was killed meanwhile."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import contend
from contend.grids import runs_of

SMALL = {"kind": "simulate", "workload": "counter", "lock": ["ticket", "mcs"], "cores": "2..8:2", "seed": [1, 2], "duration": "50us"}

LONG = {**SMALL, "machine": "opteron-8x6", "cores": [24, 32, 40, 48], "duration": "15ms"}
"""Runs of which some are under way whenever a process is killed."""


def files(folder: Path) -> dict[str, int]:
    """The parts that are kept, with the time of their writing."""
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("parts/*.parquet")}


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What the long grid gives on this computer's cores."""
    return contend.sweep(LONG, output=tmp_path_factory.mktemp("long")).path.read_bytes()


def test_a_row_a_run_in_the_order_of_the_grid(tmp_path: Path) -> None:
    swept = contend.sweep(SMALL, output=tmp_path)
    assert swept.runs[["lock", "cores", "seed"]].head(3).to_numpy().tolist() == [["ticket", 2, 1], ["ticket", 2, 2], ["ticket", 4, 1]]
    assert len(swept.runs) == 16
    alone = contend.simulate("counter", lock="mcs", cores=8, seed=2, seeds=1, duration="50us")
    assert swept.runs["operations_per_second"].iloc[-1] == alone.curves["value"].iloc[0]
    assert swept.results()[-1].runs.equals(alone.runs)
    curves = swept.curves()
    assert curves["label"].tolist() == ["ticket"] * 4 + ["mcs"] * 4 and (curves["low"] <= curves["value"]).all()
    without_seeds = {name: value for name, value in SMALL.items() if name != "seed"}
    assert [run.parameters["seed"] for run in runs_of(without_seeds)] == [1, 2, 3, 4, 5] * 8


def test_a_sweep_goes_on_where_it_stopped_and_may_grow(tmp_path: Path) -> None:
    whole = contend.sweep(SMALL, output=tmp_path).path.read_bytes()
    before = files(tmp_path)
    lost, damaged = sorted(before)[:2]
    (tmp_path / "parts" / lost).unlink()
    (tmp_path / "parts" / damaged).write_bytes(b"PAR1")
    calls: list[tuple[int, int]] = []
    assert contend.sweep(SMALL, output=tmp_path, progress=lambda *counts: calls.append(counts)).path.read_bytes() == whole
    assert calls == [(15, 16), (16, 16)]
    after = files(tmp_path)
    assert {name for name in before if before[name] != after[name]} == {lost, damaged}
    grown = contend.sweep({**SMALL, "seed": [1, 2, 3]}, output=tmp_path, progress=lambda *counts: calls.append(counts))
    assert len(grown.runs) == 24 and len(calls) == 2 + 8


def test_a_killed_sweep_is_begun_again(tmp_path: Path, long: bytes) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text("\n".join(f"{name} = {value!r}" for name, value in LONG.items()))
    script = "import sys; from contend.sweeps import main; sys.exit(main())"
    line = [sys.executable, "-c", script, str(grid), "-o", str(tmp_path / "out")]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as begun:
        assert begun.stderr is not None and begun.stderr.readline() == "1 of 16 runs\n"
        begun.kill()
    kept = files(tmp_path / "out")
    assert 1 <= len(kept) < 16 and not (tmp_path / "out/runs.parquet").exists()
    again = subprocess.run(line, capture_output=True, text=True, check=True)
    assert Path(again.stdout.strip()).read_bytes() == long
    assert kept.items() <= files(tmp_path / "out").items()


def test_a_cluster_loses_a_worker_in_the_middle(tmp_path: Path, long: bytes) -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, silence_logs="CRITICAL") as cluster,
        distributed.Client(cluster) as client,
    ):
        pids = client.run(os.getpid)
        killed: list[str] = []

        def kill_a_busy_worker(finished: int, all_: int) -> None:
            busy = [worker for worker, runs in client.processing().items() if runs and worker in pids]
            if not killed and busy:
                os.kill(pids[busy[0]], signal.SIGKILL)
                killed.append(busy[0])

        swept = contend.sweep(LONG, on=client, output=tmp_path, progress=kill_a_busy_worker)
        assert killed and swept.path.read_bytes() == long


def test_the_end_of_a_sweep_leaves_other_commands_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command of another thread, which runs from before the sweep until after it."""
    begun, ends, command = tmp_path / "begun", tmp_path / "ends", tmp_path / "contend"
    command.write_text(
        f'#!/bin/sh\n[ "$1" = advise ] || exec {contend.command()} "$@"\n'
        f"touch {begun}; while [ ! -e {ends} ]; do sleep 0.05; done; echo 'contend: it was left alone' >&2; exit 1\n"
    )
    command.chmod(0o755)
    monkeypatch.setenv("CONTEND", str(command))
    with ThreadPoolExecutor(1) as other:
        advice = other.submit(contend.advise, "true")
        while not begun.exists():
            time.sleep(0.01)
        contend.sweep({**SMALL, "cores": 2}, output=tmp_path / "out")
        ends.touch()
        with pytest.raises(contend.ContendError, match="it was left alone"):
            advice.result()


def test_a_sweep_that_is_cut_short_ends_its_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "contend"
    command.write_text(
        f'#!/bin/sh\ncase "$*" in *--cores=4*) exec sleep 600;; *) exec {contend.command()} "$@";; esac\n'
    )
    command.chmod(0o755)
    monkeypatch.setenv("CONTEND", str(command))

    def fails(_finished: int, _all: int) -> None:
        raise RuntimeError("cut short")

    began = time.monotonic()
    with pytest.raises(RuntimeError, match="cut short"):
        contend.sweep({**SMALL, "cores": [4, 2], "seed": 1, "lock": "mcs"}, output=tmp_path / "out", progress=fails)
    assert time.monotonic() - began < 60


def test_runs_that_fail_are_told_and_the_others_kept(tmp_path: Path) -> None:
    grid = {**SMALL, "cores": [2, 500], "seed": 1}
    with pytest.raises(contend.SweepError, match=r"2 of 4 runs failed.*cores=500") as failed:
        contend.sweep(grid, output=tmp_path)
    assert isinstance(failed.value.__cause__, contend.ContendError) and len(files(tmp_path)) == 2


def test_a_machine_file_goes_with_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = machine_file()
    path = tmp_path / "mine.toml"
    path.write_text(text)
    grid = {**SMALL, "cores": 2, "seed": 1, "machine": path}
    (run, _) = runs_of(grid)
    path.write_text(text + "\n# another one\n")
    assert runs_of(grid)[0].key != run.key
    path.unlink()
    assert '"machine":"mine"' in run.make()


def machine_file() -> str:
    """A machine of four cores, of which every cost is assumed."""
    source = (Path(__file__).resolve().parents[2] / "crates/topology/machines/typical.toml").read_text()
    return source.replace('name = "typical"', 'name = "mine"')


def test_locks_are_checked_under_the_models_that_they_are_checked_under(tmp_path: Path) -> None:
    grid: dict[str, Any] = {"kind": "check", "lock": ["tas", "elided:tas"], "client": "exclusive", "threads": 2, "acquisitions": 1}
    runs = [(run.parameters["lock"], run.parameters["model"]) for run in runs_of(grid)]
    assert ("tas", "ra") in runs and ("elided:tas", "tso") in runs and ("elided:tas", "ra") not in runs
    grid |= {"lock": "tas", "mutate": True, "model": ["sc", "ra"]}
    swept = contend.sweep(grid, output=tmp_path / "first")
    assert contend.sweep(grid, output=tmp_path / "second").path.read_bytes() == swept.path.read_bytes()
    assert swept.runs["verdict"].tolist() == ["verified"] * 2 and swept.runs["mutate"].tolist() == [False, True]
    assert swept.runs["mutants"].iloc[0] == 0 and 0 < swept.runs["killed"].iloc[1] <= swept.runs["mutants"].iloc[1]
    with pytest.raises(contend.UsageError, match="no curves"):
        swept.curves()
    assert "seconds" not in swept.results()[0].explorations


def test_workloads_without_a_lock_are_swept(tmp_path: Path) -> None:
    alone = {"kind": "simulate", "workload": "false-sharing", "cores": [1, 2], "seed": 1, "duration": "50us"}
    swept = contend.sweep(alone, output=tmp_path / "alone")
    assert swept.runs["lock"].tolist() == ["none"] * 2 and swept.curves()["cores"].tolist() == [1, 2]
    beside = {**alone, "workload": ["counter", "false-sharing"], "lock": ["ticket", "mcs"], "cores": 2}
    swept = contend.sweep(beside, output=tmp_path / "beside")
    assert swept.runs["lock"].tolist() == ["ticket", "mcs", "none"] and len(swept.curves()) == 3


def test_the_largest_seed_is_written(tmp_path: Path) -> None:
    last = 2**64 - 1 - 1_000  # the seeds of further runs follow it
    swept = contend.sweep({**SMALL, "cores": 2, "lock": "mcs", "seed": [1, last]}, output=tmp_path)
    assert swept.runs["seed"].tolist() == [1, last]


def test_a_machine_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bin.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(contend.GridError, match=r"bin\.toml is no machine file"):
        runs_of({**SMALL, "machine": path})


def test_figures_are_reproduced(tmp_path: Path) -> None:
    swept = contend.sweep({"kind": "reproduce", "figure": ["fig8", "claims"]}, output=tmp_path)
    assert swept.runs["figure"].tolist() == ["fig8", "claims"] and swept.runs["met"].iloc[1] > 0
    assert len(runs_of({"kind": "reproduce"})) > 15


@pytest.mark.parametrize(
    ("grid", "said"),
    [
        ({"kind": "bench"}, "simulate, check, reproduce"),
        ({**SMALL, "lock": []}, "`lock` is an empty list"),
        ({**SMALL, "lock": "ticket,mcs"}, "write a list"),
        ({**SMALL, "machine": "this-machine"}, "contend calibrate -o FILE"),
        ({**SMALL, "seed": {}}, "`seed` is {}"),
        ({"kind": "simulate", "lock": "mcs"}, "no workload and no cores"),
        ({"kind": "simulate", "workload": ["false-sharing", "counter"], "cores": 2}, "the grid has no lock: counter needs one"),
        ({**SMALL, "workload": "false-sharing"}, "false-sharing takes no lock: leave `lock`"),
        ({**SMALL, "seed": "1..1000000000"}, "`seed` is 1,000,000,000 values"),
        ({**SMALL, "seed": "1..99999999999999999999"}, "a grid has 1,000,000 runs at most"),
        ({**SMALL, "seed": "1..1000", "think": "1..1000"}, "the grid has 8,000,000 runs"),
        ({**SMALL, "svg": "/tmp/overwritten"}, "`svg` is no key of a grid of kind simulate: write one of buckets, cores"),
        ({**SMALL, "trace": "/tmp/overwritten"}, "`trace` is no key"),
        ({"kind": "check", "output": "/tmp/overwritten"}, "`output` is no key"),
        ({"kind": "reproduce", "html": "/tmp/overwritten"}, "`html` is no key"),
        ({"kind": "check", "lock": "msc"}, "no lock msc"),
        ({"kind": "reproduce", "figure": "all"}, "no figure all"),
        ({"kind": "check", "lock": "elided:mcs", "model": "ra"}, "no run is in the grid"),
    ],
)
def test_grids_that_make_no_sense_are_refused(grid: dict[str, Any], said: str) -> None:
    with pytest.raises(contend.GridError, match=said.replace("{}", r"\{\}")):
        runs_of(grid)


def test_the_current_folder_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "contend").mkdir()
    for module in ("contend/__init__.py", "tomllib.py", "pandas.py", "argparse.py"):
        (tmp_path / module).write_text("import os; open('run', 'w').close(); os._exit(9)")
    (tmp_path / "grid.toml").write_text("kind = 'simulate'\nworkload = 'counter'\nlock = 'mcs'\ncores = 2\nduration = '10us'")
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable), prepend=os.pathsep)
    for path in ("", os.pathsep, str(tmp_path)):
        monkeypatch.setenv("PYTHONPATH", path)
        ran = subprocess.run([contend.command(), "sweep", "grid.toml"], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ran.returncode == 0 and ran.stdout == "grid/runs.parquet\n", ran.stderr
    assert not (tmp_path / "run").exists()


def test_files_that_are_no_grid_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from contend.sweeps import main

    path = tmp_path / "grid.toml"
    for write, said in [(lambda: None, "cannot read the grid"), (lambda: path.write_text("kind ="), "is not TOML")]:
        act: Callable[[], Any] = write
        act()
        assert main([str(path)]) == 2 and said in capsys.readouterr().err


def test_progress_is_a_bar_or_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    grid = {**SMALL, "cores": 2}
    contend.sweep(grid, output=tmp_path / "bar", progress=True)
    assert "4/4" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    contend.sweep(grid, output=tmp_path / "lines", progress=True)
    assert capsys.readouterr().err.splitlines()[-1] == "4 of 4 runs"
    contend.sweep(grid, output=tmp_path / "none")
    assert capsys.readouterr().err == ""
