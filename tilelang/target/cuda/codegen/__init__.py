"""CUDA C++ of a kernel: expressions, statements, nests, and one file for each family of tile operators."""
