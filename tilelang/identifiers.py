"""Identifiers that mean something in generated C and CUDA C++, so that no tile or variable of a program can have them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, count

_KEYWORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl
    concept const const_cast consteval constexpr constinit continue co_await co_return co_yield decltype default delete do
    double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace
    new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires restrict
    return short signed sizeof static static_assert static_cast struct switch template this thread_local throw true try
    typedef typeid typename typeof union unsigned using virtual void volatile wchar_t while xor xor_eq
"""

_MACROS = """
    BUFSIZ CHAR_BIT EOF EXIT_FAILURE EXIT_SUCCESS HUGE_VAL HUGE_VALF INFINITY M_E M_PI NAN NULL RAND_MAX SEEK_CUR SEEK_END
    SEEK_SET assert errno linux offsetof stderr stdin stdout unix va_arg va_end va_start
"""

_DEVICE_NAMES = """
    blockDim blockIdx gridDim threadIdx warpSize cute cutlass half half2 nv_bfloat16 nv_bfloat162 bfloat16_t half_t std tl
    uchar uint ulong ushort
"""

_MATHEMATICS = """
    abs acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 expm1 fabs fdim floor fma
    fmax fmin fmod frexp hypot ldexp lgamma log log10 log1p log2 max min nearbyint pow remainder rint round rsqrt sin sincos
    sinh sqrt tan tanh tgamma trunc
"""

_FUNCTIONS = """
    abort calloc exit free gamma index isfinite isinf isnan j0 j1 jn main malloc memcpy memmove memset printf puts realloc
    signbit y0 y1 yn
"""

_TAKEN = frozenset(
    f"{_KEYWORDS} {_MACROS} {_DEVICE_NAMES} {_MATHEMATICS} {_FUNCTIONS}".split() + [f"{name}f" for name in _MATHEMATICS.split()]
)

_FAMILIES = re.compile(
    r"u?int(8|16|32|64|ptr|max)_t|s?size_t|ptrdiff_t|fp[48]_\w+_t"
    r"|U?(INT|SIZE|INTPTR|PTRDIFF)(8|16|32|64)?_(MAX|MIN)"
    r"|[fiub]\d+x\d+"  # vectors of the C target
    r"|(u?(char|short|int|long|longlong)|float|double|dim)\d"  # and of CUDA
)

_BEGINNINGS = re.compile(r"_([A-Z_]|$)|atomic[A-Z]")
"""What begins so is the compilers' and their headers', whatever follows; and ``_``, which would be with a number behind it."""


def usable(name: str) -> str:
    """The identifier, or one like it that is not taken because of its beginning, so that some number behind it makes it free.

    Args:
        name: an identifier.
    """
    if not _BEGINNINGS.match(name):
        return name
    rest = name.strip("_")
    return f"v_{rest}" if rest else "v"


def numbered(name: str, first: int = 1) -> Iterator[str]:
    """``name``, then the same with each number from ``first`` on behind it."""
    return chain([name], (f"{name}_{number}" for number in count(first)))


def is_taken(name: str) -> bool:
    """Whether C or CUDA C++ gives an identifier that is :func:`usable` a meaning that generated code relies on."""
    return name in _TAKEN or _FAMILIES.fullmatch(name) is not None
