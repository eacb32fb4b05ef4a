"""The IR of representative programs, as text (``--update-golden`` rewrites the files)."""

import tilelang.language as T


def test_gemm_relu(golden):
    @T.prim_func
    def gemm(A: T.Tensor((256, 96), "float16"), B: T.Tensor((96, 128), "float16"), C: T.Tensor((256, 128), "float16")):
        with T.Kernel(T.ceildiv(128, 64), T.ceildiv(256, 64), threads=128) as (bx, by):
            A_shared = T.alloc_shared((64, 32), "float16")
            B_shared = T.alloc_shared((32, 64), "float16")
            C_local = T.alloc_fragment((64, 64), "float32")
            T.clear(C_local)
            for k in T.Pipelined(3, num_stages=3):
                T.copy(A[by * 64, k * 32], A_shared)
                T.copy(B[k * 32, bx * 64], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            for i, j in T.Parallel(64, 64):
                C_local[i, j] = T.max(C_local[i, j], 0)
            T.copy(C_local, C[by * 64, bx * 64])

    golden(gemm.script())


def test_dynamic_and_strided(golden):
    m, n, row = T.dynamic("m, n, row")

    @T.prim_func
    def add(A: T.StridedTensor((m, n), (row, 1), "float32"), B: T.Tensor((m, n), "float32"), scale: T.float32, count: T.int32):
        with T.Kernel(T.ceildiv(n, 128), m, threads=128) as (bx, by):
            for j in T.Parallel(128):
                if bx * 128 + j < n and by < count:
                    B[by, bx * 128 + j] = A[by, bx * 128 + j] * scale

    golden(add.script())


def test_control_flow(golden):
    @T.prim_func
    def control(A: T.Tensor((16,), "int32"), flag: T.bool):
        with T.Kernel(4, threads=32) as bx:
            total = T.alloc_var("int32", init=0)
            for i in T.serial(2, 14, 3):
                if A[i] < 0:
                    continue
                elif A[i] > 100:
                    break
                else:
                    total += A[i]
            for i in T.unroll(4):
                A[i] = total
            while total > 3 and not flag:
                total = total // 2
            for i in range(4):
                for word in ("compile", "time"):
                    if word == "time":
                        A[i + len(word)] = -total if flag else total
            A[bx] = min(total, 7, A[0])

    golden(control.script())


def test_reductions_and_scans(golden):
    @T.prim_func
    def reduce(A: T.Tensor((32, 64), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_fragment((32, 64), "float32")
            row = T.alloc_fragment((32,), "float32")
            T.copy(A, tile)
            T.reduce_max(tile, row, dim=1)
            T.reduce_sum(tile, row, dim=-1, clear=False)
            T.cumsum(tile, dim=1, reverse=True)
            reducer = T.alloc_reducer((32,), "float32", op="sum", replication="all")
            T.clear(reducer)
            for i, j in T.Parallel(32, 64):
                reducer[i] += tile[i, j]
            T.finalize_reducer(reducer)
            T.copy(row, B)

    golden(reduce.script())


def test_macro_and_helpers(golden):
    def offsets(count):
        return [index * 8 for index in range(count)]

    @T.macro
    def load(source, target, index):
        T.copy(source[index], target)
        return index + 1

    @T.prim_func
    def use(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8,), "float32")
            for offset in offsets(3):
                following = load(A, tile, offset)
                for i in T.Parallel(8):
                    B[offset + i] = tile[i] * following

    golden(use.script())


def test_atomics_and_views(golden):
    @T.prim_func
    def count(X: T.Tensor((64,), "int32"), H: T.Tensor((16,), "int32"), P: T.Tensor((16, 16), "float16")):
        with T.Kernel(2, threads=32) as bx:
            local = T.alloc_shared((16,), "int32")
            packed = T.view(P, (16, 8), "uint32")
            T.clear(local)
            for i in T.Parallel(32):
                T.atomic_add(local[X[bx * 32 + i] % 16], 1, memory_order="relaxed")
            slot = T.atomic_max(H[0], local[0], return_prev=True)
            T.atomic_add(H[0], local)
            local[0] = slot + T.cast(packed[0, 0], "int32")

    golden(count.script())


def test_two_kernels_and_workspace(golden):
    from tilelang.frontend.program import trace

    def program(A, n):
        A: T.Tensor((n, 8), "float32")
        work = T.empty((n, 8), "float32")
        out = T.empty((n,), "float32")
        with T.Kernel(n, threads=32) as bx:
            for j in T.Parallel(8):
                work[bx, j] = A[bx, j] * 2
        with T.Kernel(n, threads=32) as bx:
            row = T.alloc_fragment((8,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(work[bx, :], row)
            T.reduce_sum(row, total)
            out[bx] = total[0]
        return out

    func = trace(program, {"n": 4}, {})
    assert list(func.attrs["tl.out_idx"]) == [1, 2]
    assert list(func.attrs["tl.returned"]) == [2]
    golden(func.script())
