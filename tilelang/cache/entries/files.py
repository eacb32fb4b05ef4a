"""The names of the files in a cache entry, and the rule that a name must obey."""

from __future__ import annotations

import re

DEVICE_KERNEL_PATH = "device_kernel.cu"
HOST_KERNEL_PATH = "host_kernel.cu"
EXECUTABLE_PATH = "executable.so"
KERNEL_LIB_PATH = "kernel_lib.so"
KERNEL_CUBIN_PATH = "kernel.cubin"
KERNEL_PTX_PATH = "kernel.ptx"
KERNEL_PY_PATH = "kernel.py"
PARAMS_PATH = "params.pkl"
PROGRAM_PATH = "program.txt"
OPTIONS_PATH = "options.txt"
COMPILE_SCRIPT_PATH = "compile.sh"
COMPILE_LOG_PATH = "compile_log.txt"
ORIGINS_PATH = "origins.json"
MANIFEST_PATH = "manifest.json"

DESCRIPTIONS = {
    DEVICE_KERNEL_PATH: "generated device source",
    HOST_KERNEL_PATH: "generated host source",
    EXECUTABLE_PATH: "library that the tvm_ffi backend loads",
    KERNEL_LIB_PATH: "library with a plain C entry point",
    KERNEL_CUBIN_PATH: "device binary",
    KERNEL_PTX_PATH: "PTX assembly",
    KERNEL_PY_PATH: "generated Python host",
    PARAMS_PATH: "parameters and launch data",
    PROGRAM_PATH: "the tile program, readable",
    OPTIONS_PATH: "target, backend, pass configurations and flags",
    COMPILE_SCRIPT_PATH: "rebuilds the binary by hand",
    COMPILE_LOG_PATH: "command and output of the toolchain",
    ORIGINS_PATH: "which line of the program each line of the device source comes from",
    MANIFEST_PATH: "size and SHA-256 of every file",
    "ir": "the program after every pass",
}

_PART = re.compile(r"[A-Za-z0-9_+=@,-][A-Za-z0-9_.+=@,-]*\Z")


def is_safe_name(name: str) -> bool:
    """Whether ``name`` is a relative path of at most four plain parts: it cannot leave the entry's directory."""
    parts = name.split("/")
    return 0 < len(parts) <= 4 and len(name) <= 240 and all(_PART.match(part) for part in parts)
