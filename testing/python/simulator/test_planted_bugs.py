"""Kernels with one planted bug each: every one is caught (a finding, or a wrong answer), and its fixed twin is clean."""

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

import tilelang.simulator
from testing.python.simulator.models import cuda
from testing.python.simulator.models.tiles import GEMM_MMA, GEMM_WGMMA

SEEDS = [0, 1]


@dataclass(frozen=True)
class Bug:
    """A sound kernel and the edit that breaks it.

    `kinds`: findings of which at least one must come; `line`: text of the CUDA line the finding must be at, if it is fixed.
    """

    source: str
    good: str
    bad: str
    kinds: set[str]
    threads: int = 64
    grid: int = 1
    cluster: int = 1
    arch: str = "sm_90a"
    words: int = 256
    line: str = ""
    options: dict = field(default_factory=dict)


def kernel(body: str, arguments: str = "int* out") -> str:
    return f'extern "C" __global__ void k({arguments}) {{\n  int t = threadIdx.x;\n{body}\n}}'


BUGS = {
    "missing __syncthreads": Bug(
        kernel("""\
  __shared__ int s[64];
  s[t] = t;
  __syncthreads();
  out[t] = s[63 - t];"""),
        "  __syncthreads();\n", "", {"race"}, line="s["),
    "missing __syncthreads before the buffer is used again": Bug(
        kernel("""\
  __shared__ int s[64];
  for (int i = 0; i < 3; ++i) {
    s[t] = t * i;
    __syncthreads();
    out[t] += s[63 - t];
    __syncthreads();
  }"""),
        "s[63 - t];\n    __syncthreads();", "s[63 - t];", {"race"}),
    "missing __syncwarp": Bug(
        kernel("""\
  __shared__ int s[32];
  s[t] = t;
  __syncwarp();
  out[t] = s[31 - t];"""),
        "  __syncwarp();\n", "", {"race"}, threads=32),
    "racy histogram in shared memory": Bug(
        kernel("""\
  __shared__ int h[8];
  if (t < 8) h[t] = 0;
  __syncthreads();
  atomicAdd(&h[t % 8], 1);
  __syncthreads();
  if (t < 8) out[t] = h[t];"""),
        "atomicAdd(&h[t % 8], 1);", "h[t % 8] += 1;", {"race"}, line="h[t % 8] += 1"),
    "racy sum between blocks": Bug(
        kernel("""\
  if (t == 0) atomicAdd(out, 1);"""),
        "atomicAdd(out, 1)", "*out += 1", {"race"}, grid=4),
    "missing release between blocks": Bug(
        kernel("""\
  if (t) return;
  if (blockIdx.x == 0) {
    out[1] = 5;
    __threadfence();
    atomicExch(out, 1);
  } else {
    while (atomicAdd(out, 0) == 0) {}
    __threadfence();
    out[2] = out[1];
  }"""),
        "out[1] = 5;\n    __threadfence();", "out[1] = 5;", {"race"}, threads=32, grid=2),
    "no fence between a flag seen and a flag passed on": Bug(
        kernel("""\
  __shared__ int seen, passed, value;
  if (t == 0) seen = passed = 0;
  __syncthreads();
  if (t == 0) {
    value = out[1];
    __threadfence_block();
    atomicExch(&seen, 1);
  } else if (t == 32) {
    while (atomicAdd(&seen, 0) == 0) {}
    __threadfence_block();  // acquires and releases
    atomicExch(&passed, 1);
  } else if (t == 64) {
    while (atomicAdd(&passed, 0) == 0) {}
    __threadfence_block();
    out[0] = value;
  }"""),
        "    __threadfence_block();  // acquires and releases\n", "", {"race"}, threads=96, line="out[0] = value"),
    "off-by-one store": Bug(
        kernel("""\
  for (int i = t; i < 256; i += 64) out[i] = i;"""),
        "i < 256", "i <= 256", {"out-of-bounds"}, line="out[i] = i"),
    "store past shared memory": Bug(
        kernel("""\
  __shared__ int s[64];
  s[t] = t;
  out[t] = s[t];"""),
        "s[t] = t;", "s[t + 1] = t;", {"out-of-bounds"}),
    "negative index": Bug(
        kernel("""\
  out[t] = t;"""),
        "out[t]", "out[t - 1]", {"out-of-bounds"}),
    "misaligned vector load": Bug(
        kernel("""\
  int4 v = *(const int4*)(out + 4 * t);
  out[4 * t] = v.x + v.y;"""),
        "out + 4 * t);", "out + 4 * t + 1);", {"misaligned"}, threads=32),
    "uninitialised shared memory": Bug(
        kernel("""\
  __shared__ int s[64];
  if (t < 64) s[t] = t;
  __syncthreads();
  out[t] = s[t];"""),
        "t < 64", "t < 63", {"uninitialised"}),
    "uninitialised local array": Bug(
        kernel("""\
  int a[8];
  for (int i = 0; i < 8; ++i) a[(i * n) & 7] = i;
  out[t] = a[(t * n) & 7];""", "int* out, int n = 3"),
        "i < 8", "i < 7", {"uninitialised"}, options={"scalars": [3]}),
    "barrier in divergent code": Bug(
        kernel("""\
  __shared__ int s[64];
  if (t < 64) { s[t] = t; __syncthreads(); }
  out[t] = s[t];"""),
        "t < 64", "t < 40", {"barrier"}),
    "barrier after an early return": Bug(
        kernel("""\
  __shared__ int s[64];
  if (t >= n) return;
  s[t] = t;
  __syncthreads();
  out[t] = s[t];""", "int* out, int n"),
        "t >= n", "t >= n - 32", {"barrier"}, options={"scalars": [64]}),
    "named barrier with different counts": Bug(
        kernel("""\
  if (t < 32) asm volatile("bar.sync 1, 64;" ::: "memory");
  else asm volatile("bar.sync 1, 64;" ::: "memory");
  out[t] = t;"""),
        'else asm volatile("bar.sync 1, 64;"', 'else asm volatile("bar.sync 1, 96;"', {"barrier", "deadlock"}),
    "named barrier with different numbers": Bug(
        kernel("""\
  if (t < 32) asm volatile("bar.sync 1, 64;" ::: "memory");
  else asm volatile("bar.sync 1, 64;" ::: "memory");
  out[t] = t;"""),
        'else asm volatile("bar.sync 1, 64;"', 'else asm volatile("bar.sync 2, 64;"', {"deadlock"}),
    "arriving does not wait": Bug(
        kernel("""\
  __shared__ int s[64];
  if (t < 32) {
    asm volatile("bar.sync 1, 64;" ::: "memory");
    s[t] = t;
    asm volatile("bar.sync 2, 64;" ::: "memory");
  } else {
    asm volatile("bar.arrive 1, 64;" ::: "memory");
    asm volatile("bar.sync 2, 64;" ::: "memory");
    out[t] = s[t - 32];
  }"""),
        'else {\n    asm volatile("bar.arrive 1, 64;" ::: "memory");\n    asm volatile("bar.sync 2, 64;" ::: "memory");',
        'else {\n    asm volatile("bar.arrive 1, 64;" ::: "memory");\n    asm volatile("bar.arrive 2, 64;" ::: "memory");',
        {"race", "uninitialised"}),
    "no thread arrives": Bug(
        kernel("""\
  if (t < 32) asm volatile("bar.sync 3, 64;" ::: "memory");
  else asm volatile("bar.arrive 3, 64;" ::: "memory");
  out[t] = t;"""),
        'asm volatile("bar.arrive 3, 64;" ::: "memory");', "out[0] = 0;", {"deadlock"}),
    "wrong parity": Bug(
        kernel("""\
  __shared__ u64 b;
  if (t == 0) barrier_init(&b, 64);
  __syncthreads();
  barrier_arrive(&b);
  barrier_wait(&b, 0);
  out[t] = t;"""),
        "barrier_wait(&b, 0)", "barrier_wait(&b, 1); barrier_wait(&b, 0); barrier_wait(&b, 1)", {"deadlock"}),
    "parity that does not wait": Bug(
        kernel("""\
  __shared__ u64 b; __shared__ int s[64];
  if (t == 0) barrier_init(&b, 64);
  __syncthreads();
  s[t] = t;
  barrier_arrive(&b);
  barrier_wait(&b, 0);
  out[t] = s[63 - t];"""),
        "barrier_wait(&b, 0)", "barrier_wait(&b, 1)", {"race"}),
    "mbarrier overwritten": Bug(
        kernel("""\
  __shared__ u64 b[2];
  if (t == 0) { barrier_init(&b[0], 64); b[1] = 7; }
  __syncthreads();
  barrier_arrive(&b[0]);
  barrier_wait(&b[0], 0);
  out[t] = t;"""),
        "b[1] = 7", "b[0] = 7", {"mbarrier"}),
    "missing cp.async wait": Bug(
        kernel("""\
  __shared__ __align__(16) int s[64 * 4];
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(shared_address(s + 4 * t)), "l"(in + 4 * t) : "memory");
  asm volatile("cp.async.commit_group;" ::: "memory");
  asm volatile("cp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  out[t] = s[4 * (63 - t)];""", "int* out, const int* in"),
        'asm volatile("cp.async.wait_group 0;" ::: "memory");', "", {"race", "uninitialised"}),
    "missing cp.async commit": Bug(
        kernel("""\
  __shared__ __align__(16) int s[64 * 4];
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(shared_address(s + 4 * t)), "l"(in + 4 * t) : "memory");
  asm volatile("cp.async.commit_group;" ::: "memory");
  asm volatile("cp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  out[t] = s[4 * (63 - t)];""", "int* out, const int* in"),
        'asm volatile("cp.async.commit_group;" ::: "memory");', "", {"race", "uninitialised"}),
    "missing cluster barrier": Bug(
        kernel("""\
  __shared__ int s;
  unsigned r, a; int v;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  if (t == 0) s = r + 1;
  cluster_sync();
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(a) : "r"(shared_address(&s)), "r"(1 - r));
  asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(v) : "r"(a));
  out[64 * r + t] = v;
  cluster_sync();"""),
        "s = r + 1;\n  cluster_sync();", "s = r + 1;", {"race", "uninitialised"}, grid=2, cluster=2),
    "trap": Bug(
        kernel("""\
  if (t == 70) __trap();
  out[t] = t;"""),
        "t == 70", "t == 7", {"trap"}, line="__trap"),
}  # fmt: skip


