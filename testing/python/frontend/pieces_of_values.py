"""Pieces of kernels that compute, assign and unpack values, for ``test_python_meaning.py``."""

PIECES = [
    """
x = change_macro(A, A[1], 5, t=A[2])
y = change_macro(A, x, t=x)
""",
    """
x = A[0] * 1000 + swap_macro(A, 0, 1) * 100 + A[0] * 10 + swap_macro(A, 0, 2)
y = max(A[0], swap_macro(A, 0, 7), A[0])
z = (A[7] < swap_macro(A, 6, 7) + 5) + 10 * [A[6], swap_macro(A, 6, 7), A[6]][0]
A[5] += swap_macro(A, 5, 6)
A[A[3]] += swap_macro(A, 3, 4)
x += scaled_macro(A[3], swap_macro(A, 3, 4)) + pair_macro(A[3])[1]
k, j, i = A[0], swap_macro(A, 0, 1), A[0]
x += k * 10000 + i * 100000
""",
    """
import collections, dataclasses, types
Pair = collections.namedtuple("Pair", "one other")
Record = dataclasses.make_dataclass("Record", ["one", "other"], frozen=True)
p = Pair(A[1], 2)
r = Record(A[2], [A[3]])
n = types.SimpleNamespace(one=A[4])
q = collections.deque([A[5]])
A[1] = A[2] = A[3] = A[4] = A[5] = 50
x = p.one + p.other + r.one + r.other[0] + n.one + q[0]
""",
    """
y = z = A[1] + x
A[2] = x = A[2] + 1
A[3] = x
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
    "x = [10, 20, 30, 40][y]",
    """
d = {"a": 1, "b": A[2]}
x = d["a"] + d["b"]
d["a"] = 7
y = d["a"]
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
x = A[1] < A[2] < A[3]
y = A[1] < A[2] > A[3]
""",
    """
del y
y = min(3, 4)
""",
    "x = A[-1] + A[-2]",
    "x = max(y > 1 and z > 1, 0)",
    "x = sum(A[i] * i for i in range(4))",
    "y = len([A[i] for i in range(3) if i != 1])",
    "A[2:4] = A[4:6]",
    """
x = 5; y = x; x = 6
z = y
""",
    """
global_name = FIVE + x
x = global_name
""",
    "x = 7 if FIVE == 5 else undefined_name",
    """
x = y - 2 or z - 3 or 9
y = y and z and A[5]
z = (z > 1) and (x > 2) and A[3]
""",
    "x = (y > 5 or A[2]) + (y - 2 and A[3])",
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
x = (A[0], A[1]) == (0, 1)
y = ((A[0], A[1]) != (0, 2)) + ((A[0], 2) in [(0, 2), (3, 4)]) * 2 + ((A[0], 1) in [(0, 2, 1), (3, 1)]) * 4
if [A[3], (A[4], y)] == [3, (4, 3)]:
    z = 7
""",
    """
d = {1: 5, 2: 6}
for k in (1, 2, 3):
    x += d.get(k, 9) + d.setdefault(k, A[k])
y = d.pop(3) + d.pop("none", 4)
""",
    """
d = {1: 5, (2, 3): 6}
e = {*d, 4}
s = Scale([])
s.v.append(A[3])
s.v.extend(v + 1 for v in (A[4], A[5]))
A[3] = 50
f = dict(d, k=A[4])
f.update(m=A[5])
A[4] = A[5] = 60
x = s.v[0] + s.v[1] + f["k"] * 10 + f["m"] * 100
z = (A[2] in {A[1], 2}) * 10 + (x not in {1, y}) + len({k: v for k, v in d.items()}) + len(e | set([7, 8])) + len(frozenset("ab"))
""",
    """
x = max((A[3], A[4]), default=9) * 10 + min((), default=4)
y = round(A[5], 0) + max([3, 1, 2], key=lambda v: -v)
""",
    """
s = t = {1, 2, 3}
s -= {1}
x = len(t)
s ^= {2}
y = len(t)
import numpy
a = b = numpy.array([7, 8])
a -= 1
a //= 2
a **= 2
z = int(b[0]) + int(b[1])
""",
    """
x = 5 < 3 < change_macro(A, x, t=1)
y = 0 < 3 < change_macro(A, y, t=1) < 40 < 50
z = A[1] < 9 < scaled_macro(A[6])
""",
    """
x = (A[1] == None) + (A[1] != None) * 10 + (None in (A[1], None)) * 100
y = (A[1] in [None, 1]) + (A[2] == "a") * 10 + ("a" != A[1]) * 100
z = (A[1] == (1, 2)) + (x in {"a": 1, 2: 3}) * 10
""",
    """
x = -(A[1] == 1) + (A[2] == 2) * 10 + ((A[1] == 1) << 3) + abs(A[1] == 1)
y = (A[1] == 1) ** 2 + (A[3] != 1) // 1 + ((A[1] == 1) | 2)
z = max(A[1] == 1, A[2] == 5) + int((A[1] == 1) / 2.0)
""",
    """
import collections
Point = collections.namedtuple("Point", "a b")
p = Point(A[1], 2)
x = (p == (1, 2)) + (p == Point(1, 3)) * 10 + (p in [(4, 5), (1, 2)]) * 100 + (p == [1, 2]) * 1000
y = ({"a": A[1]} == {"a": 1}) + ({"a": A[1]} != {"b": 1}) * 10 + ({"a": [A[2]]} == {"a": [2]}) * 100
z = ([(A[3], "c")] == [(3, "c")]) + (() == (A[1],)) * 10
""",
    """
import types
s = Scale(T.alloc_var("int32", init=1))
c, d, e, t = s.clone(), copy.copy(s), copy.deepcopy(s), types.SimpleNamespace(inner=Scale(0))
s.lend(t.inner)
Record = dataclasses.make_dataclass("Record", ["one", "other"])
r = Record(T.alloc_var("int32", init=1), 2)
q, p = dataclasses.replace(r, other=4), dataclasses.astuple(r)
s.v += 2
r.one = A[5]
x = s.v + 10 * c.v + 100 * d.v + 1000 * e.v + 10000 * t.inner.lent
y = r.one + 10 * q.one + 100 * q.other + 1000 * p[0]
c.v, d.v = A[4], A[5]
z = c.v + 10 * d.v + 100 * s.v
""",
    """
s, l = Scale(0), []
def keep():
    s.w = x
    l.append({"a": x})
keep()
x = 7
y = s.w + l[0]["a"] * 10
s.w = 3
z = x
t = Scale(T.alloc_var("int32", init=1))
for i in range(3):
    x += 1
    c = copy.copy(t)
    t.v = A[i]
    A[i + 4] = c.v
""",
    "x = look_up(3) + cached(A[2], 5) + cached(A[3], 5) + (A.index(3) if isinstance(A, list) else 3)",
    """
x = [3, 1, 4, 1, 5][-A[2]] + [[1, 2], [3, 4]][A[1] - 2][-A[1]] * 10
y = max((A[1], A[2]), key=None)
a = None
z = (1 if a is None else 2) + 10 * (1 if A is A is not None else 2)
""",
    """
v = 1
x = (v := v + 4) if FIVE == 5 else 0
y = v * 10 + ((w := 2) if FIVE == 4 else (w := 3)) + w * 100
""",
    """
d, l, s, t = {"a": 1, "b": 2}, [1, 2, 3, 4, 5], Scale(3), 4
del d["a"], l[1:3], (s.v, t)
x = len(d) + len(l) + hasattr(s, "v")
del l[A[0] * 0]
y = l[0]
""",
    """
x = ~[True, 1, 2][A[1]] + [1.5, True, 2][A[2]] * 2
y = [[True, 3], [4, False]][A[1]][A[0]] * 2 + [False, True][A[1]] * 10
z = ([float("nan"), 1.0][A[1]] > 0) + ([float("nan"), 1.0][A[0]] > 0) * 2
""",
    """
import numpy, torch
if A[0] == 0:
    x = numpy.int64(5)
for i in range(2):
    y = torch.tensor(7).item() + numpy.int32(2)
z = numpy.bool_(True)
z += A[3]
""",
    """
for i in range(0, 2147483647, 2147483647):
    x += i + 7
for i in range(2147483647, 0, -2147483647):
    y = i - 2147483640
""",
]
