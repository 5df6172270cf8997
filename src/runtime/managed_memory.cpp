// SPDX-License-Identifier: MIT
#include <hipvmm/runtime/managed_memory.hpp>

#include <hip/hip_runtime_api.h>

#include <array>
#include <stdexcept>
#include <string>
#include <tuple>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "core/hip_compat.hpp"
#include "runtime/pointer_memory.hpp"

namespace hipvmm {
namespace {

// The reason if HIP reports "not supported".
constexpr const char* no_xnack =
    "it moves no memory of the host's own here; use managed memory, or HSA_XNACK=1 where an AMD "
    "GPU can";
constexpr const char* amd_alone = "coherency is a property of AMD's memory alone";

[[noreturn]] void refuse_range(const char* call, const void* pointer, std::size_t bytes) {
  throw std::invalid_argument{std::string{call} + ": the range of " + format_bytes(bytes) + " at " +
                              detail::address_text(pointer) +
                              " does not lie in one allocation of managed memory; pass some of "
                              "mr::managed_resource or hipMallocManaged"};
}

// AMD's runtime takes memory of hipMalloc and does nothing with it.
void refuse_device_memory(const char* call, const void* pointer, std::size_t bytes) {
  if (detail::device_of_memory(pointer)) refuse_range(call, pointer, bytes);
}

void check_range(hipError_t result, const char* call, const void* pointer, std::size_t bytes,
                 const char* missing = no_xnack) {
  if (result == hipErrorInvalidValue || result == hipErrorNotSupported) detail::clear_last_error();
  const std::string range =
      "the range of " + format_bytes(bytes) + " at " + detail::address_text(pointer);
  if (result == hipErrorInvalidValue) refuse_range(call, pointer, bytes);
  if (result == hipErrorNotSupported)
    throw unsupported{std::string{call} + " does not support " + range + ": " + missing};
  detail::check(result, call);
}

int to_hip(memory_location where) {
  const std::optional<device_ref> device = where.device();
  if (!device) return hipCpuDeviceId;
  require_device(*device);
  return device->ordinal();
}

// HIP reports such a device only as invalid.
void require_concurrent_access(device_ref device, const char* call) {
  if (device.supports_concurrent_managed_access()) return;
  detail::clear_last_error();
  throw unsupported{std::string{call} + ": device " + std::to_string(device.ordinal()) +
                    " takes turns with the host in using managed memory "
                    "(hipDeviceAttributeConcurrentManagedAccess is 0), so memory moves only when "
                    "it is used; leave the call out, or name devices and streams for which "
                    "device_ref::supports_concurrent_managed_access() is true"};
}

void check_place(hipError_t result, const char* call, memory_location where) {
  if (result == hipErrorInvalidDevice && !where.is_host())
    require_concurrent_access(*where.device(), call);
}

std::optional<memory_location> to_location(int place) {
  if (place == hipCpuDeviceId) return memory_location::host();
  if (place < 0) return std::nullopt;  // hipInvalidDeviceId
  return device_ref{place};
}

std::vector<memory_location> to_locations(const std::vector<int>& places) {
  std::vector<memory_location> result;
  for (const int place : places)
    if (const auto location = to_location(place)) result.push_back(*location);
  return result;
}

std::vector<int> room_for_all_places() {
  return std::vector<int>(static_cast<std::size_t>(device_count()) + 1, hipInvalidDeviceId);
}

void ask(void* answer, std::size_t answer_bytes, hipMemRangeAttribute attribute,
         const void* pointer, std::size_t bytes) {
  check_range(hipMemRangeGetAttribute(answer, answer_bytes, attribute, pointer, bytes),
              "hipMemRangeGetAttribute", pointer, bytes,
              attribute == hipMemRangeAttributeCoherencyMode ? amd_alone : no_xnack);
}

int number(hipMemRangeAttribute attribute, const void* pointer, std::size_t bytes) {
  int answer = 0;
  ask(&answer, sizeof(answer), attribute, pointer, bytes);
  return answer;
}

void advise_range(const void* pointer, std::size_t bytes, hipMemoryAdvise advice,
                  memory_location where) {
  const int place = to_hip(where);
  const bool is_of_amd =
      advice == hipMemAdviseSetCoarseGrain || advice == hipMemAdviseUnsetCoarseGrain;
  refuse_device_memory("hipMemAdvise", pointer, bytes);
  const hipError_t result = hipMemAdvise(pointer, bytes, advice, hip_compat::advice_place{place});
  check_place(result, "hipMemAdvise", where);
  check_range(result, "hipMemAdvise", pointer, bytes, is_of_amd ? amd_alone : no_xnack);
}

hipMemoryAdvise to_hip(range_advice advice) {
  // In the order of range_advice.
  static constexpr std::array all{hipMemAdviseSetReadMostly, hipMemAdviseUnsetReadMostly,
                                  hipMemAdviseUnsetPreferredLocation, hipMemAdviseSetCoarseGrain,
                                  hipMemAdviseUnsetCoarseGrain};
  return all[static_cast<std::size_t>(advice)];
}

hipMemoryAdvise to_hip(location_advice advice) {
  static constexpr std::array all{hipMemAdviseSetPreferredLocation, hipMemAdviseSetAccessedBy,
                                  hipMemAdviseUnsetAccessedBy};
  return all[static_cast<std::size_t>(advice)];
}

unsigned to_hip(attachment to) {
  static constexpr std::array all{hipMemAttachGlobal, hipMemAttachHost, hipMemAttachSingle};
  return all[static_cast<std::size_t>(to)];
}

void attach(stream_ref stream, void* pointer, std::size_t bytes, attachment to) {
  if (to == attachment::single && hip_compat::is_legacy_stream(stream.get()))
    throw std::invalid_argument{
        "attach_async: attachment::single to the legacy default stream; attach to a stream of its "
        "own, or use attachment::global"};
  refuse_device_memory("hipStreamAttachMemAsync", pointer, bytes);
  check_range(hipStreamAttachMemAsync(stream.get(), pointer, bytes, to_hip(to)),
              "hipStreamAttachMemAsync", pointer, bytes);
}

}  // namespace

void prefetch_async(stream_ref stream, const void* pointer, std::size_t bytes,
                    memory_location where) {
  const int place = to_hip(where);
  if (bytes == 0) return;
  refuse_device_memory("hipMemPrefetchAsync", pointer, bytes);
  const hipError_t result = hipMemPrefetchAsync(pointer, bytes, place, stream.get());
  check_place(result, "hipMemPrefetchAsync", where);
  // Else the stream's device is meant, which HIP before 6 does not tell.
  if (result == hipErrorInvalidDevice) {
    for (int ordinal = 0; ordinal < device_count(); ++ordinal)
      require_concurrent_access(device_ref{ordinal}, "hipMemPrefetchAsync");
  }
  check_range(result, "hipMemPrefetchAsync", pointer, bytes);
}

// HIP ignores the place of these, but some need one that exists.
void advise(const void* pointer, std::size_t bytes, range_advice advice) {
  advise_range(pointer, bytes, to_hip(advice), memory_location::host());
}

void advise(const void* pointer, std::size_t bytes, location_advice advice, memory_location where) {
  advise_range(pointer, bytes, to_hip(advice), where);
}

range_attributes attributes_of_range(const void* pointer, std::size_t bytes) {
  int read_mostly = 0;
  int preferred = hipInvalidDeviceId;
  int last_prefetch = hipInvalidDeviceId;
  std::vector<int> places = room_for_all_places();
  // ROCm 6.4 takes the first size for the number of attributes; here both are 4.
  std::array<hipMemRangeAttribute, 4> wanted{
      hipMemRangeAttributeReadMostly, hipMemRangeAttributePreferredLocation,
      hipMemRangeAttributeLastPrefetchLocation, hipMemRangeAttributeAccessedBy};
  std::array<void*, 4> answers{&read_mostly, &preferred, &last_prefetch, places.data()};
  std::array<std::size_t, 4> sizes{sizeof(int), sizeof(int), sizeof(int),
                                   places.size() * sizeof(int)};
  static_assert(sizeof(int) == std::tuple_size<decltype(wanted)>::value);
  check_range(hipMemRangeGetAttributes(answers.data(), sizes.data(), wanted.data(), wanted.size(),
                                       pointer, bytes),
              "hipMemRangeGetAttributes", pointer, bytes);
  return {read_mostly != 0, to_location(preferred), to_location(last_prefetch),
          to_locations(places)};
}

bool is_read_mostly(const void* pointer, std::size_t bytes) {
  return number(hipMemRangeAttributeReadMostly, pointer, bytes) != 0;
}

std::optional<memory_location> preferred_location(const void* pointer, std::size_t bytes) {
  return to_location(number(hipMemRangeAttributePreferredLocation, pointer, bytes));
}

std::optional<memory_location> last_prefetch_location(const void* pointer, std::size_t bytes) {
  return to_location(number(hipMemRangeAttributeLastPrefetchLocation, pointer, bytes));
}

std::vector<memory_location> accessed_by(const void* pointer, std::size_t bytes) {
  std::vector<int> places = room_for_all_places();
  ask(places.data(), places.size() * sizeof(int), hipMemRangeAttributeAccessedBy, pointer, bytes);
  return to_locations(places);
}

memory_coherency coherency_of(const void* pointer, std::size_t bytes) {
  switch (number(hipMemRangeAttributeCoherencyMode, pointer, bytes)) {
    case hipMemRangeCoherencyModeFineGrain:
      return memory_coherency::fine_grained;
    case hipMemRangeCoherencyModeCoarseGrain:
      return memory_coherency::coarse_grained;
    default:
      return memory_coherency::mixed;
  }
}

void attach_async(stream_ref stream, void* pointer, attachment to) {
  // 0 bytes: HIP takes the whole allocation.
  attach(stream, pointer, 0, to);
}

void attach_async(stream_ref stream, void* pointer, std::size_t bytes, attachment to) {
  if (bytes == 0)
    throw std::invalid_argument{
        "attach_async: 0 bytes at " + detail::address_text(pointer) +
        "; pass the size of the memory, or none for a whole managed allocation"};
  attach(stream, pointer, bytes, to);
}

}  // namespace hipvmm
