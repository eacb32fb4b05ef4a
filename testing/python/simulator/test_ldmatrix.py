"""ldmatrix, stmatrix and movmatrix: which element of which row each lane gets."""

import numpy as np
import pytest

from testing.python.simulator.models import cuda, kernels
from testing.python.simulator.models.native import call

SEED = 20240615


def expected(rows, transpose):
    """The register of every lane for one 8x8 matrix of 16-bit elements."""
    matrix = rows.T if transpose else rows
    words = np.zeros(32, np.uint32)
    for lane in range(32):
        row, column = lane // 4, 2 * (lane % 4)
        words[lane] = int(matrix[row, column]) | int(matrix[row, column + 1]) << 16
    return words


@pytest.mark.parametrize("transpose", [False, True])
def test_distribution_and_its_inverse(transpose):
    rows = np.random.default_rng(SEED).integers(0, 2**16, (8, 8)).astype(np.uint16)
    lanes, back = np.zeros(32, np.uint32), np.zeros((8, 8), np.uint16)
    call("matrix_to_fragment", transpose, rows, lanes)
    assert np.array_equal(lanes, expected(rows, transpose))
    call("fragment_to_matrix", transpose, lanes, back)
    assert np.array_equal(back, rows)


def load_source(count, trans, store=False):
    registers = ", ".join(f"%{i}" for i in range(count))
    outs = ", ".join(f'"=r"(r[{i}])' for i in range(count))
    ins = ", ".join(f'"r"(r[{i}])' for i in range(count))
    form = f"sync.aligned.m8n8.x{count}{trans}.shared.b16"
    load = f'asm volatile("ldmatrix.{form} {{{registers}}}, [%{count}];" : {outs} : "r"(address));'
    save = f'asm volatile("stmatrix.{form} [%{count}], {{{registers}}};" :: {ins}, "r"(address) : "memory");'
    return f"""
extern "C" __global__ void k(const u16* rows, const u32* order, u32* fragments, u16* out) {{
  __shared__ alignas(16) u16 tile[32][8];
  int lane = threadIdx.x;
  u32 r[{count}];
  {"" if store else "for (int i = 0; i < 8; ++i) tile[lane][i] = rows[lane * 8 + i];"}
  {"for (int i = 0; i < 8; ++i) tile[lane][i] = 0;" if store else ""}
  __syncwarp();
  u32 address = shared_address(tile[order[lane]]);
  {f"for (int i = 0; i < {count}; ++i) r[i] = fragments[lane * {count} + i];" if store else load}
  {save if store else f"for (int i = 0; i < {count}; ++i) fragments[lane * {count} + i] = r[i];"}
  __syncwarp();
  for (int i = 0; i < 8; ++i) out[lane * 8 + i] = tile[lane][i];
}}"""


@pytest.mark.parametrize("trans", ["", ".trans"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_load(count, trans):
    rng = np.random.default_rng(SEED)
    rows = rng.integers(0, 2**16, (32, 8)).astype(np.uint16)
    order = rng.permutation(32).astype(np.uint32)
    fragments, out = np.zeros((32, count), np.uint32), np.zeros((32, 8), np.uint16)
    kernels.clean(cuda.run(load_source(count, trans), [rows, order, fragments, out], 32))
    for matrix in range(count):
        picked = rows[order[8 * matrix : 8 * matrix + 8]]
        assert np.array_equal(fragments[:, matrix], expected(picked, bool(trans)))


@pytest.mark.parametrize("trans", ["", ".trans"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_store(count, trans):
    rng = np.random.default_rng(SEED)
    rows = rng.integers(0, 2**16, (count, 8, 8)).astype(np.uint16)
    order = rng.permutation(32).astype(np.uint32)
    fragments = np.ascontiguousarray(np.stack([expected(m, bool(trans)) for m in rows], axis=1))
    out = np.zeros((32, 8), np.uint16)
    kernels.clean(cuda.run(load_source(count, trans, store=True), [out.copy(), order, fragments, out], 32))
    want = np.zeros((32, 8), np.uint16)
    for matrix in range(count):
        want[order[8 * matrix : 8 * matrix + 8]] = rows[matrix]
    assert np.array_equal(out, want)


def test_movmatrix():
    rows = np.random.default_rng(SEED).integers(0, 2**16, (8, 8)).astype(np.uint16)
    source = expected(rows, False).reshape(32, 1)
    out = np.zeros((32, 1), np.uint32)
    ptx = kernels.register_kernel({"a": (1, 4)}, {"d": (1, 4)}, "movmatrix.sync.aligned.m8n8.trans.b16 %d0, %a0;")
    kernels.clean(kernels.launch(ptx, "k", [source, out]))
    assert np.array_equal(out[:, 0], expected(rows, True))


MISUSE = """
extern "C" __global__ void k(u32* out, int offset) {
  extern __shared__ __align__(1024) u8 memory[];
  for (int i = threadIdx.x; i < 512; i += 32) memory[i] = i;
  __syncwarp();
  u32 r;
  u32 address = shared_address(memory) + (threadIdx.x % 8) * 16 + offset;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r) : "r"(address));
  out[threadIdx.x] = r;
}"""


@pytest.mark.parametrize("offset,kind", [(0, None), (4, "misaligned"), (512, "out-of-bounds")])
def test_row_addresses_are_checked(offset, kind):
    report = cuda.run(MISUSE, [np.zeros(32, np.uint32)], 32, scalars=[offset], shared_bytes=512)
    assert cuda.kinds(report) == ({kind} if kind else set())


def test_bank_conflicts_are_counted():
    """Rows 128 bytes apart meet in one bank; a 16-byte skew spreads them."""
    source = """
extern "C" __global__ void k(u32* out, int pitch) {
  extern __shared__ __align__(1024) u8 memory[];
  for (int i = threadIdx.x; i < 2048; i += 32) memory[i] = i;
  __syncwarp();
  u32 r;
  u32 address = shared_address(memory) + (threadIdx.x % 8) * pitch;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r) : "r"(address));
  out[threadIdx.x] = r;
}"""
    passes = {}
    for pitch in (16, 128, 144):
        report = kernels.clean(cuda.run(source, [np.zeros(32, np.uint32)], 32, scalars=[pitch], shared_bytes=2048))
        rows = [i for i in report.counters.instructions if i["instruction"].startswith("ldmatrix")]
        passes[pitch] = sum(i["shared_wavefronts"] for i in rows)
    assert passes == {16: 1, 128: 8, 144: 1}
