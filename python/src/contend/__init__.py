"""contend for Python: its subcommands as calls that give tables, and sweeps of them.

    import contend

    simulation = contend.simulate("counter", lock=["ticket", "mcs"], cores="1..48:8")
    contend.plot(simulation.curves)
"""

from importlib.metadata import PackageNotFoundError as _NotInstalled
from importlib.metadata import version as _version_of

from .calls import (
    Calibration,
    Check,
    Extrapolation,
    Reproduction,
    Simulation,
    calibrate,
    check,
    extrapolate,
    locks,
    machines,
    reproduce,
    simulate,
    workloads,
)
from .curves import plot, relative_to_one_core
from .executable import CommandNotFound, ContendError, UsageError, command, version
from .grids import GridError
from .programs import (
    Advice,
    Comparison,
    Difference,
    Gate,
    Merged,
    Prediction,
    Profile,
    advise,
    attach,
    compare,
    diff,
    gate,
    merge,
    predict,
    profile,
    report,
)
from .sweeps import Sweep, SweepError, sweep

try:
    __version__ = _version_of("contend")
except _NotInstalled:
    __version__ = "0+sources"
"""The version of the package; `version()` tells what the command was built from."""

__all__ = [
    "Advice",
    "Calibration",
    "Check",
    "CommandNotFound",
    "Comparison",
    "ContendError",
    "Difference",
    "Extrapolation",
    "Gate",
    "GridError",
    "Merged",
    "Prediction",
    "Profile",
    "Reproduction",
    "Simulation",
    "Sweep",
    "SweepError",
    "UsageError",
    "__version__",
    "advise",
    "attach",
    "calibrate",
    "check",
    "command",
    "compare",
    "diff",
    "extrapolate",
    "gate",
    "locks",
    "machines",
    "merge",
    "plot",
    "predict",
    "profile",
    "relative_to_one_core",
    "report",
    "reproduce",
    "simulate",
    "sweep",
    "version",
    "workloads",
]
