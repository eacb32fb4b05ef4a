"""Compilers that are replaced, or whose wrapper reads something else, while their kernels are in memory."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import tilelang
import tilelang.language as T
from tilelang.cache import cached
from tilelang.cache.keys import header_watch, tool_files
from tilelang.cache.keys.versions import executable_content, executable_version


@tilelang.jit(out_idx=[-1], target="c")
def factory(n):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=1):
            for i in T.serial(n):
                B[i] = A[i] * 2

    return main


def put(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a C compiler in force that is a script around another script, which a link leads to."""
    folder = tmp_path / "bin"
    folder.mkdir()
    put(folder / "one", '#!/bin/sh\nexec cc "$@"\n')
    put(folder / "two", '#!/bin/sh\nexec cc -DTWO "$@"\n')
    (folder / "inner").symlink_to("one")
    put(folder / "compiler", '#!/bin/sh\nexec "$(dirname $0)/inner" $MORE_FLAGS "$@"\n')
    monkeypatch.setenv("TILELANG_CC", str(folder / "compiler"))
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("MORE_FLAGS", raising=False)
    factory.clear_memory()
    return folder


def rewrite(folder: Path, patch: pytest.MonkeyPatch) -> None:
    put(folder / "compiler", '#!/bin/sh\nexec "$(dirname $0)/inner" -DTL_A $MORE_FLAGS "$@"\n')


def rewrite_in_place(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """The same size, and the same times as before."""
    before = os.stat(folder / "one")
    with open(folder / "one", "r+") as file:
        file.write("#!/bin/sh\nexec cc $@  \n")
    os.utime(folder / "one", ns=(before.st_atime_ns, before.st_mtime_ns))


def replace(folder: Path, patch: pytest.MonkeyPatch) -> None:
    (folder / "two").replace(folder / "one")


def turn_a_link(folder: Path, patch: pytest.MonkeyPatch) -> None:
    (folder / "new").symlink_to("two")
    (folder / "new").replace(folder / "inner")


def set_a_variable(folder: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("MORE_FLAGS", "-DTL_B")


def put_another_on_the_path(folder: Path, patch: pytest.MonkeyPatch) -> None:
    other = folder / "other"
    other.mkdir()
    put(other / "cc", '#!/bin/sh\nexec /usr/bin/cc -DTL_C "$@"\n')
    patch.setenv("PATH", str(other), prepend=":")


CHANGES: list[Callable[[Path, pytest.MonkeyPatch], None]] = [
    rewrite, rewrite_in_place, replace, turn_a_link, set_a_variable, put_another_on_the_path,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("queue", ["inotify", "stat"])
def test_a_kernel_in_memory_goes_with_its_compiler(compiler, change, queue, monkeypatch):
    if queue == "stat":
        monkeypatch.setattr(header_watch, "_open", lambda folders: None)
        header_watch._renew()
    program = factory.get_tir(8)

    def kernels() -> tuple[str, str]:
        return factory(8).cache_key, cached(program, [1], target="c").cache_key

    before = kernels()
    assert before[0] == before[1] and factory(8) is factory(8)
    change(compiler, monkeypatch)
    after = kernels()
    assert after[0] == after[1] != before[0]
    assert factory(8) is factory(8)
    monkeypatch.undo()
    header_watch._renew()


def test_a_launcher_counts_with_the_program_that_it_runs(tmp_path, monkeypatch):
    launchers, real = tmp_path / "launchers", tmp_path / "real"
    for folder, text in ((launchers, "#!/bin/true\n"), (real, "#!/bin/sh\necho 1\n")):
        folder.mkdir()
        put(folder / "toolc", text)
    monkeypatch.setenv("PATH", f"{launchers}:{real}:{os.environ['PATH']}")
    assert tool_files.behind(str(launchers / "toolc")).paths[:2] == [str(launchers / "toolc"), str(real / "toolc")]
    before = executable_content("toolc")
    put(real / "toolc", "#!/bin/sh\necho 2\n")
    assert executable_content("toolc") != before


def test_the_version_is_asked_again_when_what_a_wrapper_runs_has_changed(tmp_path, monkeypatch):
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    put(inner, "#!/bin/sh\necho 1.0\n")
    put(outer, f'#!/bin/sh\nexec {inner} "$@"\n')
    assert executable_version(str(outer)) == "1.0"
    put(inner, "#!/bin/sh\necho 2.0.0\n")
    assert executable_version(str(outer)) == subprocess.run([outer], capture_output=True, text=True).stdout.strip() == "2.0.0"


def test_folders_to_a_file_are_those_in_which_it_or_a_link_can_be_replaced(tmp_path):
    (tmp_path / "version1" / "bin").mkdir(parents=True)
    put(tmp_path / "version1" / "bin" / "tool", "")
    (tmp_path / "current").symlink_to("version1")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "tool").symlink_to(tmp_path / "current" / "bin" / "tool")
    found = tool_files.folders_to(str(tmp_path / "links" / "tool"))
    assert {str(tmp_path), str(tmp_path / "links"), str(tmp_path / "current" / "bin")} <= found
