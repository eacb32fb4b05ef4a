// Device code as it is handed to the driver.
#pragma once

#include <string>

#include "status.h"

namespace test_driver {

// The PTX behind an image (a cubin, or PTX itself) for a device of an architecture (90 for sm_90). A cubin's is the kernel.ptx
// beside the kernel.cubin of the same content below `kernels`.
Status read_image(const void* image, int architecture, const std::string& kernels, std::string* ptx);

}  // namespace test_driver
