"""Operands of wgmma in shared memory, laid out by the descriptor rules of the PTX ISA, and kernels around it."""

from dataclasses import dataclass

import numpy as np

from . import fragments, tensors

SWIZZLE_CODE = {0: 0, 128: 1, 64: 2, 32: 3}


@dataclass(frozen=True)
class Operand:
    """Bytes of shared memory, and the descriptor fields to read them by (byte offsets)."""

    image: np.ndarray
    leading: int
    stride: int
    swizzle: int
    step: int  # bytes from one instruction's slice of k to the next

    def descriptor(self, start: int) -> int:
        fields = [(start, 0), (self.leading, 16), (self.stride, 32)]
        return sum((value >> 4) << shift for value, shift in fields) | SWIZZLE_CODE[self.swizzle] << 62


def k_major(matrix: np.ndarray, swizzle: int, depth_bytes: int) -> Operand:
    """Rows along k. Swizzled: spans of k side by side; plain: 8 x 16-byte cores, those of one row block together."""
    raw = np.ascontiguousarray(matrix).view(np.uint8)
    rows, width = raw.shape
    if swizzle == 0:
        chunks = width // 16
        image = raw.reshape(rows // 8, 8, chunks, 16).transpose(0, 2, 1, 3).reshape(-1)
        return Operand(np.ascontiguousarray(image), 128, 128 * chunks, 0, 128 * depth_bytes // 16)
    assert width == swizzle, "one span of k"
    image = tensors.shared_image(raw, swizzle, raw.size, 0)
    return Operand(image, 0, 8 * swizzle, swizzle, depth_bytes)


def major_contiguous(matrix: np.ndarray, swizzle: int, depth: int) -> Operand:
    """matrix[k, m]: consecutive m. Swizzled: columns of spans; plain: 16-byte by 8-k cores."""
    raw = np.ascontiguousarray(matrix).view(np.uint8)
    k, width = raw.shape
    if swizzle == 0:
        chunks = width // 16
        # Cores ordered by k block, then by m.
        image = raw.reshape(k // 8, 8, chunks, 16).transpose(0, 2, 1, 3).reshape(-1)
        return Operand(np.ascontiguousarray(image), 128 * chunks, 128, 0, 128 * chunks * depth // 8)
    spans = [raw[:, i : i + swizzle] for i in range(0, width, swizzle)]
    image = np.concatenate([tensors.shared_image(s, swizzle, s.size, 0) for s in spans])
    return Operand(image, k * swizzle, 8 * swizzle, swizzle, depth * swizzle)


def d_place(thread: int, i: int) -> tuple[int, int]:
    """Row and column of accumulator i of a thread of the warpgroup."""
    lane = thread % 32
    return thread // 32 * 16 + lane // 4 + 8 * (i // 2 % 2), i // 4 * 8 + lane % 4 * 2 + i % 2


def a_registers(codes: np.ndarray, bits: int) -> np.ndarray:
    """Registers [thread, register] of a 64 x k operand A."""
    count = codes.shape[1] // 2
    blocks = [
        fragments.pack(codes[16 * w : 16 * w + 16], lambda lane, i: fragments.a_place(lane, i, 16, bits), bits, count)
        for w in range(4)
    ]
    return np.concatenate(blocks)


def unpack_d(words: np.ndarray, n: int, dtype) -> np.ndarray:
    """The 64 x n accumulators that registers [thread, register] hold."""
    values = np.ascontiguousarray(words).view(dtype)
    out = np.zeros((64, n), dtype)
    for thread, i in np.ndindex(128, n // 2):
        out[d_place(thread, i)] = values[thread, i]
    return out


def source(
    instruction: str,
    *,
    d_count: int,
    a_count: int = 0,
    steps: int = 1,
    a_step=0,
    b_step=0,
    tail="",
    fence=True,
    wait=True,
    meanwhile="",
    metadata=False,
) -> str:
    """A kernel k(image, a, e, d, a descriptor, b descriptor, scale-d): `steps` instructions in one group."""
    numbers = iter(range(1000))
    d_text = ", ".join(f"%{next(numbers)}" for _ in range(d_count))
    a_text = "{" + ", ".join(f"%{next(numbers)}" for _ in range(a_count)) + "}" if a_count else f"%{next(numbers)}"
    b_text = f"%{next(numbers)}"
    e_text = f"%{next(numbers)}, {int(metadata)}, " if metadata is not False else ""
    p_text = f"%{next(numbers)}"
    outs = ", ".join(f'"+r"(d[{i}])' for i in range(d_count))
    a_in = ", ".join(f'"r"(a[step][{i}])' for i in range(a_count)) if a_count else f'"l"(desc_a + step * {a_step >> 4})'
    e_in = '"r"(e), ' if metadata is not False else ""
    loads = "".join(f"a[s][{i}] = a_in[(s * 128 + t) * {a_count} + {i}];" for i in range(a_count))
    return f"""
extern "C" __global__ void k(const u32* image, int words, const u32* a_in, const u32* e_in, u32* out,
                             u64 desc_a, u64 desc_b, int scale) {{
  extern __shared__ __align__(1024) u32 memory[];
  int t = threadIdx.x;
  for (int i = t; i < words; i += 128) memory[i] = image[i];
  fence_async();
  __syncthreads();
  u64 base = (shared_address(memory) & 0x3ffff) >> 4;
  desc_a += base; desc_b += base;
  u32 d[{d_count}], a[{steps}][{max(a_count, 1)}], e = e_in[t];
  for (int i = 0; i < {d_count}; ++i) d[i] = out[t * {d_count} + i];
  for (int s = 0; s < {steps}; ++s) {{ {loads} }}
  {'asm volatile("wgmma.fence.sync.aligned;" ::: "memory");' if fence else ""}
  #pragma unroll
  for (int step = 0; step < {steps}; ++step)
    asm volatile("{{.reg .pred p;\\nsetp.ne.b32 p, {p_text}, 0;\\n"
      "{instruction} {{{d_text}}}, {a_text}, {b_text}, {e_text}p{tail};}}"
      : {outs} : {a_in}, "l"(desc_b + step * {b_step >> 4}), {e_in}"r"(step == 0 ? scale : 1));
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  {meanwhile}
  {'asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");' if wait else ""}
  for (int i = 0; i < {d_count}; ++i) out[t * {d_count} + i] = d[i];
}}"""
