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

TYPES = {"text": pa.string(), "whole": pa.int64(), "number": pa.float64(), "truth": pa.bool_()}
"""What a column of the command's tables can be."""

MOST_INT64 = 2**63 - 1

NONE_KNOWN = pa.schema([])
"""Of a table whose columns are what its rows have."""

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


def known(**names: str) -> pa.Schema:
    """The columns that a table always has, by their types: `known(text="lock use", whole="threads")`."""
    return pa.schema([(name, TYPES[kind]) for kind, of_kind in names.items() for name in of_kind.split()])


def arrow(rows: Iterable[Mapping[str, Any]], columns: pa.Schema = NONE_KNOWN) -> pa.Table:
    """A row for each object, text before figures, and the columns that are known before others. These have their types where they are
    empty too; another one of text and figures becomes text."""
    flattened = [flat(row) for row in rows]
    names = dict.fromkeys([*columns.names, *(name for row in flattened for name in row)])
    made = {name: _column([row.get(name) for row in flattened], name, columns) for name in names if not _is_object(name, columns)}
    return pa.table(dict(sorted(made.items(), key=lambda column: not pa.types.is_string(column[1].type))))


def _is_object(name: str, columns: pa.Schema) -> bool:
    """Whether the name is that of an object which is missing in a row: its fields are the columns."""
    return name not in columns.names and any(column.startswith(f"{name}_") for column in columns.names)


def _column(values: list[Any], name: str, columns: pa.Schema) -> pa.Array:
    known_type = columns.field(name).type if name in columns.names else None
    if known_type == pa.string() or any(isinstance(value, str) for value in values):
        values = [value if value is None else str(value) for value in values]
    elif any(isinstance(value, int) and value > MOST_INT64 for value in values) and all(_is_uint64(value) for value in values):
        known_type = pa.uint64()  # a large seed
    return pa.array(values, known_type)


def _is_uint64(value: Any) -> bool:
    return value is None or isinstance(value, int) and 0 <= value < 2**64


def pandas(table: pa.Table) -> pd.DataFrame:
    """The same table for pandas, with Arrow's types."""
    frame: pd.DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype)
    return frame


def frame(rows: Iterable[Mapping[str, Any]], columns: pa.Schema = NONE_KNOWN) -> pd.DataFrame:
    """A row for each object, with the columns that are known, whatever the rows have."""
    return pandas(arrow(rows, columns))


def curves_frame(curves: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """A row for each point of the curves."""
    return pandas(pa.Table.from_pylist(list(_points(curves)), schema=CURVES))


def _points(curves: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for curve in curves:
        shared = {name: curve.get(name, "") for name in CURVE}
        for point in curve["points"]:
            yield {**shared, **point}


def csv_frame(text: str, columns: pa.Schema = NONE_KNOWN) -> pd.DataFrame:
    """The table of a CSV with a header. Those of its columns that are known have their types where they are empty too.

    A figure such as `<12`, of which the command knows only that it is below 12, is 12 in a column NAME_below, and missing in NAME.
    """
    numbers = {name for name in columns.names if pa.types.is_floating(columns.field(name).type)}
    types = {name: pa.string() if name in numbers else columns.field(name).type for name in columns.names}
    options = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=True)
    read = pyarrow.csv.read_csv(io.BytesIO(text.encode()), convert_options=options)
    table: dict[str, Any] = {}
    for name in read.column_names:
        table |= _figures(name, read[name].to_pylist()) if name in numbers else {name: read[name]}
    return pandas(pa.table(table))


def _figures(name: str, written: list[str | None]) -> dict[str, pa.Array]:
    """The figures of a column, and the bounds of those of which no more is known."""
    bounds = [text[1:] if text and text.startswith("<") else None for text in written]
    figures = [text if text and bound is None else None for text, bound in zip(written, bounds)]
    columns = {name: figures, f"{name}_below": bounds} if any(bounds) else {name: figures}
    return {name: pa.array(column, pa.string()).cast(pa.float64()) for name, column in columns.items()}
