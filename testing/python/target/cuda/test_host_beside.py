"""The C compiler of the host runs while the device code is compiled, and nothing of it is left where that fails."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import cuda
from tilelang import temporary
from tilelang.errors import DeviceCompileError
from tilelang.target.cuda.toolchain import nvrtc


@pytest.fixture
def started(tmp_path, monkeypatch) -> Path:
    """A file that the C compiler makes when it starts to compile (and not when it is asked for its version)."""
    mark, compiler = tmp_path / "started", tmp_path / "cc"
    compiler.write_text(f'#!/bin/sh\ncase "$*" in *host.c*) touch {mark};; esac\nexec {shutil.which("cc")} "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("TILELANG_CC", str(compiler))
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    return mark


def program(name: str):
    @T.prim_func
    def main(x: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                x[i] = T.call_extern("float32", name, x[i])

    return main


def test_the_host_is_compiled_beside_the_device_code(started, monkeypatch):
    compile_source = nvrtc.compile_source

    def once_started(*arguments, **options):
        end = time.monotonic() + 60
        while not started.exists():
            assert time.monotonic() < end, "the host waits for the device code"
            time.sleep(0.01)
        return compile_source(*arguments, **options)

    monkeypatch.setattr(nvrtc, "compile_source", once_started)
    assert tilelang.compile(program("expf"), target=cuda()).artifact.files["executable.so"]


def test_nothing_is_left_where_the_device_code_fails(started, tmp_path, monkeypatch):
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(temporary, "folder", lambda: str(folder))
    with pytest.raises(DeviceCompileError, match="nothing_like_it"):
        tilelang.compile(program("nothing_like_it"), target=cuda())
    assert not list(folder.iterdir())
