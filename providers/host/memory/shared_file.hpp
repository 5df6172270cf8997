// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/descriptor.hpp"
#include "base/profile.hpp"

namespace hipvmm::host_provider {

/// The description in the name of a memory file that other processes may map: its kind and its
/// owner. The file is sealed, so that no holder can shorten it under the others' mappings.
struct shared_file {
  int place;  ///< of its device in the machine
  std::size_t bytes;
  std::uint64_t identity;  ///< the same number for every descriptor of one file

  /// A new file of `kind`, a word without dashes, whose untouched bytes cost nothing.
  static descriptor create(std::string_view kind, int place, std::size_t bytes);
  /// Throws: failure with `refusal` for any descriptor but one of such a file, of a place below
  /// `places`.
  static shared_file identify(int file, std::string_view kind, int places,
                              hipError_t refusal = hipErrorInvalidValue);
};

/// The descriptor that a program passed as a shareable handle. ROCm up to 7.0 passes a pointer to
/// it for chunks, and AMD's guide does for pools; newer releases and CUDA pass its value, of which
/// the lower half of the handle counts.
/// Throws: failure with hipErrorInvalidValue for null, unless that is descriptor 0, and for a
/// pointer to no memory; crash for a value or such a pointer if only a pointer is expected.
int descriptor_from(void* os_handle, import_form form, descriptor_zero zero);

/// Throws: failure when the process has no descriptor left.
descriptor duplicate(int file);

}  // namespace hipvmm::host_provider
