"""The command line on a small cache."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import tarfile
import termios
import types

import pytest
from typer.testing import CliRunner

from tilelang.cache import warn
from tilelang.cache.command.catalog import Catalog
from tilelang.cache.command.units import human_age, human_bytes
from tilelang.cache.database.index import Index
from tilelang.cache.entries import store
from tilelang.cache.kernel_cache import KernelCache
from tilelang.cache.keys.source_key import SourceKey
from tilelang.cache.places import location
from tilelang.cli import app
from tilelang.errors import CacheWarning

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
    head, *lines = [line.split("\t") for line in run("ls").splitlines()]
    assert head[:3] == ["key", "name", "target"] and {len(line) for line in lines} == {len(head)}
    assert sorted((line[1], line[2]) for line in lines) == [("add", "llvm test"), ("add", "llvm test"), ("gemm", "llvm test")]
    assert {line[0] for line in lines} == set(store.keys(filled.root))
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


def test_wrong_filters_are_reported_with_the_valid_ones(filled):
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
    assert found["counters"].items() >= {"hit": 2, "miss": 3, "evicted": 0, "error": 0, "uncacheable": 0}.items()
    assert "entries\t3 (1 source key)" in run("stats")
    zeroed = json.loads(run("stats", "--zero", "--json"))
    assert zeroed["counters"].pop("since") > 0 and set(zeroed["counters"].values()) == {0} and zeroed["hits"] == 2


PROGRAM = "def main(A, B):\n    B[0] = A[0]\n"


def test_why_shows_how_the_programs_differ(cache):
    cache.lookup_or_compile(fakes.key("main", PROGRAM), fakes.artifact, SourceKey("1" * 64, "m.make.<locals>.copy"))
    key = fakes.key("main", PROGRAM.replace("A[0]", "A[1]"))
    cache.lookup_or_compile(key, fakes.artifact, SourceKey(None, "m.make.<locals>.copy", "it reads a file"))
    text = run("why", key.digest)
    assert text.startswith("copy ") and "It is found after tracing only: it reads a file" in text
    assert "-    B[0] = A[0]\n+    B[0] = A[1]\n" in text
    assert json.loads(run("why", key.digest, "--json"))["program_diff"][-2:] == ["-    B[0] = A[0]", "+    B[0] = A[1]"]
    assert [line.split("\t")[-1] for line in run("ls", "copy", "--sort", "name").splitlines()[1:]].count("it reads a file") == 1
    assert "shortcut\toff: it reads a file" in run("show", key.digest)
    assert json.loads(run("stats", "--json"))["without_shortcut"] == 1
    assert "shortcut off\t1 kernel, found after tracing only" in run("stats")


HOSTILE = "evil\x1b[31m\u202e[red]x[/]\n\tname\x07"


def test_control_characters_do_not_reach_a_terminal(cache, tmp_path):
    cache.lookup_or_compile(fakes.key(HOSTILE, HOSTILE, target=HOSTILE), fakes.artifact, SourceKey(None, HOSTILE, HOSTILE))
    key = cache.lookup_or_compile(fakes.key(HOSTILE, "other"), fakes.artifact).key
    bundle = tmp_path / "bundle.tar"
    with tarfile.open(bundle, "w") as archive:
        archive.addfile(tarfile.TarInfo(HOSTILE))
    outputs = [run("ls"), run("show", key), run("why", key), run("stats"), run("show", HOSTILE + "?", code=2)]
    outputs += [run("import", bundle, code=1), run("ls", "--root", tmp_path / HOSTILE, code=2)]
    (cache.root / "kernels" / key / "kernel_lib.so").unlink()
    outputs.append(run("verify", code=1))
    for text in outputs:
        assert not set(text) & set("\x1b\x07\u202e"), text
    assert any("evil\\x1b[31m\\u202e[red]x[/]\\n\\tname\\x07" in text for text in outputs)
    with pytest.warns(CacheWarning) as caught:
        warn.once("test", HOSTILE)
    assert "\x1b" not in str(caught[0].message)


def in_a_terminal(*arguments: str, width: int = 80, height: int = 50, **environment: str) -> str:
    """What a command prints on a terminal."""
    command = [sys.executable, "-c", "from tilelang.cli import main; main()", "cache", *map(str, arguments)]
    of_the_runner = ("COLUMNS", "LINES")  # a test runner may set the size of its own terminal
    names = {name: value for name, value in os.environ.items() if name not in of_the_runner}
    names |= {"PYTHONPATH": fakes.python_path(), "TERM": "xterm", **environment}
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=names, cwd="/")
    os.close(theirs)
    text = b""
    with contextlib.suppress(OSError):  # how a terminal tells that it was closed
        while part := os.read(ours, 1 << 16):
            text += part
    os.close(ours)
    process.wait(60)
    return text.decode().replace("\r\n", "\n")


def test_a_terminal_gets_aligned_columns_that_fit(filled):
    filled.lookup_or_compile(fakes.key("a_name_that_is_longer_than_there_is_room_for_on_a_narrow_terminal"), fakes.artifact)
    text = in_a_terminal("ls", NO_COLOR="1")
    assert "\x1b" not in text and "\t" not in text and "…" in text and text.rstrip().endswith("KiB")
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b[1mkey" in in_a_terminal("ls")
    paged = in_a_terminal("ls", height=4, PAGER="tail -n 2")
    assert "4 kernels" in paged and "gemm" not in paged


def test_a_user_error_is_one_line(filled, tmp_path):
    (tmp_path / "file").write_text("")
    for arguments, message in (
        (("ls", "--root", tmp_path / "nothing"), "there is no kernel cache in"),
        (("ls", "--root", tmp_path), "there is no kernel cache in"),
        (("import", filled.root / "index.db", "--root", tmp_path), "there is no kernel cache in"),
        (("report", tmp_path / "nowhere" / "page.html"), "No such file or directory"),
        (("export", tmp_path / "nowhere" / "bundle"), "cannot be written: No such file or directory"),
        (("import", tmp_path / "nothing"), "is not a bundle of kernels: No such file or directory"),
        (("precompile", tmp_path / "nothing"), "No such file or directory"),
        (("gc", "--max-size", "big"), "is not a size"),
    ):
        text = run(*arguments, code=2)
        assert text.startswith("tilelang: ") and text.count("\n") == 1 and message in text, text
    assert not (tmp_path / "kernels").exists()


def test_a_read_only_cache_can_be_looked_at(filled, monkeypatch):
    assert run("pin", "gemm")
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    assert [row["pinned"] for row in json.loads(run("ls", "--json", "--sort", "name"))] == [False, False, True]
    assert "3 good, 0 bad" in run("verify") and "compile_flags" in run("why", "add")
    for arguments in (("pin", "gemm"), ("gc",), ("clear", "--yes"), ("verify", "--repair"), ("stats", "--zero")):
        text = run(*arguments, code=2)
        assert text.endswith("cannot be written to\n") and text.count("\n") == 1
    (filled.root / "index.db").unlink()
    assert len(run("ls").splitlines()) == 4


def test_clear_asks_for_confirmation_with_json_too(filled):
    run("clear", "--json", code=1)
    assert len(json.loads(run("ls", "--json"))) == 3
    filled.disk.release_leases()
    filled.forget()
    assert json.loads(run("clear", "--json", "--yes")) == {"removed": 3}


def test_links_in_the_place_of_entries_are_seen(filled, tmp_path):
    key = fakes.key("gemm", backend="tvm_ffi").digest
    path = store.entry_path(filled.root, key)
    filled.disk.release_leases()
    path.rename(tmp_path / key)
    path.symlink_to(tmp_path / key)
    assert "it is not a directory" in run("verify", code=1)
    assert "3 entries removed" in run("clear", "--yes")
    assert not os.path.lexists(path) and (tmp_path / key / "kernel_lib.so").is_file()


def test_the_number_of_queries_does_not_depend_on_the_size_of_the_cache(tmp_path, monkeypatch):
    """Two thousand kernels; twenty thousand are listed in a second and reported in two and 1.5 MB."""
    root = tmp_path / "large"
    location.prepare(root)
    index = Index(root)
    facts = {
        "inputs": {str(n): "x" * 64 for n in range(12)},
        "target": fakes.TARGET,
        "reason": f"differs from {'a' * 12} in program",
    }
    files = {"params.pkl": [20_000, "0" * 64]}
    index.published_all({"key": f"{n:064x}", "name": f"matmul_{n % 300}", "files": files, **facts} for n in range(2_000))
    asked = []
    real = Catalog._connected
    monkeypatch.setattr(Catalog, "_connected", lambda self: asked.append(1) or real(self))
    assert len(run("ls", "--root", root).splitlines()) == 2_001
    assert len(asked) == 1
    run("report", tmp_path / "report.html", "--root", root)
    assert len(asked) == 4
    assert (tmp_path / "report.html").stat().st_size < 200_000


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
    assert "1 entry removed" in run("clear", "--yes")
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
    module.make = lambda *args, **kwargs: calls.append((args, kwargs)) or types.SimpleNamespace(cache_key="0")
    module.number = lambda: 3
    monkeypatch.setitem(sys.modules, module.__name__, module)
    listing = tmp_path / "list.json"
    listing.write_text(
        json.dumps(
            [
                {"function": f"{module.__name__}:make", "args": [1, "torch.float16"], "kwargs": {"n": 2}},
                {"function": f"{module.__name__}:nothing"},
                {"function": f"{module.__name__}:number"},
            ]
        )
    )
    found = json.loads(run("precompile", listing, "--json", code=1))
    import torch

    assert calls == [((1, torch.float16), {"n": 2})]
    assert [bool(call["error"]) for call in found] == [False, True, True]
    assert found[2]["error"].endswith("gave int, not a kernel")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"function": 1}', 'has "function": 1'),
        ('[{"func": "a:b"}]', 'names no "function"'),
        ('["a:b"]', '"a:b" names no "function"'),
        ('[{"function": "a:b", "arg": []}]', 'has "arg": []'),
        ("[", "Expecting value"),
    ],
)
def test_a_precompile_list_that_is_none(tmp_path, text, message):
    listing = tmp_path / "list.json"
    listing.write_text(text)
    said = run("precompile", listing, code=2)
    assert "is not a precompile list" in said and message in said


def test_sizes_and_ages_are_formatted_readably(monkeypatch):
    assert [human_bytes(n) for n in (0, 1023, 1536, 3 << 30, 5 << 40)] == ["0 B", "1023 B", "1.5 KiB", "3.0 GiB", "5.0 TiB"]
    monkeypatch.setattr("time.time", lambda: 1_000_000.0)
    assert [human_age(1_000_000.0 - n) for n in (0, 5, 7200, 200_000, -50)] == ["now", "5s", "2h", "2d", "now"]
