// SPDX-License-Identifier: MIT
#include "contract/owner_contract.hpp"

#include <hipvmm/container/device_buffer.hpp>
#include "container/container_test.hpp"
#include "support/region/address_frees.hpp"

namespace hipvmm::test {
namespace {

/// Storage that grows is one reservation or, on hipMalloc, one allocation.
struct counted_storage {
  static std::uint64_t live() {
    drain_retired_memory();
    return live_objects().reservations + live_objects().allocations;
  }
  static std::uint64_t freed() {
    drain_retired_memory();
    return on_fallback() ? hipvmm_host_call_count("hipFree") : address_frees();
  }
};

struct storage_owner : counted_storage {
  using owner_type = growable_storage;

  static growable_storage make() {
    growable_storage made{first_device, {}};
    made.grow(1);
    return made;
  }
  static growable_storage make_empty() { return moved_from(make()); }
  static bool is_empty(const growable_storage& owner) {
    return owner.data() == nullptr && owner.capacity_bytes() == 0 && owner.max_bytes() == 0;
  }
  static void* identity(const growable_storage& owner) { return owner.data(); }
};

struct vector_owner : counted_storage {
  using owner_type = growable_device_vector<int>;

  static owner_type make() {
    owner_type made;
    made.resize_uninitialized(100);
    return made;
  }
  static owner_type make_empty() { return moved_from(make()); }
  static bool is_empty(const owner_type& owner) {
    return owner.data() == nullptr && owner.empty() && owner.capacity() == 0;
  }
  static auto identity(const owner_type& owner) {
    return std::tuple{owner.data(), owner.size(), owner.capacity()};
  }
};

struct buffer_owner {
  using owner_type = device_buffer;

  hipvmm::stream stream;
  mr::hip_resource resource{first_device};

  owner_type make() { return owner_type{100, stream, &resource}; }
  static owner_type make_empty() {
    buffer_owner traits;
    return moved_from(traits.make());
  }
  static bool is_empty(const owner_type& owner) {
    return owner.data() == nullptr && owner.is_empty() && owner.capacity() == 0;
  }
  static const void* identity(const owner_type& owner) { return owner.data(); }
  static std::uint64_t live() { return live_objects().allocations; }
  static std::uint64_t freed() { return hipvmm_host_call_count("hipFree"); }
};

HIPVMM_OWNER_CONTRACT(storage_owner, vector_owner, buffer_owner);

}  // namespace
}  // namespace hipvmm::test
