// SPDX-License-Identifier: MIT
// A code object (an ELF file for the GPU), laid out as the loader would.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/kernel/kernels.hpp"

namespace stand_in {

struct code_symbol {
  std::string name;
  bool is_kernel;        // a kernel descriptor, "name.kd"
  std::uint64_t offset;  // in the image
  std::uint64_t bytes;
};

struct code_relocation {
  std::uint64_t offset;  // the image's own address plus `addend` is stored here
  std::uint64_t addend;
};

struct code_image {
  std::vector<char> bytes;
  std::vector<code_symbol> symbols;
  std::vector<code_relocation> relocations;
  std::vector<kernel> kernels;
};

/// False if the file is no AMDGPU code object, or is malformed.
bool parse_code_object(const void* file, std::size_t bytes, code_image& into);

}  // namespace stand_in
