"""The helper functions of AMX, in LLVM assembly and in C: configuring tiles, one block of C, and asking the system.

Tiles are named by constants, so that each combination of instruction and number of tiles is a function of its own.
"""

from __future__ import annotations

from collections.abc import Callable

from tilelang.target.cpu import helpers

ROWS, WORDS = 16, 16
"""Rows of a tile, and words of 32 bits in each row."""

CONFIGURE, RELEASE, GRANTED = "tl_tiles_configure", "tl_tiles_release", "tl_tiles_granted"
ROUND = "tl_tiles_round"

INSTRUCTIONS = {
    # types of A and B -> instruction
    ("bfloat16", "bfloat16"): "tdpbf16ps",
    ("int8", "int8"): "tdpbssd",
    ("int8", "uint8"): "tdpbsud",
    ("uint8", "int8"): "tdpbusd",
    ("uint8", "uint8"): "tdpbuud",
}

_C, _A, _B = (0, 1, 2, 3), (4, 5), (6, 7)
"""The tiles of a block of C, row by row, of A and of B."""

_PANEL_ROW = 2 * 4 * WORDS
"""Bytes of a row of a panel of B, which is two tiles wide."""


def block_name(instruction: str, rows: int, columns: int) -> str:
    """The helper of a block of so many tiles.

    Args:
        instruction: that multiplies tiles.
        rows, columns: 1 or 2 tiles.
    """
    return f"tl_{instruction}_{rows}x{columns}"


def _step(rows: int, columns: int, load: Callable[[str, int], str], product: Callable[[int, int], str]) -> list[str]:
    """One step along K as text.

    A tile is loaded right before the first product that needs it: a product takes as long as a load, so that both go on together.

    Args:
        rows, columns: 1 or 2 tiles.
        load: ``("a" or "b", number)`` -> the load of a tile.
        product: ``(row, column)`` -> the product of two.
    """
    lines, loaded = [], set()
    for r, c in ((r, c) for r in range(rows) for c in range(columns)):
        operands = [each for each in (("b", c), ("a", r)) if each not in loaded]
        loaded.update(operands)
        lines += [*(load(*each) for each in operands), product(r, c)]
    return lines


def _llvm(instruction: str, rows: int, columns: int) -> str:
    places = [(r, c) for r in range(rows) for c in range(columns)]

    def each(what: str, pointer: str) -> str:
        """A move of all tiles of C from or to rows that are ``%pointer.row`` bytes apart."""
        return "\n".join(
            f"  %{what}.r{r}{c} = mul i64 %{pointer}.row, {ROWS * r}\n"
            f"  %{what}.o{r}{c} = add i64 %{what}.r{r}{c}, {4 * WORDS * c}\n"
            f"  %{what}.p{r}{c} = getelementptr i8, ptr %{pointer}, i64 %{what}.o{r}{c}\n"
            f"  call void @llvm.x86.tile{what}64(i8 {_C[2 * r + c]}, ptr %{what}.p{r}{c}, i64 %{pointer}.row)"
            for r, c in places
        )

    zeros = "\n".join(f"  call void @llvm.x86.tilezero(i8 {_C[2 * r + c]})" for r, c in places)

    def operand(name: str, i: int) -> str:
        tile, offset, row = (_A[i], f"%a.half{i}", "%a.row") if name == "a" else (_B[i], str(4 * WORDS * i), str(_PANEL_ROW))
        return (
            f"  %{name}.p{i} = getelementptr i8, ptr %{name}.k, i64 {offset}\n"
            f"  call void @llvm.x86.tileloadd64(i8 {tile}, ptr %{name}.p{i}, i64 {row})"
        )

    def product(r: int, c: int) -> str:
        return f"  call void @llvm.x86.{instruction}(i8 {_C[2 * r + c]}, i8 {_A[r]}, i8 {_B[c]})"

    step = "\n".join(_step(rows, columns, operand, product))
    return f"""
declare void @llvm.x86.tileloadd64(i8, ptr, i64)
declare void @llvm.x86.tilestored64(i8, ptr, i64)
declare void @llvm.x86.tilezero(i8)
declare void @llvm.x86.{instruction}(i8, i8, i8)
define i32 @{block_name(instruction, rows, columns)}(ptr %from, i64 %from.row, ptr %to, i64 %to.row, ptr %a, i64 %a.row, ptr %b,
    i64 %steps, i32 %cleared) alwaysinline {{
entry:
  %a.half0 = mul i64 %a.row, 0
  %a.half1 = mul i64 %a.row, {ROWS}
  %new = icmp ne i32 %cleared, 0
  br i1 %new, label %zero, label %load
zero:
{zeros}
  br label %step
load:
{each("loadd", "from")}
  br label %step
step:
  %k = phi i64 [ 0, %zero ], [ 0, %load ], [ %k.next, %step ]
  %a.k = phi ptr [ %a, %zero ], [ %a, %load ], [ %a.next, %step ]
  %b.k = phi ptr [ %b, %zero ], [ %b, %load ], [ %b.next, %step ]
{step}
  %a.next = getelementptr i8, ptr %a.k, i64 {4 * WORDS}
  %b.next = getelementptr i8, ptr %b.k, i64 {_PANEL_ROW * ROWS}
  %k.next = add i64 %k, 1
  %more = icmp slt i64 %k.next, %steps
  br i1 %more, label %step, label %store
store:
{each("stored", "to")}
  ret i32 0
}}"""


