"""Pieces of kernels with loops, conditions and functions, for ``test_python_meaning.py``."""

PIECES = [
    """
for k in (0, 1, 2):
    x += k
for i in range(3):
    l = [A[k] for k in (0, 1)] + [(lambda k: k)(3)]
    def g(k, *q):
        return k + sum(q)
    for k in (0, 1):
        y += l[k] + g(k, i)
""",
    """
for v in (x, y):
    v += 10
    z += v
for k, v in enumerate([x, y]):
    v = v * 2 + k
    z += v
""",
    """
if (v := A[3]) > 2 and v < 9:
    x = v
while (w := A[x]) < 6:
    y += w
    x += 1
it = iter([4, 5])
while (k := next(it, None)) is not None:
    z = z * 10 + k
""",
    """
match (A[1], 3):
    case (v, w):
        A[1] = 50
        x = v + w
""",
    """
f = lambda t=A[1]: t
def g(t=A[2], *, k=A[3]):
    return t * k
A[1] = A[2] = A[3] = 50
x = f() + g()
""",
    """
if A[1] == 1:
    def double(t):
        return t * 2
    x = double(A[2])
y = double(A[3])
for v in (5, 6):
    x += v
for v in range(2):
    y += v
""",
    """
items = (k * 2 for k in [1, 2, 3])
for k in items:
    x += k
    break
for k in items:
    y = y * 10 + k
""",
    """
for k in [1, 2, 3]:
    if k == 2:
        break
    x += A[k]
else:
    x = 100
for k in [1, 2, 3]:
    for j in [1]:
        break
    if k == 4:
        break
else:
    y = 5
    for i in range(3):
        y += i
    y = y + 1
z = y + 1
""",
    """
for i in range(3):
    for k in [1, 2]:
        if k == 2:
            break
    else:
        x = 100
    x += i
else:
    y = x + 1
while x < 20:
    x += 7
else:
    y = y * 2
""",
    """
for k in [1, 2, 3]:
    x += A[k] * k
    A[k] = x
""",
    """
def g(t):
    return t + x
x = 10
y = g(3)
""",
    """
i = 5
for i in range(3):
    x += i
y = 4
""",
    """
if x == 1 and y == 2 or z == 9:
    x = 100
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
    """
l = []
for k in [1, 2]:
    l.append(A[k])
x = l[0] * 10 + l[1]
""",
    """
match FIVE:
    case 4:
        x = 1
    case 5:
        x = 55
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
if x:
    y = 9
if not z:
    y = 10
""",
    """
for i in range(2, 2):
    x = 9
for i in range(0):
    x = 9
""",
    """
if FIVE == 5:
    x = 3
else:
    undefined_name()
""",
    """
c = (y > 5 or z > 1)
d = c and y > 1
if d and not (c and y == 9):
    x = 70
""",
    """
fs = []
for k in [1, 2]:
    fs.append(lambda t: t * k)
x = fs[0](y) + fs[1](y)
""",
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
for i in range(A[3]):
    A[3] = 0
    x += 1
""",
    """
for i in range(x, x + 3):
    x += 1
""",
    """
for k in range(3):
    for l in [4, 5]:
        x += k * l
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
    """
s = Scale(0)
t = Lazy()
if A[0] == 2:
    s.w = 4
    s.same = "a"
    x = s.w + t.length(3)
else:
    x = getattr(s, "w", 9) + t.length(3)
    s.same = "a"
if A[2] > 1:
    s.u = A[2] + x
    y += s.u
else:
    y += hasattr(s, "u") + t.length(2)
if A[1] == 1:
    s.w = 6
    z = s.w + len(s.same) + t.length(2)
""",
    """
mode, pair, scale = "a", (1, 2), Scale(3)
for i in range(3):
    x += len(mode) + pair[1] + scale.v
    mode, pair, scale = "a", (1, 2), scale
    last = None
    for k in (1, 2):
        y += 0 if last is None else last
        last = A[k] + i
""",
    """
s, l = Scale(None), [[0]]
for i in range(3):
    if s.v is None:
        s.v = Scale(5)
    s.w = Scale(A[i])
    x += s.v.v + s.w.v
    l.append(s.w)
    l.pop()
    if A[i] == 1:
        s.u = Scale(A[i] + 4)
        y += s.u.v
""",
    """
p = Property()
if A[0] == 0:
    p.doubled = 3
x = p.asked
y = hasattr(p, "doubled") + hasattr(p, "none") * 2
z = p.asked * 10 + p.doubled
""",
    """
v, k, i = 1, "a", 7
def g():
    return v
if A[0] == 5:
    v, k = 2, "b"
    for i in range(3):
        x += v + i
    if A[1] == 3:
        v = 4
elif A[1] == 1:
    x = v * 100 + i + g() + (5 if k == "a" else 6)
    v = 9
    if A[2] == 3:
        v = 4
    else:
        y = v
""",
    """
v = T.alloc_var("int32", init=1)
if A[0] == 5:
    v, w = 3, T.alloc_var("int32", init=4)
    x = w
else:
    w = T.alloc_var("int32", init=6)
    v += w
    x = v
""",
    """
v = 3
for k in (1, 2, 3):
    if A[k] == 1:
        v = 5
        x += v
    else:
        x += v
    v = 4
""",
    """
v = 0
f = lambda t=0: v + t
for i in range(3):
    x += T.max(i, 2)
    v = A[i]
    x += f(i)
v = 4
for k in (1, 2, 3):
    x += f()
    v = k
""",
]
