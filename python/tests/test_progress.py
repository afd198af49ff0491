"""Long calls show how far they are: a command that tells so is watched while it runs."""

import sys
from pathlib import Path

import pytest
from test_calls import stub

import contend

LISTS = "printf '[]'"


def saying(folder: Path, *lines: str) -> str:
    """A command that says these lines, each for so long that it is seen, and then prints an empty table."""
    return stub(folder, "; ".join(f"echo '{line}' >&2; sleep 0.5" for line in lines) + f"; {LISTS}")


def test_a_function_gets_what_is_finished_of_every_piece_of_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ("contend: 1 of 3 runs, about 0:01 min left", "contend: 2 of 9, mcs exclusive 2 × 1", "contend: other words")
    monkeypatch.setenv("CONTEND", saying(tmp_path, *lines))
    seen: list[tuple[int, int]] = []
    contend.check("mcs", progress=lambda *counts: seen.append(counts))
    assert seen == [(1, 3), (2, 9)]


def test_a_function_that_fails_ends_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = tmp_path / "ended"
    monkeypatch.setenv("CONTEND", stub(tmp_path, f"trap 'touch {ended}; exit 130' INT; echo 'contend: 1 of 2 runs, about 1 s' >&2; while :; do sleep 0.05; done"))

    def fails(_finished: int, _all: int) -> None:
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        contend.check("mcs", progress=fails)
    assert ended.exists()


def test_a_bar_has_the_steps_of_the_command_and_so_have_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTEND", saying(tmp_path, "contend: 3 of 24 runs, about 0:01 min left", "contend: 24 of 24 runs, about 0:00 min left"))
    contend.check("mcs", progress=True)
    bar = capsys.readouterr().err
    assert "24/24" in bar and "run" in bar  # how often it is drawn is the matter of tqdm
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    contend.check("mcs", progress=True)
    assert capsys.readouterr().err.splitlines() == ["3 of 24 runs", "24 of 24 runs"]
    contend.check("mcs")
    assert capsys.readouterr().err == ""


def test_the_command_says_how_far_it_is_as_often_as_it_is_asked() -> None:
    seen: list[tuple[int, int]] = []
    contend.compare("sleep", "0.3", lock="mcs", runs=1, time_limit="10s", progress=lambda *counts: seen.append(counts))
    assert len(seen) >= 2 and {of for _, of in seen} == {4} and [finished for finished, _ in seen] == sorted(finished for finished, _ in seen)


def test_a_profile_counts_seconds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    contend.profile("sleep", "2.5", output=tmp_path / "p.contend", progress=True)
    assert "2s [" in capsys.readouterr().err


def test_a_calibration_is_a_machine(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    here = contend.calibrate(output=tmp_path / "here.toml", progress=lambda *counts: seen.append(counts))
    assert here.path.read_text() and not here.measurements.empty and seen
    simulation = contend.simulate("counter", lock="mcs", cores=1, duration="10us", machine=here.path)
    assert simulation.curves["machine"].tolist() == ["here"]
