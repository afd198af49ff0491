"""contend for Python: its subcommands as calls that give tables, and sweeps of them.

    import contend

    simulation = contend.simulate("counter", lock=["ticket", "mcs"], cores="1..48:8")
    contend.plot(simulation.curves)
"""

from .calls import (
    Check,
    Comparison,
    Extrapolation,
    Prediction,
    Profile,
    Reproduction,
    Simulation,
    check,
    compare,
    extrapolate,
    locks,
    machines,
    predict,
    profile,
    report,
    reproduce,
    simulate,
    workloads,
)
from .executable import CommandNotFound, ContendError, UsageError, command, version
from .curves import plot, relative_to_one_core
from .grids import GridError
from .sweeps import Sweep, SweepError, sweep

__all__ = [
    "Check",
    "CommandNotFound",
    "Comparison",
    "ContendError",
    "Extrapolation",
    "GridError",
    "Prediction",
    "Profile",
    "Reproduction",
    "Simulation",
    "Sweep",
    "SweepError",
    "UsageError",
    "check",
    "command",
    "compare",
    "extrapolate",
    "locks",
    "machines",
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
