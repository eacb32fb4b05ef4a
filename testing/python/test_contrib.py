"""The compilers of the system, under the names that programs call them by."""

from __future__ import annotations

import ctypes
import subprocess

import pytest

from tilelang.contrib import cc, nvrtc
from tilelang.errors import CompileError, DeviceCompileError, OptionError

SOURCE = 'extern "C" int answer() { return 42; }\n'


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "answer.cc"
    path.write_text(SOURCE)
    return str(path)


def test_libraries_and_programs(source, tmp_path):
    library, program, archive = (str(tmp_path / name) for name in ("answer.so", "main", "libanswer.a"))
    cc.create_shared(library, source, options=["-O1"])
    assert ctypes.CDLL(library).answer() == 42 and cc.get_global_symbol_section_map(library)["answer"] == "T"
    (tmp_path / "main.cc").write_text('extern "C" int answer(); int main() { return answer() - 42; }')
    subprocess.run([cc.get_cplus_compiler(), "-c", source, "-o", str(tmp_path / "answer.o")], check=True)
    cc.create_staticlib(archive, [str(tmp_path / "answer.o")])
    cc.create_executable(program, [str(tmp_path / "main.cc"), archive])
    assert subprocess.run([program]).returncode == 0
    assert "linux" in cc.get_target_by_dump_machine(cc.get_cc())() and not cc.is_darwin()


def test_a_compiler_that_fails_says_why(tmp_path):
    (tmp_path / "wrong.cc").write_text("int f() { return x; }")
    with pytest.raises(RuntimeError, match="failed:\n(.|\n)*x"):
        cc.create_shared("wrong.so", "wrong.cc", cwd=str(tmp_path))


def test_the_compiler_of_the_environment_is_used(monkeypatch):
    monkeypatch.setenv("TILELANG_CC", "my-cc")
    assert cc.get_cc() == cc.get_cplus_compiler() == "my-cc"


def test_nvrtc_compiles_a_text():
    text = 'extern "C" __global__ void first(int* a) { a[0] = 1; }'
    assert b".target sm_80" in nvrtc.compile_cuda(text, arch=80)
    assert nvrtc.compile_cuda(text, "cubin", arch=90, options="--use_fast_math")[1:4] == b"ELF"
    assert nvrtc.get_nvrtc_version() >= (12, 0)
    with pytest.raises(DeviceCompileError, match="expected a"):
        nvrtc.compile_cuda("void (", arch=80)
    with pytest.raises(OptionError, match="neither 'ptx' nor 'cubin'"):
        nvrtc.compile_cuda(text, "elf")


def test_other_compilers_are_refused_when_they_are_called():
    from tilelang.contrib.msvc import create_shared

    from tilelang.contrib import compile_hip

    with pytest.raises(CompileError, match="another vendor"):
        compile_hip("")
    with pytest.raises(CompileError, match="for Windows"):
        create_shared("a.dll", [])
