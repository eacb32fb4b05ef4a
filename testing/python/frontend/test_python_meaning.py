"""The body of a kernel means what Python says: each piece runs as plain Python and as a kernel on the interpreter."""

import importlib.util
import textwrap

import pytest
import torch

import tilelang
from tilelang.errors import CompileError

HELPERS = """
def helper(t, k=2):
    return t * k + 1

def two(a, b):
    return b + 1, a * 2

def recursive(n, t):
    return t if n == 0 else recursive(n - 1, t) + n

def gen(n):
    for i in range(n):
        yield i + 1

class Scale:
    def __init__(self, v):
        self.v = v

    def scaled(self, t):
        return t * self.v

    @staticmethod
    def static(t):
        return t - 1

{macro}
def inner_macro(A, i):
    A[i] = A[i] * 2

{macro}
def nested_macro(A, i):
    inner_macro(A, i)
    inner_macro(A, i)
    return A[i] + 1

{macro}
def swap_macro(A, i, j):
    t = A[i]
    A[i] = A[j]
    A[j] = t

{macro}
def scaled_macro(t, scale=2):
    return t * scale

{macro}
def pair_macro(t):
    u = t + 1
    return u, u * 2
"""
"""What pieces call; in the kernel the last five are macros."""

PRELUDE = """
import tilelang.language as T

FIVE = 5
{helpers}
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
{helpers}
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
    """
fs = [lambda t, k=k: t + k for k in range(3)]
x = fs[0](y) + fs[2](y)
""",
    """
fs = []
for k in [1, 2]:
    fs.append(lambda t: t * k)
x = fs[0](y) + fs[1](y)
""",
    "x, y = two(A[3], y)",
    "x = recursive(3, A[2])",
    """
o = Scale(3)
o.v = A[2]
x = o.scaled(y)
o.v = 5
y = o.scaled(z)
""",
    "x = Scale.static(A[4]) + Scale(2).scaled(y)",
    """
for v in gen(3):
    x += A[v]
""",
    """
for v in (A[i] for i in range(3)):
    x += v
""",
    """
def g(t):
    if t > 3:
        return t
    return t * 10
x = g(4) + g(2)
""",
    """
acc = 0
for k in [0, 1, 2]:
    acc = acc + A[k] * k
x = acc
""",
    """
acc = 0
for k in [0, 1, 2]:
    acc += A[k] * k
    A[k] = acc
x = acc
""",
    """
acc = x
acc = acc + 1
y = acc
z = x
""",
    """
acc = x
acc += 1
y = acc
z = x
""",
    """
acc = A[1]
acc += 1
y = acc
z = A[1]
""",
    """
a = b = A[2]
a += 1
x = a
y = b
""",
    """
kw = dict(t=A[2], k=5)
x = helper(**kw)
args = [y, 3]
y = helper(*args)
""",
    """
s = "abc"
x = len(s) + {"abc": 4}[s]
y = s.index("c")
""",
    """
for i in range(2):
    t = A[i] + 1
    for j in range(2):
        t2 = t + j
        A[4 + i * 2 + j] = t2
    x = t
""",
    """
for i in range(3):
    prev = x
    x = y
    y = prev + x
""",
    """
n = 0
while n < 3:
    t = x
    x = x + y
    y = t
    n += 1
z = n
""",
    """
i = 0
while i < 4:
    i += 1
    if i == 2:
        continue
    if i == 4:
        break
    x += i * 10
y = i
""",
    """
for i in range(5):
    if i == 1:
        continue
    for j in range(5):
        if j == 3:
            break
        if (i + j) % 2:
            continue
        x += i * 5 + j
""",
    """
v = x + 1 if y > 1 else A[2]
x = 100
y = v
""",
    """
v = A[x]
x = 5
y = v + A[x]
""",
    """
p = (x, y)
x, y = 50, 60
z = p[0] + p[1]
""",
    """
lst = [x, y, z]
x = 40
z = lst[0] + lst[1]
""",
    """
lst = [1, 2, 3]
lst[1] = x
x = 90
z = lst[1]
""",
    "x = (lambda: y * 3)()",
    """
if y > 1:
    t = 4
    x = t * 2
else:
    t = 5
    x = t * 3
""",
    """
if y > 1:
    if z > 5:
        x = 1
    elif z > 2:
        x = 2
    else:
        x = 3
elif y > 0:
    x = 4
""",
    """
x = 5 if A[1] and A[2] else 6
y = 5 if A[0] or A[0] else 6
""",
    "x = int(y > 1) + int(True) + bool(A[3])",
    "A[x], A[y] = A[y], A[x]",
    """
A[1] += A[1]; A[1] += A[1]
x = A[1]
""",
    """
for i in range(A[3]):
    A[3] = 0
    x += 1
""",
    """
for i in range(x, x + 3):
    x += 1
""",
    """
b = y > 1
y = 0
x = 3 if b else 4
""",
    """
b = not (y > 1)
c = b or z == 3
x = 3 if c and not b else 4
""",
    """
x = -7 // 2 + -7 % 3 * 100
y = (A[1] - 8) // 2
z = (A[1] - 8) % 3
""",
    """
x = (x - 9) // -2
y = (y - 9) % -4
""",
    """
x = 7 - -3 - +2
y = ~-3
""",
    "x = (A[5] & 6) | (A[1] ^ 3) << 2",
    """
x = 1 << A[3]
y = 200 >> A[2]
""",
    """
for k in range(3):
    for l in [4, 5]:
        x += k * l
""",
    "x = nested_macro(A, 2)",
    """
swap_macro(A, 1, 2)
swap_macro(A, 2, 3)
""",
    "x = scaled_macro(y) + scaled_macro(y, scale=5) + scaled_macro(t=z, scale=A[2])",
    """
a, b = pair_macro(A[4])
x = a
y = b
""",
    """
inc_var = y
inc_var += 5
x = inc_var
""",
    "x = sorted([3, 1, 2])[0] + sum([1, 2]) + max([4, 5])",
    """
t: int = 5
x = t
""",
    """
x = A[0] == 0
y = (A[1] != 1) + (A[2] <= 2)
""",
    """
f = helper
x = f(y)
""",
    """
t = A[0]
for i in range(3):
    t2 = t + i
    A[i] = t2
x = t
""",
    """
A[0] = 5
if A[0] == 5:
    A[0] = 6
    if A[0] == 6:
        x = 3
""",
    """
for _ in range(3):
    x *= 2
_ = 5
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
    path.write_text(PRELUDE.format(helpers=HELPERS.format(macro="@T.macro"), body=textwrap.indent(piece.strip("\n"), " " * 8)))
    spec = importlib.util.spec_from_file_location("piece", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return tilelang.compile(module.main, target="interpret")


@pytest.mark.parametrize("piece", PIECES)
def test_piece_of_a_kernel_means_what_python_says(piece: str, tmp_path):
    scope: dict = {}
    exec(PLAIN.format(helpers=HELPERS.format(macro=""), body=textwrap.indent(piece.strip("\n"), " " * 8)), scope)
    expected = list(range(8))
    scope["main"](expected)
    values = torch.arange(8, dtype=torch.int32)
    kernel_of(piece, tmp_path)(values)
    assert values.tolist() == [int(value) for value in expected]


@pytest.mark.parametrize("piece", REFUSED)
def test_piece_that_is_refused(piece: str, tmp_path):
    with pytest.raises(CompileError, match=REFUSED[piece]):
        kernel_of(piece, tmp_path)
