// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <functional>

#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::mr {

/// Callback for a failed request: gets its bytes, and the argument registered with the callback.
/// Returns whether to try the request again; otherwise it fails as it did.
using failure_callback_t = std::function<bool(std::size_t bytes, void* callback_arg)>;

/// Calls a callback when the upstream fails with std::bad_alloc, and retries if the callback
/// returns true. out_of_memory is a std::bad_alloc, whatever ran out. Other exceptions
/// propagate.
/// - The callback runs in the thread of the request, without a lock of this adaptor, and
///   concurrently in several threads. It may allocate from and deallocate to this adaptor.
/// - Exceptions of the callback propagate from allocate().
/// - The callback must return false eventually: nothing else ends the retries.
class failure_callback_resource_adaptor final : public resource_adaptor {
 public:
  /// Throws: std::invalid_argument when `upstream` is nullptr or `callback` empty.
  failure_callback_resource_adaptor(memory_resource* upstream, failure_callback_t callback,
                                    void* callback_arg = nullptr);

 private:
  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) override;
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override;

  /// Calls the callback; rethrows the exception being handled unless it requests another try.
  void ask_about(std::size_t bytes) const;

  const failure_callback_t callback_;
  void* const callback_arg_;
};

}  // namespace hipvmm::mr
