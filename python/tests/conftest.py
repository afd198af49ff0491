"""What all tests share. The command is `$CONTEND`, or the one that was installed with the package."""

import os
from pathlib import Path

import matplotlib
import pytest

import contend

matplotlib.use("Agg")


@pytest.fixture(scope="session", autouse=True)
def uncalibrated(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What somebody measured on this machine decides no test."""
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("configuration"))


@pytest.fixture(scope="session")
def program() -> list[str]:
    """The demo's program: two threads that look into a table and change it under a reader-writer lock."""
    return [contend.command(), "demo-program", "--threads", "2", "--duration", "60ms"]


@pytest.fixture(scope="session")
def profiled(program: list[str], tmp_path_factory: pytest.TempPathFactory) -> contend.Profile:
    path: Path = tmp_path_factory.mktemp("profile") / "two.contend"
    return contend.profile(*program, output=path, ops_regex="lookups: ([0-9]+)")
