"""The body of a kernel means what Python says: each piece runs as plain Python and as a kernel on the interpreter."""

import importlib.util
import textwrap

import pytest
import torch

import tilelang
from tilelang.errors import CompileError

PRELUDE = """
import tilelang.language as T

FIVE = 5

def helper(t, k=2):
    return t * k + 1

@T.macro
def macro(t, k=3):
    kept = T.alloc_var("int32", init=0)
    if t > 4:
        kept = t - k
    else:
        kept = t + k
    return kept * k

@T.prim_func
def main(A: T.Tensor((8,), "int32")):
    with T.Kernel(1, threads=1):
        x = T.alloc_var("int32", init=1)
        y = T.alloc_var("int32", init=2)
        z = T.alloc_var("int32", init=3)
{body}
        A[0] = x
        A[1] = y + z
"""

PLAIN = """
FIVE = 5

def helper(t, k=2):
    return t * k + 1

def macro(t, k=3):
    return (t - k if t > 4 else t + k) * k

def main(A):
    if True:
        x, y, z = 1, 2, 3
{body}
        A[0] = x
        A[1] = y + z
"""

PIECES = [
    """
for k in [1, 2, 3]:
    x += A[k] * k
    A[k] = x
""",
    """
v = [A[i] + x for i in range(3)]
x = 9
y = v[0] + v[1] * v[2]
""",
    "x = sum([A[i] for i in range(4)])",
    """
y = (w := A[3] + 4) + 1
x = w * 2
""",
    """
f = lambda t: t + x
x = 10
y = f(3)
""",
    """
def g(t):
    return t + x
x = 10
y = g(3)
""",
    "x = y = z + 1",
    "x, (y, z) = y, (z, x)",
    """
a, *b = A[0], A[1], A[2]
x = a + b[0] * 10 + b[1] * 100
""",
    "x = y or 7",
    "x = (y - 2) or 7",
    "x = y and 7",
    "x = not y",
    "x = (y > 1) + (z > 1)",
    "x = (y > 1) * 5",
    "x = -(y > 1)",
    """
x = macro(A[5])
y = macro(2, k=4)
""",
    "x = helper(y) + helper(A[2], 5)",
    """
i = 5
for i in range(3):
    x += i
y = 4
""",
    """
x += A[x]
A[x] += x
A[A[2]] -= 3
""",
    "A[x], x = x + 10, 3",
    "x, A[x] = 3, 9",
    """
t = x
x = 5
y = t
""",
    """
t = A[2]
A[2] = 77
y = t
""",
    """
if x == 1 and y == 2 or z == 9:
    x = 100
""",
    "x = 1 if y == 2 else 2 if z == 3 else 4",
    "x = max(A[1], A[2], A[3]) - min(x, y, z)",
    "x = abs(-A[3]) + pow(y, 3) + y ** 2",
    "x = divmod(A[7], 4)[0] * 10 + divmod(A[7], 4)[1]",
    "x = int(A[3] / 2.0)",
    "x = round(A[3] / 2.0)",
    "x = (A[3] - 8) // 3 + (A[3] - 8) % 3",
    """
x = (A[3] - 8) >> 1
y = ~y
z = z ^ 5
""",
    """
for i in range(7, 0, -2):
    x = x * 2 + i
""",
    """
for i in reversed(range(4)):
    x = x * 2 + i
""",
    """
for i, v in enumerate([3, 1, 2]):
    x = x * 2 + A[v] * i
""",
    """
for a, b in zip(range(3), [5, 6, 7]):
    x = x * 2 + a * b
""",
    """
n = 3
for i in range(n):
    n = 5
    x += 1
""",
    """
for i in range(y):
    y = 5
    x += 1
""",
    "x = [10, 20, 30, 40][y]",
    """
d = {"a": 1, "b": A[2]}
x = d["a"] + d["b"]
d["a"] = 7
y = d["a"]
""",
    """
l = []
for k in [1, 2]:
    l.append(A[k])
x = l[0] * 10 + l[1]
""",
    """
x = any([A[1] == 1, A[2] == 9])
y = all([A[1] == 1, A[2] == 9])
""",
    "x = 3 if not (A[1] == 1) else 4",
    """
assert x == 1
x = 2
""",
    """
match FIVE:
    case 4:
        x = 1
    case 5:
        x = 55
""",
    """
x = A[1] < A[2] < A[3]
y = A[1] < A[2] > A[3]
""",
    """
while True:
    x += 1
    if x > 6:
        break
""",
    """
while x < 10 and A[x % 8] < 5:
    x += 1
""",
    """
while not (x > 5 or y > 8):
    x += 1
    y += 2
""",
    """
k = 0
for i in range(4):
    k = i
x = 3
""",
    """
del y
y = min(3, 4)
""",
    "x = A[-1] + A[-2]",
    """
if x:
    y = 9
if not z:
    y = 10
""",
    "x = max(y > 1 and z > 1, 0)",
    "x = sum(A[i] * i for i in range(4))",
    "y = len([A[i] for i in range(3) if i != 1])",
    """
for i in range(2, 2):
    x = 9
for i in range(0):
    x = 9
""",
    "A[2:4] = A[4:6]",
    """
x = 5; y = x; x = 6
z = y
""",
    """
global_name = FIVE + x
x = global_name
""",
    """
if FIVE == 5:
    x = 3
else:
    undefined_name()
""",
    "x = 7 if FIVE == 5 else undefined_name",
    """
x = y - 2 or z - 3 or 9
y = y and z and A[5]
z = (z > 1) and (x > 2) and A[3]
""",
    "x = (y > 5 or A[2]) + (y - 2 and A[3])",
    """
c = (y > 5 or z > 1)
d = c and y > 1
if d and not (c and y == 9):
    x = 70
""",
    """
x = y > 1 and True
y = y > 1 or False
z = False or (z - 3) or 5
""",
    """
x = 3 if y and z else 4
y = 3 if not (y and z) else 4
assert z and z
""",
    """
x <<= 2
x |= 1
x &= 0xd
x ^= 3
x //= 2
x %= 3
x **= 2
""",
]

