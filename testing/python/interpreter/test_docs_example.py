"""The example of docs/interpreter.md runs, and prints what the page says that it watches."""

import re
from pathlib import Path

import pytest
import torch

import tilelang
import tilelang.language as T

PAGE = Path(__file__).parents[3] / "docs" / "interpreter.md"


def test_the_session_of_the_page(tmp_path, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    file = tmp_path / "session.py"
    file.write_text(code)
    exec(compile(code, str(file), "exec"), {"__name__": "session"})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("13 (0,) {'step': 0} tensor(")
    assert lines[-1] == "16 (1,) {} tensor([128., 130., 132., 134.])"


def test_a_callback_sees_a_line_inside_of_a_parallel_loop():
    @T.prim_func
    def main(A: T.Tensor((2, 4), "float32")):
        with T.Kernel(2, threads=32) as b:
            n = T.alloc_var("int32", init=3)
            for i in T.Parallel(4):
                A[b, i] = A[b, i] + n  # watched

    line = next(number for number, text in enumerate(Path(__file__).read_text().splitlines(), 1) if text.endswith("# watched"))
    seen = []
    with tilelang.interpret() as session:
        session.watch(line, lambda at: seen.append((at.block, at.iteration["i"].tolist(), at["A"].tolist(), "n" in at.names())))
        tilelang.compile(main)(torch.zeros(2, 4))
    assert seen[0] == ((0,), [0, 1, 2, 3], [[0.0] * 4] * 2, True)
    assert seen[1] == ((1,), [0, 1, 2, 3], [[3.0] * 4, [0.0] * 4], True)


def test_what_a_callback_raises_is_the_callers():
    def stop(at):
        raise LookupError(at["nothing"])

    @T.prim_func
    def main(A: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            T.clear(A)

    with tilelang.interpret() as session:
        session.watch("A", stop)
        with pytest.raises(KeyError, match="nothing is none of A"):
            tilelang.compile(main)(torch.zeros(4))


@pytest.mark.parametrize("what", ["tile", 4000])
def test_a_watch_that_nothing_calls_is_a_warning(what):
    @T.prim_func
    def main(A: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            T.clear(A)

    with pytest.warns(UserWarning, match=rf"run.watch\({what!r}, ...\) was never called") as caught:
        with tilelang.interpret() as session:
            session.watch(what, print)
            session.watch("A", lambda at: None)
            tilelang.compile(main)(torch.zeros(4))
    assert [warning.filename for warning in caught] == [__file__]


def test_a_watch_takes_a_name_or_a_line():
    with (
        tilelang.interpret() as session,
        pytest.raises(TypeError, match=r"run.watch takes a name or the number of a line, got \['A'\]"),
    ):
        session.watch(["A"], print)


def test_a_watch_takes_a_function():
    with tilelang.interpret() as session, pytest.raises(TypeError, match="run.watch takes a function of the moment, got int"):
        session.watch("A", 3)
