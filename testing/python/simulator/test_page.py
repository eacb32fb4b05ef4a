"""Reports name the tile program's lines; the page shows them, in a real browser."""

from __future__ import annotations

import html
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import tilelang.simulator
from testing.browser import dom
from tilelang.errors import SimulatorArgumentError, SimulatorError
from tilelang.execution import simulated
from tilelang.simulator.occupancy import occupancy
from tilelang.simulator.page import page
from tilelang.simulator.sources import Statement
from tilelang.simulator.virtual.models import device_model

from . import programs


def line_of(text: str) -> int:
    """The line of ``programs.py`` that has a text."""
    lines = Path(programs.__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def launched(kernel, *tensors, **settings):
    with tilelang.simulator(counters=True, strict=False, **settings):
        kernel(*tensors)
    return simulated.last_reports()[0]


@pytest.fixture(scope="module")
def race():
    return launched(programs.overwrite(), torch.empty(128))


def test_a_finding_names_the_statement_of_the_program_first(race):
    (finding,) = race.findings
    line = line_of("has to name")
    assert (Path(finding.program.file).name, finding.program.line) == ("programs.py", line)
    lines = str(finding).splitlines()
    assert lines[0].startswith(f"{finding.program.file}:{line}: race: ")
    assert lines[1].startswith(f"  {line} | B[i] = T.cast(block + i")
    assert "device_kernel.cu" in lines[-1] and "PTX line" in lines[-1]
    with pytest.raises(SimulatorError, match=f"programs.py:{line}"), tilelang.simulator():
        programs.overwrite()(torch.empty(128))


def test_a_race_names_the_statements_of_both_accesses():
    report = launched(programs.exchange(), torch.zeros(128), torch.empty(128))
    finding = next(finding for finding in report.findings if finding.kind == "race")
    write, read = line_of("tile[thread] = A"), line_of("= tile[127 - thread]")
    here, there = (write, read) if finding.program.line == write else (read, write)
    lines = str(finding).splitlines()
    file = finding.program.file
    assert lines[0].startswith(f"{file}:{here}: race: ") and f" at {file}:{there} (PTX line " in lines[0]
    assert {line.split(" | ")[1] for line in lines[1:3]} == {"tile[thread] = A[thread]", "B[thread] = tile[127 - thread]"}


def test_a_deadlock_says_who_waits_for_what_and_why():
    (finding,) = launched(programs.announced_twice(), *torch.zeros(2, 64, 64).half()).findings
    assert finding.kind == "deadlock" and finding.program.line == line_of("T.mbarrier_wait_parity(full, 0)")
    assert finding.message.startswith("every warp waits: warps 0-3 waiting for phase parity 0 of the mbarrier at ")
    assert "(byte 0 of full)" in finding.message
    assert finding.message.endswith("waits for 0 arrivals and 8192 bytes, which were announced but no copy brings")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_memory_and_tensor_core_instructions_have_a_source_statement(arch):
    report = launched(programs.gemm(arch), *(torch.randn(128, 128).half() for _ in range(2)))
    worked = [i for i in report.counters.instructions if i.get("bytes") or i.get("tensor_multiply_adds")]
    found = [report.sources.statement(report.kernel, i["file"], i["line"]) for i in worked]
    unknown = [i["instruction"] for i, statement in zip(worked, found) if statement is None]
    assert all(text.startswith(("ld.param", "mbarrier")) for text in unknown), unknown
    by_line = {statement.line: statement.text for statement in found if statement is not None}
    products = {s.text for i, s in zip(worked, found) if i.get("tensor_multiply_adds")}
    assert products == {"T.gemm(a, b, c)"}
    assert {"T.copy(A[0, k * 32], a)", "T.copy(c, C)"} <= set(by_line.values())
    buffers = {item["name"]: item for item in report.sources.origins(report.kernel)["shared"]}
    assert buffers["a"]["bytes"] >= 128 * 32 * 2 and buffers["a"]["lines"][0] <= buffers["a"]["lines"][1]


def test_a_statement_is_found_again_where_the_file_has_changed(tmp_path):
    file = tmp_path / "program.py"
    file.write_text("# new\n# lines\nT.copy(A, B)\n")
    assert Statement.found(str(file), 1, "T.copy(A, B)") == Statement(str(file), 3, "T.copy(A, B)")
    assert str(Statement.found(str(file), 1, "T.gemm(A, B, C)")) == f"{file}:?: T.gemm(A, B, C)"


def test_the_page_shows_a_finding_with_its_three_lines(race, tmp_path):
    file = tmp_path / "report.html"
    file.write_text(race.html(), encoding="utf-8")
    document = html.unescape(dom(file))
    shown = re.search(r'<div id="findings">(.*?)</table>', document, re.S).group(1)
    assert f"programs.py:{line_of('has to name')}" in shown and "B[i] = T.cast(block + i" in shown
    assert "st.global" in shown and re.search(r"B\[[^<]*\] = ", shown)


def test_the_page_shows_heat_occupancy_roofline_memory_and_layouts(tmp_path):
    report = launched(programs.gemm("sm_80"), *(torch.randn(128, 128).half() for _ in range(2)))
    file = tmp_path / "report.html"
    file.write_text(page([report, report], "a100"), encoding="utf-8")
    document = html.unescape(dom(file))
    assert "2 launches of these sizes" in document and "NVIDIA A100" in document
    heat = re.search(r'<div class="pane" id="heat">(.*?)</div>', document, re.S).group(1)
    rows = [re.sub(r"<.*?>", "|", row) for row in re.findall(r'<tr class="has.*?</tr>', heat, re.S)]
    product = next(row for row in rows if "T.gemm(a, b, c)" in row)
    assert int(re.findall(r"\d+", product)[0]) == line_of("T.gemm(a, b, c)")
    for part in ("occupancy", "roofline", "shared", "layouts", "classes"):
        assert re.search(rf'id="{part}"', document), part
    assert "a 16.0 KiB" in document and re.search(r"\d+ blocks? a multiprocessor, \d+ of 64 warps", document)
    assert not re.search(r"\b1 blocks|0\.00 µs", document)
    assert "0:0</td>" in document


def test_text_of_reports_is_escaped_in_pages(race, tmp_path):
    hostile = "</script><script>document.title='owned'</script>"
    text = page([type(race).from_json(race.json().replace("overwritten_kernel", hostile.replace("'", "_")))])
    assert "<script>document.title" not in text


def test_modules_without_sources_have_a_page_too():
    ptx = """.version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }"""
    report = tilelang.simulator.load(ptx).get_function("k").launch(1, 32, [])
    assert '"kernel":"k"' in report.html("rtx4090")
    with pytest.raises(SimulatorArgumentError, match="h100"):
        report.html("h1000")


def test_occupancy_follows_the_programming_guide():
    h100, ada = device_model("h100"), device_model("rtx4090")
    assert occupancy(h100, 256, 0, 32).warps == 64
    assert occupancy(h100, 128, 48 * 1024, 64).limits == {"blocks": 32, "threads": 16, "shared memory": 4, "registers": 8}
    assert occupancy(ada, 1024, 0, 64).blocks == 1


def test_the_command_writes_a_page_even_if_the_program_ends_with_a_finding(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(inspect.getsource(programs) + "\nimport torch\noverwrite()(torch.empty(128, device='cuda'))\n")
    command = [sys.executable, "-m", "tilelang.simulator", "--report", str(tmp_path / "out.html"), str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0 and "SimulatorError" in done.stderr
    assert "has to name" in (tmp_path / "out.html").read_text()
