"""The device toolchain: compilers, resources, disassembly, rebuilding by hand."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import cuda
from tilelang.errors import DeviceCompileError, ToolchainMissingError
from tilelang.target.cuda.toolchain import locate, sass
from tilelang.target.cuda.toolchain.compile import choose_compiler, compile_device, toolchain_versions
from tilelang.target.cuda.toolchain.records import compile_script, parse_resources

pytestmark = pytest.mark.assembled

SOURCE = """#include <tl_templates/cuda/mma.h>
extern "C" __global__ void product(float* d, const uint* ab, int n) {
  float c[4] = {0, 0, 0, 0};
#pragma unroll 1
  for (int i = 0; i < n; ++i) tl::mma_m16n8k16_f32_f16(c, ab + 8 * i, ab + 8 * i + 4);
  d[threadIdx.x] = c[0] + c[1] + c[2] + c[3];
}
"""
COMPILERS = ["nvrtc", pytest.param("nvcc", marks=pytest.mark.skipif(locate.tool("nvcc") is None, reason="no nvcc"))]


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_compilers_give_cubin_and_ptx_for_the_architecture(compiler: str, arch: str) -> None:
    binary = compile_device(SOURCE, arch, compiler=compiler)
    assert binary.cubin.startswith(b"\x7fELF")
    assert f".target {arch}".encode() in binary.ptx
    assert binary.compiler.split()[0] == compiler
    used = binary.resources["product"]
    assert 8 <= used.registers <= 255 and used.spill_store_bytes == used.stack_bytes == 0


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_source_that_does_not_compile_is_our_own_error_with_the_first_message(compiler: str) -> None:
    with pytest.raises(DeviceCompileError, match="undefined") as caught:
        compile_device("__global__ void k() { missing(); }", "sm_80", compiler=compiler)
    assert 'identifier "missing" is undefined' in caught.value.log


@pytest.mark.parametrize("error", ["math.h(98) Error: unsupported operation", "ptxas fatal   : Unresolved extern function 'f'"])
def test_the_first_error_is_shown_whatever_was_warned_of_before(error: str) -> None:
    log = f'kernel.cu(3): warning #177-D: "i" was declared but never referenced\n\n{error}'
    assert str(DeviceCompileError("nvrtc 13.5", log, "")) == f"nvrtc 13.5 failed: {error}"


def test_too_few_registers_for_what_lives_through_a_group_of_threads_is_explained() -> None:
    @T.prim_func
    def main(A: T.Tensor((256, 64), "float16"), C: T.Tensor((256, 64), "float32")):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((256, 64), "float16")
            product = T.alloc_fragment((256, 64), "float32")
            T.copy(A, a)
            T.gemm(a, a[0:64, :], product, transpose_B=True, clear_accum=True)
            with T.ws(0):
                T.set_max_nreg(160, 1)
            with T.ws(1):
                T.set_max_nreg(24, 0)
                T.fill(a, 0)
            T.copy(product, C)

    with pytest.raises(DeviceCompileError, match="Register allocation failed") as caught:
        tilelang.lower(main, target=cuda("sm_90a"))
    assert "the registers that T.set_max_nreg leaves it" in str(caught.value) and "\0" not in str(caught.value)


def test_what_the_device_compiler_refuses_is_said_of_the_programs_line() -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            thread = T.get_thread_binding()
            A[thread] = 1.0
            A[thread] = T.call_extern("float32", "no_such_function", A[thread])

    with pytest.raises(DeviceCompileError, match='identifier "no_such_function" is undefined') as caught:
        tilelang.lower(main, target=cuda("sm_80"))
    assert "test_toolchain.py:" in str(caught.value) and "A[thread] = T.call_extern(" in str(caught.value)


def test_an_architecture_that_the_compiler_does_not_know_is_refused() -> None:
    with pytest.raises(DeviceCompileError, match="gpu-architecture"):
        compile_device(SOURCE, "sm_999", compiler="nvrtc")


def test_the_compiler_can_be_chosen_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILELANG_CUDA_COMPILER", raising=False)
    assert choose_compiler() == "nvrtc"
    assert set(toolchain_versions()) == {"nvrtc"}
    monkeypatch.setattr("tilelang.target.cuda.toolchain.compile.ptxas", lambda: None)
    monkeypatch.setenv("TILELANG_CUDA_COMPILER", "nvcc")
    with pytest.raises(ToolchainMissingError, match="nvcc is not available"):
        choose_compiler()


def test_flags_reach_the_compiler() -> None:
    with pytest.raises(DeviceCompileError, match="flag was seen"):
        compile_device('#ifdef SEEN\n#error "flag was seen"\n#endif\n', "sm_80", flags=("-DSEEN",))


def test_flags_of_nvcc_are_understood_by_every_compiler() -> None:
    flags = ["-O3", "-Wno-deprecated-declarations", "--expt-relaxed-constexpr", "--ptxas-options=-v,--register-usage-level=10"]
    binary = compile_device(SOURCE, "sm_80", compiler="nvrtc", flags=[*flags, "-DNDEBUG"])
    assert "--ptxas-options=--register-usage-level=10" in binary.options and "-DNDEBUG" in binary.options
    assert binary.resources["product"].registers


def test_text_that_names_types_of_the_runtime_compiles() -> None:
    uses = 'extern "C" __global__ void k(int* found) { *found = cudaErrorInvalidValue; }'
    plain = 'extern "C" __global__ void k(int* found) { *found = 1; }'
    assert "--minimal" not in compile_device(uses, "sm_80", compiler="nvrtc").options
    assert "--minimal" in compile_device(plain, "sm_80", compiler="nvrtc").options


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("letter", ["c", ""])
def test_device_code_may_include_headers_of_the_c_library(compiler: str, letter: str) -> None:
    names = ("stdint", "stddef", "string", "stdlib", "stdio", "assert", "math", "limits", "float")
    includes = "".join(f"#include <{letter}{name}{'' if letter else '.h'}>\n" for name in names)
    body = "uint64_t x = n; size_t size = sizeof(x); __builtin_memcpy(out, &x, size); memcpy(out, &x, 1);"
    body += ' assert(n < INT_MAX); if (abs(n) > FLT_MAX || n == INFINITY) printf("%f", M_PI * NAN);'
    body += " *out += static_cast<std::ptrdiff_t>(std::int32_t(n)) + std::abs(n);" if letter else ""
    kernel = f'{includes}extern "C" __global__ void k(uint8_t* out, int n) {{ {body} }}'
    for flags in ((), ("-include", f"{locate.template_directory()}/tl_templates/cuda/common.h")):
        assert compile_device(kernel, "sm_80", compiler=compiler, flags=flags).cubin


def test_spills_and_stack_are_read_from_the_report() -> None:
    report = """ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
