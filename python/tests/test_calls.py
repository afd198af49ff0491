"""Each call runs the command and gives its tables; each error of the command is an exception with its message."""

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import contend
from contend.options import CheckOptions, GateOptions
from contend.tables import CURVES


def is_arrow(table: pd.DataFrame) -> bool:
    return all(isinstance(dtype, pd.ArrowDtype) for dtype in table.dtypes)


def test_simulations_are_curves_and_counts_and_always_the_same() -> None:
    first = contend.simulate("counter", lock=["ticket", "mcs"], cores=[1, 4], duration="100us")
    assert list(first.curves.columns) == CURVES.names and is_arrow(first.curves) and is_arrow(first.runs)
    assert first.curves[["lock", "cores"]].to_numpy().tolist() == [["ticket", 1], ["ticket", 4], ["mcs", 1], ["mcs", 4]]
    assert first.runs["operations_per_second"].tolist() == first.curves["value"].tolist()
    assert first.runs["operations_per_second_low"].tolist() == first.curves["low"].tolist()
    assert first.runs["seeds"].tolist() == [5] * 4 and not first.runs["unstable"].any()
    assert (first.runs["all_lines_hits"] > 0).all() and "report" not in first.runs
    again = contend.simulate("counter", lock="ticket,mcs", cores="1,4", duration="100us")
    pd.testing.assert_frame_equal(first.curves, again.curves)


def test_a_profile_is_the_documented_table_and_its_histograms(recorded: contend.Profile) -> None:
    ways = recorded.locks[recorded.locks["lock"].str.endswith("demo_program::TABLE")]
    lock = ways.iloc[0]
    assert lock["use"] == "rwlock write" and lock["acquisitions"] > 100 and lock["threads"] == 2
    # A lookup acquires the lock once, for reading or for writing.
    assert "lookups: " in recorded.output and recorded.header["operations"] == ways["acquisitions"].sum()
    held = recorded.distributions.query("use == 'exclusive' and quantity in ['hold_same', 'hold_other']")
    assert (held["from_ns"] < held["to_ns"]).all() and held["count"].sum() > 0
    assert contend.report(recorded.path).locks.equals(recorded.locks)


def test_a_prediction_has_curves_verdicts_and_advice(profiled: contend.Profile) -> None:
    predicted = contend.predict(profiled.path, machine="opteron-8x6", cores="1..4", lock="mcs")
    assert predicted.lock.endswith("demo_program::TABLE")
    assert set(predicted.curves["unit"]) == {"speedup"} and set(predicted.curves["cores"]) == set(range(1, 5))
    assert predicted.verdicts["lock"].isna().tolist() == [True, False] and predicted.verdicts["code"].iloc[1] == "mcs"
    assert predicted.verdicts["verdict_probability"].between(0, 1).all()


def test_profiles_are_merged_into_one_that_is_read_as_one(
    program: list[str], recorded: contend.Profile, tmp_path: Path
) -> None:
    other = contend.profile(*program, output=tmp_path / "other.contend")
    merged = contend.merge(recorded.path, other.path, other.path, output=tmp_path / "both.contend")
    assert merged.path == tmp_path / "both.contend" and merged.path.is_file()
    assert len(merged.profiles) == 2 and len(merged.twice) == 1
    assert merged.acquisitions == merged.profiles["acquisitions"].sum() > 0
    assert not contend.report(merged.path).locks.empty
    with pytest.raises(contend.ContendError, match=r"none\.contend"):
        contend.merge(tmp_path / "none.contend", output=tmp_path / "nothing.contend")
    assert not (tmp_path / "nothing.contend").exists()


def test_a_difference_has_what_grew_on_both_sides(recorded: contend.Profile, tmp_path: Path) -> None:
    same = contend.diff(recorded.path, recorded.path)
    assert same.per_operation and same.locks["before_held_ns"].equals(same.locks["after_held_ns"])
    assert same.locks["name"].tolist() == ["contend_forecast::demo_program::TABLE"] and same.kernel.empty
    assert set(same.call_sites["function"]) == {"change", "look"}
    page = tmp_path / "grown.html"
    contend.diff(recorded.path, recorded.path, html=page)
    assert "What grew between two profiles" in page.read_text()


def test_waits_of_a_runtime_are_a_profile_without_distributions() -> None:
    waits = contend.report(Path(__file__).parents[2] / "tests/profiles/go-mutex.pb.gz")
    assert waits.header["runtime"] == "go" and waits.locks["source"].notna().all() and waits.distributions.empty
    assert "main.slowRebalance" in waits._repr_html_()