def _c(instruction: str, rows: int, columns: int) -> str:
    places = [(r, c) for r in range(rows) for c in range(columns)]

    def each(what: str, pointer: str) -> str:
        row = f"{pointer}_row"
        return " ".join(f"{what}({_C[2 * r + c]}, {pointer} + {ROWS * r} * {row} + {4 * WORDS * c}, {row});" for r, c in places)

    zeros = " ".join(f"_tile_zero({_C[2 * r + c]});" for r, c in places)

    def operand(name: str, i: int) -> str:
        if name == "a":
            return f"_tile_loadd({_A[i]}, a + {ROWS * i} * a_row + {4 * WORDS} * k, a_row);"
        return f"_tile_loadd({_B[i]}, b + {_PANEL_ROW * ROWS} * k + {4 * WORDS * i}, {_PANEL_ROW});"

    def product(r: int, c: int) -> str:
        return f"_tile_{instruction[1:]}({_C[2 * r + c]}, {_A[r]}, {_B[c]});"

    body = "\n    ".join(_step(rows, columns, operand, product))
    return (
        "#include <immintrin.h>\n"
        f"static inline int32_t {block_name(instruction, rows, columns)}(const void* from_, int64_t from_row, void* to_,\n"
        "    int64_t to_row, const void* a_, int64_t a_row, const void* b_, int64_t steps, int32_t cleared) {\n"
        "  const char *from = (const char*)from_, *a = (const char*)a_, *b = (const char*)b_;\n"
        "  char* to = (char*)to_;\n"
        # GCC's _tile_loadd does not say that it reads memory: stores of what it loads would come later, or never.
        '  __asm__ volatile("" : : "r"(from), "r"(a), "r"(b) : "memory");\n'
        f"  if (cleared) {{ {zeros} }} else {{ {each('_tile_loadd', 'from')} }}\n"
        f"  for (int64_t k = 0; k < steps; ++k) {{\n    {body}\n  }}\n"
        f"  {each('_tile_stored', 'to')}\n  return 0;\n}}"
    )


for _instruction in INSTRUCTIONS.values():
    for _rows, _columns in ((1, 1), (1, 2), (2, 1), (2, 2)):
        _arguments = (_instruction, _rows, _columns)
        helpers.register(block_name(*_arguments), _llvm(*_arguments), _c(*_arguments))

