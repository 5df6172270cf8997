// SPDX-License-Identifier: MIT
// Code objects as clr would compile them, but without code: descriptors and metadata.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace test {

struct argument_description {
  std::string name;
  std::uint64_t bytes;
  bool pointer = false;
};

struct kernel_description {
  std::string name;
  std::vector<argument_description> arguments;
};

/// Returns the offset of each argument: aligned to its size, at most to 32 bytes.
std::vector<std::uint64_t> argument_offsets(const kernel_description& kernel);

std::vector<char> build_code_object(const std::vector<kernel_description>& kernels);

}  // namespace test
