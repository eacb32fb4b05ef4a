"""Launches over the CUDA driver, with a driver made for the test that writes down what it is asked for."""

from __future__ import annotations

import os
import subprocess
import sys

from . import handmade

FAKE_DRIVER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
typedef struct { uint32_t id, pad; union { char bytes[64]; int32_t flag; uint32_t extent[3]; } value; } Attribute;
typedef struct { uint32_t grid[3], block[3], shared; void* stream; Attribute* attributes; uint32_t count; } Config;
static void* context;
int cuInit(unsigned flags) { // a torch built for CUDA calls it, too
  static int calls;
  if (calls++ == 0) printf("init %u\n", flags);
  return 0;
}
int cuGetErrorString(int status, const char** text) { *text = status == 209 ? "no kernel image" : "out of order"; return 0; }
int cuCtxGetCurrent(void** out) { *out = context; return 0; }
int cuCtxSetCurrent(void* given) { context = given; return 0; }
int cuDevicePrimaryCtxRetain(void** out, int device) { printf("retain %d\n", device); *out = (void*)0x10; return 0; }
int cuModuleLoadData(void** out, const void* image) {
  printf("load %s\n", (const char*)image);
  *out = (void*)image;
  return strcmp(image, "cubin") ? 0 : 209;
}
int cuModuleUnload(void* module) { return 0; }
int cuModuleGetFunction(void** out, void* module, const char* name) {
  printf("function %s\n", name);
  *out = (void*)0x30;
  return 0;
}
int cuFuncSetAttribute(void* function, int attribute, int value) { printf("attribute %d = %d\n", attribute, value); return 0; }
int cuLaunchKernelEx(const Config* c, void* function, void** args, void** extra) {
  printf("launch grid %u %u %u block %u %u %u shared %u stream %p values %lld %d attributes", c->grid[0], c->grid[1], c->grid[2],
         c->block[0], c->block[1], c->block[2], c->shared, c->stream, *(long long*)args[0], *(int*)args[1]);
  for (uint32_t i = 0; i < c->count; ++i) {
    Attribute* a = c->attributes + i;
    printf(" %u:%u,%u,%u", a->id, a->value.extent[0], a->value.extent[1], a->value.extent[2]);
  }
  printf("\n");
  fflush(stdout);
  return c->block[0] > 1024 ? 1 : 0;
}
int cuDriverGetVersion(int* version) { *version = 13000; return 0; }
int cuGetProcAddress_v2(const char* name, void** out, int version, uint64_t flags, int* status) {
  Dl_info self;
  dladdr((void*)cuInit, &self);
  *out = dlsym(dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD), name);
  if (status) *status = *out ? 0 : 1;
  return *out ? 0 : 500;
}
int cuGetProcAddress(const char* name, void** out, int version, uint64_t flags, int* status) {
  return cuGetProcAddress_v2(name, out, version, flags, status);
}
int cuTensorMapEncodeTiled(void* map, int type, uint32_t rank, void* base, const uint64_t* shape, const uint64_t* strides,
                           const uint32_t* box, const uint32_t* steps, int interleave, int swizzle, int l2, int fill) {
  printf("map type %d rank %u base %p shape %llu %llu stride %llu box %u %u steps %u %u settings %d %d %d %d\n", type, rank, base,
         (unsigned long long)shape[0], (unsigned long long)shape[1], (unsigned long long)strides[0], box[0], box[1], steps[0],
         steps[1], interleave, swizzle, l2, fill);
  memset(map, 7, 128);
  return 0;
}
"""

PROGRAM = """
import struct
from tilelang.execution import runtime
load, launch, encode = (runtime.function(name) for name in ("load", "launch", "encode_tensor_map"))
maps = [[6, 0, 3, 2, 1, [64, 8], [1, 2]]]
module = load("cuda", b"cubin", b"ptx", [["first", [8, 4], maps], ["second", [8, 4], []]])
values = struct.pack("<qi", 2**40, -5)
launch(module, 0, [3, 2, 1, 128, 1, 1, 1, 1, 1, 1024, 0], 0x77, values)
launch(module, 1, [4, 1, 1, 128, 1, 1, 16, 1, 1, 100000, 3], 0, values)
launch(module, 1, [4, 1, 1, 128, 1, 1, 16, 1, 1, 90000, 0], 0, values)
launch(module, 0, [0, 2, 1, 128, 1, 1, 1, 1, 1, 0, 0], 0, values)
print("bytes", set(encode(module, 0, 0, 4096, [96, 50], [192])), flush=True)
for call in (lambda: launch(module, 0, [1, 1, 1, 2048, 1, 1, 1, 1, 1, 0, 0], 0, values),
             lambda: launch(module, 0, [1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0], 0, b"short")):
    try:
        call()
    except RuntimeError as error:
        print("error", str(error).splitlines()[0], flush=True)
