"""Pieces of kernels that carry values past statements which change memory, for ``test_python_meaning.py``."""

PIECES = [
    """
for v in (A[1], A[2], A[3]):
    A[3] = v + 10
    x = x * 3 + v
for j, v in enumerate([A[1], y]):
    A[1] = 50
    y += 10
    x = x * 3 + v * j
for v, w in zip((A[4], x), [x, A[4]]):
    A[4] = 9
    x += v * 10 + w
""",
    """
def items():
    return x, A[1]
for v in items():
    A[1] = 50
    x += v
for k, v in {"a": A[2], "b": x}.items():
    A[2] = 50
    x += 5
    y += v * len(k)
y += sum(v for v in (x, y))
""",
    """
s = Scale(A[2])
A[2] = 50
x = s.v + s.scaled(A[2])
t = Scale(x)
x += 5
y = t.v + Scale(v=A[3]).v
""",
    """
s = Scale(A[2])
for i in range(3):
    x = x * 2 + s.v
    A[2] += 5
if A[0] == 0:
    A[2] = 7
    y = s.v
else:
    y = A[2]
while s.v < 3 and z < 6:
    A[2] = 9
    z += 1
""",
    """
s = Scale(A[A[2]])
A[2] = 3
x = s.v
t = Scale(A[1] if A[0] == 0 else A[2])
A[1] = 50
y = t.v
""",
    """
import copy, functools
p = functools.partial(helper, A[1])
q = functools.partial(helper, k=x)
s = copy.copy(Scale(A[3]))
A[1] = A[3] = 50
x += 5
y = p() + p(k=3) + q(1) + s.v
""",
    """
def outer(v):
    return lambda k: v + k
f, g = outer(A[3]), outer(x)
m = map(helper, [A[1], A[2]])
A[1] = A[2] = A[3] = 50
x += 5
y = f(1) + g(1) + sum(m)
""",
    """
x = T.max(A[0], change_macro(A, A[3], t=1)) + T.min(A[1], swap_macro(A, 0, 1)) * 100
y = max(A[0], swap_macro(A, 0, 7), A[0])
""",
    """
for A[0] in (4, 5):
    x += A[0]
for i, A[i] in enumerate((A[1], A[0])):
    x = x * 10 + A[i]
for A[2] in range(3):
    y += A[2]
s = Scale(0)
for s.v in (1, 2):
    y = y * 2 + s.v
""",
    """
import contextlib
with contextlib.nullcontext(A[2]) as A[1], contextlib.nullcontext((A[3], x)) as (A[4], v):
    A[2] = 9
    x += A[1] + A[4] * 10 + v
""",
    """
s, t = Scale(T.alloc_var("int32", init=3)), Scale(x)
l = [T.alloc_var("int32", init=4), 5]
d = {"k": T.alloc_var("int32", init=6)}
for i in range(3):
    s.v += A[i]
    l[0] = l[0] * 2 + i
    d["k"] -= s.v
if A[0] == 1:
    s.v = 80
    l[0] = 90
x = s.v * 100 + l[0]
y = d["k"] + t.v
""",
    """
s, l = Scale(T.alloc_var("int32", init=3)), [T.alloc_var("int32", init=4), 5]
u, k = s.v, l[0]
v, w = l
t = (s.v, l[0])
for item in l:
    l[0] += 10
    x = x * 3 + item
s.v = l[0] = 70
y = u + v * 10 + w * 100 + k * 1000
z = t[0] + t[1] * 10
""",
    """
k = [A[1]]
other, nested = k, [k]
k += [A[2]]
nested[0] *= 2
s = {1, 2}
more = s
s |= {3}
t = Scale([A[3]])
held = t.v
t.v += [4]
x = len(other) * 100 + len(more) * 10 + len(held)
""",
    """
A[nested_macro(A, 1) % 4] = nested_macro(A, 1)
A[x] = swap_macro(A, 5, 6)
s = Scale(A[0])
s.v = swap_macro(A, 0, 7)
s.v += swap_macro(A, 0, 7)
x = s.v
""",
    """
c, d = Scale(A[0] == 0), Scale(A[1] if A[0] == 0 and A[1] > 0 else A[2])
A[0] = A[1] = 9
x = 5 if c.v and A[0] == 9 else 6
y = d.v + (3 if c.v or A[0] == 0 else 4)
z = (c.v if A[0] == 9 else A[0]) + 2
""",
    """
s, t = Scale(A[1]), Scale(x)
A[1] = 5
x += 4
A[A[1] - s.v] = 7
for k in range(s.v, A[1]):
    y += k
for k in range(x, t.v, -1):
    y += k
assert x != t.v
z = (x - t.v) * 10 + (A[1] == s.v)
""",
    """
s = Scale(T.alloc_var("int32", init=3))
u = s.get()
t, v = s.get(), get_macro(s)
w = get_macro(s)
s.v = 8
x, y, z = u * 10 + w, t * 10 + v, s.get()
""",
    """
l = [T.alloc_var("int32", init=3), 5]
s = Scale(l)
k, (u, w) = 1, l
(t, _), [v, (_, h)] = s.v, (l[0], l)
a, b = s.v
l[0] = 9
x, y, z = u * 10 + w, t * 10 + v, h * 100 + a * 10 + k
c, (d, e) = 1, (T.alloc_var("int32", init=3), 5)
if A[0] == 0:
    d = 4
A[2] = d + e + c
""",
    """
kept = [x := v * 2 for v in (A[1], A[2])]
y = kept[0] * 10 + kept[1] + (z := A[3]) * 100
""",
    """
l = [T.alloc_var("int32", init=3), 5]
pair = (1, l)
k, (u, w) = pair
v = l[0] if FIVE == 5 else 0
for g, h in (l, l):
    l[0] = 9
    x += g * 10 + h
A[3] = scaled_macro(Scale(l[0]).get())
t = Scale(T.alloc_var("int32", init=4))
p = [t.get(), helper(t.get())]
t.v = 7
y, z = u * 10 + w + v, p[0] * 10 + p[1]
A[2] = pair_macro(t.get())[0] + t.v
""",
    """
l = [T.alloc_var("int32", init=1), 5]
d = {"a": T.alloc_var("int32", init=2)}
copies = l[:], list(l), tuple(l), l + [4], [*l], l.copy(), sorted(l, key=lambda v: 0)
m, same = [3], l
m += l
m.extend(l)
dicts = dict(d), d.copy(), {**d}
l[0], d["a"] = 7, 9
x = sum(copy[0] for copy in copies[:6])
y = sum(copy["a"] for copy in dicts) * 10 + same[0]
z = m[1] * 10 + m[3] + vararg(*l, *copies[2])
""",
]
