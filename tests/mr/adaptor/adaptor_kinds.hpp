// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <sstream>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/mr/adaptor/aligned_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/failure_callback_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/limiting_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/logging_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/owning_wrapper.hpp>
#include <hipvmm/mr/adaptor/prefetch_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/statistics_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/thread_safe_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/tracking_resource_adaptor.hpp>
#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::test {

using owned_resource = std::unique_ptr<mr::memory_resource>;

/// A kind of adaptor, with arguments that do not stand in the way of the contract.
struct adaptor_kind {
  const char* name;
  owned_resource (*over)(mr::memory_resource* upstream);
  bool is_for_managed_memory = false;
};

struct log_in_memory {
  std::ostringstream rows;
  mr::logging_resource_adaptor log;
  explicit log_in_memory(mr::memory_resource* upstream) : log{upstream, rows} {}
};

/// Logs to memory. The log is a base, so as to be there before the adaptor that stands on it.
class logging_kept final : log_in_memory, public mr::resource_adaptor {
 public:
  explicit logging_kept(mr::memory_resource* upstream)
      : log_in_memory{upstream}, mr::resource_adaptor{"logging_kept", &log} {}
};

// A new adaptor is a line here, but for guard_resource_adaptor, which waits although others do not.
inline const std::array adaptor_kinds{
    adaptor_kind{"aligned",
                 [](mr::memory_resource* upstream) -> owned_resource {
                   return std::make_unique<mr::aligned_resource_adaptor>(upstream, 4 * KiB, 1000);
                 }},
    adaptor_kind{"failure_callback",
                 [](mr::memory_resource* upstream) -> owned_resource {
                   return std::make_unique<mr::failure_callback_resource_adaptor>(
                       upstream, [](std::size_t, void*) { return false; });
                 }},
    adaptor_kind{"limiting",
                 [](mr::memory_resource* upstream) -> owned_resource {
                   return std::make_unique<mr::limiting_resource_adaptor>(upstream, 64 * MiB);
                 }},
    adaptor_kind{"logging",
                 [](mr::memory_resource* upstream) -> owned_resource {
                   return std::make_unique<logging_kept>(upstream);
                 }},
    adaptor_kind{"owning_wrapper",
                 [](mr::memory_resource* upstream) -> owned_resource {
                   // Owns nothing here.
                   std::shared_ptr<mr::memory_resource> shared{std::shared_ptr<void>{}, upstream};
                   using wrapper =
                       mr::owning_wrapper<mr::thread_safe_resource_adaptor, mr::memory_resource>;
                   return std::make_unique<wrapper>(std::make_tuple(std::move(shared)));
                 }},
    adaptor_kind{"prefetch",
                 [](mr::memory_resource* upstream) -> owned_resource {
                   return std::make_unique<mr::prefetch_resource_adaptor>(upstream);
                 },
                 true},
    adaptor_kind{"statistics",
                 [](mr::memory_resource* upstream) -> owned_resource {
                   return std::make_unique<mr::statistics_resource_adaptor>(upstream);
                 }},
    adaptor_kind{"thread_safe",
                 [](mr::memory_resource* upstream) -> owned_resource {
                   return std::make_unique<mr::thread_safe_resource_adaptor>(upstream);
                 }},
    adaptor_kind{"tracking",
                 [](mr::memory_resource* upstream) -> owned_resource {
                   return std::make_unique<mr::tracking_resource_adaptor>(upstream, true);
                 }},
};

}  // namespace hipvmm::test