def stub(folder: Path, script: str) -> str:
    command = folder / "contend"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o755)
    return str(command)


def test_a_reason_is_told_without_what_was_said_of_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "contend: 3 of 24 runs, about 40 s left\ncontend: 7 of 9, mcs exclusive 2 × 1"
    void = '{\n  "void": {"reason": "it was busy", "remedy": "Try again"}\n}'
    monkeypatch.setenv("CONTEND", stub(tmp_path, f"echo '{lines}' >&2\necho '{void}'\nexit 3"))
    with pytest.raises(contend.ContendError, match=r"^it was busy\. Try again\.$"):
        contend.advise("true")
    stub(tmp_path, f"echo '{lines}' >&2\necho 'contend: the disk is full' >&2\nexit 1")
    with pytest.raises(contend.ContendError, match="^the disk is full$|^contend: the disk is full$"):
        contend.advise("true")


def test_another_build_of_the_command_has_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("contend 1", "contend 12"):
        monkeypatch.setenv("CONTEND", stub(tmp_path, f"echo {version}"))
        assert contend.version() == version


def test_an_empty_list_is_not_the_default() -> None:
    with pytest.raises(contend.UsageError, match="`lock` is an empty list"):
        contend.simulate("counter", lock=[])
    with pytest.raises(contend.UsageError, match="`cores` is an empty list"):
        contend.simulate("counter", lock="mcs", cores=iter(()))


def test_the_status_of_a_program_is_no_wrong_argument(tmp_path: Path) -> None:
    with pytest.raises(contend.ContendError, match="mine") as failed:
        contend.profile("sh", "-c", "echo mine >&2; exit 2", output=tmp_path / "p.contend")
    assert failed.value.status == 2 and not isinstance(failed.value, contend.UsageError)


