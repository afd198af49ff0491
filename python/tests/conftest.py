"""What all tests share. The command is `$CONTEND`, or the one that was installed with the package."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import matplotlib
import pytest

import contend

matplotlib.use("Agg")

T = TypeVar("T")

VOID = 3  # the exit status for a profile that something else on the machine has spoilt


def until_quiet(attempt: Callable[[], T]) -> T:
    """Does what profiles a program and predicts from it, again where something else ran on the machine meanwhile."""
    void = None
    for _ in range(20):
        try:
            return attempt()
        except contend.ContendError as error:
            if error.status != VOID:
                raise
            void = error
            time.sleep(0.5)  # what has just ended may still be at it
    pytest.skip(f"the machine is too busy: {void}")


@pytest.fixture(scope="session", autouse=True)
def uncalibrated(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What a user measured on this machine decides no test."""
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("configuration"))


@pytest.fixture(scope="session")
def program() -> list[str]:
    """The demo's program: two threads that look into a table and change it under a reader-writer lock."""
    return [contend.command(), "demo-program", "--threads", "2", "--duration", "60ms"]


@pytest.fixture(scope="session")
def recorded(program: list[str], tmp_path_factory: pytest.TempPathFactory) -> contend.Profile:
    """A profile of the program, whatever else ran on the machine: it may carry no forecast."""
    path = tmp_path_factory.mktemp("recorded") / "two.contend"
    return contend.profile(*program, output=path, ops_regex="lookups: ([0-9]+)")


@pytest.fixture(scope="session")
def profiled(program: list[str], tmp_path_factory: pytest.TempPathFactory) -> contend.Profile:
    """A profile that carries a forecast."""
    path: Path = tmp_path_factory.mktemp("profile") / "two.contend"

    def profile() -> contend.Profile:
        profile = contend.profile(*program, output=path, ops_regex="lookups: ([0-9]+)")
        contend.predict(path, machine="typical", profiled_on="typical", cores="1..2", lock="rw")
        return profile

    return until_quiet(profile)
