"""A new process that finds its kernel in the cache loads neither the compiler nor SQLAlchemy, and does not trace."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

SCRIPT = """
import sys, torch
from testing.python.jit import programs
a = torch.ones(16, 8)
assert torch.equal(programs.eager_add(a, a), a + a)
kernel = programs.scaled_add(40)
assert torch.equal(kernel(torch.ones(40), torch.ones(40)), torch.ones(40) * 6)
loaded = [name for name in ("tvm", "sqlalchemy", "tilelang.frontend.program") if name in sys.modules]
print(kernel.entry.origin, *loaded)
"""


def run() -> list[str]:
    result = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def test_the_second_process_loads_no_compiler():
    assert "tvm" in run()
    assert run() == ["disk"]


BEFORE_TORCH = """
import sys
from testing.python.jit import programs
assert "torch" not in sys.modules
programs.scaled_add(40)
import torch
assert programs.scaled_add._is_traced is torch.compiler.is_dynamo_compiling
"""


def test_a_factory_from_before_torch_asks_for_tracing_without_an_import():
    """The check that imports torch at each call costs half as much as the call."""
    subprocess.run([sys.executable, "-c", BEFORE_TORCH], cwd=ROOT, check=True)
