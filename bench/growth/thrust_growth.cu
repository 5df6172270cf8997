// SPDX-License-Identifier: MIT
#include <thrust/device_malloc_allocator.h>
#include <thrust/device_vector.h>

#include <utility>

#include "kernels.hpp"

namespace bench {
namespace {

// Growing thrust vectors have one allocator type and no way to give it a state: one hook for all.
peak_hook before_freeing;

/// thrust's own allocator, which tells before the old memory goes that both are there.
template <typename T>
struct watched_allocator : thrust::device_malloc_allocator<T> {
  using base = thrust::device_malloc_allocator<T>;
  template <typename U>
  struct rebind {
    using other = watched_allocator<U>;
  };
  void deallocate(typename base::pointer memory, typename base::size_type count) {
    if (before_freeing) before_freeing();
    base::deallocate(memory, count);
  }
};

class thrust_vector final : public grower {
 public:
  explicit thrust_vector(peak_hook at_peak) { before_freeing = std::move(at_peak); }
  ~thrust_vector() override { before_freeing = nullptr; }
  void grow(std::size_t bytes) override { elements_.resize(bytes / sizeof(unsigned)); }
  void* data() override { return thrust::raw_pointer_cast(elements_.data()); }

 private:
  thrust::device_vector<unsigned, watched_allocator<unsigned>> elements_;
};

}  // namespace

std::unique_ptr<grower> make_thrust_vector(peak_hook at_peak) {
  return std::make_unique<thrust_vector>(std::move(at_peak));
}

}  // namespace bench
