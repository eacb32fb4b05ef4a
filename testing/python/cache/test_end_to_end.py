"""The cache under the real compiler, on the CPU target."""

from __future__ import annotations

import json
import os

import pytest
import torch

import tilelang
from tilelang.cache import compile_fixed
from tilelang.cache.command.catalog import Catalog
from tilelang.cache.kernel_cache import KernelCache, default_cache
from tilelang.errors import CompileError

from . import fakes, programs


@pytest.fixture(autouse=True)
def nothing_in_memory(own_cache):
    """Every test begins like a new process."""
    default_cache().forget()
    for function in (programs.add, programs.negate):
        function.clear_memory()
    yield
    default_cache().forget()


WARM = """
import json, sys
import torch
from cache import fakes, programs
fakes.freeze_compiler()
kernel = programs.add(64, 64)
programs.check_add(kernel, 2.0)
heavy = [name for name in ("tvm", "sqlalchemy", "sqlite3", "tilelang.frontend.builder") if name in sys.modules]
print(json.dumps([kernel.entry.origin, kernel.source_reason, heavy]))
"""


def test_a_second_process_finds_the_kernel_without_a_compiler():
    first = json.loads(fakes.run_python(WARM).stdout)
    second = json.loads(fakes.run_python(WARM).stdout)
    assert first[0] == "compiled" and first[1] == ""
    assert second == ["disk", "", []]


def test_a_changed_global_of_a_helper_compiles_again(monkeypatch):
    programs.check_add(programs.add(64, 64), 2.0)
    first = programs.add(64, 64)
    assert programs.add(64, 64) is first
    monkeypatch.setattr(programs, "SCALE", 3.0)
    programs.check_add(programs.add(64, 64), 3.0)
    monkeypatch.setattr(programs, "SCALE", 2.0)
    programs.check_add(programs.add(64, 64), 2.0)
    monkeypatch.setattr(programs, "scaled", lambda x: x)
    programs.check_add(programs.add(64, 64), 1.0)


def test_the_generated_source_is_where_the_documentation_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tilelang.option.cache_dir("./kernels_here")
    kernel = programs.add(64, 64)
    entry = tmp_path / "kernels_here" / "kernels" / kernel.cache_key
    names = set(os.listdir(entry))
    assert {"program.txt", "options.txt", "params.pkl", "compile_log.txt", "manifest.json"} <= names
    assert "T.Kernel" in (entry / "program.txt").read_text() or "main" in (entry / "program.txt").read_text()
    assert "backend" in (entry / "options.txt").read_text()


def test_ir_of_every_pass_on_request():
    assert not (programs.add(64, 64).entry.path / "ir").exists()
    tilelang.option.debug.dump_ir(True)
    try:
        files = sorted(os.listdir(programs.add(64, 64).entry.path / "ir"))
    finally:
        tilelang.option.debug.dump_ir(False)
    assert len(files) > 3 and files[0].startswith("00_") and files[1].startswith("01_")
    assert not (programs.add(64, 64).entry.path / "ir").exists()


def test_cached_by_identity_and_options():
    program = programs.program()
    kernel = tilelang.cached(program, [1], target="cpu")
    assert tilelang.cached(program, [1], target="cpu") is kernel
    assert KernelCache.cached(program, [1], target="cpu") is kernel
    assert tilelang.cached(programs.program(), [1], target="cpu") is kernel
    other = tilelang.cached(program, [1], target="cpu", pass_configs={"tl.disable_vectorize": True})
    assert other is not kernel and other.cache_key != kernel.cache_key
    assert kernel(torch.zeros(64))[0] == 1


def test_explicit_compilation_bypasses_the_cache(own_cache):
    program = programs.program()
    kernels = {n: compile_fixed(program, [1], target="cpu") for n in range(2)}
    assert kernels[0] is not kernels[1] and all(kernel(torch.ones(64))[5] == 2 for kernel in kernels.values())
    assert not (own_cache / "kernels").exists() or os.listdir(own_cache / "kernels") == []


