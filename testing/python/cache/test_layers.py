"""Read-only layers and the options that say where the cache is."""

from __future__ import annotations

import os
import subprocess

import pytest

import tilelang.option
from tilelang.cache import warn
from tilelang.cache.kernel_cache import KernelCache
from tilelang.cache.keys.source_key import SourceKey
from tilelang.cache.places import layers, location
from tilelang.cache.travel import bake
from tilelang.errors import CacheError, CacheWarning

from . import fakes
from .needs import NOBODY, as_nobody


def never():
    raise AssertionError("compiled although a layer has it")


def contents(folder) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_layer_is_read_and_not_written(tmp_path, monkeypatch, own_cache):
    baked = tmp_path / "baked"
    source = SourceKey("2" * 64, "m.f")
    KernelCache(baked).lookup_or_compile(fakes.key(), fakes.artifact, source)
    before = contents(baked / "kernels")
    monkeypatch.setenv("TILELANG_CACHE_LAYERS", str(baked))
    cache = KernelCache()
    entry = cache.lookup_or_compile(fakes.key(), never)
    assert entry.origin == "layer" and entry.path.is_relative_to(baked)
    assert KernelCache().lookup_source(source).origin == "layer"
    assert cache.lookup_or_compile(fakes.key("sub"), fakes.artifact).path.is_relative_to(own_cache)
    assert contents(baked / "kernels") == before


def test_a_damaged_layer_is_passed_over(tmp_path, monkeypatch):
    baked = tmp_path / "baked"
    path = KernelCache(baked).lookup_or_compile(fakes.key(), fakes.artifact).path
    (path / "kernel_lib.so").chmod(0o700)
    (path / "kernel_lib.so").write_bytes(b"other")
    monkeypatch.setenv("TILELANG_CACHE_LAYERS", os.pathsep.join((str(baked), str(tmp_path / "nowhere"))))
    with pytest.warns(CacheWarning) as caught:
        assert KernelCache().lookup_or_compile(fakes.key(), fakes.artifact).origin == "compiled"
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == 2 and "nowhere is left out" in messages[0] and "is damaged" in messages[1]
    assert path.exists()


def test_a_layer_that_everyone_may_write_to_is_left_out(tmp_path, monkeypatch):
    baked = tmp_path / "baked"
    KernelCache(baked).lookup_or_compile(fakes.key(), fakes.artifact)
    baked.chmod(0o777)
    monkeypatch.setenv("TILELANG_CACHE_LAYERS", str(baked))
    with pytest.warns(CacheWarning, match="left out: everyone may write"):
        assert layers.roots() == ()


def test_a_directory_of_another_owner_below_a_root_is_refused(tmp_path, monkeypatch, own_cache):
    KernelCache().lookup_or_compile(fakes.key(), fakes.artifact)
    for mode, problem in ((0o770, "its group may write to it"), (0o777, "everyone may write to it")):
        for name in ("", "kernels", "sources", "staging", "locks"):
            (own_cache / name).chmod(mode)
            monkeypatch.setattr(location, "_prepared", {})
            with pytest.warns(CacheWarning, match=problem):
                assert not location.current().kept
            (own_cache / name).chmod(0o700)
            warn.reset()
    real = os.stat
    theirs = own_cache / "kernels"

    def of_another(path, **options):
        found = real(path, **options)
        return os.stat_result([*found[:4], 4321, *found[5:10]]) if path == theirs else found

    monkeypatch.setattr(location.os, "stat", of_another)
    monkeypatch.setattr(location, "_prepared", {})
    with pytest.warns(CacheWarning, match="kernels/: it belongs to user 4321"):
        assert not location.current().kept
    monkeypatch.setenv("TILELANG_CACHE_LAYERS", str(own_cache))
    with pytest.warns(CacheWarning, match="left out: it belongs to user 4321"):
        assert layers.roots() == ()


RECIPE = """
import tilelang, tilelang.language as T

@tilelang.jit(target="c", out_idx=-1)
def add_one(n):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1) as bx:
            for i in T.Parallel(n):
                B[i] = A[i] + 1
    return main
"""

USE = """
import sys, torch
sys.path.insert(0, "{home}")
from kernels import add_one
kernel = add_one(16)
assert torch.equal(kernel(torch.ones(16)), torch.ones(16) * 2)
print(kernel.entry.origin, "tvm" in sys.modules)
"""


def test_the_container_recipe(tmp_path, monkeypatch):
    """Built as root, run as another user: what docs/cache.md says."""
    with as_nobody() as home:
        (home / "kernels.py").write_text(RECIPE)
        (home / "kernels.json").write_text('[{"function": "kernels:add_one", "args": [16]}]')
        layer = home / "image" / "kernels"
        code = "from tilelang.cli import main; main()"
        monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "build"))
        old = os.umask(0o077)
        try:
            fakes.run_python(code, "cache", "precompile", str(home / "kernels.json"))
            fakes.run_python(code, "cache", "export", "--layer", str(layer))
        finally:
            os.umask(old)
        (home / "image").chmod(0o755)
        (home / "own").mkdir(mode=0o777)
        use = USE.format(home=home.path)
        places = {"TILELANG_CACHE_LAYERS": str(layer), "TILELANG_CACHE_DIR": str(home / "own" / "cache")}
        assert home.run(use, **places) == "layer False"
        assert sorted(os.listdir(layer)) == ["kernels", "sources"]


