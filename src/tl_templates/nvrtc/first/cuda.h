// What device code takes from the driver's header, most of which is functions of the host, which NVRTC refuses.
#pragma once

typedef unsigned int cuuint32_t;
typedef unsigned long long cuuint64_t;
typedef unsigned long long CUdeviceptr;

struct CUtensorMap;  // tl_templates/cuda/common.h defines it
