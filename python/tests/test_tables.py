"""Tables have their columns, with the right types, whether or not they have rows."""

from pathlib import Path

import pandas as pd

import contend
from contend import calls, programs
from contend.tables import csv_frame, frame, known


def types(table: pd.DataFrame) -> dict[str, str]:
    return {str(name): str(dtype) for name, dtype in table.dtypes.items()}


def test_columns_of_tables_have_one_type() -> None:
    table = frame([{"a": 1, "b": {"median": 2, "low": 1.5}}, {"a": "x", "c": {"is": "grows", "latest": None}}])
    assert table.columns.tolist() == ["a", "c", "b", "b_low", "c_latest"]
    assert table["a"].tolist() == ["1", "x"] and table["b"].isna().tolist() == [False, True]


def test_known_columns_are_there_without_rows_and_first_with_them() -> None:
    columns = known(text="lock killed_client", whole="threads", number="share", truth="met")
    empty = {
        "lock": "string[pyarrow]",
        "killed_client": "string[pyarrow]",
        "threads": "int64[pyarrow]",
        "share": "double[pyarrow]",
        "met": "bool[pyarrow]",
    }
    assert types(frame([], columns)) == empty
    # An object that is missing is no column of its own; a figure that is whole by chance is still a number.
    assert types(frame([{"share": 1, "lock": None, "killed": None}], columns)) == empty
    assert list(frame([{"other": "x", "killed": {"client": "c"}}], columns))[:3] == ["lock", "killed_client", "other"]


def test_a_bound_is_no_figure() -> None:
    table = csv_frame("lock,ns,threads,note\na,<12,2,\nb,34.5,,\nc,,,\n", known(text="lock note", number="ns", whole="threads"))
    assert table["ns_below"].tolist()[0] == 12.0 and table["ns"].tolist()[1] == 34.5
    assert table["ns"].isna().tolist() == [True, False, True] and table["ns_below"].isna().tolist() == [False, True, True]
    assert types(table)["threads"] == "int64[pyarrow]" and types(table)["note"] == "string[pyarrow]"


def test_the_columns_that_are_known_are_those_of_the_command(recorded: contend.Profile) -> None:
    """Each table with rows has what is known of it, and nothing that has other rows' types by chance."""
    checked = contend.check("mcs", threads=2, acquisitions=1, client="exclusive", model="ra", mutate=True)
    grown = contend.diff(recorded.path, recorded.path)
    for table, columns in [
        (recorded.distributions, programs.DISTRIBUTIONS),
        (grown.locks, programs.CHANGES),
        (grown.callers, programs.CHANGES),
        (grown.call_sites, programs.SITE_CHANGES),
        (checked.mutants, calls.MUTANTS),
    ]:
        assert set(columns.names) >= set(table.columns) - {"seconds"} and table.notna().any().all(), table
    # Of an operation or of a second; `holder` is a column of programs that were attached to.
    assert set(programs.LOCKS.names) - set(recorded.locks.columns) == {"acquires_per_s", "holder"}
    assert set(recorded.locks.columns) - set(programs.LOCKS.names) <= {f"{name}_below" for name in programs.LOCKS.names}
    without = contend.check("mcs", threads=2, acquisitions=1, client="exclusive", model="ra")
    assert without.mutants.empty and types(without.mutants)["killed_client"] == "string[pyarrow]"
    assert types(without.explorations)["limit"] == "string[pyarrow]"


def test_a_program_without_locks_has_typed_tables(tmp_path: Path) -> None:
    profile = contend.profile("true", output=tmp_path / "none.contend")
    assert profile.locks.empty and types(profile.locks)["acquisitions"] == "int64[pyarrow]"
    assert profile.distributions.empty and types(profile.distributions)["from_ns"] == "double[pyarrow]"
