"""Calls that mypy and pyright refuse. Nothing runs them.

Each line has an error that is to be there, and is ignored: both checkers complain of an ignored error that is not there.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true

import contend


def wrong_keywords() -> None:
    contend.simulate("counter", no_such_flag=True)  # type: ignore[call-arg]
    contend.simulate("counter", core=1)  # type: ignore[call-arg]
    contend.predict("p.contend", locks=["mcs"])  # type: ignore[call-arg]
    contend.gate("new", base="old", json=True)  # type: ignore[call-arg]
    contend.diff("before", "after", csv=True)  # type: ignore[call-arg]


def wrong_types() -> None:
    contend.simulate("counter", seeds="five")  # type: ignore[arg-type]
    contend.simulate("counter", transactions="yes")  # type: ignore[arg-type]
    contend.simulate("counter", placement="everywhere")  # type: ignore[arg-type]
    contend.simulate("counter", duration=3)  # type: ignore[arg-type]
    contend.check("mcs", model=["sc", "x86"])  # type: ignore[list-item]
    contend.report("p.contend", html=1)  # type: ignore[arg-type]
    contend.attach("4711", for_="1s")  # type: ignore[arg-type]


def right_calls() -> None:
    contend.simulate("counter", cores=[1, "2..48:2"], lock="mcs", machine=None, spread="fixed", buckets="default")
    contend.check("mcs", model=["sc", "ra"], client="exclusive", threads=2)
    contend.gate("new", "{threads}", base=["old", "{threads}"], worse_by=5, pin="0..3")
    contend.attach(4711, for_="1s")