ptxas         .     64 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 23 registers, used 1 barriers, 64 bytes cumulative stack size, 512 bytes smem, 380 bytes cmem[0]
"""
    assert parse_resources(report)["k"].as_dict() == {
        "registers": 23, "stack_bytes": 64, "spill_store_bytes": 12, "spill_load_bytes": 16, "shared_bytes": 512, "barriers": 1,
    }  # fmt: skip


def test_disassembly_counts_instructions_and_finds_the_main_loop() -> None:
    function = sass.functions(compile_device(SOURCE, "sm_80").cubin)["product"]
    assert function.counts()["HMMA"] == 1
    loop = function.main_loop("HMMA")
    assert sum(i.family == "HMMA" for i in loop) == 1
    assert len(loop) < len(function.instructions)
    assert function.main_loop("HGMMA") == ()


@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_script_of_an_entry_rebuilds_its_cubin(compiler: str, tmp_path) -> None:
    binary = compile_device(SOURCE, "sm_80", compiler=compiler)
    text = compile_script(binary, "sm_80")
    assert str(locate.template_directory()) not in text
    (tmp_path / "device_kernel.cu").write_text(SOURCE)
    (tmp_path / "compile.sh").write_text(text)
    shell = shutil.which("sh")
    assert shell is not None
    root = locate.template_directory().parent
    subprocess.run(
        [shell, "compile.sh"], cwd=tmp_path, check=True, timeout=120, capture_output=True,
        env={"PYTHON": sys.executable, "PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONPATH": str(root)},
    )  # fmt: skip
    rebuilt = (tmp_path / "kernel.cubin").read_bytes()
    assert sass.functions(rebuilt) == sass.functions(binary.cubin)
    assert compiler == "nvcc" or rebuilt == binary.cubin  # nvcc's line information names its temporary directory
    assert b".visible .entry product" in (tmp_path / "kernel.ptx").read_bytes()