def run_bug(bug: Bug, source: str, seed: int):
    function = cuda.function(source, arch=bug.arch)
    arrays = [torch.zeros(bug.words, dtype=torch.int32)]
    arrays += [torch.arange(bug.words, dtype=torch.int32) for p in function.parameters[1:] if p.bytes == 8]
    scalars = bug.options.get("scalars", [])
    return function.launch(bug.grid, bug.threads, [*arrays, *scalars], cluster=(bug.cluster, 1, 1), seed=seed, workers=1)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", BUGS)
def test_bug_is_caught_and_twin_is_clean(name, seed):
    bug = BUGS[name]
    assert bug.good in bug.source
    report = run_bug(bug, bug.source, seed)
    assert not report.findings, "\n".join(map(str, report.findings))
    broken = bug.source.replace(bug.good, bug.bad, 1)
    report = run_bug(bug, broken, seed)
    found = [f for f in report.findings if f.kind in bug.kinds]
    assert found, f"{bug.kinds} expected, found {[str(f) for f in report.findings]}"
    first = found[0]
    assert first.kernel == "k" and first.ptx_line > 0
    if bug.line:
        assert bug.line in (cuda.PRELUDE + broken).splitlines()[first.line - 1]


MMA_BUGS = {
    "wait for the wrong group": ("cp.async.wait_group 1", "cp.async.wait_group 2", {"race", "uninitialised"}),
    "no barrier between stages": ('::: "memory");\n    __syncthreads();', '::: "memory");', {"race"}),
    "ring too small": ("(step + 2) % 3", "(step + 1) % 3", {"race"}),
}


