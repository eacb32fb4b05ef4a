"""From the tile IR to a tree of plain records: kernels, scopes of threads, nests of loops over tile elements."""
