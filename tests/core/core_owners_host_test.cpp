// SPDX-License-Identifier: MIT
#include "contract/owner_contract.hpp"

#include <hipvmm/runtime/device_allocation.hpp>
#include <hipvmm/runtime/event.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace hipvmm::test {
namespace {

struct stream_owner {
  using owner_type = stream;
  static constexpr const char* destroy_call = "hipStreamDestroy";

  static stream make() { return stream{}; }
  static stream make_empty() { return moved_from(make()); }
  static bool is_empty(const stream& owner) { return owner.empty() && owner.get() == nullptr; }
  static ihipStream_t* identity(const stream& owner) { return owner.get(); }
  static std::uint64_t live() { return live_objects().streams; }
  static std::uint64_t freed() { return hipvmm_host_call_count(destroy_call); }
  static void give_back(ihipStream_t* value) { CHECK(hipStreamDestroy(value) == hipSuccess); }
};

struct event_owner {
  using owner_type = event;
  static constexpr const char* destroy_call = "hipEventDestroy";

  static event make() { return event{}; }
  static event make_empty() { return moved_from(make()); }
  static bool is_empty(const event& owner) { return owner.empty() && owner.get() == nullptr; }
  static ihipEvent_t* identity(const event& owner) { return owner.get(); }
  static std::uint64_t live() { return live_objects().events; }
  static std::uint64_t freed() { return hipvmm_host_call_count(destroy_call); }
  static void give_back(ihipEvent_t* value) { CHECK(hipEventDestroy(value) == hipSuccess); }
};

struct allocation_owner {
  using owner_type = device_allocation;
  static constexpr const char* destroy_call = "hipFree";

  static device_allocation make() { return {device_ref{0}, 4096}; }
  static device_allocation make_empty() { return {}; }
  static bool is_empty(const device_allocation& owner) {
    return owner.empty() && owner.get() == nullptr && owner.bytes() == 0;
  }
  static void* identity(const device_allocation& owner) { return owner.get(); }
  static std::uint64_t live() { return live_objects().allocations; }
  static std::uint64_t freed() { return hipvmm_host_call_count(destroy_call); }
  static void give_back(void* pointer) { CHECK(hipFree(pointer) == hipSuccess); }
};

HIPVMM_OWNER_CONTRACT(stream_owner, event_owner, allocation_owner);
HIPVMM_OWNER_RELEASE_CONTRACT(stream_owner, event_owner, allocation_owner);
HIPVMM_OWNER_FAILURE_CONTRACT(stream_owner, event_owner, allocation_owner);

}  // namespace
}  // namespace hipvmm::test
