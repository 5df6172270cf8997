// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/access.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "region/device_work.hpp"

namespace hipvmm::detail {

/// The rights to memory of hipMalloc. A grant enables the peer's access to all memory of the
/// device; a revocation is only recorded, because HIP never takes that access back.
class malloc_rights {
 public:
  explicit malloc_rights(device_ref owner) : rights_{owner}, users_{users_of(rights_)} {}

  /// Throws (all rights are as before): as access_map::set; unsupported for a right to read only,
  /// or none for the owner; hip_error.
  void grant(device_ref to, access_right right);
  /// Throws: as grant().
  void set_access(const access_list& wanted) { change_to(access_map{owner(), wanted}); }
  [[nodiscard]] const access_map& all() const noexcept { return rights_; }
  [[nodiscard]] const memory_users& users() const noexcept { return users_; }
  [[nodiscard]] device_ref owner() const noexcept { return rights_.owner(); }

 private:
  void change_to(access_map next);

  access_map rights_;
  memory_users users_;
};

/// The reason of memory_path::fallback, or `chosen` if the program chose hipMalloc.
[[nodiscard]] std::string why_no_chunks(device_ref owner, std::string_view chosen);

/// Throws: unsupported, with `option` and `why`, unless `shareable` is none.
void require_not_shareable(handle_type shareable, std::string_view option, device_ref owner,
                           const std::string& why);

}  // namespace hipvmm::detail
