"""The blocks of docs/python.md run one after the other, as they stand there."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
from conftest import until_quiet

from contend.grids import runs_of

PAGE = (Path(__file__).resolve().parents[2] / "docs/python.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_blocks_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks("python"):
        until_quiet(partial(exec, block, names))
    plt.close("all")
    assert Path("counter.svg").exists() and len(names["swept"].runs) == 18


def test_the_grids_of_the_page_are_grids(tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    simulations, checks = (runs_of(path) for block in blocks("toml") if path.write_text(block))
    assert len(simulations) == 2 * 2 * 12 * 3 and len(checks) > 100