def test_disabled_cache_compiles_every_time(monkeypatch, own_cache):
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    assert programs.add(64, 64) is not programs.add(64, 64)
    assert not own_cache.exists() or os.listdir(own_cache / "kernels") == []


def test_a_damaged_library_is_never_loaded():
    kernel = programs.add(64, 64)
    path = kernel.entry.path
    library = next(path / name for name in ("executable.so", "kernel_lib.so") if (path / name).exists())
    raw = bytearray(library.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    library.unlink()
    library.write_bytes(raw)
    default_cache().forget()
    programs.add.clear_memory()
    with pytest.warns(tilelang.errors.CacheWarning, match="damaged"):
        again = programs.add(64, 64)
    programs.check_add(again, 2.0)


def test_a_precompiled_list_is_found(tmp_path):
    listing = tmp_path / "list.json"
    listing.write_text(json.dumps([{"function": "cache.programs:add", "args": [64, 64], "kwargs": {"block": 16}}]))
    code = "import sys; from cache import fakes; fakes.freeze_compiler(); from tilelang.cli import app; "
    code += "app(['cache', 'precompile', sys.argv[1]], standalone_mode=False)"
    fakes.run_python(code, str(listing), COLUMNS="200")
    assert programs.add(64, 64, block=16).entry.origin == "disk"


OFF = """
import os, sys
import tilelang
from cache import programs
if sys.argv[1] == "call":
    tilelang.disable_cache()
programs.check_add(programs.add(64, 64), 2.0)
if sys.argv[1] == "later":
    os.environ["TILELANG_DISABLE_CACHE"] = "1"
    kernel = programs.add(64, 64)
    assert kernel.entry.origin == "compiled" and kernel is not programs.add(64, 64)
print(os.path.exists(os.environ["TILELANG_CACHE_DIR"]))
"""


@pytest.mark.parametrize(("how", "made"), [("variable", False), ("call", False), ("later", True)])
def test_a_cache_that_is_off_touches_no_disk(own_cache, how, made):
    variables = {"TILELANG_DISABLE_CACHE": "1"} if how == "variable" else {}
    assert fakes.run_python(OFF, how, **variables).stdout.strip() == str(made)


def test_a_kernel_has_the_name_of_its_factory(own_cache):
    key = programs.add(64, 64).cache_key
    assert Catalog(default_cache().disk.index).resolve("add")["key"] == key


def compile_several(program, **options):
    return tilelang.par_compile([program], **options)[0]


@pytest.mark.parametrize("make", [tilelang.compile, tilelang.cached, compile_several])
def test_a_traced_program_has_the_name_of_the_function_that_it_is_in(own_cache, make):
    key = make(programs.program(), target="cpu").cache_key
    assert Catalog(default_cache().disk.index).resolve("program")["key"] == key


def test_an_entry_does_not_contain_the_path_of_the_program(own_cache):
    kernel = tilelang.compile(programs.program(), target={"kind": "cuda", "arch": "sm_80"})
    place = default_cache().disk.root / "kernels" / kernel.cache_key
    folder = os.path.dirname(programs.__file__).encode()
    named = {file for file, *_ in json.loads((place / "origins.json").read_bytes())["places"]}
    assert named and all(file.endswith("cache/programs.py") and not os.path.isabs(file) for file in named)
    assert not [file.name for file in place.iterdir() if file.is_file() and folder in file.read_bytes()]


def test_cached_without_arguments_names_its_parameters():
    with pytest.raises(CompileError, match="expected a program traced by @T.prim_func, got NoneType"):
        tilelang.cached()
    assert KernelCache.execution_backend == "auto"
    cache = KernelCache()
    cache.execution_backend = "ctypes"
    assert cache.cached(programs.add.get_tir(64, 64), [2], target="c").execution_backend == "ctypes"
