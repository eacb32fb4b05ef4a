"""PTX text: what is accepted, how mistakes are reported, and that damaged text never does more than raise an error."""

import random

import numpy as np
import pytest
import torch

import tilelang.simulator
from testing.python.simulator.models import cuda, kernels, tiles
from tilelang.errors import PtxError, SimulatorArgumentError

HEADER = ".version 8.4\n.target sm_90a\n.address_size 64\n"
KERNEL = HEADER + ".visible .entry k(.param .u64 p)\n{\n  .reg .b32 %r<4>; .reg .b64 %d<4>; .reg .pred %p<2>;\n  BODY\n  ret;\n}"

MISTAKES = {
    "frobnicate.u32 %r0, %r1;": "PTX line 7: unknown instruction frobnicate.u32",
    "add.u32 %r0, %r1;": "expected 3 operands, found 2",
    "add.u32 %r0, %r1, %d0;": "%d0 has 64 bits, .u32 needs 32",
    "add.u32 %d0, %r1, %r2;": "%d0 has 64 bits, the result has 32",
    "add.u32 %r0, %r1, %r9;": "%r9",
    "add.wrong.u32 %r0, %r1, %r2;": "add.wrong.u32: unknown form",
    "add.f32 %r0, %r1, 1;": "an integer literal where a float is expected",
    "bra NOWHERE;": "unknown label NOWHERE",
    "@%r0 bra END; END:": "%r0 is not a predicate register",
    "mov.u32 %r0, %nonsense;": "unknown register %nonsense",
    "ld.global.v3.u32 {%r0, %r1, %r2}, [%d0];": "unknown type or modifier .v3",
    "ld.global.v2.u32 {%r0, %r1, %r2}, [%d0];": "expected 2 vector elements, found 3",
    "ld.global.u32 %r0, %d0;": "expected an address in brackets",
    "st.param.u32 [p], %r0;": "kernel parameters are read-only",
    "ld.param.u32 %r0, [p+8];": "the access leaves the parameter",
    "call.uni missing;": "unknown function",
    "lop3.b32 %r0, %r1, %r2, %r3, 256;": "the table must be in [0, 255]",
    "setmaxnreg.inc.sync.aligned.u32 25;": "multiple of 8",
    "shfl.bfly.b32 %r0, %r1, 1, 31;": "only the .sync form",
    "mov.u32 %r0, 12abc;": "malformed number",
    "add.u32 %r0, %r1, %r2": "expected ';', found 'ret'",
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%d0], 32;": "unknown instruction tcgen05",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistake_names_line_and_cause(text):
    with pytest.raises(PtxError) as caught:
        tilelang.simulator.load(KERNEL.replace("BODY", text))
    assert MISTAKES[text] in str(caught.value)
    assert "PTX line" in str(caught.value) and len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("text,message", [
    ("", "a PTX module starts with .version"),
    (HEADER + ".entry k() { ret;", "missing '}'"),
    (HEADER + "/* never closed", "comment is not closed"),
    (HEADER + ".global .u32 x = { 1", "expected '}'"),
    (HEADER.replace("64", "32"), "only .address_size 64"),
    (HEADER + ".entry k() { ret; }\n.entry k() { ret; }", "defined twice"),
    (HEADER + ".global .b8 huge[99999999999];", "too large"),
])  # fmt: skip
def test_malformed_module(text, message):
    with pytest.raises(PtxError, match="PTX line"):
        tilelang.simulator.load(text)
    with pytest.raises(PtxError) as caught:
        tilelang.simulator.load(text)
    assert message in str(caught.value)


def test_scoped_registers_labels_and_debug_sections():
    body = """
  .loc 1 3 7
  mov.u32 %r0, 1;
  { .reg .b32 %r<2>; .reg .b32 tmp; mov.u32 tmp, 5; mov.u32 %r0, 40; add.u32 %r1, tmp, %r0; bra L; mov.u32 %r1, 0;
    L: st.global.u32 [%d0+4], %r1; }
  { bra L; mov.u32 %r0, 9; L: }
  st.global.u32 [%d0], %r0;"""
    text = KERNEL.replace("BODY", "ld.param.u64 %d0, [p];" + body)
    text += '.file 1 "kernel.cu"\n.section .debug_info { .b32 { } .b8 1, 2 }\n'
    out = torch.zeros(2, dtype=torch.int32)
    report = tilelang.simulator.load(text).get_function("k").launch(1, 1, [out])
    assert not report.findings and out.tolist() == [1, 45]


def test_line_information_reaches_findings_through_inlining():
    source = """
__device__ __forceinline__ void store(int* p, int i) {
  p[i] = i;
}
extern "C" __global__ void k(int* out) {
  store(out, threadIdx.x);
}"""
    report = cuda.function(source).launch(1, 64, [torch.zeros(63, dtype=torch.int32)])
    (finding,) = report.findings
    lines = (cuda.PRELUDE + source).splitlines()
    assert lines[finding.line - 1].strip() == "store(out, threadIdx.x);"
    assert finding.file.endswith("test.cu") and finding.thread == (63, 0, 0)


