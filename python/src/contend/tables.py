"""Tables of what the command prints: pandas, with the types of Arrow."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv

CURVES = pa.schema(
    [(name, pa.string()) for name in ("label", "lock", "workload", "machine", "provenance", "unit")]
    + [("cores", pa.int64())]
    + [(name, pa.float64()) for name in ("value", "low", "high")]
)
"""The columns of a table of curves: those of contend's CSV of curves, so that the command reads `curves.to_csv(…, index=False)`."""

CURVE = [name for name in CURVES.names if name not in ("cores", "value", "low", "high")]
"""The columns that tell curves from each other."""

MAIN_FIELDS = ("median", "likely", "is")
"""Fields that give a value its name alone: of `{"median": 2, "low": 1}` in `ratio`, `ratio` and `ratio_low` are made."""


def flat(row: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values of nested objects, under the names of the fields that lead to them, joined by `_`."""
    values: dict[str, Any] = {}
    for name, value in row.items():
        column = prefix if prefix and name in MAIN_FIELDS else f"{prefix}_{name}" if prefix else name
        if isinstance(value, Mapping):
            values |= flat(value, column)
        else:
            values[column] = value
    return values


def arrow(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """A row for each object, text before figures. A column of both becomes text."""
    flattened = [flat(row) for row in rows]
    names = dict.fromkeys(name for row in flattened for name in row)
    columns = [(name, _column([row.get(name) for row in flattened])) for name in names]
    return pa.table(dict(sorted(columns, key=lambda column: not pa.types.is_string(column[1].type))))


def _column(values: list[Any]) -> pa.Array:
    if any(isinstance(value, str) for value in values):
        values = [value if value is None else str(value) for value in values]
    return pa.array(values)


def pandas(table: pa.Table) -> pd.DataFrame:
    """The same table for pandas, with Arrow's types."""
    frame: pd.DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype)
    return frame


def frame(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """A row for each object."""
    return pandas(arrow(rows))


def curves_frame(curves: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """A row for each point of the curves."""
    return pandas(pa.Table.from_pylist(list(_points(curves)), schema=CURVES))


def _points(curves: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for curve in curves:
        shared = {name: curve.get(name, "") for name in CURVE}
        for point in curve["points"]:
            yield {**shared, **point}


def csv_frame(text: str) -> pd.DataFrame:
    """The table of a CSV with a header."""
    return pandas(pyarrow.csv.read_csv(io.BytesIO(text.encode())))
