"""The body of a kernel means what Python says: each piece runs as plain Python and as a kernel on the interpreter."""

import importlib.util
import random
import textwrap
import threading

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.errors import CompileError
from tilelang.frontend.containers import walked

from . import pieces_of_control_flow, pieces_of_order, pieces_of_values

HELPERS = """
import copy, dataclasses, functools

def helper(t, k=2):
    return t * k + 1

def two(a, b):
    return b + 1, a * 2

def recursive(n, t):
    return t if n == 0 else recursive(n - 1, t) + n

def two_tiles():
    return [T.alloc_shared((4,), "int32"), T.alloc_shared((4,), "int32")]

def first(iterator):
    return next(iterator)

def look_up(t):
    return {{3: 5, 4: 6}}.get(t, 9)

@functools.lru_cache
def cached(t, k):
    return t * k

def vararg(*items):
    return sum(items)

def gen(n):
    for i in range(n):
        yield i + 1

CALLS = 0

def count_calls():
    global CALLS
    CALLS += 1

class Slots:
    __slots__ = ("p",)

    def __init__(self):
        self.p = 0

class Lazy:
    count, none = 0, None

    def __init__(self):
        self.texts = {{}}

    def length(self, n):
        if n not in self.texts:
            self.texts[n] = "t" * n
        if not hasattr(self, "ten"):
            self.ten = 10
        return len(self.texts[n]) + self.ten

class Property:
    asked = 0

    @property
    def doubled(self):
        Property.asked += 1
        return self.v * 2

    @doubled.setter
    def doubled(self, v):
        self.v = v

class Scale:
    def __init__(self, v):
        self.v = v

    def get(self):
        return self.v

    def clone(self):
        return Scale(self.v)

    def lend(self, other):
        other.lent = self.v

    def scaled(self, t):
        return t * self.v

    @staticmethod
    def static(t):
        return t - 1

{macro}
def get_macro(s):
    t = 1
    return s.v

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
    return A[i]

{macro}
def scaled_macro(t, scale=2):
    return t * scale

{macro}
def pair_macro(t):
    u = t + 1
    return u, u * 2

{macro}
def change_macro(A, *several, **named):
    A[1] = A[2] = 50
    return several[0] * 10 + named["t"]
"""
"""What pieces call; in the kernel the last seven are macros."""

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
class T:
    min, max = min, max

    @staticmethod
    def alloc_var(dtype, init):
        return init

def macro(t, k=3):
    return (t - k if t > 4 else t + k) * k

def main(A):
    if True:
        x, y, z = 1, 2, 3
{body}
        A[0] = x
        A[1] = y + z
