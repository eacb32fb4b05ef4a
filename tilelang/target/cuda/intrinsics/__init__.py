"""The scalar intrinsics of the language on CUDA: one table, with what the analyses know of each and how it is lowered."""
