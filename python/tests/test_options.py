"""The keyword arguments of the calls are those of the command, and what is none of them is refused before anything runs."""

import subprocess
import sys
from pathlib import Path

import contend
from contend import options
from contend.executable import run

PACKAGE = Path(__file__).resolve().parents[1]


def test_the_keywords_are_what_the_command_describes() -> None:
    generator = [sys.executable, str(PACKAGE / "generate-options")]
    generated = subprocess.run(generator, input=run(["describe"]), capture_output=True, text=True, check=True).stdout
    assert generated == Path(options.__file__).read_text(), "run: contend describe | python/generate-options > python/src/contend/options.py"


def test_a_keyword_may_be_a_word_of_python() -> None:
    assert contend.executable.flags({"for_": "1s", "memory_node": 1, "all": False, "lock": ["a", "b"]}) == [
        "--for=1s",
        "--memory-node=1",
        "--lock=a",
        "--lock=b",
    ]