def test_an_interrupted_call_lets_the_command_end_what_it_has_begun(tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    command = stub(tmp_path, f"trap 'touch {ended}; exit 130' INT\nwhile :; do sleep 0.05; done")
    call = f"import os, signal, threading; os.environ['CONTEND'] = {command!r}; import contend; \
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start(); contend.advise('true')"
    ran = subprocess.run(
        [sys.executable, "-c", call],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        preexec_fn=heed_interrupts,
        start_new_session=True,
    )
    assert "KeyboardInterrupt" in ran.stderr and ended.exists()


def heed_interrupts() -> None:
    """In the background of a script interrupts are ignored, by what is started there too."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def interrupted(folder: Path) -> tuple[list[str], Path, Path]:
    """A call of a command that takes half a second to end, and two files: one is there when the command runs, and the other has what
    interrupted the command in the end: a line for each interrupt, with the time since the first."""
    begun, ended = folder / "begun", folder / "ended"
    (folder / "command.py").write_text(
        f"""import os, signal, time
came = []
signal.signal(signal.SIGINT, lambda *_: came.append(time.monotonic()))
open({str(begun)!r}, "w").close()
while not came:
    time.sleep(0.01)
while time.monotonic() < came[0] + 0.5:
    time.sleep(0.01)
open({str(folder / "new")!r}, "w").writelines(f"{{at - came[0]}}\\n" for at in came)
os.rename({str(folder / "new")!r}, {str(ended)!r})
"""
    )
    command = stub(folder, f"exec {sys.executable} {folder / 'command.py'}")
    call = f"import os; os.environ['CONTEND'] = {command!r}; import contend; contend.advise('true')"
    return [sys.executable, "-c", call], begun, ended


def wait_for(path: Path) -> None:
    until = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < until, f"no {path}"
        time.sleep(0.01)


def test_an_interrupt_of_the_terminal_comes_to_the_command_once(tmp_path: Path) -> None:
    call, begun, ended = interrupted(tmp_path)
    process, terminal = pty.fork()
    if process == 0:
        heed_interrupts()
        os.execv(call[0], call)
    wait_for(begun)
    os.write(terminal, b"\x03")
    wait_for(ended)
    assert len(ended.read_text().splitlines()) == 1
    os.close(terminal)
    os.waitpid(process, 0)


def test_an_interrupt_of_the_caller_alone_comes_to_the_command_once_and_soon(tmp_path: Path) -> None:
    call, begun, ended = interrupted(tmp_path)
    process, terminal = pty.fork()
    if process == 0:
        heed_interrupts()
        os.execv(call[0], call)
    wait_for(begun)
    sent = time.monotonic()
    os.kill(process, signal.SIGINT)
    wait_for(ended)
    assert len(ended.read_text().splitlines()) == 1 and time.monotonic() - sent < 5
    os.close(terminal)
    os.waitpid(process, 0)


def test_an_interrupt_of_a_process_group_comes_to_the_command_at_once(tmp_path: Path) -> None:
    call, begun, ended = interrupted(tmp_path)
    with subprocess.Popen(call, stderr=subprocess.DEVNULL, preexec_fn=heed_interrupts, start_new_session=True) as caller:
        wait_for(begun)
        os.killpg(caller.pid, signal.SIGINT)
        assert caller.wait() != 0
    assert all(float(since) < 0.1 for since in ended.read_text().splitlines())  # which the command takes for one


def test_a_process_that_cannot_be_attached_to_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(contend.ContendError) as refused:
        contend.attach(2**22 + 1, for_="100ms", output=tmp_path / "no.contend")
    assert "--for=100ms" in refused.value.command


def test_a_profile_of_waits_is_read_as_any_other(recorded: contend.Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that attaches to nothing, since that takes privileges, and writes the profile of a program."""
    path, stub = tmp_path / "attached.contend", tmp_path / "contend"
    stub.write_text(
        f'#!/bin/sh\n[ "$1" = attach ] || exec {contend.command()} "$@"\n'
        f'[ "$*" = "attach --quiet --output={path} --for=1s -- 4711" ] && cp {recorded.path} {path}\n'
    )
    stub.chmod(0o755)
    monkeypatch.setenv("CONTEND", str(stub))
    attached = contend.attach(4711, for_="1s", output=path)
    assert attached.path == path and attached.locks.equals(recorded.locks)


def test_measured_tables_are_extrapolated(tmp_path: Path) -> None:
    table = pd.DataFrame({"cores": [1, 2, 4, 8], "throughput": [100.0, 190.0, 310.0, 330.0]})
    extrapolated = contend.extrapolate(table, upto=32)
    assert extrapolated.curves["cores"].max() == 32
    assert extrapolated.verdicts["last_measured"].tolist() == [8] and "universal" in set(extrapolated.laws["law"])
    curves = contend.simulate("counter", lock="ticket", cores=[1, 2, 4], duration="100us").curves
    path = tmp_path / "curves.csv"
    curves.to_csv(path, index=False)
    of_file, of_table = contend.extrapolate(path), contend.extrapolate(curves)
    pd.testing.assert_frame_equal(of_file.curves, of_table.curves)
    with pytest.raises(contend.UsageError, match="no column throughput"):
        contend.extrapolate(table[["cores"]])


def test_a_check_tells_verified_from_wrong() -> None:
    size: CheckOptions = {"threads": 2, "acquisitions": 1, "client": "exclusive", "model": "ra"}
    right = contend.check("mcs", **size)
    assert right.verified and not right.wrong and right.explorations["verdict"].tolist() == ["verified"]
    weakened: CheckOptions = {**size, "weaken": "McsQueue::acquire.swap=acquire"}
    wrong = contend.check("mcs", **weakened)
    assert wrong.wrong and not wrong.verified
    assert wrong.explorations["violation"].notna().all() and wrong.explorations["replay"].notna().all()


def test_a_comparison_has_each_runs_value(program: list[str]) -> None:
    compared = contend.compare(*program, lock="rw", runs=2, metric="throughput: ([0-9]+)")
    assert compared.locks["lock"].tolist() == ["glibc", "rw"]
    assert compared.locks["metric_low"].le(compared.locks["metric"]).all()
    assert compared.values.groupby("lock")["round"].apply(list).to_dict() == {"glibc": [1, 2], "rw": [1, 2]}


def test_a_gate_has_its_ratios_or_why_it_has_none(program: list[str], tmp_path: Path) -> None:
    of_threads = ["{threads}" if word == "2" else word for word in program]
    always: GateOptions = {"threads": 2, "runs": 5, "worse_by": "100%", "noise_limit": "100%", "keep": tmp_path / "kept"}
    judged = contend.gate(*of_threads, base=of_threads[0], **always)
    assert judged.outcome == "passed" and judged.conclusion.startswith("Passed")
    assert judged.ratios["ratio"].tolist() == ["scaling", "contended share"] and judged.ratios["base"].notna().all()
    assert judged.values.groupby("ratio")["round"].apply(list).tolist() == [[1, 2, 3, 4, 5]] * 2
    against = contend.gate(*of_threads, against=tmp_path / "kept/base-1.contend", threads=2, runs=5)
    assert against.ratios["ratio"].tolist() == ["contended share"]
    failed = contend.gate("false", "{threads}", base="true", threads=2, runs=5)
    assert failed.outcome == "failed" and not failed.passed and "candidate" in failed.conclusion
    with pytest.raises(contend.UsageError, match="--base"):
        contend.gate("true", "{threads}")


ROW: dict[str, Any] = {"lock": None, "verdict": None, "is": None, "gain": None, "gain_there": None, "failure": None, "unstable": []}


def test_an_advice_has_locks_findings_and_curves() -> None:
    def point(cores: int, value: float) -> dict[str, float]:
        return {"cores": cores, "value": value, "low": value, "high": value}

    gain = {"low": 1.5, "median": 2.0, "high": 2.5}
    rows = [
        {**ROW, "measured": [point(1, 1.0), point(2, 1.2)], "forecast": [point(64, 0.5)]},
        {**ROW, "lock": "mcs", "is": "better", "gain": gain, "measured": [point(2, 2.4)], "forecast": []},
        {**ROW, "lock": "rw", "failure": "it hangs", "measured": [], "forecast": []},
    ]
    suspect = {"name": "cache_lock", "kind": "mutex", "source": None, "waited": 0.3, "by_hooks": False}
    advice = contend.Advice.of(
        {
            "target": "epyc-9654x2",
            "measured": {"suspects": [suspect]},
            "findings": [{"suspect": suspect, "rows": rows, "checked": []}],
            "disturbed": [],
        }
    )
    assert advice.findings["lock"].isna().tolist() == [True, False, False] and advice.findings["gain_low"].tolist()[1] == 1.5
    assert advice.findings.columns.tolist()[:2] == ["suspect", "lock"] and advice.suspects["waited"].tolist() == [0.3]
    at = advice.curves[["label", "provenance", "cores"]].to_numpy().tolist()
    assert at == [["as it is", "measured", 1], ["as it is", "measured", 2], ["as it is", "predicted", 64], ["mcs", "measured", 2]]
    assert advice._repr_html_().count("<svg") == 1


def test_advice_is_given_or_why_there_is_none(program: list[str], tmp_path: Path) -> None:
    of_threads = ["{threads}" if word == "2" else word for word in program]
    try:
        advice = contend.advise(*of_threads, threads=[1, 2], ops_regex="lookups: ([0-9]+)", time_limit="20s", output=tmp_path)
    except contend.ContendError as error:
        # Something else ran on the machine.
        assert error.status == 3 and "." in str(error)
        return
    assert advice.target == "epyc-9654x2"
    assert advice.suspects.columns.tolist() == ["name", "kind", "source", "waited", "by_hooks"]
    assert set(advice.findings["suspect"]) <= set(advice.suspects["name"])


def test_published_figures_are_reproduced() -> None:
    figure = contend.reproduce("fig3")
    assert figure.title.startswith("Fig. 3") and not figure.rows.empty and figure.curves.empty and figure.notes
    assert set(contend.reproduce("fig8").curves["provenance"]) == {"predicted"}


def test_lists_are_tables() -> None:
    assert {"ticket", "mcs", "glibc"} <= set(contend.locks()["name"])
    assert "opteron-8x6" in set(contend.machines()["name"])
    assert "counter" in set(contend.workloads()["name"])


def test_errors_are_the_commands_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(contend.UsageError, match="no lock `msc`") as wrong:
        contend.simulate("counter", lock="msc")
    assert wrong.value.status == 2 and "--lock=msc" in wrong.value.command
    with pytest.raises(contend.UsageError, match="--no-such-flag"):
        contend.simulate("counter", no_such_flag=True)  # type: ignore[call-arg]
    with pytest.raises(contend.ContendError, match="no.contend") as absent:
        contend.report(tmp_path / "no.contend")
    assert not isinstance(absent.value, contend.UsageError) and not str(absent.value).startswith("contend:")
    with pytest.raises(contend.UsageError, match="sweep"):
        contend.reproduce("all")
    monkeypatch.setenv("CONTEND", str(tmp_path / "contend"))
    with pytest.raises(contend.CommandNotFound, match="set it to the path"):
        contend.locks()
