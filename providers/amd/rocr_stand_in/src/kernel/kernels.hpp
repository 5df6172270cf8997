// SPDX-License-Identifier: MIT
// Kernels of loaded code objects, and the values of their arguments.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace stand_in {

struct kernel_argument {
  std::string name;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  bool pointer = false;  // to global memory
};

struct kernel {
  std::string name;
  std::vector<kernel_argument> arguments;  // without the hidden ones
  [[nodiscard]] const kernel_argument* find(const char* argument) const;
};

/// `object` is the kernel object of dispatch packets, the descriptor's address.
void add_kernel(std::uint64_t object, std::shared_ptr<const kernel> made);
void remove_kernel(std::uint64_t object);
std::shared_ptr<const kernel> kernel_of(std::uint64_t object);

/// The kernarg segment of one dispatch, read by argument names. A missing argument is 0.
class argument_values {
 public:
  argument_values(const kernel& of, std::vector<unsigned char> bytes)
      : of_(of), bytes_(std::move(bytes)) {}
  /// The bytes of the segment that a kernel's own arguments take.
  static std::uint64_t bytes_of(const kernel& of);

  [[nodiscard]] bool has(const char* name) const { return of_.find(name) != nullptr; }
  [[nodiscard]] std::uint64_t number(const char* name) const;
  /// The first of the names that the kernel has.
  [[nodiscard]] std::uint64_t number(const char* name, const char* other) const;
  [[nodiscard]] std::array<std::uint64_t, 4> vector(const char* name) const;

 private:
  const kernel& of_;
  std::vector<unsigned char> bytes_;
};

}  // namespace stand_in
