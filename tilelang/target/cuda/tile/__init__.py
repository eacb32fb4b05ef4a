"""The tile tree: a kernel's statements as plain records, with nests of loops over the elements of tiles."""
