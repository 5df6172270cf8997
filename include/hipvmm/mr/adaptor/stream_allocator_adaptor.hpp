// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>

#include <hipvmm/runtime/stream.hpp>

namespace hipvmm::mr {

/// Makes a standard allocator from an allocator that takes streams, such as polymorphic_allocator:
/// forwards each call with one stream, which must outlive the memory. A container that accesses its
/// elements on the host needs a resource with host-accessible memory.
template <typename Allocator>
class stream_allocator_adaptor {
 public:
  using value_type = typename std::allocator_traits<Allocator>::value_type;

  template <typename U>
  struct rebind {
    using other = stream_allocator_adaptor<
        typename std::allocator_traits<Allocator>::template rebind_alloc<U>>;
  };

  stream_allocator_adaptor(const Allocator& allocator, stream_ref stream)
      : allocator_{allocator}, stream_{stream} {}
  template <typename Other>
  // NOLINTNEXTLINE(google-explicit-constructor): required by std::allocator_traits
  stream_allocator_adaptor(const stream_allocator_adaptor<Other>& other)
      : allocator_{other.underlying_allocator()}, stream_{other.stream()} {}

  [[nodiscard]] value_type* allocate(std::size_t count) {
    return allocator_.allocate(count, stream_);
  }
  void deallocate(value_type* pointer, std::size_t count) {
    allocator_.deallocate(pointer, count, stream_);
  }

  [[nodiscard]] stream_ref stream() const noexcept { return stream_; }
  [[nodiscard]] Allocator underlying_allocator() const noexcept { return allocator_; }

 private:
  Allocator allocator_;
  stream_ref stream_;
};

/// Compares the streams, unlike hipMM's, because only their order protects the memory.
template <typename A, typename B>
bool operator==(const stream_allocator_adaptor<A>& a, const stream_allocator_adaptor<B>& b) {
  return a.stream() == b.stream() && a.underlying_allocator() == b.underlying_allocator();
}
template <typename A, typename B>
bool operator!=(const stream_allocator_adaptor<A>& a, const stream_allocator_adaptor<B>& b) {
  return !(a == b);
}

}  // namespace hipvmm::mr
