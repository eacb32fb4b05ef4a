#include "image.h"

#include <elf.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace test_driver {
namespace {

constexpr uint16_t kCudaMachine = 190;  // EM_CUDA
constexpr uint8_t kNewAbi = 8;          // from here on the architecture is in bits 8 to 15 of the flags

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Bytes of an ELF image: the end of its last table or section.
uint64_t elf_bytes(const uint8_t* image, const Elf64_Ehdr& header) {
  uint64_t end = std::max<uint64_t>(header.e_shoff + uint64_t{header.e_shnum} * header.e_shentsize,
                                    header.e_phoff + uint64_t{header.e_phnum} * header.e_phentsize);
  for (int i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, image + header.e_shoff + uint64_t{header.e_shentsize} * i, sizeof section);
    if (section.sh_type != SHT_NOBITS) end = std::max<uint64_t>(end, section.sh_offset + section.sh_size);
  }
  return end;
}

int elf_architecture(const Elf64_Ehdr& header) {
  const bool new_abi = header.e_ident[EI_ABIVERSION] >= kNewAbi;
  return static_cast<int>(new_abi ? header.e_flags >> 8 & 0xff : header.e_flags & 0xff);
}

// Machine code runs on devices of the same major and the same or a later minor capability.
bool runs_on(int code, int device) { return code / 10 == device / 10 && code % 10 <= device % 10; }

Status read_cubin(const uint8_t* image, int architecture, const std::string& kernels, std::string* ptx) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  if (header.e_machine != kCudaMachine || header.e_shentsize != sizeof(Elf64_Shdr)) return kInvalidImage;
  if (!runs_on(elf_architecture(header), architecture)) return kNoBinaryForGpu;
  const uint64_t bytes = elf_bytes(image, header);
  if (kernels.empty()) return kInvalidImage;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kernels)) {
    if (entry.path().filename() != "kernel.cubin" || entry.file_size() < bytes) continue;
    if (std::memcmp(read_file(entry.path()).data(), image, bytes) != 0) continue;
    *ptx = read_file(entry.path().parent_path() / "kernel.ptx");
    return ptx->empty() ? kInvalidImage : kSuccess;
  }
  return kInvalidImage;
}

// The directive `.target sm_90a`: its number, and whether it is for this architecture alone.
bool read_target(const std::string& ptx, int* number, bool* exact) {
  size_t at = ptx.find(".target sm_");
  if (at == std::string::npos) return false;
  at += std::strlen(".target sm_");
  *number = 0;
  while (at < ptx.size() && std::isdigit(static_cast<unsigned char>(ptx[at]))) *number = *number * 10 + (ptx[at++] - '0');
  *exact = at < ptx.size() && ptx[at] == 'a';
  return *number > 0;
}

}  // namespace

Status read_image(const void* image, int architecture, const std::string& kernels, std::string* ptx) {
  const auto* bytes = static_cast<const uint8_t*>(image);
  if (std::memcmp(bytes, ELFMAG, SELFMAG) == 0) return read_cubin(bytes, architecture, kernels, ptx);
  *ptx = static_cast<const char*>(image);
  int number = 0;
  bool exact = false;
  if (!read_target(*ptx, &number, &exact)) return kInvalidImage;
  return number <= architecture && !(exact && number != architecture) ? kSuccess : kInvalidPtx;
}

}  // namespace test_driver