@pytest.mark.parametrize("name", ["kernels", "sources"])
def test_a_layer_whose_parts_others_may_write_to_is_left_out(tmp_path, monkeypatch, name):
    baked = tmp_path / "baked"
    KernelCache(baked).lookup_or_compile(fakes.key(), fakes.artifact)
    (baked / name).chmod(0o770)
    monkeypatch.setenv("TILELANG_CACHE_LAYERS", str(baked))
    with pytest.warns(CacheWarning, match="left out: its group may write to it"):
        assert layers.roots() == ()


def test_a_layer_is_not_written_over_other_files(cache, tmp_path):
    key = cache.lookup_or_compile(fakes.key(), fakes.artifact).key
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "letter").write_text("")
    with pytest.raises(CacheError, match="neither empty nor a layer"):
        bake.write(cache.root, [key], home)
    assert home.stat().st_mode & 0o777 == 0o700
    assert [bake.write(cache.root, [key], tmp_path / "layer") for _ in range(2)] == [1, 1]


def test_cache_dir_of_the_options(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tilelang.option.cache_dir("./kernels_here")
    assert tilelang.option.get_cache_dir() == tmp_path / "kernels_here"
    entry = KernelCache().lookup_or_compile(fakes.key(), fakes.artifact)
    source = tmp_path / "kernels_here" / "kernels" / fakes.key().digest / "device_kernel.cu"
    assert source.read_text() == "// add" and entry.path == source.parent
    tilelang.option.cache_dir(None)
    assert tilelang.option.get_cache_dir() == tmp_path / "cache"


def test_a_cache_follows_a_change_of_the_directory(cache, tmp_path, monkeypatch):
    first = cache.lookup_or_compile(fakes.key(), fakes.artifact).path
    tilelang.option.cache_dir(tmp_path / "second")
    assert cache.lookup_or_compile(fakes.key("sub"), fakes.artifact).path.is_relative_to(tmp_path / "second")
    tilelang.option.cache_dir(None)
    assert cache.root == first.parent.parent


def test_scopes_and_defaults(tmp_path, monkeypatch):
    monkeypatch.delenv("TILELANG_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert location.default_root() == tmp_path / "xdg" / "tilelang"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert location.default_root() == tmp_path / ".cache" / "tilelang"
    work = tmp_path / "work" / "deep"
    work.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(tmp_path / "work")], check=True)
    monkeypatch.chdir(work)
    monkeypatch.setenv("TILELANG_CACHE_SCOPE", "repo")
    assert location.default_root() == tmp_path / "work" / ".tilelang_cache"
    monkeypatch.chdir(tmp_path)
    assert location.default_root() == tmp_path / ".cache" / "tilelang"


def test_dump_ir_is_a_state():
    assert tilelang.option.debug.dump_ir() is False
    assert tilelang.option.debug.dump_ir(True) is True
    assert tilelang.option.debug.dump_ir() is True
    tilelang.option.debug.dump_ir(False)
    assert tilelang.option.option is tilelang.option


@pytest.mark.parametrize("name", ["", "kernel_lib.so", "manifest.json"])
def test_an_entry_that_another_user_can_change_is_not_loaded(own_cache, name):
    path = KernelCache().lookup_or_compile(fakes.key(), fakes.artifact).path
    (path / name).chmod(0o720)
    with pytest.warns(CacheWarning, match="another user owns it or may write to it"):
        assert KernelCache().lookup_or_compile(fakes.key(), fakes.artifact).origin == "compiled"
    assert list((own_cache / "quarantine").iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("name", ["", "kernel_lib.so"])
def test_root_does_not_load_an_entry_of_another_owner(name):
    path = KernelCache().lookup_or_compile(fakes.key(), fakes.artifact).path
    os.chown(path / name, NOBODY, NOBODY)
    with pytest.warns(CacheWarning, match="another user owns it or may write to it"):
        assert KernelCache().lookup_or_compile(fakes.key(), fakes.artifact).origin == "compiled"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_root_does_not_follow_a_source_key_of_another_owner(own_cache):
    source = SourceKey("2" * 64, "m.f")
    KernelCache().lookup_or_compile(fakes.key(), fakes.artifact, source)
    assert KernelCache().lookup_source(source) is not None
    os.chown(own_cache / "sources" / "22" / source.digest, NOBODY, NOBODY)
    assert KernelCache().lookup_source(source) is None


def test_files_are_private_to_their_owner_under_any_umask(own_cache):
    source, before = SourceKey("2" * 64, "m.f"), os.umask(0)
    try:
        KernelCache().lookup_or_compile(fakes.key(), fakes.artifact, source)
    finally:
        os.umask(before)
    files = [path for path in own_cache.rglob("*") if path.is_file() and not path.name.startswith("index.db")]
    assert len(files) > 5 and not [path for path in files if path.stat().st_mode & 0o022]
    assert KernelCache().lookup_source(source).origin == "disk"