@pytest.mark.parametrize("name", MMA_BUGS)
def test_pipelined_gemm_bug_is_caught(name):
    good, bad, kinds = MMA_BUGS[name]
    assert good in GEMM_MMA
    function = cuda.function(GEMM_MMA.replace(good, bad), arch="sm_80")
    a, b, c = torch.randn(128, 128).half(), torch.randn(128, 128).half(), torch.zeros(128, 128)
    report = function.launch((1, 1), 128, [a, b, c, 128, 128, 128], shared_bytes=49152)
    assert kinds & cuda.kinds(report), [str(f) for f in report.findings]


def test_wrong_swizzle_gives_a_wrong_answer():
    source = GEMM_MMA.replace("kk * 2 + lane / 16));", "kk * 2 + 1 - lane / 16));")
    assert source != GEMM_MMA
    function = cuda.function(source, arch="sm_80")
    a, b, c = torch.randn(128, 64).half(), torch.randn(128, 64).half(), torch.zeros(128, 128)
    function.launch((1, 1), 128, [a, b, c, 128, 128, 64], shared_bytes=49152)
    assert not torch.allclose(c, a.float() @ b.float().T, atol=1e-2)


WGMMA_BUGS = {
    "no wgmma fence": ('asm volatile("wgmma.fence.sync.aligned;" ::: "memory");', "", {"async"}),
    "no wgmma wait": ('asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");', "", {"async", "race"}),
    "stage released too early": (
        "barrier_wait(&full[s], i / 2 & 1);", "barrier_wait(&full[s], i / 2 & 1); barrier_arrive(&empty[s]);",
        {"race", "mbarrier", "deadlock"}),
    "wrong byte count": ("barrier_expect(&full[s], 16384)", "barrier_expect(&full[s], 16385)", {"deadlock"}),
    "wrong full parity": (
        "barrier_wait(&full[s], i / 2 & 1)", "barrier_wait(&full[s], (i / 2 + 1) & 1)", {"race", "uninitialised"}),
    "wrong empty parity": ("barrier_wait(&empty[s], (i / 2 + 1) & 1)", "barrier_wait(&empty[s], i / 2 & 1)", {"deadlock"}),
    "the stage is never released": ("      barrier_arrive(&empty[s]);\n", "", {"deadlock"}),
    "no mbarrier initialisation": ("barrier_init(&full[s], 1);", "", {"mbarrier"}),
    "misaligned tile": ("+ 1023) & ~1023u", "+ 1023 & ~1023u) + 64", {"misaligned", "descriptor"}),
}  # fmt: skip


