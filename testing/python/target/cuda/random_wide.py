"""Random programs over more of the language: arrays of a thread, products of every type and order, views, scans, nested
pipelines, scalars that change, and statements shared out between the halves of a block.

A CPU has no halves: there, the statements of both come one after the other.
"""

from __future__ import annotations

from testing.python.target.cuda.random_programs import RandomProgram

SUMS = {"float16": "float32", "bfloat16": "float32", "float32": "float32", "float8_e4m3fn": "float32", "int8": "int32"}
"""Type of a product's operands, and of its sums."""


class WideProgram(RandomProgram):
    """One program."""

    def kinds(self, depth: int) -> list:
        mine = [
            self.array, self.own_scratch, self.rows_one_by_one, self.typed_product, self.typed_product, self.flat_view,
            self.turned, self.scan_of_fragment, self.tile_atomic, self.scalar, self.middle_reduce, self.column_reduce,
            self.element, self.any_row, self.read_back,
        ]  # fmt: skip
        nested = [self.halves, self.nested_pipeline, self.counted_loop] if depth < 2 else []
        return [*super().kinds(depth), *mine, *nested]

    def value_of(self, tile: str, i: str = "i", j: str = "j") -> str:
        return f'T.cast({tile}[{i}, {j}], "float32")'

    def store(self, tile: str, value: str, i: str = "i", j: str = "j") -> None:
        self.line(f'{tile}[{i}, {j}] = T.cast(T.clamp({value}, T.float32(-20), T.float32(20)), "{self.tiles[tile][1]}")')

    def nest(self, *, i: str = "i", j: str = "j") -> None:
        self.line(f"for {i}, {j} in T.Parallel({self.bm}, {self.bn}):")

    # Arrays of a thread ------------------------------------------------------------------------------------------------

    def array(self) -> None:
        """An array that a copy or a nest fills, read element by element or by other nests."""
        r, name, target = self.random, self.name("own"), self.pick()
        size = r.choice([4, 8, min(self.bn, 16)])
        self.line(f'{name} = T.alloc_local(({size},), "float32")')
        if r.random() < 0.4 and "n" not in self.dynamic and self.n >= size:
            self.line(f"T.copy(W[0:{size}], {name})")
        else:
            self.line(f"T.fill({name}, {r.randint(-2, 2)})")
        if r.random() < 0.6:
            self.line(f"for q in T.Parallel({size}):")
            row = r.choice(self.rows)
            self.line(f"    {name}[q] = " + r.choice([f"{name}[q] + q", f"{row}[q % {self.bm}] - {name}[q]", "T.float32(q)"]))
        if r.random() < 0.5:
            self.line(f"for q in T.serial({size}):")
            self.line(f"    {name}[q] = {name}[q] * 2 - {name}[{size - 1} - q]")
        self.nest()
        self.indent += 1
        self.store(target, f"{self.value_of(target)} + T.clamp({name}[(i + j) % {size}], T.float32(-5), T.float32(5))")
        self.indent -= 1

    def own_scratch(self) -> None:
        """An array that each iteration fills for itself."""
        name, target, source = self.name("scratch"), self.pick(), self.pick()
        self.line(f'{name} = T.alloc_local((4,), "float32")')
        self.nest()
        self.indent += 1
        self.line("for q in T.serial(4):")
        self.line(f"    {name}[q] = {self.value_of(source)} + q")
        self.store(target, f"{name}[3] - {name}[1] + {name}[0]")
        self.indent -= 1

    # Elements and scalars ----------------------------------------------------------------------------------------------

    def rows_one_by_one(self) -> None:
        """A nest over columns inside a serial loop over rows."""
        target, source = self.pick(), self.pick()
        self.line(f"for i in T.serial({self.bm}):")
        self.indent += 1
        self.line(f"for j in T.Parallel({self.bn}):")
        self.indent += 1
        self.store(target, f"{self.value_of(source)} - {self.random.choice(self.rows)}[i]")
        self.indent -= 2

    def scalar(self) -> None:
        """A variable that the block computes, and that nests use."""
        r, name, target = self.random, self.name("v"), self.pick()
        row = r.choice(self.rows)
        self.line(f'{name} = T.alloc_var("float32", init={r.randint(-2, 2)})')
        self.line(f"for q in T.serial({min(self.bm, 5)}):")
        self.indent += 1
        if r.random() < 0.5:
            self.line(f"if {row}[q] > 0:")
            self.line(f"    {name} = {name} + 1")
        else:
            self.line(f"{name} = T.max({name}, T.clamp({row}[q], T.float32(-9), T.float32(9)))")
        self.indent -= 1
        self.nest()
        self.indent += 1
        self.store(target, f"{self.value_of(target)} + {name}")
        self.indent -= 1

    def element(self) -> None:
        """One element, outside of any nest."""
        r, target = self.random, self.pick()
        i, j = r.randrange(self.bm), r.randrange(self.bn)
        source = r.choice([self.value_of(self.pick(), str(r.randrange(self.bm)), str(r.randrange(self.bn))), "T.float32(bx)"])
        self.store(target, f"{source} + 1", str(i), str(j))

    def any_row(self) -> None:
        target, row = self.pick(), self.random.choice(self.rows)
        condition = self.random.choice(["T.any_of", "T.all_of"])
        mask = self.name("mask")
        self.line(f'{mask} = T.alloc_shared(({self.bm},), "int32")')
        self.line(f"for i in T.Parallel({self.bm}):")
        self.line(f'    {mask}[i] = T.cast({row}[i] > 0, "int32")')
        self.line(f"if {condition}({mask}):")
        self.line(f"    T.fill({target}, 2)")

    # Shapes ------------------------------------------------------------------------------------------------------------

    def flat_view(self) -> None:
        """A tile under another shape."""
        tile, name = self.pick("shared"), self.name("flat")
        self.line(f"{name} = T.reshape({tile}, ({self.bm * self.bn},))")
        self.line(f"for e in T.Parallel({self.bm * self.bn}):")
        value = f'T.clamp(T.cast({name}[e], "float32") + e % 3 - 1, T.float32(-20), T.float32(20))'
        self.line(f'    {name}[e] = T.cast({value}, "{self.tiles[tile][1]}")')

    def turned(self) -> None:
        """A tile transposed and used."""
        tile, name, target = self.pick("shared"), self.name("turned"), self.pick()
        self.line(f'{name} = T.alloc_shared(({self.bn}, {self.bm}), "{self.tiles[tile][1]}")')
        self.line(f"T.transpose({tile}, {name})")
        self.nest()
        self.indent += 1
        self.store(target, f"{self.value_of(name, 'j', 'i')} - {self.value_of(target)}")
        self.indent -= 1

    def scan_of_fragment(self) -> None:
        tile = self.pick(dtype="float32")
        if tile is None:
            return
        self.line(f"T.{self.random.choice(['cumsum', 'cummax'])}({tile}, dim={self.random.choice([0, 1])})")
        self.nest()
        self.indent += 1
        self.store(tile, self.value_of(tile))
        self.indent -= 1

    def middle_reduce(self) -> None:
        """A reduction of the middle axis of three."""
        source, wide, low = self.pick(), self.name("wide"), self.name("low")
        if self.bm % 2:
            return
        half = self.bm // 2
        self.line(f'{wide} = T.alloc_fragment(({half}, 2, {self.bn}), "float32")')
        self.line(f'{low} = T.alloc_fragment(({half}, {self.bn}), "float32")')
        self.line(f"for a, b, c in T.Parallel({half}, 2, {self.bn}):")
        self.line(f"    {wide}[a, b, c] = {self.value_of(source, 'a * 2 + b', 'c')}")
        self.line(f"T.reduce_{self.random.choice(['sum', 'max', 'min'])}({wide}, {low}, dim=1)")
        target = self.pick()
        self.line(f"for i, j in T.Parallel({half}, {self.bn}):")
        self.indent += 1
        self.store(target, f"{low}[i, j]")
        self.indent -= 1

    def column_reduce(self) -> None:
        """A reduction across the warps of the block, of a tile of any type."""
        source, tall, low, target = self.pick(), self.name("tall"), self.name("sums"), self.pick()
        dtype = self.random.choice(["float32", "int32", "float16"])
        self.line(f'{tall} = T.alloc_fragment(({self.bm}, {self.bn}), "{dtype}")')
        self.line(f'{low} = T.alloc_{self.random.choice(["fragment", "shared"])}(({self.bn},), "{dtype}")')
        self.line(f"T.copy({source}, {tall})")
        self.line(f"T.reduce_{self.random.choice(['max', 'min', 'absmax'])}({tall}, {low}, dim=0)")
        self.nest()
        self.indent += 1
        self.store(target, f'T.cast({low}[j], "float32") - {self.value_of(target)}')
        self.indent -= 1

    # Memory ------------------------------------------------------------------------------------------------------------

    def tile_atomic(self) -> None:
        """A tile added to a tensor, whole or by element."""
        tile = self.pick(dtype="int32")
        if tile is None or {"m", "n"} & self.dynamic:
            return
        if self.m % self.bm or self.n % self.bn:
            return
        place = f"counts[by * {self.bm}, bx * {self.bn}]"
        self.line(f"T.atomic_{self.random.choice(['add', 'max', 'min'])}({place}, {tile})")

    def read_back(self) -> None:
        """What the block stored to a tensor, read again by other threads."""
        source, target = self.pick(), self.pick()
        if self.tiles[source][1] != "float32" or self.m % self.bm or self.n % self.bn or {"m", "n"} & self.dynamic:
            return
        self.line(f"T.copy({source}, kept[by * {self.bm}, bx * {self.bn}])")
        self.nest()
        self.indent += 1
        i, j = f"by * {self.bm} + {self.bm - 1} - i", f"bx * {self.bn} + j"
        self.store(target, f"kept[{i}, {j}]")
        self.indent -= 1

    # Products ----------------------------------------------------------------------------------------------------------

    def typed_product(self) -> None:
        """A product of operands of any type in any order, from shared tiles or a fragment."""
        r = self.random
        dtype = r.choice(list(SUMS))
        ta, tb = r.random() < 0.4, r.random() < 0.5
        left, right, result, k = self.name("l"), self.name("t"), self.name("sums"), self.name("k")
        shape = (self.bk, self.bm) if ta else (self.bm, self.bk)
        self.line(f'{left} = T.alloc_{"fragment" if not ta and r.random() < 0.3 else "shared"}({shape}, "{dtype}")')
        self.line(f'{right} = T.alloc_shared({(self.bn, self.bk) if tb else (self.bk, self.bn)}, "{dtype}")')
        self.line(f'{result} = T.alloc_fragment(({self.bm}, {self.bn}), "{SUMS[dtype]}")')
        clear = r.random() < 0.3
        if not clear:
            self.line(f"T.fill({result}, {r.randint(-1, 1)})")
        loop = (
            f"T.Pipelined(T.ceildiv({self.size('k')}, {self.bk}), num_stages={r.choice([0, 2, 3])})"
            if not clear
            else "T.serial(1)"
        )
        self.line(f"for {k} in {loop}:")
        self.indent += 1
        if ta:
            self.line(f"for x, y in T.Parallel({self.bk}, {self.bm}):")
            self.line(f'    {left}[x, y] = T.cast(P[by * {self.bm} + y, {k} * {self.bk} + x], "{dtype}")')
        else:
            self.line(f"T.copy(P[by * {self.bm}, {k} * {self.bk}], {left})")
        if tb:
            self.line(f"T.copy(D[bx * {self.bn}, {k} * {self.bk}], {right})")
        else:
            self.line(f"T.copy(Q[{k} * {self.bk}, bx * {self.bn}], {right})")
        policy = r.choice(["Square", "FullRow", "FullCol"])
        self.line(
            f"T.gemm({left}, {right}, {result}, transpose_A={ta}, transpose_B={tb}, clear_accum={clear}, "
            f"policy=T.GemmWarpPolicy.{policy})"
        )
        self.indent -= 1
        target = self.pick()
        self.nest()
        self.indent += 1
        self.store(target, f'T.cast({result}[i, j], "float32") + {r.choice(self.rows)}[i]')
        self.indent -= 1

    def size(self, name: str) -> str:
        return name if name in self.dynamic else str(getattr(self, name))

    # Structure ---------------------------------------------------------------------------------------------------------

    def nested_pipeline(self, depth: int) -> None:
        """A pipelined loop in a pipelined loop."""
        outer, inner, tile, other = self.name("k"), self.name("k"), self.name("x"), self.name("x")
        r = self.random
        for name in (tile, other):
            self.line(f'{name} = T.alloc_shared(({self.bm}, {self.bn}), "float32")')
        self.line(f"for {outer} in T.Pipelined({r.randint(1, 3)}, num_stages={r.choice([1, 2])}):")
        self.indent += 1
        self.line(f"T.copy(A[by * {self.bm} + {outer} % 2, bx * {self.bn}], {tile})")
        self.line(f"for {inner} in T.Pipelined({r.randint(1, 3)}, num_stages={r.choice([1, 2, 3])}):")
        self.indent += 1
        self.line(f"T.copy(A[by * {self.bm} + {inner} % 2, bx * {self.bn}], {other})")
        target = self.pick("fragment")
        self.nest()
        self.indent += 1
        self.store(target, f"{self.value_of(target)} + {tile}[i, j] - {other}[i, j]")
        self.indent -= 3

    def counted_loop(self, depth: int) -> None:
        """A loop whose trip count a tensor gives."""
        self.line(f'for {self.name("t")} in T.serial(T.cast(T.abs(V[0]), "int32")):')
        self._nested(depth)

    def halves(self, depth: int) -> None:
        """Two statements on tiles of their own, each by one half of the threads."""
        shared = [name for name, (kind, _) in self.tiles.items() if kind == "shared"]
        if self.threads < 128 or len(shared) < 2:
            return
        first, second = shared[:2]
        parts = [self._of_a_half(tile) for tile in (first, second)]
        self.line("if split:")
        self.line("    tx = T.get_thread_binding()")
        self.line(f"    if tx < {self.threads // 2}:")
        self.lines += ["    " * (self.indent + 2) + text for text in parts[0]]
        self.line("    else:")
        self.lines += ["    " * (self.indent + 2) + text for text in parts[1]]
        self.line("else:")
        self.lines += ["    " * (self.indent + 1) + text for text in (*parts[0], *parts[1])]

    def _of_a_half(self, tile: str) -> list[str]:
        r = self.random
        value = r.choice([f"{self.value_of(tile)} + 1", f"{self.value_of(tile)} * 2 - i", "T.float32(j)"])
        return [
            r.choice([f"T.fill({tile}, {r.randint(-3, 3)})", f"T.copy({self._global(self.tiles[tile][1])}, {tile})"]),
            f"for i, j in T.Parallel({self.bm}, {self.bn}):",
            f'    {tile}[i, j] = T.cast(T.clamp({value}, T.float32(-20), T.float32(20)), "{self.tiles[tile][1]}")',
        ]

    @property
    def arguments(self) -> list:
        found = super().arguments
        return [*found[:-1], ("counts", ("m", "n"), "int32"), ("kept", ("m", "n"), "float32"), found[-1]]
