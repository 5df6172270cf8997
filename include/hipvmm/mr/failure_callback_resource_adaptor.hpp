// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <functional>

#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::mr {

/// Gets the bytes of a request that failed, and the argument that was given with the callback.
/// Returns whether the request is to be tried again; else it fails as it did.
using failure_callback_t = std::function<bool(std::size_t bytes, void* callback_arg)>;

/// Asks the program what to do when its upstream fails with std::bad_alloc, which out_of_memory is,
/// whatever ran out; other exceptions go through. The callback runs in the thread of the request,
/// without a lock of this adaptor, in several threads at the same time: it may allocate from and
/// give back to this adaptor. What it throws comes out of allocate(). It must answer false some
/// time, for there is no other end of trying.
class failure_callback_resource_adaptor final : public resource_adaptor {
 public:
  /// Throws: std::invalid_argument when `upstream` is nullptr or `callback` empty.
  failure_callback_resource_adaptor(memory_resource* upstream, failure_callback_t callback,
                                    void* callback_arg = nullptr);

 private:
  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) override;
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override;

  /// Throws on what is being handled unless the callback wants another try.
  void ask_about(std::size_t bytes) const;

  const failure_callback_t callback_;
  void* const callback_arg_;
};

}  // namespace hipvmm::mr
