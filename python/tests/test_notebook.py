"""The notebook tells the demo's story from beginning to end."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError


def test_the_notebook_runs() -> None:
    path = Path(__file__).resolve().parents[1] / "demo.ipynb"
    notebook = nbformat.read(path, as_version=4)
    for attempt in range(5):
        try:
            NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
            break
        except CellExecutionError as error:
            # Something else may have run on the machine while the program was profiled.
            if error.ename != "ContendError" or "hardly ran together" not in str(error):
                raise
            if attempt == 4:
                pytest.skip(f"the machine is too busy: {error.evalue}")
            notebook = nbformat.read(path, as_version=4)
    shown: list[Any] = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not [output for output in shown if output.output_type == "error"]
    pictures = [output for output in shown if "image/png" in output.get("data", {})]
    tables = [output for output in shown if "text/html" in output.get("data", {})]
    assert len(pictures) == 2 and len(tables) == 6
    assert any("demo_program::TABLE" in table.data["text/html"] for table in tables)
