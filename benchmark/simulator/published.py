"""Times of tile configurations that others measured on GPUs and published, for ``ranking.py``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    """One problem, and how long each configuration took.

    Attributes:
        title: the problem.
        source: the publication.
        device: a name of the simulator's device models.
        kind: which kernel of ``ranking.py`` it is.
        shape: the problem's sizes, as that kernel takes them.
        rows: configuration -> microseconds, or another unit of time. Of a GEMM: rows, columns and depth of the tile, stages,
            warps; of attention: queries and keys of the tile, warps, stages.
    """

    title: str
    source: str
    device: str
    kind: str
    shape: tuple[int, ...]
    rows: dict[tuple[int, ...], float]


_SGLANG = (
    "SGLang's documentation, Speculative Decoding, output of torch.compile's max-autotune (Triton kernels) on its H100s, 2026-02"
)
_FORGE = "github.com/jahnavi-yelamanchi/forge, profiling/tuning_results.json (a Triton kernel), commit 5d5b0176"
_FLASH = "FlashAttention-2, flash_fwd_launch_template.h, run_mha_fwd_hdim64: comments on the A100, per cent of the best one"


def _skinny(rows: int, columns: int, depth: int, times: dict[tuple[int, ...], float]) -> Table:
    """A few rows times a weight, float16."""
    return Table(f"GEMM {rows}x{columns}x{depth}", _SGLANG, "h100", "gemm", (rows, columns, depth), times)


def _causal(sequence: int, milliseconds: str) -> Table:
    """Causal attention, four batches of twelve heads of 64. Times go through stages, warps, keys and queries in that order."""
    tiles = [(m, n, w, s) for m in (64, 128) for n in (32, 64, 128) for w in (4, 8) for s in (2, 3, 4)]
    rows = {tile: 1e3 * float(text) for tile, text in zip(tiles, milliseconds.split(), strict=True)}
    return Table(f"causal attention 4x12x{sequence}x64", _FORGE, "a100", "attention", (48, sequence, 64), rows)


TABLES = (
    _skinny(128, 32000, 4096, {
        (128, 128, 64, 5, 8): 104.6, (128, 128, 64, 3, 4): 104.8, (64, 128, 128, 4, 4): 108.1, (64, 64, 64, 3, 8): 116.3,
        (64, 128, 64, 3, 4): 116.6, (128, 128, 32, 3, 4): 126.4, (64, 64, 128, 5, 4): 128.7, (64, 128, 32, 3, 4): 134.6,
        (128, 64, 32, 3, 4): 141.3,
    }),
    _skinny(128, 22016, 4096, {
        (64, 128, 64, 3, 4): 75.4, (128, 128, 64, 3, 4): 78.1, (64, 128, 128, 4, 4): 79.8, (128, 128, 64, 5, 8): 82.7,
        (64, 64, 64, 3, 8): 93.4, (64, 128, 32, 3, 4): 96.8, (64, 64, 128, 5, 4): 97.1, (128, 64, 32, 3, 4): 97.1,
        (64, 128, 32, 4, 8): 100.0,
    }),
    _skinny(128, 12288, 4096, {
        (128, 128, 64, 5, 8): 49.4, (64, 128, 128, 4, 4): 52.6, (64, 64, 128, 5, 4): 54.4, (64, 64, 64, 3, 8): 55.6,
        (64, 128, 64, 3, 4): 55.7, (128, 128, 64, 3, 4): 58.1, (64, 128, 32, 4, 8): 66.5, (128, 64, 32, 4, 8): 68.4,
        (64, 32, 128, 5, 4): 71.4,
    }),
    _skinny(128, 4096, 4096, {
        (64, 64, 128, 5, 4): 23.5, (64, 128, 128, 4, 4): 26.8, (64, 32, 128, 5, 4): 30.0, (128, 128, 64, 5, 8): 32.0,
        (64, 64, 64, 3, 8): 39.7, (64, 128, 64, 3, 4): 41.1, (64, 32, 32, 5, 8): 42.0, (32, 32, 128, 2, 4): 42.1,
        (128, 128, 64, 3, 4): 42.8,
    }),
    _skinny(128, 4096, 11008, {
        (64, 64, 128, 5, 4): 50.2, (64, 128, 128, 4, 4): 55.7, (64, 32, 128, 5, 4): 64.9, (128, 128, 64, 5, 8): 69.5,
        (64, 64, 64, 3, 8): 89.6, (64, 128, 64, 3, 4): 92.7, (128, 128, 64, 3, 4): 96.7, (64, 32, 32, 5, 8): 97.8,
        (32, 32, 128, 2, 4): 100.2,
    }),
    _skinny(64, 32000, 4096, {
        (64, 128, 128, 4, 4): 100.6, (64, 128, 64, 3, 4): 100.7, (64, 128, 64, 5, 8): 100.9, (64, 64, 128, 5, 4): 102.1,
        (64, 64, 64, 3, 8): 102.5, (64, 32, 128, 5, 4): 111.1, (64, 128, 32, 3, 4): 118.9, (64, 64, 32, 3, 4): 121.9,
        (32, 32, 128, 2, 4): 133.4,
    }),
    _skinny(64, 22016, 4096, {
        (64, 128, 64, 3, 4): 74.0, (64, 64, 64, 3, 8): 74.4, (64, 64, 128, 5, 4): 75.1, (64, 128, 128, 4, 4): 76.3,
        (64, 128, 64, 5, 8): 79.5, (64, 32, 128, 5, 4): 84.0, (64, 128, 32, 4, 8): 89.5, (64, 64, 32, 4, 8): 92.2,
        (64, 64, 32, 3, 4): 92.5,
    }),
    _skinny(64, 12288, 4096, {
        (64, 128, 128, 4, 4): 48.4, (64, 128, 64, 5, 8): 48.5, (64, 64, 128, 5, 4): 49.4, (64, 32, 128, 5, 4): 51.1,
        (64, 64, 64, 3, 8): 54.7, (64, 128, 64, 3, 4): 55.4, (32, 32, 128, 2, 4): 56.5, (64, 32, 32, 5, 8): 62.0,
        (32, 64, 32, 5, 8): 64.4,
    }),
    _causal(2048, """
        .4106 .4142 .4116  .7521 .7542 .7465  .3983 .3958 .4188  .852  .7588 .7475  .4454 .427  .5632  .7414 .6861 .6897
        .5868 .5852 .5489  .4654 .4644 .47    .5565 .555  .5555  .5135 .5018 .4659  .5796 .5468 .7834  .511  .469  .47"""),
    _causal(4096, """
        1.2703 1.0779 1.057   2.0876 2.119  1.9949  .999   .985   1.0601  2.3267 2.0568 2.0222  1.1217 1.0687 1.4632
        1.9954 1.8161 1.8189  1.4458 1.4393 1.3352  1.1342 1.1307 1.1428  1.3713 1.3641 1.3672  1.2655 1.2622 1.1634
        1.4169 1.332  2.0385  1.2858 1.1706 1.1719"""),
    Table("attention 2048x64, hand-written", _FLASH, "a100", "attention", (48, 2048, 64), {
        (128, 128, 4, 2): 100.0, (128, 128, 2, 2): 105.0, (128, 128, 8, 2): 118.0, (64, 256, 4, 2): 127.0, (256, 64, 4, 2): 185.0,
    }),
)  # fmt: skip
