"""The command line on a small cache."""

from __future__ import annotations

import json
import sys
import types

import pytest
from typer.testing import CliRunner

from tilelang.cache import store
from tilelang.cache.cli import human_age, human_bytes
from tilelang.cache.kernel_cache import KernelCache
from tilelang.cache.source_key import SourceKey
from tilelang.cli import app

from . import fakes


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["cache", *map(str, arguments)], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def filled(cache):
    """Three kernels: two of one name that differ in a flag, and a large one; the first was hit twice."""
    cache.lookup_or_compile(fakes.key("add"), fakes.artifact, SourceKey("1" * 64, "module.make_add"))
    cache.lookup_or_compile(fakes.key("add", compile_flags=("-O3",)), fakes.artifact)
    cache.lookup_or_compile(fakes.key("gemm", backend="tvm_ffi"), lambda: fakes.artifact("gemm", size=200_000))
    for _ in range(2):
        KernelCache().lookup_or_compile(fakes.key("add"), fakes.artifact)
    return cache


def test_ls(filled):
    text = run("ls")
    assert text.count("add") == 2 and "gemm" in text and "3 kernels" in text
    assert text.count("llvm test") == 3
    rows = json.loads(run("ls", "--json", "--sort", "size"))
    assert [row["name"] for row in rows][0] == "gemm"
    assert {row["hits"] for row in rows if row["key"] == fakes.key("add").digest} == {2}
    assert rows[0]["inputs"]["name"] == "gemm"


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["ad"], ["add", "add"]),
        (["--backend", "tvm_ffi"], ["gemm"]),
        (["--larger", "100K"], ["gemm"]),
        (["--older", "1h"], []),
        (["--younger", "1h", "--limit", "1"], ["gemm"]),
        (["--target", "test", "--sort", "name"], ["add", "add", "gemm"]),
        (["--target", "cuda"], []),
        (["--pinned"], []),
        (["--space", "1"], []),
        (["100%"], []),
    ],
)
def test_filters(filled, options, names):
    assert [row["name"] for row in json.loads(run("ls", "--json", *options))] == names


def test_wrong_filters_say_what_is_right(filled):
    assert "write for example 90m" in run("ls", "--older", "soon", code=2)
    assert "write for example 500K" in run("ls", "--larger", "big", code=2)
    assert "sort by one of age" in run("ls", "--sort", "colour", code=2)


def test_show_says_where_every_file_is(filled, own_cache):
    key = fakes.key("gemm").digest
    shown = json.loads(run("show", "gemm", "--json"))
    assert shown["key"] == fakes.key("gemm", backend="tvm_ffi").digest != key
    for file in shown["files"]:
        assert file["path"].startswith(str(own_cache))
        with open(file["path"], "rb") as content:
            assert len(content.read()) == file["bytes"]
    text = run("show", shown["key"][:10])
    assert "generated device source" in text and shown["path"] in text
    assert "module.make_add" in run("show", fakes.key("add").digest)


def test_an_unknown_or_ambiguous_key_is_one_message(filled):
    text = run("show", "nothing", code=2)
    assert text.startswith("tilelang: no kernel with key or name 'nothing'") and "hint" in text and "Traceback" not in text


def test_why(filled):
    found = json.loads(run("why", fakes.key("add", compile_flags=("-O3",)).digest, "--json"))
    assert [row["name"] for row in found["differences"]] == ["compile_flags"]
    assert found["nearest"] == fakes.key("add").digest
    assert found["reason"] == f"differs from {fakes.key('add').digest[:12]} in compile_flags"
    assert "compile_flags" in run("why", "add")
    assert "no other kernel" in run("why", "gemm")


def test_stats(filled):
    found = json.loads(run("stats", "--json"))
    assert (found["entries"], found["hits"], found["sources"]) == (3, 2, 1)
    assert found["hit_rate"] == pytest.approx(0.4)
    assert "entries        3 (1 source keys)" in run("stats")


def test_verify_and_repair(filled, own_cache):
    assert "3 good, 0 bad" in run("verify")
    path = store.entry_path(own_cache, fakes.key("add").digest)
    (path / "program.txt").chmod(0o600)
    (path / "program.txt").write_text("other")
    assert "bad   " in run("verify", code=1)
    assert "2 good, 1 bad" in run("verify", "--repair")
    assert json.loads(run("verify", "--json")) == {"good": 2, "bad": {}, "missing_rows": [], "missing_directories": []}
    assert json.loads(run("stats", "--json"))["entries"] == 2


def test_pin_gc_clear(filled):
    filled.disk.release_leases()
    filled.forget()
    assert "is pinned" in run("pin", "gemm")
    assert json.loads(run("ls", "--pinned", "--json"))[0]["name"] == "gemm"
    assert json.loads(run("gc", "--max-size", "1K", "--grace", "0", "--json"))["evicted"] == 2
    assert [row["name"] for row in json.loads(run("ls", "--json"))] == ["gemm"]
    assert "is free" in run("pin", "--off", "gemm")
    assert "0 entries evicted" in run("gc")
    assert "1 entries removed" in run("clear", "--yes")
    assert json.loads(run("ls", "--json")) == []


def test_path(filled, own_cache):
    assert run("path").strip() == str(own_cache)
    path = run("path", "gemm", "device_kernel.cu").strip()
    assert open(path).read() == "// gemm"
    run("path", "gemm", "nothing.txt", code=1)


def test_export_and_import(filled, tmp_path):
    bundle = tmp_path / "bundle.tar.gz"
    assert "3 kernels" in run("export", bundle)
    other = tmp_path / "other"
    assert "3 added, 0 already there, 0 refused" in run("import", bundle, "--root", other)
    assert "0 added, 3 already there" in run("import", bundle, "--root", other)
    assert json.loads(run("stats", "--json", "--root", other))["entries"] == 3
    fresh = KernelCache(other)
    assert fresh.lookup_source(SourceKey("1" * 64)).key == fakes.key("add").digest
    assert "is not a bundle" in run("import", __file__, code=2)


def test_precompile(filled, tmp_path, monkeypatch):
    module = types.ModuleType("kernels_of_this_test")
    calls = []
    module.make = lambda *args, **kwargs: calls.append((args, kwargs))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    listing = tmp_path / "list.json"
    listing.write_text(
        json.dumps(
            [
                {"function": f"{module.__name__}:make", "args": [1, "torch.float16"], "kwargs": {"n": 2}},
                {"function": f"{module.__name__}:nothing"},
            ]
        )
    )
    found = json.loads(run("precompile", listing, "--json", code=1))
    import torch

    assert calls == [((1, torch.float16), {"n": 2})]
    assert [bool(call["error"]) for call in found] == [False, True]
    listing.write_text('{"function": 1}')
    assert "is not a precompile list" in run("precompile", listing, code=2)


def test_sizes_and_ages_for_people(monkeypatch):
    assert [human_bytes(n) for n in (0, 1023, 1536, 3 << 30, 5 << 40)] == ["0 B", "1023 B", "1.5 KiB", "3.0 GiB", "5.0 TiB"]
    monkeypatch.setattr("time.time", lambda: 1_000_000.0)
    assert [human_age(1_000_000.0 - n) for n in (0, 5, 7200, 200_000, -50)] == ["now", "5s", "2h", "2d", "now"]