REFUSED = {
    "for i in range(4):\n    x += i\nelse:\n    y = 5": "else after a for loop is not supported",
    "while x < 9:\n    x += 1\nelse:\n    y = 5": "else after a while loop is not supported",
    "for k in [1, 2]:\n    if A[k] == 2:\n        break": "break of a compile-time loop depends on a run-time condition",
    "for k in [1, 2]:\n    if A[k] == 2:\n        continue": "continue of a compile-time loop depends on a run-time condition",
    "try:\n    x = 5\nfinally:\n    y = 6": "try is not supported",
}


def kernel_of(piece: str, folder) -> object:
    path = folder / "piece.py"
    path.write_text(PRELUDE.format(body=textwrap.indent(piece.strip("\n"), " " * 8)))
    spec = importlib.util.spec_from_file_location("piece", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return tilelang.compile(module.main, target="interpret")


@pytest.mark.parametrize("piece", PIECES)
def test_piece_of_a_kernel_means_what_python_says(piece: str, tmp_path):
    scope: dict = {}
    exec(compile(PLAIN.format(body=textwrap.indent(piece.strip("\n"), " " * 8)), "plain", "exec"), scope)
    expected = list(range(8))
    scope["main"](expected)
    values = torch.arange(8, dtype=torch.int32)
    kernel_of(piece, tmp_path)(values)
    assert values.tolist() == [int(value) for value in expected]


@pytest.mark.parametrize("piece", REFUSED)
def test_piece_that_is_refused(piece: str, tmp_path):
    with pytest.raises(CompileError, match=REFUSED[piece]):
        kernel_of(piece, tmp_path)
