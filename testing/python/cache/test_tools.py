"""Compilers that are replaced, or whose wrapper reads something else, while their kernels are in memory."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tilelang
import tilelang.language as T
from tilelang.cache import cached
from tilelang.cache.keys import header_watch, tool_files, wrappers
from tilelang.cache.keys.versions import content_of, files_of, version_of
from tilelang.jit.options import resolve_options


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
    monkeypatch.setenv("PATH", str(folder / "first" / "bin"), prepend=":")
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


def put_another_first(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """In a directory that the ``PATH`` has had from the beginning."""
    (folder / "first" / "bin").mkdir(parents=True)
    put(folder / "first" / "bin" / "cc", '#!/bin/sh\nexec /usr/bin/cc -DTL_D "$@"\n')


CHANGES: list[Callable[[Path, pytest.MonkeyPatch], None]] = [
    rewrite, rewrite_in_place, replace, turn_a_link, set_a_variable, put_another_on_the_path,
    put_another_first,
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
    before = content_of(files_of("toolc"))
    put(real / "toolc", "#!/bin/sh\necho 2\n")
    assert content_of(files_of("toolc")) != before


@pytest.mark.parametrize("target", ["cpu", "c", {"kind": "cuda", "arch": "sm_80"}])
def test_a_key_looks_for_each_program_once(monkeypatch, target):
    looked = []
    behind = tool_files.behind
    monkeypatch.setattr(tool_files, "behind", lambda program: looked.append(program) or behind(program))
    resolve_options(target=target).plain()
    assert looked and len(set(looked)) == len(looked)


def test_the_version_is_asked_again_when_what_a_wrapper_runs_has_changed(tmp_path, monkeypatch):
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    put(inner, "#!/bin/sh\necho 1.0\n")
    put(outer, f'#!/bin/sh\nexec {inner} "$@"\n')
    assert version_of(files_of(str(outer))) == "1.0"
    put(inner, "#!/bin/sh\necho 2.0.0\n")
    assert version_of(files_of(str(outer))) == subprocess.run([outer], capture_output=True, text=True).stdout.strip() == "2.0.0"


def test_folders_to_a_file_are_those_in_which_it_or_a_link_can_be_replaced(tmp_path):
    (tmp_path / "version1" / "bin").mkdir(parents=True)
    put(tmp_path / "version1" / "bin" / "tool", "")
    (tmp_path / "current").symlink_to("version1")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "tool").symlink_to(tmp_path / "current" / "bin" / "tool")
    found = tool_files.folders_to(str(tmp_path / "links" / "tool"))
    assert {str(tmp_path), str(tmp_path / "links"), str(tmp_path / "current" / "bin")} <= found


COMMANDS = {
    'exec cc "$@"': (("cc",), ()),
    'exec "$(dirname $0)/inner" $MORE_FLAGS "$@"': (("/opt/bin/inner",), ("MORE_FLAGS",)),
    'exec "$(dirname "$(readlink -f "$0")")"/gcc -D"A B" \'-DX=$1\' "$@"': (("/opt/bin/gcc", "-DA B", "-DX=$1"), ()),
    'set -e\n# a comment\nccache ${0%/*}/g++ \\\n  ${ONE} "$TWO" ${1+"$@"}': (("ccache", "/opt/bin/g++"), ("ONE", "TWO")),
}


@pytest.mark.parametrize("line", COMMANDS)
def test_a_script_that_is_a_single_command_is_known(line):
    found = wrappers.command_of(f"#!/bin/sh\n{line}\n", "/opt/bin/cc")
    assert found is not None and (found.words, found.variables) == COMMANDS[line]


@pytest.mark.parametrize(
    "text",
    [
        '#!/usr/bin/env python3\nexec cc "$@"\n', '#!/bin/bash --rcfile x\nexec cc "$@"\n', 'exec cc "$@"\n',
        *(f"#!/bin/sh\n{line}\n" for line in (
            '. ./conf; cc "$@"', '. ./conf\ncc "$@"', 'exec cc $(cat conf) "$@"', 'exec cc `cat conf` "$@"', 'exec cc -D$X "$@"',
            'exec $CC "$@"', 'CPATH=/x cc "$@"', 'exec cc *.o "$@"', 'exec cc -I~/x "$@"', 'exec cc "${X:-$(cat conf)}"',
            'cc "$@" && strip x', 'cc "$@" < conf', 'exec cc "a\nb"', "",
        )),
    ],
)  # fmt: skip
def test_a_script_that_may_do_more_is_not(text):
    assert wrappers.command_of(text, "/opt/bin/cc") is None


@pytest.mark.parametrize(
    ("line", "variables", "is_known"),
    [
        ('exec cc "$@"', {}, True),
        ('exec python3 conf.py "$@"', {}, False),
        ('exec env CPATH=/x cc "$@"', {}, False),
        ('exec -a other cc "$@"', {}, False),
        ('exec "$(dirname $0)/inner" "$@"', {}, True),
        ('exec "$(dirname $0)/hidden" "$@"', {}, False),
        ('exec "$(dirname $0)/ccache" cc "$@"', {}, True),
        ('exec "$(dirname $0)/ccache" "$(dirname $0)/hidden" "$@"', {}, False),
        ('exec "$(dirname $0)/ccache" cc "$@"', {"CCACHE_PREFIX": "other"}, False),
    ],
)
def test_a_script_is_known_where_all_is_that_it_runs(tmp_path, monkeypatch, line, variables, is_known):
    put(tmp_path / "compiler", f"#!/bin/sh\n{line}\n")
    put(tmp_path / "inner", '#!/bin/sh\nexec cc "$@"\n')
    put(tmp_path / "hidden", '#!/bin/sh\ncc $(cat conf) "$@"\n')
    (tmp_path / "ccache").write_bytes(b"\x7fELF")
    (tmp_path / "ccache").chmod(0o755)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert (tool_files.behind(str(tmp_path / "compiler")).problem == "") == is_known


def value_of(text: str) -> Any:
    @tilelang.jit(out_idx=[-1], target="c")
    def fill():
        @T.prim_func
        def main(B: T.Tensor((1,), "float32")):
            T.import_source(text)
            with T.Kernel(1, threads=1):
                B[0] = T.call_extern("float32", "value")

        return main

    return lambda: fill()()[0].item()


@pytest.mark.parametrize(
    ("wrapper", "conf", "source"),
    [
        (
            '#!/usr/bin/env python3\nimport os, sys, conf\nos.execvp("cc", ["cc", conf.FLAG, *sys.argv[1:]])\n',
            "FLAG = '-DV=@'",
            "",
        ),
        ('#!/bin/sh\n. "$(dirname $0)/conf.$(echo p)y"\nexec cc $FLAG "$@"\n', "FLAG=-DV=@", ""),
        ('#!/bin/sh\nexec cc -I"$(dirname $0)" "$@"\n', "#define V @", '#include "conf.py"\n'),
        ('#!/bin/sh\nexec cc -include "$(dirname $0)/conf.py" "$@"\n', "#define V @", ""),
        ('#!/bin/sh\nexec cc $INCLUDE "$@"\n', "#define V @", ""),
    ],
    ids=["python", "sourced", "directory", "header", "variable"],
)
@pytest.mark.filterwarnings("ignore::tilelang.errors.CacheWarning")
def test_what_a_wrapper_reads_changes_the_kernel(tmp_path, monkeypatch, wrapper, conf, source):
    put(tmp_path / "compiler", wrapper)
    monkeypatch.setenv("TILELANG_CC", str(tmp_path / "compiler"))
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("INCLUDE", f"-include {tmp_path}/conf.py")
    # Python itself takes the byte code of a module that was written in the same second, with as many characters.
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    value = value_of(f"{source}static float value(void) {{ return V; }}\n")
    for number in (1, 2):
        (tmp_path / "conf.py").write_text(conf.replace("@", str(number)))
        assert value() == number
