// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/descriptor.hpp"
#include "base/profile.hpp"

namespace hipvmm::host_provider {

/// A memory file that other processes may map; its name has its kind and owner. The file is sealed,
/// so that no holder can shorten it under the others' mappings.
struct shared_file {
  int place;  ///< of its device in the machine
  std::size_t bytes;
  std::uint64_t identity;  ///< the same number for every descriptor of one file

  /// Creates a file. `kind` is a word without dashes. Untouched bytes cost nothing.
  static descriptor create(std::string_view kind, int place, std::size_t bytes);
  /// Throws: failure with `refusal` unless it is the descriptor of such a file, with a place below
  /// `places`.
  static shared_file identify(int file, std::string_view kind, int places,
                              hipError_t refusal = hipErrorInvalidValue);
};

/// The descriptor that a program passed as a shareable handle. ROCm up to 7.0 expects a pointer to
/// it for chunks, and AMD's guide for pools; newer releases and CUDA expect its value, in the lower
/// half of the handle. Throws: failure with hipErrorInvalidValue for null, unless that is
/// descriptor 0, and for a pointer to no memory; crash for a value or such a pointer if only a
/// pointer is expected.
int descriptor_from(void* os_handle, import_form form, descriptor_zero zero);

descriptor duplicate(int file);

}  // namespace hipvmm::host_provider
