// SPDX-License-Identifier: MIT
#include "support/host/allocation_failure.hpp"

#include <cstdlib>
#include <new>

namespace {

thread_local std::uint64_t allocations_left = 0;  // the failing one is the last; 0 is no plan
thread_local bool has_struck = false;

void* allocate_or_null(std::size_t bytes) noexcept {
  if (allocations_left != 0 && --allocations_left == 0) {
    has_struck = true;
    return nullptr;
  }
  return std::malloc(bytes == 0 ? 1 : bytes);
}

void* allocate(std::size_t bytes) {
  void* const memory = allocate_or_null(bytes);
  if (memory == nullptr) throw std::bad_alloc{};
  return memory;
}

}  // namespace

// The program's own operators serve the libraries that it is linked with as well.
void* operator new(std::size_t bytes) { return allocate(bytes); }
void* operator new[](std::size_t bytes) { return allocate(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate_or_null(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate_or_null(bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace hipvmm::test {

allocation_failure::allocation_failure(std::uint64_t nth) noexcept {
  has_struck = false;
  allocations_left = nth;
}

allocation_failure::~allocation_failure() { allocations_left = 0; }

bool allocation_failure::struck() const noexcept { return has_struck; }

}  // namespace hipvmm::test
