"""Curves of throughput against cores: relative to one core, and drawn. Tables of locks, drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pandas as pd

from .tables import CURVE, CURVES

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


def _named(curves: pd.DataFrame) -> pd.DataFrame:
    """The curves with an empty text for what is not known, such as a machine, which a CSV gives back as a missing value."""
    return curves.fillna({name: "" for name in CURVE})


def relative_to_one_core(curves: pd.DataFrame) -> pd.DataFrame:
    """The curves relative to their own value at one core, without those that have none there.

    The range of the point at one core is not carried into the others.
    """
    curves = _named(curves)
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


def plot(table: pd.DataFrame, *, ax: Axes | None = None, title: str | None = None) -> Axes:
    """Draws curves, or a table of locks.

    Curves have their ranges as bands; a ring is a peak, and a cross where the curve has collapsed. Measured ones have points, predicted
    ones are dashed, published ones dotted. Of the locks of a profile or a `diff` bars tell the time waited and held, of those of
    `compare` how many times as good as glibc's they were.
    """
    draw = next((draw for columns, draw in DRAWN if columns <= set(table.columns)), None)
    if draw is None:
        raise ValueError(
            "plot draws curves, and the locks of a profile, diff or compare; this table is neither, as its columns are "
            f"{', '.join(map(str, table.columns)) or 'none'}"
        )
    if ax is None:
        import matplotlib.pyplot as plt  # it takes half a second, which who draws nothing need not wait for

        _, ax = plt.subplots()
    draw(table, ax)
    if title is not None:
        ax.set_title(title)
    return ax


def _draw_curves(curves: pd.DataFrame, ax: Axes) -> None:
    units = list(curves["unit"].unique())
    if len(units) != 1:
        raise ValueError(
            f"curves of {' and '.join(units) or 'no unit'} do not share an axis: draw each unit by itself, or give "
            "relative_to_one_core(curves)"
        )
    varying = [column for column in ("workload", "machine", "provenance") if curves[column].nunique() > 1]
    for _, curve in _named(curves).groupby(CURVE, sort=False):
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


BARS = 16
"""Bars that are drawn, at most: those of the first locks of the table, which cost most."""


def _draw_profiled_locks(locks: pd.DataFrame, ax: Axes) -> None:
    held_ms = locks["acquisitions"] * locks["critical_section_ns"] / 1e6 if "critical_section_ns" in locks else 0.0
    bars = pd.DataFrame({"waited": locks["waited_ms"], "held": held_ms}).astype(float).fillna(0.0)
    _draw_times(bars.set_axis(locks["lock"] + " (" + locks["use"] + ")"), ax, "ms")


def _draw_changed_locks(locks: pd.DataFrame, ax: Axes) -> None:
    """Two bars of each lock, before and after."""
    sides = [locks[["name"]].assign(side=side, **_times(locks, side)) for side in ("before", "after")]
    both = pd.concat(sides).sort_index(kind="stable")
    _draw_times(both[["waited", "held"]].set_axis(both["name"] + ", " + both["side"]), ax, "ns for one operation or second")


def _times(locks: pd.DataFrame, side: str) -> dict[str, pd.Series[float]]:
    return {name: locks[f"{side}_{name}_ns"].astype(float).fillna(0.0) for name in ("waited", "held")}


def _draw_times(bars: pd.DataFrame, ax: Axes, unit: str) -> None:
    """The first on top, waiting before holding."""
    bars = bars.head(BARS)
    names, left = list(map(str, bars.index)), [0.0] * len(bars)
    for column, color in (("waited", "C3"), ("held", "0.8")):
        ax.barh(range(len(bars)), bars[column].tolist(), left=left, label=column, color=color)
        left = [start + length for start, length in zip(left, bars[column])]
    ax.set_yticks(range(len(bars)), names)
    ax.invert_yaxis()
    ax.set_xlabel(unit)
    ax.legend()


def _draw_compared_locks(locks: pd.DataFrame, ax: Axes) -> None:
    """The median and the range of each lock that finished, beside glibc's, which is 1."""
    finished = locks.dropna(subset=["times_glibc"])
    middle, low, high = (finished[name].to_numpy(dtype=float) for name in ("times_glibc", "times_glibc_low", "times_glibc_high"))
    ax.errorbar(middle, range(len(finished)), xerr=[middle - low, high - middle], fmt="o", capsize=3)
    ax.axvline(1.0, color="grey", linewidth=0.8)
    ax.set_yticks(range(len(finished)), finished["lock"].tolist())
    ax.invert_yaxis()
    ax.set_xlabel("times as good as glibc")


DRAWN: tuple[tuple[set[str], Callable[[pd.DataFrame, Axes], None]], ...] = (
    ({*CURVES.names}, _draw_curves),
    ({"lock", "use", "waited_ms"}, _draw_profiled_locks),
    ({"name", "before_waited_ns", "before_held_ns", "after_waited_ns", "after_held_ns"}, _draw_changed_locks),
    ({"lock", "times_glibc", "times_glibc_low", "times_glibc_high"}, _draw_compared_locks),
)
"""How a table is drawn that has these columns."""
