"""Processes that a program on the virtual device starts, and tensors that are passed between them."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap

import pytest

from tilelang.simulator.virtual.gathered import gathered
from tilelang.simulator.virtual.session import virtual_device

PASSED_ON = """
    import sys
    import torch
    import torch.multiprocessing as mp
    import tilelang
    import tilelang.language as T

    @tilelang.jit
    def doubling(n):
        @T.prim_func
        def main(A: T.Tensor((n,), "float32")):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(n):
                    A[i] *= 2
        return main

    def work(x, host, results, read):
        assert torch.cuda.get_device_name() == "NVIDIA A100-SXM4-80GB"
        assert x.is_cuda and not host.is_cuda
        doubling(32)(x)
        results.put(x + 1)
        read.wait()  # torch keeps what it sends in the memory of the sender

    if __name__ == "__main__":
        context = mp.get_context(sys.argv[1])
        x, results, read = torch.ones(32, device="cuda"), context.Queue(), context.Event()
        child = context.Process(target=work, args=(x, torch.ones(2), results, read))
        child.start()
        received = results.get(timeout=100)
        read.set()
        child.join()
        assert child.exitcode == 0
        print(x.sum().item(), received.device, received.sum().item())
"""


def simulate(path, program: str, *arguments: str) -> str:
    """What a program prints on a simulated A100."""
    path.write_text(textwrap.dedent(program))
    command = [sys.executable, "-m", "tilelang.simulator", "--quiet", "--device", "a100", str(path), *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


@pytest.mark.parametrize(("start", "own"), [("spawn", 64.0), ("fork", 32.0)])
def test_tensors_are_on_the_device_of_the_process_that_receives_them(start, own, tmp_path):
    # an argument of a new interpreter is memory that both processes have, a forked process has a copy of it
    assert simulate(tmp_path / "program.py", PASSED_ON, start) == f"{own} cuda:0 96.0"


def test_an_interpreter_that_the_program_starts_has_the_device_once_it_has_torch(tmp_path):
    child = "import sys; print('torch' in sys.modules); import torch; print(torch.cuda.get_device_name())"
    program = f"""
        import subprocess, sys
        subprocess.run([sys.executable, "-c", {child!r}], check=True)
        own = "import torch; from tilelang.simulator.virtual.session import virtual_device as v; gpu = v('h200'); gpu.__enter__()"
        subprocess.run([sys.executable, "-c", own + "; print(torch.cuda.get_device_name())"], check=True)
    """
    names = ["False", "NVIDIA A100-SXM4-80GB", "NVIDIA H200"]
    assert simulate(tmp_path / "program.py", program).splitlines() == names


def test_a_sitecustomize_of_the_users_own_is_imported_too(tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text("print('own')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with virtual_device():
        child = subprocess.run([sys.executable, "-c", "import sitecustomize"], check=True, stdout=subprocess.PIPE, text=True)
    assert child.stdout == "own\n"


SIZES = """
    import torch
    import torch.multiprocessing as mp
    import tilelang
    import tilelang.language as T

    @tilelang.jit
    def doubling(n):
        @T.prim_func
        def main(A: T.Tensor((n,), "float32")):
            with T.Kernel(n // 32, threads=32) as block:
                for i in T.Parallel(32):
                    A[block * 32 + i] *= 2
        return main

    def work(n):
        doubling(n)(torch.ones(n, device="cuda"))

    if __name__ == "__main__":
        work(32)
        for start, n in (("fork", 96), ("spawn", 160)):
            child = mp.get_context(start).Process(target=work, args=(n,))
            child.start()
            child.join()
"""


def test_a_report_is_about_all_processes(tmp_path):
    program, page = tmp_path / "program.py", tmp_path / "page.html"
    program.write_text(textwrap.dedent(SIZES))
    command = [sys.executable, "-m", "tilelang.simulator", "--report", str(page), str(program)]
    said = subprocess.run(command, check=True, stderr=subprocess.PIPE, text=True).stderr.splitlines()[0]
    assert said == f"{page}: 3 launches of 3 processes"
    text = page.read_text()
    assert all(f'"grid":[{blocks},1,1]' in text for blocks in (1, 3, 5))


def test_a_report_of_a_process_that_was_ended_while_it_wrote(tmp_path):
    whole = pickle.dumps(["a report"] * 20)
    for name, content in (("1", whole), ("2", whole + whole[: len(whole) // 2])):
        (tmp_path / name).write_bytes(content)
    assert [len(reports) for reports in gathered(str(tmp_path))] == [1, 1]
