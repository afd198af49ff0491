"""What a notebook shows of results, and how tables of locks are drawn."""

import re
from pathlib import Path
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import pandas as pd
import pytest

import contend


def pictures(result: contend.Simulation | contend.Profile | contend.Comparison | contend.Reproduction | contend.Extrapolation) -> list[str]:
    """The pictures in what a notebook shows, all of them well-formed."""
    shown = result._repr_html_()
    svgs = re.findall(r"<svg.*?</svg>", shown, flags=re.DOTALL)
    for svg in svgs:
        root = ElementTree.fromstring(svg)
        assert root.attrib.pop("style") == "max-width:100%;height:auto" and "viewBox" in root.attrib
        assert float(root.attrib["width"].removesuffix("pt")) < 1000 and len(svg) < 200_000
    assert "<table" in shown and "<?xml" not in shown
    return [svg.replace(' style="max-width:100%;height:auto"', "", 1) for svg in svgs]


def test_a_simulation_shows_the_picture_of_the_command(tmp_path: Path) -> None:
    path = tmp_path / "mine.svg"
    simulation = contend.simulate("counter", lock=["ticket", "mcs"], cores=[1, 4], duration="50us", svg=path)
    assert pictures(simulation) == [path.read_text()[path.read_text().index("<svg") :].strip()]
    of_sweep = contend.Simulation.of(simulation.document)
    assert of_sweep.svg == "" and len(pictures(of_sweep)) == 1


def test_profiles_and_comparisons_show_their_locks(recorded: contend.Profile, program: list[str]) -> None:
    assert len(pictures(recorded)) == 1 and "demo_program::TABLE" in recorded._repr_html_()
    compared = contend.compare(*program, lock="rw", runs=1)
    assert pictures(compared) == [compared.svg.strip()]


def test_what_has_no_curves_shows_its_table() -> None:
    assert pictures(contend.reproduce("fig3")) == []
    assert len(pictures(contend.reproduce("fig8"))) == 1


def test_an_extrapolation_shows_what_was_measured_too() -> None:
    table = pd.DataFrame({"cores": [1, 2, 4], "throughput": [100.0, 190.0, 310.0]})
    assert len(pictures(contend.extrapolate(table, upto=16))) == 1


def test_locks_are_drawn(recorded: contend.Profile, program: list[str]) -> None:
    profile = contend.plot(recorded.locks, title="locks")
    names = [label.get_text() for label in profile.get_yticklabels()]
    assert names == [f"{lock} ({use})" for lock, use in zip(recorded.locks["lock"], recorded.locks["use"])]
    assert profile.get_title() == "locks" and profile.get_legend_handles_labels()[1] == ["waited", "held"]
    grown = contend.plot(contend.diff(recorded.path, recorded.path).locks)
    assert [label.get_text().rsplit(", ")[-1] for label in grown.get_yticklabels()] == ["before", "after"]
    compared = contend.plot(contend.compare(*program, lock="rw", runs=1).locks)
    assert compared.get_xlabel() == "times as good as glibc" and len(compared.get_yticklabels()) == 1
    plt.close("all")


def test_a_table_that_is_neither_curves_nor_locks_is_refused() -> None:
    with pytest.raises(ValueError, match="curves, and the locks of a profile.* columns are name, "):
        contend.plot(contend.machines())
    assert not plt.get_fignums()
