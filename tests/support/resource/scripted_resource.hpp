// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <utility>

#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::test {

/// A resource that runs its script before each allocation, such as to throw; else it
/// passes all on.
class scripted_resource final : public mr::resource_adaptor {
 public:
  /// Gets the number of the allocation, the first is 1, and its bytes.
  using script = std::function<void(std::size_t nth, std::size_t bytes)>;

  scripted_resource(mr::memory_resource* upstream, script before)
      : resource_adaptor{"scripted_resource", upstream}, before_{std::move(before)} {}

  [[nodiscard]] std::size_t allocations() const noexcept { return allocations_; }

 private:
  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) override {
    before_(++allocations_, bytes);
    return resource_adaptor::do_allocate(stream, bytes, alignment);
  }
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override {
    before_(++allocations_, bytes);
    return resource_adaptor::do_allocate_sync(bytes, alignment);
  }

  script before_;
  std::atomic<std::size_t> allocations_{0};
};

}  // namespace hipvmm::test
