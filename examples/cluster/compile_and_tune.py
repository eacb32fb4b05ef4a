"""Compiles and tunes kernels over a Dask cluster whose hosts share one cache.

    pip install 'tilelang[cluster,shared]'
    TILELANG_CACHE_URL=postgresql+psycopg://user@host/database python examples/cluster/compile_and_tune.py
    ... --scheduler tcp://head:8786        # an existing cluster; without it, workers are started here

What to learn: one cache for many hosts. Every worker has a cache directory of its own, as hosts do. Sixteen requests for four
kernels are spread over the workers, and each kernel is compiled once; then one kernel's blocks are tuned, a candidate a task.

Why so: a database holds the files and a lock for each kernel, so that a worker waits for another's compilation instead of
repeating it. Factories are in a module of their own, since tasks name them by import.

Next: start it against a real scheduler, on workers of one kind; ``docs/howto/team-cache.md`` sets the database up.
"""

import argparse
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

from dask.distributed import Client, LocalCluster

sys.path.insert(0, str(Path(__file__).parent))
import kernels

from tilelang.autotuner.cluster import tune_on
from tilelang.cache import default_cache

SCALES = (1.0, 2.0, 3.0, 4.0)
CONFIGS = {"block_M": [16, 64], "block_N": [64, 128]}


def prepare(base: str) -> None:
    """Makes a worker look like a host: its own cache directory, the example's modules importable."""
    os.environ["TILELANG_CACHE_DIR"] = os.path.join(base, str(os.getpid()))
    sys.path.insert(0, str(Path(__file__).parent))


def compile_one(scale: float) -> str:
    """Compiles (or finds) one kernel on a worker, as a new process would; says where it came from."""
    default_cache().forget()
    kernels.scaled_add.clear_memory()
    return kernels.scaled_add(256, 256, scale).entry.origin


def main(scheduler: str | None = None, workers: int = 2) -> tuple[Counter, dict]:
    """Runs the example.

    Returns:
        how many requests each origin answered, and the best configuration.
    """
    with tempfile.TemporaryDirectory() as base:
        cluster = None if scheduler else LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
        with Client(scheduler or cluster) as client:
            client.run(prepare, base)
            requests = [client.submit(compile_one, scale, pure=False) for scale in SCALES * 4]
            origins = Counter(client.gather(requests))
            print("requests answered by", dict(origins))
            profile = {"warmup": 1, "rep": 5, "supply_prog": kernels.inputs, "ref_prog": kernels.reference}
            found = tune_on(client.get_executor(pure=False), kernels.scaled_add, CONFIGS, (256, 256, 2.0), profile=profile)
            print(f"best of {len(found.trials)}: {found.config}, {found.latency:.4f} ms")
        if cluster is not None:
            cluster.close()
    return origins, found.config


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scheduler", help="address of an existing Dask scheduler")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    main(options.scheduler, options.workers)
