// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <functional>

#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::mr {

/// Returns whether to retry the failed request; `callback_arg` is the constructor's.
using failure_callback_t = std::function<bool(std::size_t bytes, void* callback_arg)>;

/// Calls a callback if the upstream fails with std::bad_alloc, and retries if the callback returns
/// true. Other exceptions propagate.
/// - The callback runs in the thread of the request, without a lock, and concurrently in several
///   threads. It may use this adaptor. Its exceptions propagate from allocate().
/// - The retries end when the callback returns false, or when 16 in a row have changed none of the
///   figures of an out_of_memory.
class failure_callback_resource_adaptor final : public resource_adaptor {
 public:
  /// Throws: std::invalid_argument when `callback` is empty.
  failure_callback_resource_adaptor(memory_resource* upstream, failure_callback_t callback,
                                    void* callback_arg = nullptr);

 private:
  void* do_allocate_any(const request& wanted) override;

  const failure_callback_t callback_;
  void* const callback_arg_;
};

}  // namespace hipvmm::mr