"""


PIECES = [*pieces_of_values.PIECES, *pieces_of_control_flow.PIECES, *pieces_of_order.PIECES]

REFUSED = {
    "for i in range(4):\n    if A[i] == 2:\n        break\nelse:\n    y = 5": "else of a run-time loop that may be left by break",
    "while x < 9:\n    x += 1\n    if x == 7:\n        break\nelse:\n    y = 5": "else of a run-time loop that may be left",
    "for k in [1, 2]:\n    if A[k] == 2:\n        break": "break of a compile-time loop depends on a run-time condition",
    "for k in [1, 2]:\n    if A[k] == 2:\n        continue": "continue of a compile-time loop depends on a run-time condition",
    "try:\n    x = 5\nfinally:\n    y = 6": "try is not supported",
    "v = 0\nfor i in range(4):\n    A[i] = (v := v + A[i])": "'v' is read and reassigned in a run-time loop",
    "v = 0\nfor i in range(4):\n    A[i] = v\n    for v in (5, 6):\n        x += v": "'v' is read and reassigned",
    "v = 9\nfor i in range(4):\n    A[i] = v\n    for v in range(2):\n        x += v": "'v' is read and reassigned",
    "v = 0\nfor i in range(4):\n    A[i] = v\n    match 5:\n        case v:\n            pass": "'v' is read and reassigned",
    "f = min\nfor i in range(4):\n    x = f(x, i)\n    def f(a, b):\n        return a": "'f' is read and reassigned",
    "v = 0\nif A[0] == 1:\n    A[1] = (v := 5)\nx = v": "'v' was assigned inside a run-time condition",
    "v = 0\nif A[0] == 1:\n    for v in (5, 6):\n        x += v\nx = v": "'v' was assigned inside a run-time condition",
    "v = 0\nif A[0] == 1:\n    match 5:\n        case v:\n            pass\nx = v": "'v' was assigned inside",
    "v = 1\nif A[0] == 5:\n    v = 2\nelse:\n    x = v\ny = v": "'v' was assigned inside a run-time condition",
    "i = 7\nif A[0] == 5:\n    for i in range(3):\n        x += i\nelse:\n    x = i\ny = i": "'i' was assigned inside a run-time",
    "if A[0] == 5:\n    v = 2\nelse:\n    x = v": "'v' was assigned inside a run-time condition",
    "v = T.alloc_var('int32', init=1)\nif A[0] == 5:\n    v = T.alloc_var('int32', init=2)\nx = v": "'v' was assigned inside",
    "v = 4\nif A[0] == 5:\n    v = T.alloc_var('int32', init=2)\nx = v": "'v' was assigned inside a run-time condition",
    "if A[0] == 5:\n    v = T.alloc_var('int32', init=2)\nelse:\n    v = T.alloc_var('int32', init=3)\nx = v": "'v' was assigned",
    "v = 1\nx = (v := 5) if A[0] == 5 else 0\ny = v": "`:=` after a run-time operand of `and` or `or`, or a run-time condition",
    "d = [Scale(1), Scale(2)]\nif A[0] == 2:\n    del d[0]\nx = d[0].v": "'d' is a Python list",
    "s = Scale(Scale(1))\nif A[0] == 2:\n    del s.v\nx = hasattr(s, 'v')": "'s.v' is a Python attribute",
    "x = (A[3] > 2) / 2": "/ between two run-time integers",
    "v = 'a'\n@T.macro\ndef m():\n    nonlocal v\n    v = 'b'\nif A[0] == 5:\n    m()": "'v' is a Python variable",
    "v = min\n@T.macro\ndef m():\n    nonlocal v\n    v = max\nif A[0] == 5:\n    m()": "'v' is a Python variable",
    "v = 0\n@T.macro\ndef m():\n    nonlocal v\n    v = 5\nm()\nif A[0] == 5:\n    v = 0\nx = v": "'v' is a Python variable",
    "t, u = two_tiles()\ndef f():\n    nonlocal t, u\n    t, u = u, t\nif A[0] == 5:\n    f()": "'t' is a Python variable",
    "s = Scale(T.alloc_var('int32', init=4))\nif A[0] == 5:\n    s.v = T.alloc_var('int32', init=9)": "'s.v' is a Python",
    "l = [T.alloc_var('int32', init=4)]\nif A[0] == 5:\n    l[0] = T.alloc_var('int32', init=9)": "'l' is a Python list",
    "v = 1\nf = lambda: v\nfor i in range(3):\n    x += f()\n    v = 5": "'v' is read and reassigned in a run-time loop",
    "v = 1\ndef f():\n    return v + 1\nwhile x < 9:\n    x += f()\n    v = 3": "'v' is read and reassigned in a run-time loop",
    "import math as v\nif A[0] == 1:\n    import cmath as v\nx = v.e": "'v' was assigned inside a run-time condition",
    "if A[0] == 1:\n    f = lambda t: 1\nelse:\n    f = lambda t: 2\nx = f(0)": "'f' was assigned inside a run-time condition",
    "while (v := A[x]) < 6:\n    x += 1\ny = v": "'v' was assigned inside a run-time loop",
    "it = iter([1, 2, 3, 4])\nfor i in range(4):\n    A[i] = next(it)": "'it' is a Python iterator",
    "it = iter([1, 2])\nif A[0] == 1:\n    for k in it:\n        x += k\nx += sum(it)": "'it' is a Python iterator",
    "it = iter([1, 2])\nfor i in range(2):\n    A[i] = sum(it)": "'it' is a Python iterator",
    "it = iter([1, 2, 3, 4])\nfor i in range(2):\n    for v, w in zip(it, it):\n        x += v * w": "'it' is a Python iterator",
    "it = gen(3)\nif A[0] == 1:\n    x = first(it)\ny = first(it)": "'it' is a Python iterator",
    "n = 0\ndef count():\n    nonlocal n\n    n += 1\nfor i in range(4):\n    count()": "'n' is a Python variable",
    "def count(seen=[]):\n    seen.append(1)\nfor i in range(4):\n    count()": "'count.seen' is a Python",
    "class_ = Scale\nif A[0] == 1:\n    class_ = None\nx = class_ is None": "'class_' was assigned inside a run-time condition",
    "v = 1\nif A[0] == 1:\n    v = None\nx = isinstance(v, int)": "'v' was assigned inside a run-time condition",
    "s = Slots()\nfor i in range(3):\n    s.p += 1": "'s.p' is a Python attribute",
    "s = Scale(None)\nfor i in range(3):\n    if s.v is None:\n        x += 1\n    s.v = i": "'s.v' is a Python attribute",
    "s = Scale('a')\nif A[0] == 1:\n    s.v = 'b'": "'s.v' is a Python attribute",
    "s = Scale((1, 2))\nif A[0] == 1:\n    s.v = (3, 4)": "'s.v' is a Python attribute",
    "s = Scale(T.alloc_var('int32', init=0))\ndef f():\n    s.v = 8\nif A[0] == 1:\n    f()": "'s.v' is a Python attribute",
    "d = {'mode': 'a'}\nif A[0] == 1:\n    d['mode'] = 'b'": "'d' is a Python dict",
    "import collections\nd = collections.UserList([1])\nif A[0] == 1:\n    d[0] = 2": "'d.data' is a Python list",
    "import numpy\nd = numpy.zeros(3)\nfor i in range(3):\n    d[0] += 1": "'d' is a Python ndarray",
    "import torch\nd = torch.zeros(3)\nfor i in range(3):\n    d[0] += 1": "'d' is a Python Tensor",
    "d = bytearray(3)\nfor i in range(3):\n    d[0] += 1": "'d' is a Python bytearray",
    "d = ['a']\nif A[0] == 1:\n    d.append('b')": "'d' is a Python list",
    "d = ['a']\nif A[0] == 1:\n    d += ['b']": "'d' is a Python list",
    "d = {'a'}\nif A[0] == 1:\n    d.add('b')": "'d' is a Python set",
    "d = {}\nif A[0] == 1:\n    d['a'] = 'b'": "'d' is a Python dict",
    "d = {'a': None, 'b': 'c'}\nfor i in range(3):\n    d.pop('b')": "'d' is a Python dict",
    "s = Scale(0)\nif A[0] == 1:\n    s.w = 4\nx = getattr(s, 'w', 9)": "'s.w' was assigned inside a run-time",
    "s = Lazy()\nif A[0] == 1:\n    s.none = 4\nx = s.none or 3": "'s.none' is a Python attribute",
    "s = Lazy()\nfor i in range(3):\n    s.count += 1\nx = s.count": "'s.count' is a Python attribute",
    "s = Scale(0)\nif A[0] == 1:\n    s.w = 'a'\nx = 1 if hasattr(s, 'w') else 2": "'s.w' was assigned inside a run-time",
    "s = Scale(0)\nif A[0] == 1:\n    s.w = 4\nelse:\n    s.w = 5\nx = s.w": "'s.w' was assigned inside a run-time",
    "d = [Scale(1), Scale(2)]\nfor i in range(3):\n    d.append(d.pop(0))": "'d' is a Python list",
    "d = [Scale(1), Scale(2)]\nif A[0] == 1:\n    d.pop()": "'d' is a Python list",
    "d = [min, max]\nif A[0] == 1:\n    d.reverse()": "'d' is a Python list",
    "d = {'f': min}\nif A[0] == 1:\n    d['f'] = lambda a, b: a": "'d' is a Python dict",
    "s = Scale(Scale(1))\nif A[0] == 1:\n    s.v = Scale(2)": "'s.v' is a Python attribute",
    "a, b = two_tiles()\ns = Scale(a)\nt = Scale(b)\nfor i in range(3):\n    s.v, t.v = t.v, s.v": "is a Python attribute",
    "d = two_tiles()\nfor i in range(3):\n    d.reverse()": "'d' is a Python list",
    "v = None\nfor i in range(2):\n    if v is None:\n        x += 1\n    v = i": "'v' is read and reassigned",
    "v = 'a'\nfor i in range(2):\n    x += len(v)\n    v = 'bc'": "'v' is read and reassigned",
    "v = (1, 2)\nfor i in range(2):\n    x += v[0]\n    v = (3, 4)": "'v' is read and reassigned",
    "v = Scale(1)\nwhile x < 9:\n    x += v.v\n    v = Scale(2)": "'v' is read and reassigned",
    "x = 5 < A[1] < change_macro(A, x, t=1)": "a call with side effects in a conditional expression",
    "x = round(A[1], -1)": r"round\(x, digits\) of a run-time value",
    "v = 3\nif A[0] == 2:\n    del v\nx = v": "'v' holds nothing here",
    "x = len({A[0], A[1]})": "an item of a Python set, or a key of a dict, is a run-time value",
    "x = len({v for v in (x, y)})": "an item of a Python set, or a key of a dict, is a run-time value",
    "x = len(set((A[0], A[0])))": "an item of a Python set, or a key of a dict, is a run-time value",
    "s = Scale({1})\ns.v.add(x)": "an item of a Python set, or a key of a dict, is a run-time value",
    "d = {1}\nd.update([x])": "an item of a Python set, or a key of a dict, is a run-time value",
    "d = {(A[0], 1): 5}": "an item of a Python set, or a key of a dict, is a run-time value",
    "d = {v: 1 for v in (x, y)}": "an item of a Python set, or a key of a dict, is a run-time value",
    "d = {}\nd.setdefault(A[0], 1)": "a Python sequence is indexed with a run-time value",
    "d = {1: 5, 2: 6}\nx = d.get(A[1], 9)": "a Python sequence is indexed with a run-time value",
    "x = (A[0], 1) < (2, 3)": "an order of tuples or lists of run-time values",
    "d = [Scale(1)]\nif A[0] == 2:\n    d.append(Scale(2))\nx = len(d)": "'d' is a Python list",
    "d = {}\nfor i in range(2):\n    d[len(d)] = Scale(2)\nx = len(d)": "'d' is a Python dict",
    "s = Scale(None)\nif A[0] == 2:\n    s.v = Scale(5)\nx = 1 if s.v is None else 2": "'s.v' is a Python attribute",
    "s = Scale(None)\nif A[0] == 2:\n    s.v = two_tiles()[0]\nx = 1 if s.v is None else 2": "'s.v' is a Python attribute",
    "v = None\nif A[0] == 2:\n    v = two_tiles()[0]\nx = 1 if v is None else 2": "'v' was assigned inside a run-time condition",
    "s = Scale(0)\nfor i in range(3):\n    A[i] = getattr(s, 'w', 9)\n    s.w = 4": "'s.w' is a Python attribute",
    "s = Scale(0)\nfor i in range(3):\n    A[i] = hasattr(s, 'w')\n    s.w = 4": "'s.w' is a Python attribute",
    "s = Scale(Scale(Scale(Scale(Scale(1)))))\nfor i in range(3):\n    s.v.v.v.v.v += 1": "'s.v.v.v.v.v' is a Python",
    "import math\nmath.zz = 1\nfor i in range(3):\n    math.zz += 1": "'math.zz' is a Python attribute",
    "import random\nr = random.Random(0)\nfor i in range(2):\n    A[i] = r.randint(0, 9)": "'r' is a Python Random",
    "import random\nfor i in range(2):\n    A[i] = random.randint(0, 9)": "'random' is a Python generator",
    "import numpy\nfor i in range(2):\n    A[i] = numpy.random.randint(9)": "'numpy.random' is a Python generator",
    "import numpy\nr = numpy.random.default_rng(0)\nfor i in range(2):\n    A[i] = r.integers(9)": "'r' is a Python Generator",
    "import torch\nif A[0] == 1:\n    x = int(torch.rand(1) * 9)": "'torch' is a Python generator",
    "it = (k for k in (5, 6, 7))\nx = next(it)\nif A[0] == 2:\n    first(it)\ny = first(it)": "'it' is a Python iterator",
    "import itertools\nit = itertools.count(1)\nfor i in range(2):\n    A[i] = first(it)": "'it' is a Python iterator",
    "it = zip((1, 2), iter((3, 4)))\nif A[0] == 1:\n    first(it)": "'it' is a Python iterator",
    "x = len(str(A[1]))": "a text with a run-time value is known while the kernel runs",
    "x = 1 if f'{A[0]}' == '1' else 2": "a text with a run-time value is known while the kernel runs",
    "d = {f'{A[0]}': 1}": "a text with a run-time value is known while the kernel runs",
    "v = f'{A[0]}' * 2": "a text with a run-time value is known while the kernel runs",
    "v = '{}'.format(A[0])": "str.format of a run-time value",
    "v = 'a'\nif A[0] == 1:\n    v = f'{A[0]}'\nprint(v)": "'v' was assigned inside a run-time condition",
    "x = look_up(A[3])": "an item of a Python set, or a key of a dict, is a run-time value",
    "def f(t):\n    return t in {1, 2}\nx = f(A[2])": "an item of a Python set, or a key of a dict, is a run-time value",
    "s = Scale(T.alloc_var('int32', init=1))\nt = s.clone()\nfor i in range(3):\n    s.v += 1\nx = t.v": "'t.v' is a Python",
    "v = [1, 2, 3][A[1] :]": "a Python sequence is indexed with a run-time value",
    "x = 1 if A[0] is A[1] else 2": "`is` of a run-time value",
    "x = 1 if (A[0] > 0) is not True else 2": "`is` of a run-time value",
    "for i in range(3):\n    count_calls()": "'CALLS' is a Python variable",
    "if x > 0 and (v := A[x]) > 0:\n    y = v": "`:=` after a run-time operand of `and` or `or`",
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


SKIPPED = {
    "x = square(9) if A[0] == 1 else 7": 7,
    "if A[0] == 1 and square(9) > 3:\n    x = 7": 1,
    "x = A[0] == 0 or square(9)": 1,
}


@pytest.mark.parametrize("piece", SKIPPED)
def test_what_an_operand_that_python_skips_names_reads_no_tile(piece: str, tmp_path):
    tile = "tile = T.alloc_shared((8,), 'int32')\nT.copy(A, tile)\n"
    square = "@T.macro\ndef square(i):\n    v = tile[A[0] + i]\n    return v * v\n"
    values = torch.arange(8, dtype=torch.int32)
    kernel_of(tile + square + piece, tmp_path)(values)
    assert values[0] == SKIPPED[piece]


@pytest.mark.parametrize("piece", REFUSED)
def test_piece_that_is_refused(piece: str, tmp_path):
    with pytest.raises(CompileError, match=REFUSED[piece]):
        kernel_of(piece, tmp_path)


def test_random_numbers_that_other_threads_draw_do_not_matter():
    done = threading.Event()

    def draw():
        while not done.wait(0.0001):
            random.random()

    other = threading.Thread(target=draw)
    other.start()
    try:
        for _ in range(20):

            @T.prim_func
            def main(A: T.Tensor((8,), "int32")):
                with T.Kernel(1, threads=32):
                    for i in T.serial(8):
                        A[i] = i

    finally:
        done.set()
        other.join()
    assert "for i in range(8)" in main.script()


def test_a_store_to_a_variable_looks_for_other_holders_of_it_but_not_in_tables():
    names = {"few": [1], "many": [0] * 1000}
    assert [name for name, _, _ in walked(names, 256)] == ["few"]
    assert [name for name, _, _ in walked(names)] == ["few", "many"]
