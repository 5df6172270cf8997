// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include <hipvmm/runtime/device.hpp>

// The budget that HIPVMM_CONF names, "budget=infer:40GiB", for programs that know of none.
namespace hipvmm::c {

struct named_limit {
  std::string name;
  std::size_t bytes;
};

/// Takes part in `named` on `device`, from the first call until the process ends; does nothing
/// where none is named. Before the first memory of the device that is to count. Thread-safe, as all
/// here. Throws: as the constructor of memory_budget.
void join_configured_budget(device_ref device, const std::optional<named_limit>& named);

/// Bytes that it has left on `device`; none where the process does not take part by that.
[[nodiscard]] std::optional<std::size_t> left_of_configured_budget(device_ref device);

/// While one lives, the pool releases idle memory where other processes need it.
class trimmed_pool {
 public:
  explicit trimmed_pool(mr::vmm_pool_resource& pool);
  ~trimmed_pool();
  trimmed_pool(const trimmed_pool&) = delete;
  trimmed_pool& operator=(const trimmed_pool&) = delete;

 private:
  mr::vmm_pool_resource* pool_;
};

}  // namespace hipvmm::c
