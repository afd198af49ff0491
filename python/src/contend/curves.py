"""Curves of throughput against cores: relative to one core, and drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from .tables import CURVE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLLAPSE_SHARE = 0.9
"""A curve has collapsed once it is under this share of its peak."""

UNITS = {
    "operations_per_second": "operations/s",
    "operations_per_second_per_core": "operations/s per core",
    "speedup": "throughput relative to one core",
    "share": "share of all",
}

LINES = {"measured": "o-", "simulated": "-", "predicted": "--", "published": "s:"}
"""How curves are drawn, by where they come from."""


def relative_to_one_core(curves: pd.DataFrame) -> pd.DataFrame:
    """The curves relative to their own value at one core, without those that have none there.

    The range of the point at one core is not carried into the others.
    """
    curves = curves.copy()
    per_core = curves["unit"] == "operations_per_second_per_core"
    for column in ("value", "low", "high"):
        curves[column] = curves[column].where(~per_core, curves[column] * curves["cores"])
    relative = []
    for _, curve in curves.groupby(CURVE, sort=False):
        one = curve.loc[curve["cores"] == 1, "value"]
        if len(one) == 1 and one.iloc[0] > 0:
            scaled = {column: curve[column] / one.iloc[0] for column in ("value", "low", "high")}
            relative.append(curve.assign(unit="speedup", **scaled))
    if not relative:
        return curves.iloc[:0]
    return pd.concat(relative, ignore_index=True).astype(curves.dtypes)


def plot(curves: pd.DataFrame, *, ax: Axes | None = None, title: str | None = None) -> Axes:
    """Draws curves, with their ranges as bands; a ring is a peak, and a cross where the curve has collapsed.

    Measured curves have points, predicted ones are dashed, published ones dotted.
    """
    units = list(curves["unit"].unique())
    if len(units) != 1:
        raise ValueError(
            f"curves of {' and '.join(units) or 'no unit'} do not share an axis: draw each unit by itself, or give "
            "relative_to_one_core(curves)"
        )
    if ax is None:
        import matplotlib.pyplot as plt  # it takes half a second, which who draws nothing need not wait for

        _, ax = plt.subplots()
    varying = [column for column in ("workload", "machine", "provenance") if curves[column].nunique() > 1]
    for _, curve in curves.groupby(CURVE, sort=False):
        first, curve = curve.iloc[0], curve.sort_values("cores")
        cores, value, low, high = (curve[column].to_numpy(dtype=float) for column in ("cores", "value", "low", "high"))
        told_apart = ", ".join(str(first[column]) for column in varying if first[column])
        label = f"{first['label']} ({told_apart})" if told_apart else first["label"]
        (line,) = ax.plot(cores, value, LINES[first["provenance"]], markersize=4, label=label)
        if (low < high).any():
            ax.fill_between(cores, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
        if len(cores) > 2:
            peak = int(value.argmax())
            ax.plot(cores[peak], value[peak], "o", fillstyle="none", markersize=9, color=line.get_color())
            collapsed = [at for at in range(peak, len(cores)) if value[at] < COLLAPSE_SHARE * value[peak]]
            if collapsed:
                ax.plot(cores[collapsed[0]], value[collapsed[0]], "x", markersize=9, color=line.get_color())
    ax.set_xlabel("cores")
    ax.set_ylabel(UNITS[units[0]])
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)
    ax.legend()
    if title is not None:
        ax.set_title(title)
    return ax
