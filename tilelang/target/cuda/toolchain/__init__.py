"""From CUDA C++ text to a cubin: NVRTC in this process, or nvcc, and tools that look at the result.

``compile.py`` is all that the target needs; ``python -m tilelang.target.cuda.toolchain`` is the same by hand.
"""
