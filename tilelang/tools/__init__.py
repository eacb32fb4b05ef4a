"""Tools for looking at programs and layouts."""

from tilelang.attributes import attributes
from tilelang.tools.analyzer import AnalysisResult, Analyzer
from tilelang.tools.plot_layout import plot_layout

__getattr__ = attributes(__name__, {})

__all__ = ["AnalysisResult", "Analyzer", "plot_layout"]
