"""How far a long call is: a bar of tqdm, lines on standard error, or calls of a function."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = bool | Callable[[int, int], None]
"""True for a bar of tqdm, or lines on standard error where tqdm is not installed; or a function, which is called with the number of
finished steps and of all."""

Count = Callable[[int, int, str], None]
"""What is called with the number of finished steps, of all, and with what one of them is called."""

Watch = Callable[[str], None]
"""What is called now and then with all that a command has said on standard error so far."""

EVERY_S = 0.2
"""So often a command that is watched says how far it is."""

LINE = re.compile(r"^contend: (\d+) of (\d+)(?: (\w+), about |, ).*\n?", re.MULTILINE)
"""What a command says of how far long work is."""


@contextmanager
def counting(progress: Progress) -> Iterator[Count]:
    """Shows how far the work is, as it was asked for."""
    if progress is False:
        yield lambda _finished, _all, _step: None
    elif progress is not True:
        yield lambda finished, all_, _step: progress(finished, all_)
    else:
        try:
            from tqdm.auto import tqdm
        except ModuleNotFoundError:
            yield print_progress
            return
        with tqdm() as bar:

            def advance(finished: int, all_: int, step: str) -> None:
                # A command has several pieces of work, one after the other.
                if (bar.total, bar.unit) != (all_ or None, step) or finished < bar.n:
                    bar.unit = step
                    bar.reset(total=all_ or None)
                bar.update(finished - bar.n)

            yield advance


def print_progress(finished: int, all_: int, step: str) -> None:
    """A line on standard error."""
    print(f"{finished} of {all_} {step}s" if all_ else f"{finished} {step}", file=sys.stderr)


@contextmanager
def watching(progress: Progress) -> Iterator[Watch | None]:
    """Counts what a command says of its steps; nothing is to be called where nobody wants to know."""
    if progress is False:
        yield None
        return
    with counting(progress) as count:
        last: tuple[str, ...] = ()

        def watch(said: str) -> None:
            nonlocal last
            lines = LINE.findall(said)
            if lines and lines[-1] != last:
                last = lines[-1]
                finished, all_, steps = last
                count(int(finished), int(all_), steps.removesuffix("s") or "step")

        yield watch


@contextmanager
def elapsing(progress: bool) -> Iterator[Watch | None]:
    """Counts the seconds of a command that does not know how long its program takes."""
    if not progress:
        yield None
        return
    began = time.monotonic()
    with counting(True) as count:
        last = 0

        def watch(_said: str) -> None:
            nonlocal last
            if (seconds := int(time.monotonic() - began)) > last:
                last = seconds
                count(seconds, 0, "s")

        yield watch
