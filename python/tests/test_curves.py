"""Curves relative to one core, and drawn."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import contend
from contend.tables import curves_frame


def curve(label: str, values: dict[int, float], **fields: Any) -> dict[str, Any]:
    points = [{"cores": cores, "value": value, "low": value * 0.9, "high": value} for cores, value in values.items()]
    return {"label": label, "provenance": "measured", "unit": "operations_per_second", "points": points, **fields}


def test_curves_without_a_point_at_one_core_are_relative_to_none() -> None:
    total = curve("a", {1: 50.0, 4: 100.0})
    per_core = curve("b", {1: 50.0, 4: 25.0}, unit="operations_per_second_per_core")
    relative = contend.relative_to_one_core(curves_frame([total, curve("c", {2: 1.0}), per_core, curve("d", {1: 0.0})]))
    assert relative["label"].tolist() == ["a", "a", "b", "b"] and set(relative["unit"]) == {"speedup"}
    assert relative["value"].tolist() == [1.0, 2.0, 1.0, 2.0] and relative["low"].tolist() == pytest.approx([0.9, 1.8] * 2)


def test_a_plot_names_curves_and_marks_peak_and_collapse() -> None:
    falling = curve("ticket", {1: 1.0, 8: 5.0, 16: 4.6, 32: 2.0}, machine="small")
    ax = contend.plot(curves_frame([falling, curve("ticket", {1: 1.0, 8: 8.0}, machine="large")]), title="two machines")
    assert ax.get_legend_handles_labels()[1] == ["ticket (small)", "ticket (large)"]
    points = [(str(line.get_marker()), np.asarray(line.get_xdata()).tolist()) for line in ax.lines]
    marks = {marker: at for marker, at in points if len(at) == 1}
    assert marks["o"] == [8] and marks["x"] == [32]
    plt.close("all")


def test_what_is_not_known_of_a_curve_may_be_missing(tmp_path: Path) -> None:
    """As a CSV gives it back."""
    curves_frame([curve("a", {1: 50.0, 4: 100.0})]).to_csv(tmp_path / "curves.csv", index=False)
    read = pd.read_csv(tmp_path / "curves.csv")
    assert read["machine"].isna().all()
    assert contend.relative_to_one_core(read)["value"].tolist() == [1.0, 2.0]
    assert contend.plot(read).get_legend_handles_labels()[1] == ["a"]
    plt.close("all")


def test_units_do_not_share_an_axis() -> None:
    curves = curves_frame([curve("a", {1: 1.0}), curve("b", {1: 1.0}, unit="speedup")])
    with pytest.raises(ValueError, match="relative_to_one_core"):
        contend.plot(curves)
    with pytest.raises(ValueError, match="no unit"):
        contend.plot(pd.DataFrame(columns=curves.columns))
