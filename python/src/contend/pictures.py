"""What a notebook shows of a result: its picture, as SVG, above the table that says most."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from .curves import plot
from .executable import Word, flags, run_json
from .progress import Progress

ROWS = 20
"""Rows of a table in a notebook, at most."""


def run_drawn(
    subcommand: str,
    options: Mapping[str, object],
    arguments: Sequence[Word],
    *,
    statuses: Sequence[int] = (0,),
    progress: Progress = False,
) -> tuple[Any, str]:
    """Runs the subcommand and gives its JSON, and the picture that it draws with `--svg`."""
    with tempfile.TemporaryDirectory(prefix="contend-") as folder:
        path = Path(str(options.get("svg") or Path(folder, "picture.svg")))
        words = [subcommand, "--json", *flags({**options, "svg": path}), "--", *arguments]
        document = run_json(words, statuses=statuses, progress=progress)
        return document, path.read_text(encoding="utf-8") if path.is_file() else ""


def svg_of(table: pd.DataFrame) -> str:
    """The picture that `plot` draws of the table; of curves of several units one of each. Empty where there is nothing to draw."""
    if table.empty:
        return ""
    units = [of_unit for _, of_unit in table.groupby("unit", sort=False)] if "unit" in table else [table]
    return "".join(map(_svg, units))


def _svg(table: pd.DataFrame) -> str:
    from matplotlib.figure import Figure  # which who shows nothing need not wait for

    figure = Figure(figsize=(7, 4), layout="constrained")
    plot(table, ax=figure.subplots())
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    text = file.getvalue()
    return text[text.index("<svg") :]


def shown(picture: str, table: pd.DataFrame, columns: Sequence[str] = ()) -> str:
    """The picture above the table, or these columns of it, as HTML."""
    kept = table[[name for name in columns if name in table]] if columns else table
    rows = kept.to_html(max_rows=ROWS, index=False, na_rep="", border=0, float_format=lambda value: f"{value:.4g}")
    # The picture has the size that it has on a page, or that of a narrower cell.
    fitted = picture.replace("<svg ", '<svg style="max-width:100%;height:auto" ')
    return f"<div>{fitted}{rows}</div>"
