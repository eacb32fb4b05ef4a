"""``compile.sh`` of an entry rebuilds its binary, anywhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
import torch

import tilelang
from tilelang.execution import load

from . import fakes, programs

pytestmark = pytest.mark.assembled


def test_compile_sh_rebuilds_the_device_binary(tmp_path):
    target = {"kind": "cuda", "arch": "sm_80"}
    with tilelang.simulator():
        kernel = tilelang.compile(programs.program(), out_idx=[1], target=target)
    copy = tmp_path / "moved"
    shutil.copytree(kernel.entry.path, copy)
    copy.chmod(0o700)
    before = {name: (copy / name).read_bytes() for name in ("kernel.ptx", "kernel.cubin") if (copy / name).exists()}
    assert before
    for name in before:
        (copy / name).unlink()
    environment = {**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(fakes.REPOSITORY)}
    subprocess.run(["sh", str(copy / "compile.sh")], check=True, timeout=120, env=environment, cwd="/")
    assert {name: (copy / name).read_bytes() for name in before} == before
    assert "nvrtc" in (copy / "compile_log.txt").read_text()


@pytest.mark.parametrize("backend", ["tvm_ffi", "ctypes"])
@pytest.mark.parametrize("target", ["cpu", "c"])
def test_compile_sh_rebuilds_the_library(tmp_path, target, backend):
    kernel = tilelang.compile(programs.program(), out_idx=[1], target=target, execution_backend=backend)
    copy = tmp_path / "moved"
    shutil.copytree(kernel.entry.path, copy)
    copy.chmod(0o700)
    (library,) = {"kernel_lib.so", "executable.so"} & set(os.listdir(copy))
    (copy / library).unlink()
    environment = {**os.environ, "PYTHON": sys.executable}
    subprocess.run(["sh", str(copy / "compile.sh")], check=True, timeout=120, env=environment, cwd="/")
    rebuilt = load(kernel.artifact, copy)
    assert torch.equal(rebuilt.call(torch.arange(64.0)), torch.arange(64.0) + 1)
