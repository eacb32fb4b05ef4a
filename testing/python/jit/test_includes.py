"""Files of the user that the toolchain reads are part of the kernel key."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.errors import CacheWarning
from tilelang.jit.includes import user_files


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A directory with a header that includes another, and a cache of its own."""
    (tmp_path / "outer.h").write_text('#pragma once\n#  include "deep/inner.h"\n')
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "inner.h").write_text("#define FACTOR 2\n")
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def digests(*arguments):
    return user_files(*arguments).digests


@pytest.mark.parametrize(
    ("source", "flags", "variables"),
    [
        ('#include "outer.h"', ["-I{0}"], {}),
        ('#include "outer.h"', ["-I", "{0}"], {}),
        ("#include <outer.h>", ["-isystem", "{0}"], {}),
        ("#include <outer.h>", ["--include-path={0}"], {}),
        ('#if 0\n#include "outer.h"\n#endif', [], {"CPATH": "/nowhere:{0}"}),
        ('#include "{0}/outer.h"', [], {}),
        ("", ["-include", "{0}/outer.h"], {}),
        ("", ["-Xcompiler", "-include,{0}/outer.h"], {}),
        ('#include \\\n "outer.h"', ["-Xcompiler", "-I{0}"], {}),
        ('#incl\\\nude "outer.h"', ["-I{0}"], {}),
        ('#include/* outer */"outer.h"', ["-I{0}"], {}),
        ('#/*\n*/include "outer.h"', ["-I{0}"], {}),
        ('%:include "outer.h"', ["-I{0}"], {}),
        ('int x;\r#include "outer.h"\r', ["-I{0}"], {}),
        ('\f#\vinclude "outer.h"', ["-I{0}"], {}),
    ],
)
def test_the_closure_of_includes_counts_by_content(folder, source, flags, variables):
    def here(text):
        return text.format(folder) if "{0}" in text else text

    arguments = here(source), [here(flag) for flag in flags], {name: here(text) for name, text in variables.items()}
    before = digests(*arguments)
    assert len(before) == 2
    (folder / "deep" / "inner.h").write_text("#define FACTOR 3\n")
    assert digests(*arguments) != before


def test_dependencies_that_cannot_be_followed_are_reported(folder):
    assert "names no file" in user_files("#include NAME", [], {}).problem
    (folder / "flags.txt").write_text("-DA")
    assert "file of flags" in user_files("", [f"@{folder}/flags.txt"], {}).problem
    assert "names no file" in user_files("#if __has_include(NAME)", [], {}).problem
    for text in (
        '".incbin \\"table.bin\\""',
        '".inc" "bin \\"table.bin\\""',
        '"." NAME(incbin)',
        '".include \\"a.s\\""',
        '"." NAME(include)',
    ):
        assert "assembler" in user_files(f"asm({text});", [], {}).problem
    assert "another at every compilation" in user_files("int t[] = {sizeof __TIME__};", [], {}).problem
    assert not user_files('asm("bar.sync 0;"); // these include the last one', [], {}).problem
    assert digests("#include <math.h>", [], {}) == {}


def test_every_header_of_a_name_counts_where_the_next_one_is_included(folder):
    (folder / "first").mkdir()
    (folder / "first" / "outer.h").write_text("#include_next <outer.h>\n")
    flags = [f"-I{folder}/first", f"-I{folder}"]
    before = digests("#include <outer.h>", flags, {})
    (folder / "outer.h").write_text("#define FACTOR 4\n")
    assert digests("#include <outer.h>", flags, {}) != before


@pytest.mark.parametrize("flag", ["-lhelper", "-l:libhelper.a"])
def test_libraries_that_flags_name_count(folder, flag):
    (folder / "libhelper.a").write_bytes(b"!<arch>\n1")
    before = digests("", [f"-L{folder}", flag], {})
    (folder / "libhelper.a").write_bytes(b"!<arch>\n2")
    assert before and digests("", [f"-L{folder}", flag], {}) != before


def make(text, folder):
    @tilelang.jit(out_idx=[-1], target="c", compile_flags=[f"-I{folder}"])
    def scaled(n):
        @T.prim_func
        def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
            T.import_source(text)
            with T.Kernel(1, threads=1):
                for i in T.serial(n):
                    B[i] = A[i] * T.call_extern("float32", "factor")

        return main

    return scaled


def test_a_changed_header_compiles_again_within_the_process(folder):
    factory = make('#include "outer.h"\nstatic float factor(void) { return FACTOR; }\n', folder)
    ones = torch.ones(8)
    assert torch.equal(factory(8)(ones), 2 * ones)
    assert "the toolchain reads file" in factory(8).source_reason
    (folder / "deep" / "inner.h").write_text("#define FACTOR 3\n")
    assert torch.equal(factory(8)(ones), 3 * ones)


