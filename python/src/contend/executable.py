"""The `contend` command: where it is, how it is run, and what its errors become."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess
import sysconfig
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .progress import EVERY_S, LINE, Progress, Watch, watching

__all__ = ["CommandNotFound", "ContendError", "UsageError", "Word", "command", "version"]

Word = str | os.PathLike[str]
"""A word of a command line."""

USAGE = 2
"""The exit status of the command for a wrong argument."""


class ContendError(RuntimeError):
    """The command failed. The message is the command's own.

    `command` is its command line, `status` its exit status, or minus the number of the signal that ended it.
    """

    def __init__(self, message: str, *, command: Sequence[str] = (), status: int | None = None) -> None:
        super().__init__(message)
        self.command = tuple(command)
        self.status = status


class UsageError(ContendError, ValueError):
    """An argument is wrong."""


class CommandNotFound(ContendError):
    """The command is not there."""


def command() -> str:
    """The path of the command.

    It is what the environment variable CONTEND names; else the command that the package's wheel brought along; else the
    one in PATH.
    """
    if named := os.environ.get("CONTEND"):
        if found := shutil.which(named):
            return found
        raise CommandNotFound(f"CONTEND is `{named}`, which is no command: set it to the path of contend, or unset it")
    user_scheme = sysconfig.get_preferred_scheme("user")
    folders = [
        sysconfig.get_path("scripts"),
        sysconfig.get_path("scripts", scheme=user_scheme),
        str(Path(__file__).resolve().parent.parent / "bin"),  # after `pip install --target`
    ]
    if found := shutil.which("contend", path=os.pathsep.join(folders)) or shutil.which("contend"):
        return found
    raise CommandNotFound(
        f"there is no command contend in {', '.join(folders)} or PATH: install the wheel of the package, which brings it, or "
        "set CONTEND to its path"
    )


def version() -> str:
    """What the command was built from: its version, and the commit where that is known."""
    path = command()
    file = os.stat(path)
    return _version_of(path, file.st_mtime_ns, file.st_size)


@functools.cache
def _version_of(path: str, _mtime_ns: int, _size: int) -> str:
    """Asked of each build of the command once: a later one has another time or size."""
    return _output([path, "--version"], statuses=(0,)).strip()


def flags(given: Mapping[str, object]) -> list[str]:
    """The flags of a command line: `memory_node=1` is `--memory-node=1`, `for_="1s"`, whose name is a word of Python, `--for=1s`.

    A switch is True, what is None or False is left out, and a list repeats the flag. An empty list is refused, since without the
    flag the command takes its default.
    """
    words = []
    for name, value in given.items():
        flag = "--" + name.removesuffix("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(flag)
        elif isinstance(value, Iterable) and not isinstance(value, str | os.PathLike):
            values = [f"{flag}={one}" for one in value]
            if not values:
                raise UsageError(f"`{name}` is an empty list: give it a value, or leave it out for the default")
            words += values
        else:
            words.append(f"{flag}={value}")
    return words


def run(
    words: Sequence[Word], *, statuses: Sequence[int] = (0,), threads: int | None = None, watch: Watch | None = None
) -> str:
    """Runs the command with these arguments and gives what it prints.

    Other exit statuses than `statuses` are raised, and so is one of them but 0 if the command printed nothing.
    `threads` is how many threads the command computes with; as many as there are cores if it is not given. `watch` is called
    with what the command has said so far.
    """
    return _output([command(), *(os.fspath(word) for word in words)], statuses=statuses, threads=threads, watch=watch)


def run_json(
    words: Sequence[Word], *, statuses: Sequence[int] = (0,), threads: int | None = None, progress: Progress = False
) -> Any:
    """As `run`, but gives the JSON that the command prints, and shows meanwhile how far it is."""
    with watching(progress) as watch:
        return json.loads(run(words, statuses=statuses, threads=threads, watch=watch))


def _output(line: list[str], *, statuses: Sequence[int], threads: int | None = None, watch: Watch | None = None) -> str:
    environment = dict(os.environ)
    if threads is not None:
        environment["RAYON_NUM_THREADS"] = str(threads)
    if watch is not None:
        environment["CONTEND_PROGRESS_EVERY"] = f"{EVERY_S}s"
    ran = _ran(line, environment, watch)
    if ran.returncode in statuses and (ran.returncode == 0 or ran.stdout):
        return ran.stdout
    # `contend profile` passes on the status of its program, which may be this one.
    is_own = ran.stderr.startswith(("error: ", "contend: "))
    kind = UsageError if ran.returncode == USAGE and is_own else ContendError
    raise kind(_message(ran), command=line, status=ran.returncode)


ENDS_WITHIN_S = 10
"""So long the command may take to end what it has begun, after an interrupt."""


_running: dict[subprocess.Popen[str], int] = {}
"""The commands that run, each with the thread that waits for it."""


def interrupt_running(threads: Collection[int]) -> None:
    """Interrupts the commands that these threads wait for."""
    for process, thread in _running.copy().items():
        if thread in threads:
            process.send_signal(signal.SIGINT)


def _ran(line: list[str], environment: Mapping[str, str], watch: Watch | None) -> subprocess.CompletedProcess[str]:
    pipe = subprocess.PIPE
    with (
        _Witness() as witness,
        subprocess.Popen(
            line, env=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, encoding="utf-8", errors="replace"
        ) as process,
    ):
        _running[process] = threading.get_ident()
        # communicate() raises KeyboardInterrupt at once, and not after 250 ms: where a whole process group was interrupted, the command
        # has been too, and takes a second interrupt for the same one within 100 ms alone.
        process._sigint_wait_secs = 0  # type: ignore[attr-defined]
        try:
            output, errors = _communicated(process, watch)
        except BaseException as error:
            _end(process, is_interrupted=isinstance(error, KeyboardInterrupt) and witness.was_interrupted())
            raise
        finally:
            del _running[process]
    return subprocess.CompletedProcess(line, process.returncode, output, errors)


def _communicated(process: subprocess.Popen[str], watch: Watch | None) -> tuple[str, str]:
    """What the command printed and said, once it has ended."""
    while watch is not None:
        try:
            output, errors = process.communicate(timeout=EVERY_S)
        except subprocess.TimeoutExpired as waits:
            so_far = waits.stderr or b""  # bytes, whatever the encoding
            watch(so_far.decode("utf-8", "replace") if isinstance(so_far, bytes) else so_far)
        else:
            watch(errors)
            return output, errors
    return process.communicate()


def _end(process: subprocess.Popen[str], *, is_interrupted: bool) -> None:
    """Lets the command end the programs that it runs and remove its files, which it cannot when it is killed.

    A second interrupt ends it before it has: it gets none as long as it may be ending from the first.
    """
    if is_interrupted and _ends(process):
        return
    process.send_signal(signal.SIGINT)
    if not _ends(process):
        process.kill()


def _ends(process: subprocess.Popen[str]) -> bool:
    try:
        process.communicate(timeout=ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        return False
    return True


class _Witness:
    """A process beside the command, which ends by what interrupts the process group: it tells a Ctrl-C of the terminal, which the
    command has got too, from an interrupt of this process alone.

    The main thread has one, since only that is interrupted. The process ends with this one, whatever ends this one: its input does.
    """

    SIGNALLED_WITHIN_S = 0.5
    """So long it may take to end, on a machine where much runs. An interrupt of this process alone comes to the command so much later."""

    def __enter__(self) -> _Witness:
        self._process: subprocess.Popen[bytes] | None = None
        if threading.current_thread() is threading.main_thread():
            # Without it interrupts are passed on, which the command takes for one within 100 ms.
            with contextlib.suppress(OSError):
                self._process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def was_interrupted(self) -> bool:
        """Whether the process group was interrupted."""
        if self._process is None:
            return False
        try:
            return self._process.wait(self.SIGNALLED_WITHIN_S) == -signal.SIGINT
        except subprocess.TimeoutExpired:
            return False


def _message(ran: subprocess.CompletedProcess[str]) -> str:
    said = LINE.sub("", ran.stderr).strip()
    for prefix in ("contend: ", "error: "):
        said = said.removeprefix(prefix)
    said = said.removesuffix("For more information, try '--help'.").rstrip()
    if ran.stdout.startswith('{\n  "void": {'):
        void = json.loads(ran.stdout)["void"]
        said = f"{void['reason']}. {void['remedy']}."
    if ran.returncode < 0:
        said = f"contend was ended by signal {-ran.returncode}. {said}".strip()
    return said or f"contend ended with exit status {ran.returncode}, and said nothing"