helpers.register(
    CONFIGURE,
    # Bytes 0: the palette; 16 to 31: bytes of each tile's rows; 48 to 55: their number.
    f"""
declare void @llvm.x86.ldtilecfg(ptr)
define i32 @{CONFIGURE}(i64 %low, i64 %high, i64 %rows) alwaysinline {{
  %shapes = alloca [8 x i64], align 64
  store [8 x i64] [i64 1, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0], ptr %shapes, align 64
  %low.p = getelementptr i64, ptr %shapes, i64 2
  store i64 %low, ptr %low.p
  %high.p = getelementptr i64, ptr %shapes, i64 3
  store i64 %high, ptr %high.p
  %rows.p = getelementptr i64, ptr %shapes, i64 6
  store i64 %rows, ptr %rows.p
  call void @llvm.x86.ldtilecfg(ptr %shapes)
  ret i32 0
}}""",
    "#include <immintrin.h>\n"
    # In a frame of its own: inlined below a loop, GCC 12 puts the shapes where an array is whose address it computes before the
    # loop (sums of C).
    f"static __attribute__((noinline)) int32_t {CONFIGURE}(int64_t low, int64_t high, int64_t rows) {{\n"
    "  const int64_t shapes[8] __attribute__((aligned(64))) = {1, 0, low, high, 0, 0, rows, 0};\n"
    # GCC's _tile_loadconfig says that it reads the first eight bytes alone.
    '  __asm__ volatile("" : : "r"(shapes) : "memory");\n'
    "  _tile_loadconfig(shapes);\n  return 0;\n}",
)
helpers.register(
    RELEASE,
    f"""
declare void @llvm.x86.tilerelease()
define i32 @{RELEASE}() alwaysinline {{
  call void @llvm.x86.tilerelease()
  ret i32 0
}}""",
    f"#include <immintrin.h>\nstatic inline int32_t {RELEASE}(void) {{ _tile_release(); return 0; }}",
)

helpers.register(
    ROUND,
    # The instruction makes zeros of subnormal numbers; sums that tiles have formed are none.
    f"""
declare <32 x bfloat> @llvm.x86.avx512bf16.cvtne2ps2bf16.512(<16 x float>, <16 x float>)
define i32 @{ROUND}(ptr %to, i64 %to.row, ptr %sums, i64 %rows) alwaysinline {{
entry:
  br label %row
row:
  %r = phi i64 [ 0, %entry ], [ %r.next, %row ]
  %offset = mul i64 %r, %to.row
  %place = getelementptr i8, ptr %to, i64 %offset
  %low.p = getelementptr [{2 * WORDS} x float], ptr %sums, i64 %r
  %high.p = getelementptr float, ptr %low.p, i64 {WORDS}
  %low = load <16 x float>, ptr %low.p, align 64
  %high = load <16 x float>, ptr %high.p, align 64
  %both = call <32 x bfloat> @llvm.x86.avx512bf16.cvtne2ps2bf16.512(<16 x float> %high, <16 x float> %low)
  store <32 x bfloat> %both, ptr %place, align 2
  %r.next = add i64 %r, 1
  %more = icmp slt i64 %r.next, %rows
  br i1 %more, label %row, label %done
done:
  ret i32 0
}}""",
    "#include <immintrin.h>\n"
    f"static inline int32_t {ROUND}(void* to, int64_t to_row, const float* sums, int64_t rows) {{\n"
    "  for (int64_t r = 0; r < rows; ++r, sums += 32)\n"
    "    _mm512_storeu_si512((char*)to + r * to_row,\n"
    "                        (__m512i)_mm512_cvtne2ps_pbh(_mm512_load_ps(sums + 16), _mm512_load_ps(sums)));\n"
    "  return 0;\n}",
)
"""Rounds rows of 32 sums to bfloat16."""

_ASK = (158, 0x1023, 18)
"""The system call ``arch_prctl``, ``ARCH_REQ_XCOMP_PERM``, and the state component of the tiles' content."""

helpers.register(
    GRANTED,
    # Two threads may both ask: a permission may be asked for twice.
    f"""
@{GRANTED}.once = internal global i32 0
declare i64 @syscall(i64, ...)
define i32 @{GRANTED}() {{
  %before = load atomic i32, ptr @{GRANTED}.once monotonic, align 4
  %known = icmp ne i32 %before, 0
  br i1 %known, label %done, label %ask
ask:
  %code = call i64 (i64, ...) @syscall(i64 {_ASK[0]}, i64 {_ASK[1]}, i64 {_ASK[2]})
  %ok = icmp eq i64 %code, 0
  %now = zext i1 %ok to i32
  store atomic i32 %now, ptr @{GRANTED}.once monotonic, align 4
  ret i32 %now
done:
  ret i32 1
}}""",
    "extern long syscall(long, ...);\n"
    f"static int32_t {GRANTED}(void) {{\n"
    "  static int32_t once;\n"
    "  if (!__atomic_load_n(&once, __ATOMIC_RELAXED))\n"
    f"    __atomic_store_n(&once, syscall({_ASK[0]}L, {_ASK[1]}L, {_ASK[2]}L) == 0, __ATOMIC_RELAXED);\n"
    "  return __atomic_load_n(&once, __ATOMIC_RELAXED);\n}",
)