"""

EXPECTED = """\
init 0
retain 0
load cubin
load ptx
function first
function second
launch grid 3 2 1 block 128 1 1 shared 1024 stream 0x77 values 1099511627776 -5 attributes
attribute 8 = 100000
attribute 14 = 1
launch grid 4 1 1 block 128 1 1 shared 100000 stream (nil) values 1099511627776 -5 attributes 4:16,1,1 2:1,0,0 6:1,0,0
launch grid 4 1 1 block 128 1 1 shared 90000 stream (nil) values 1099511627776 -5 attributes 4:16,1,1
map type 6 rank 2 base 0x1000 shape 96 50 stride 192 box 64 8 steps 1 2 settings 0 3 2 1
bytes {7}
launch grid 1 1 1 block 2048 1 1 shared 0 stream (nil) values 1099511627776 -5 attributes
error cannot launch first: out of order (CUDA error 1)
error first takes 12 bytes of arguments
"""


def run(program: str, *arguments: str, **environment: str) -> str:
    """What a new process prints."""
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_launch_makes_the_expected_driver_calls(tmp_path):
    handmade.compile_c(FAKE_DRIVER, tmp_path / "libcuda.so.1")
    assert run(PROGRAM, LD_LIBRARY_PATH=str(tmp_path)) == EXPECTED


PYTHON_PROGRAM = """
from pathlib import Path
import sys
from cuda.bindings import driver
from tilelang.artifact import KernelArtifact, KernelLaunch, TensorMapSpec
from tilelang.errors import ExecutionError
from tilelang.execution.nvrtc import DriverLauncher
spec = TensorMapSpec("map", "A", "float16", (96, 50), (192,), (64, 8), (1, 2), 128, oob_fill="nan")
arguments = (("dim", "n"), ("scalar", "s"))
first = KernelLaunch("first", arguments, ("int64", "int32"), (1, 1, 1), (1, 1, 1), tensor_maps=(spec,))
second = KernelLaunch("second", arguments, ("int64", "int32"), (1, 1, 1), (1, 1, 1), cooperative=True, dependent_launch=True)
driver.cuInit(0)
driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])
artifact = KernelArtifact("program", "{}", "nvrtc", (), (), {}, (first, second))
launcher = DriverLauncher(artifact, Path(sys.argv[1]))
common = dict(args=(2**40, -5), stream=0)
launcher.launch(0, grid=(3, 2, 1), block=(128, 1, 1), cluster=(1, 1, 1), shared_bytes=1024, args=(2**40, -5), stream=0x77)
launcher.launch(1, grid=(4, 1, 1), block=(128, 1, 1), cluster=(16, 1, 1), shared_bytes=100000, **common)
launcher.launch(0, grid=(0, 2, 1), block=(128, 1, 1), cluster=(1, 1, 1), shared_bytes=0, **common)
print("bytes", set(launcher.encode_tensor_map(0, 0, 4096, (96, 50), (192,))), flush=True)
try:
    launcher.launch(0, grid=(1, 1, 1), block=(2048, 1, 1), cluster=(1, 1, 1), shared_bytes=0, **common)
except ExecutionError as error:
    print("error", error, flush=True)
"""

PYTHON_EXPECTED = """\
init 0
retain 0
load image
function first
function second
launch grid 3 2 1 block 128 1 1 shared 1024 stream 0x77 values 1099511627776 -5 attributes
attribute 8 = 100000
attribute 14 = 1
launch grid 4 1 1 block 128 1 1 shared 100000 stream (nil) values 1099511627776 -5 attributes 4:16,1,1 2:1,0,0 6:1,0,0
map type 6 rank 2 base 0x1000 shape 96 50 stride 192 box 64 8 steps 1 2 settings 0 3 2 1
bytes {7}
launch grid 1 1 1 block 2048 1 1 shared 0 stream (nil) values 1099511627776 -5 attributes
error program: cannot launch first: out of order
"""


def test_cuda_python_makes_the_same_driver_calls(tmp_path):
    handmade.compile_c(FAKE_DRIVER, tmp_path / "libcuda.so.1")
    (tmp_path / "kernel.cubin").write_bytes(b"image")
    assert run(PYTHON_PROGRAM, str(tmp_path), LD_LIBRARY_PATH=str(tmp_path)) == PYTHON_EXPECTED


def test_a_machine_without_a_driver_gets_an_error_that_says_so(tmp_path):
    (tmp_path / "libcuda.so.1").write_text("not a library")
    program = """
from tilelang.execution import runtime
try:
    runtime.function("load")("cuda", b"cubin", b"", [])
except RuntimeError as error:
    print(str(error).splitlines()[0])
"""
    assert "no CUDA driver on this machine" in run(program, LD_LIBRARY_PATH=str(tmp_path))