def test_a_header_under_a_computed_name_is_compiled_at_every_call(folder):
    factory = make('#define NAME "outer.h"\n#include NAME\nstatic float factor(void) { return FACTOR; }\n', folder)
    ones = torch.ones(8)
    with pytest.warns(CacheWarning, match="compiled at every call"):
        assert torch.equal(factory(8)(ones), 2 * ones)
    (folder / "deep" / "inner.h").write_text("#define FACTOR 3\n")
    assert torch.equal(factory(8)(ones), 3 * ones)


def test_variables_of_the_tools_are_part_of_the_key(folder, monkeypatch):
    factory = make("static float factor(void) { return 2; }\n", folder)
    first = factory(8)
    assert factory(8) is first
    monkeypatch.setenv("CPATH", str(folder))
    assert factory(8).cache_key != first.cache_key


@pytest.mark.parametrize(
    "flags", [["-include", "inner.h"], ["-imacros", "inner.h"], ["-Xcompiler", "-include,inner.h"], ["--include=inner.h"]]
)
def test_a_header_that_a_flag_includes_is_looked_for_in_the_directories_too(folder, flags):
    flags = [*flags, f"-I{folder}/deep"]
    before = user_files("", flags, {})
    (folder / "deep" / "inner.h").write_text("#define FACTOR 9\n")
    assert before.digests and user_files("", flags, {}).digests != before.digests


@pytest.mark.parametrize(
    "flag",
    ["--sysroot=x", "-isysroot", "-iprefix", "--options-file=x", "-optf", "-working-directory", "-specs=x", "-B/x", "-Wl,-T"],
)
def test_flags_that_move_where_headers_are_found_leave_no_key(flag):
    assert "decides where files are looked for" in user_files("", [flag, "x"], {}).problem


def test_links_count_by_what_they_lead_to_and_where_they_are(folder):
    (folder / "other").mkdir()
    (folder / "other" / "linked.h").symlink_to(folder / "outer.h")
    (folder / "other" / "deep").mkdir()
    (folder / "other" / "deep" / "inner.h").write_text("#define FACTOR 7\n")
    before = user_files('#include "linked.h"', [f"-I{folder}/other"], {}).digests
    (folder / "other" / "deep" / "inner.h").write_text("#define FACTOR 8\n")
    after = user_files('#include "linked.h"', [f"-I{folder}/other"], {}).digests
    assert before["linked.h"] == after["linked.h"] and before["deep/inner.h"] != after["deep/inner.h"]


@pytest.mark.parametrize("flag", ["-isystem{0}/first", "-idirafter{0}/first", "-iquote{0}/first"])
@pytest.mark.parametrize("form", ['"outer.h"', "<outer.h>"])
def test_files_of_one_name_count_in_whichever_directory_a_compiler_searches_first(folder, monkeypatch, flag, form):
    (folder / "first").mkdir()
    for place in ("outer.h", "first/outer.h"):
        (folder / place).write_text("#define FACTOR 2\n")
    monkeypatch.chdir(folder / "first")
    for place in ("outer.h", "first/outer.h"):
        before = digests(f"#include {form}", [flag.format(folder), f"-I{folder}"], {})
        (folder / place).write_text(f"#define FACTOR 3 // {place}\n")
        assert digests(f"#include {form}", [flag.format(folder), f"-I{folder}"], {}) != before


@pytest.mark.parametrize(
    "flags",
    [
        ["-Xpreprocessor", "-I", "-Xpreprocessor", "{0}/deep"],
        ["-Wp,-I,{0}/deep"],
        ["--include-directory-after={0}/deep"],
        ["--compiler-options=-I{0}/deep"],
    ],
)
def test_directories_in_flags_that_are_handed_on(folder, flags):
    assert "inner.h" in digests("#include <inner.h>", [flag.format(folder) for flag in flags], {})


def test_libraries_that_name_other_files_leave_no_key(folder):
    (folder / "libscript.so").write_text("INPUT(libother.a)")
    (folder / "libthin.a").write_bytes(b"!<thin>\n")
    for name in ("script", "thin"):
        for flags, variables in (([f"-L{folder}", f"-l{name}"], {}), ([f"-Wl,--library={name}"], {"LIBRARY_PATH": str(folder)})):
            assert "may name others" in user_files("", flags, variables).problem
    assert "may name others" in user_files("", [f"-Wl,{folder}/libscript.so"], {}).problem


@pytest.mark.parametrize("variables", [{"COMPILER_PATH": "/x"}, {"GCC_EXEC_PREFIX": "/x"}])
def test_tools_of_other_directories_leave_no_key(variables):
    assert "decides which tools" in user_files("", [], variables).problem
