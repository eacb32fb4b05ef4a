"""Headers that appear where the compiler looks first, after a kernel was compiled without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tilelang
import tilelang.language as T
from tilelang.cache import cached
from tilelang.jit.shadows import watched_names

VALUE = "#ifndef V\n#define V 1\n#endif\nstatic float value(void) { return V; }\n"


def factory_of(text: str, flags: list[str], annotated: list[str]) -> Any:
    @tilelang.jit(out_idx=[-1], target="c", compile_flags=flags)
    def fill():
        @T.prim_func
        def main(B: T.Tensor((1,), "float32")):
            T.annotate_compile_flags(annotated)
            T.import_source(text + VALUE)
            with T.Kernel(1, threads=1):
                B[0] = T.call_extern("float32", "value")

        return main

    return fill


TEXTS = {"own.h": '#if __has_include("own.h")\n#include "own.h"\n#endif\n', "errno.h": "#include <errno.h>\n"}
"""Header -> what the program includes; others are included by generated code, or by what that includes."""
FOUND = ("in memory", "by source key", "by cached()")
CASES = [(name, "flag", found) for name in ("own.h", "errno.h", "math.h") for found in FOUND]
CASES += [("bits/types.h", given, "in memory") for given in ("annotation", "variable", "missing folder")]


@pytest.mark.parametrize(("name", "given", "found"), CASES)
def test_a_header_that_appears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, given: str, found: str) -> None:
    folder = tmp_path / "a" / "b" if given == "missing folder" else tmp_path
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    if given == "variable":
        monkeypatch.setenv("CPATH", str(folder))
    flags = [f"-I{folder}"]
    of_call = flags if given in ("flag", "missing folder") else []
    factory = factory_of(TEXTS.get(name, ""), of_call, flags if given == "annotation" else [])
    program = factory.get_tir()

    def value() -> float:
        if found == "by source key":
            factory.clear_memory()
        kernel = cached(program, [0], target="c", compile_flags=of_call) if found == "by cached()" else factory()
        return kernel()[0].item()

    assert value() == value() == 1
    header = folder / name
    header.parent.mkdir(parents=True, exist_ok=True)
    header.write_text(f"#include_next <{name}>\n#define V 2\n" if name != "own.h" else "#define V 2\n")
    assert value() == 2


def test_names_that_any_compilation_reads(tmp_path: Path) -> None:
    names = watched_names("cuda", [str(tmp_path)])
    assert {"math.h", "stdint.h", "bits/types.h", "libm.so", "tl_templates/cuda/common.h"} <= set(names)


def test_directories_of_the_user_do_not_switch_the_shortcut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CPATH", str(tmp_path))
    factory = factory_of("", [], [])
    assert factory() is factory() and not factory().source_reason