@pytest.mark.parametrize("name", WGMMA_BUGS)
def test_warp_specialised_gemm_bug_is_caught(name):
    good, bad, kinds = WGMMA_BUGS[name]
    assert good in GEMM_WGMMA
    source = GEMM_WGMMA.replace(good, bad)
    a, b, c = torch.randn(64, 256).half(), torch.randn(64, 256).half(), torch.zeros(64, 64)
    maps = [tilelang.simulator.encode_tensor_map(x, (64, 64), swizzle=128) for x in (a, b)]
    report = cuda.function(source).launch((1, 1), 256, [*maps, c, 64, 256], shared_bytes=2 * 16384 + 1024 + 64)
    assert kinds & cuda.kinds(report), [str(f) for f in report.findings]


def test_strict_launch_raises_a_readable_error():
    from tilelang.errors import SimulatorError

    source = BUGS["off-by-one store"].source.replace("i < 256", "i <= 256")
    with pytest.raises(SimulatorError) as caught:
        cuda.function(source).launch(1, 64, [torch.zeros(256, dtype=torch.int32)], strict=True)
    text = str(caught.value)
    assert "out-of-bounds: write of 4 bytes" in text and "block (0, 0, 0), thread (0, 0, 0)" in text and "test.cu:" in text
    assert len(text.splitlines()) <= 4
    assert np.all([f.kind == "out-of-bounds" for f in caught.value.findings])


def test_checks_can_be_switched_off():
    source = BUGS["missing __syncthreads"].source.replace("  __syncthreads();\n", "")
    function = cuda.function(source)
    out = torch.zeros(256, dtype=torch.int32)
    assert {f.kind for f in function.launch(1, 64, [out], checks="race").findings} == {"race"}
    assert not {f.kind for f in function.launch(1, 64, [out], checks="barrier,async").findings}
    assert not function.launch(1, 64, [out], checks="none").findings
