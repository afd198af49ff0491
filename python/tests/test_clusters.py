"""What a sweep needs of a cluster, and what Dask's classes would hand to Slurm and Kubernetes: nothing of these runs."""

import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_docs import blocks

import contend
from contend.sweeps import sweep

GRID = {"kind": "simulate", "workload": "counter", "lock": "mcs", "cores": 2, "seed": 1, "duration": "10us"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_scheduler_without_the_package_is_refused(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    address = f"tcp://127.0.0.1:{free_port()}"
    without = "import sys; sys.modules['contend'] = None; from distributed.cli.dask_scheduler import main; main(sys.argv[1:])"
    line = [sys.executable, "-c", without, "--host", address, "--no-dashboard"]
    with subprocess.Popen(line, stderr=subprocess.DEVNULL) as scheduler:
        try:
            with distributed.Client(address, timeout=60) as client, pytest.raises(contend.UsageError, match="scheduler and of each worker"):
                sweep(GRID, on=client, output=tmp_path)
        finally:
            scheduler.terminate()


def test_slurm_would_start_workers_of_one_thread_with_the_package() -> None:
    jobqueue = pytest.importorskip("dask_jobqueue")
    cluster = jobqueue.SLURMCluster(
        cores=16,
        processes=16,
        memory="32GB",
        python="/shared/contend/bin/python",
        scheduler_options={"host": "127.0.0.1", "dashboard_address": None},
    )
    with cluster:
        script = cluster.job_script()
    assert "#SBATCH --cpus-per-task=16" in script and "/shared/contend/bin/python -m distributed.cli.dask_worker" in script
    assert "--nthreads 1 " in script and "--nworkers 16 " in script


def test_kubernetes_would_start_scheduler_and_workers_of_the_image() -> None:
    pytest.importorskip("dask_kubernetes.operator")
    names: dict[str, Any] = {}
    (block,) = blocks("py")
    exec(block, names)
    spec = names["spec"]
    parts = [spec["spec"][part]["spec"]["containers"][0] for part in ("scheduler", "worker")]
    assert [part["image"] for part in parts] == ["registry.example/contend"] * 2
    assert parts[1]["args"][:4] == ["dask", "worker", "--nthreads", "1"] and spec["spec"]["worker"]["replicas"] == 20