def test_launch_arguments_are_checked():
    source = 'extern "C" __global__ void __launch_bounds__(64) k(float* p, int n, float f) { if (n) p[0] = f; }'
    function = cuda.function(source)
    p = torch.zeros(4)
    for arguments, message in [
        ([p, 1], "takes 3 arguments, got 2"),
        ([p, 1.5, 1.0], "is a float, the kernel takes a .u32"),
        ([p, "x", 1.0], "is a str"),
        ([p, 1, b"123"], "has 3 bytes"),
    ]:
        with pytest.raises(SimulatorArgumentError) as caught:
            function.launch(1, 1, arguments)
        assert message in str(caught.value)
    for sizes, message in [((0, 1), "is empty"), ((1, 65), "allows 64 threads"), ((1, 2000), "1 to 1024 threads")]:
        with pytest.raises(SimulatorArgumentError) as caught:
            function.launch(*sizes, [p, 1, 1.0])
        assert message in str(caught.value)
    with pytest.raises(SimulatorArgumentError, match="shared memory"):
        function.launch(1, 1, [p, 1, 1.0], shared_bytes=300_000)
    with pytest.raises(SimulatorArgumentError, match="unknown check 'races'"):
        function.launch(1, 1, [p, 1, 1.0], checks="races")
    with pytest.raises(SimulatorArgumentError, match="multiple of the cluster"):
        function.launch(3, 1, [p, 1, 1.0], cluster=2)


@pytest.mark.parametrize("options", [{"checks": "rcae"}, {"trace": "yes"}, {"seed": "x"}])
def test_a_session_refuses_unknown_settings_where_it_begins(options):
    with pytest.raises(SimulatorArgumentError, match="check 'rcae'|trace 'yes'|seed='x'"), tilelang.simulator(**options):
        pass


def test_endless_loop_is_given_up():
    source = 'extern "C" __global__ void k(volatile int* p) { while (*p == 0) {} }'
    report = cuda.function(source).launch(1, 32, [torch.zeros(1, dtype=torch.int32)], max_instructions=20000)
    assert [f.kind for f in report.findings] == ["deadlock"] and report.aborted


def mutate(text: str, generator: random.Random) -> str:
    at = generator.randrange(len(text))
    end = next((i for i in range(at, len(text)) if text[i] in " ,;\n"), len(text))
    choice = generator.randrange(6)
    if choice == 0:
        return text[:at] + chr(generator.randrange(1, 128)) + text[at + 1 :]
    if choice == 1:
        return text[:at] + text[end:]
    if choice == 2:
        return text[:at] + generator.choice(["-1", "0", "99999999999999999999", "0x80000000", "{}", "%p1"]) + text[end:]
    if choice == 3:
        return text[:at]
    digit = next((i for i in range(at, len(text)) if text[i].isdigit()), at)
    return text[:digit] + str(generator.randrange(10)) + text[digit + 1 :]


@pytest.mark.parametrize("seed", range(6))
def test_damaged_text_is_refused_or_runs(seed):
    generator = random.Random(seed)
    source, arch = [(tiles.GEMM_MMA, "sm_80"), (tiles.FLASH, "sm_80"), (tiles.GEMM_WGMMA, "sm_90a")][seed % 3]
    text = cuda.compile_ptx(source, arch)
    loaded = 0
    for _ in range(60):
        damaged = mutate(text, generator)
        try:
            function = tilelang.simulator.load(damaged).get_function("k")
        except (PtxError, SimulatorArgumentError):
            continue
        loaded += 1
        arguments = [torch.zeros(4096) if p.bytes == 8 else bytes(p.bytes) for p in function.parameters]
        report = function.launch(1, 128, arguments, shared_bytes=4096, max_instructions=5000, workers=1)
        assert report.warp_instructions >= 0
    print(f"seed {seed}: {loaded} of 60 loaded")


def test_report_as_text_and_json():
    source = """extern "C" __global__ void k(int* out) {
      __shared__ int s[1024];
      s[threadIdx.x * 32] = 1;
      out[threadIdx.x * 8] = s[threadIdx.x * 32];
    }"""
    out = np.zeros(256, np.int32)
    report = kernels.clean(cuda.run(source, [out], 32))
    store = next(i for i in report.counters.instructions if i["instruction"].startswith("st.shared"))
    assert store["shared_wavefronts"] == 32 and store["bank_conflicts"] == 31
    assert report.counters.hot_instructions("bank_conflicts", 1)[0]["bank_conflicts"] == 31
    written = next(i for i in report.counters.instructions if i["instruction"].startswith("st.global"))
    assert written["global_sectors"] == 32 and written["requests"] == 1 and written["bytes"] == 128
    assert "conflicts" in str(report) and '"global_sectors"' in report.json()
