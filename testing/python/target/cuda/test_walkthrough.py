"""The page that follows the README's GEMM through the CUDA target shows what the compiler does now."""

from __future__ import annotations

from testing.cuda_walkthrough import PAGE, page


def test_the_page_shows_what_each_step_makes_of_the_gemm():
    assert PAGE.read_text() == page(), "run python -m testing.cuda_walkthrough, and read what has changed"
