"""PTX kernels of a few lines: registers in, one instruction, registers out."""

import numpy as np
import torch

import tilelang.simulator

HEADER = ".version 8.4\n.target {target}\n.address_size 64\n"
_TORCH = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def to_torch(array: np.ndarray) -> torch.Tensor:
    """The same bytes as a CPU tensor of integers."""
    signed = np.ascontiguousarray(array).view(f"i{array.itemsize}" if array.itemsize > 1 else "u1")
    return torch.from_numpy(signed)


def launch(ptx: str, name: str, arrays, threads=32, *, grid=1, scalars=(), target="sm_90a", **options):
    """Runs a kernel whose parameters are pointers to `arrays` (written in place), then `scalars`; returns its report."""
    module = tilelang.simulator.load(HEADER.format(target=target) + ptx)
    function = module.get_function(name)
    tensors = [to_torch(a) for a in arrays]
    grid = grid if isinstance(grid, tuple) else (grid, 1, 1)
    options.setdefault("checks", "all")
    report = function.launch(grid, (threads, 1, 1), [*tensors, *scalars], **options)
    for array, tensor in zip(arrays, tensors, strict=True):
        if tensor.data_ptr() != array.__array_interface__["data"][0]:
            array[...] = tensor.numpy().view(array.dtype).reshape(array.shape)
    return report


def clean(report):
    """Asserts that nothing was found; returns the report."""
    assert not report.findings, "\n".join(str(f) for f in report.findings)
    return report


def register_kernel(inputs: dict[str, tuple[int, int]], outputs: dict[str, tuple[int, int]], body: str) -> str:
    """A kernel `k` whose lanes load `inputs` and store `outputs`: name -> (registers a lane, bytes each).

    Register i of operand `a` is %a<i>; parameters are pointers in the order of the dictionaries.
    """
    operands = {**inputs, **outputs}
    lines = [".visible .entry k(" + ", ".join(f".param .u64 p_{name}" for name in operands) + ")", "{"]
    lines.append(".reg .b64 %ptr<2>; .reg .b32 %tid, %offset;")
    for name, (count, width) in operands.items():
        lines.append(f".reg .b{width * 8} %{name}<{count}>;")
    lines.append("mov.u32 %tid, %tid.x;")
    for name, (count, width) in inputs.items():
        lines += _transfer(name, count, width, "ld.global.b{bits} %{name}{i}, [%ptr0+{at}];")
    lines.append(body)
    for name, (count, width) in outputs.items():
        lines += _transfer(name, count, width, "st.global.b{bits} [%ptr0+{at}], %{name}{i};")
    return "\n".join([*lines, "ret;", "}"])


def _transfer(name, count, width, instruction):
    yield f"ld.param.u64 %ptr0, [p_{name}];"
    yield "cvta.to.global.u64 %ptr0, %ptr0;"
    yield f"mul.lo.u32 %offset, %tid, {count * width};"
    yield "cvt.u64.u32 %ptr1, %offset;"
    yield "add.u64 %ptr0, %ptr0, %ptr1;"
    for i in range(count):
        yield instruction.format(bits=width * 8, name=name, i=i, at=i * width)


def vector(name: str, count: int) -> str:
    """{%a0, %a1, ...}"""
    return "{" + ", ".join(f"%{name}{i}" for i in range(count)) + "}"
