"""The example of docs/interpreter.md runs, and prints what the page says that it watches."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "interpreter.md"


def test_the_session_of_the_page(tmp_path, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    file = tmp_path / "session.py"
    file.write_text(code)
    exec(compile(code, str(file), "exec"), {"__name__": "session"})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("13 (0,) {'step': 0} tensor(")
    assert lines[-1] == "16 (1,) {'step': 1} tensor([128., 130., 132., 134.])"
