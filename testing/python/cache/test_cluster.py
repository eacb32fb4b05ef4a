"""The cluster example, on Dask workers of this machine and a PostgreSQL of the test's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from sqlalchemy import create_engine, func, select

from tilelang.autotuner.cluster import tune_on
from tilelang.cache.database import schema
from tilelang.errors import TuningError

from . import fakes, postgres

RUN = """
import json, sys
sys.path.insert(0, sys.argv[1])
import compile_and_tune

if __name__ == "__main__":
    origins, config = compile_and_tune.main(workers=2)
    print("RESULT " + json.dumps([dict(origins), config]))
"""


def test_workers_compile_each_kernel_once_and_tune_together(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(RUN)
    with postgres.server() as server:
        result = subprocess.run(
            [sys.executable, str(script), str(fakes.REPOSITORY / "examples" / "cluster")],
            capture_output=True,
            text=True,
            timeout=240,
            env={
                **os.environ,
                "PYTHONPATH": str(fakes.REPOSITORY),
                "TILELANG_CACHE_URL": server.url,
                "TILELANG_CACHE_URL_TIMEOUT": "10",
            },
        )
        assert result.returncode == 0, result.stderr[-3000:]
        engine = create_engine(server.url)
        with engine.connect() as connection:
            kept = connection.execute(select(func.count()).select_from(schema.shared_kernels)).scalar_one()
        engine.dispose()
    line = next(line for line in result.stdout.splitlines() if line.startswith("RESULT "))
    origins, config = json.loads(line.removeprefix("RESULT "))
    assert origins["compiled"] == 4 and sum(origins.values()) == 16
    assert set(config) == {"block_M", "block_N"}
    assert kept == 4 + 4


def test_a_function_that_workers_cannot_import(cache):
    from concurrent.futures import ThreadPoolExecutor

    def local(n):
        return n

    with ThreadPoolExecutor(1) as pool, pytest.raises(TuningError, match="cannot be imported"):
        tune_on(pool, local, [{"n": 1}])
