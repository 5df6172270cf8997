// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "providers/host/tests/fixtures.hpp"

using namespace hipvmm::test;

namespace {

/// The `Value` that hipPointerGetAttribute writes of memory that it must know.
template <class Value>
Value attribute(hipPointer_attribute which, void* pointer) {
  Value value{};
  REQUIRE(hipPointerGetAttribute(&value, which, pointer) == hipSuccess);
  return value;
}

}  // namespace

TIDY_CASE("hipPointerGetAttribute: arguments outside the rules are refused") {
  const allocation device{64};
  const reservation unmapped{granule};
  std::uint64_t value = 0;
  int own = 0;
  constexpr auto type = HIP_POINTER_ATTRIBUTE_MEMORY_TYPE;
  const auto ask = [&value](int which, void* pointer) {
    return hipPointerGetAttribute(&value, not_an_enumerator<hipPointer_attribute>(which), pointer);
  };
  constexpr auto unsupported = hipErrorNotSupported;
  check_refusals({
      {"no result", hipPointerGetAttribute(nullptr, type, device.at())},
      {"null", ask(type, nullptr)},
      {"memory of the program", ask(type, &own)},
      {"reserved only", ask(type, unmapped.at())},
      {"no attribute", ask(0, device.at())},
      {"unknown attribute", ask(99, device.at())},
      {"context", ask(HIP_POINTER_ATTRIBUTE_CONTEXT, device.at()), unsupported},
      {"tokens", ask(HIP_POINTER_ATTRIBUTE_P2P_TOKENS, device.at()), unsupported},
      {"handle types", ask(HIP_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, device.at()), unsupported},
      {"pool", ask(HIP_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, device.at()), unsupported},
  });
}

TIDY_CASE("hipPointerGetAttribute: memory is described as by hipPointerGetAttributes") {
  const allocation device{4096, 1};
  const pinned host{64};
  const mapped chunk{granule};
  void* managed = nullptr;
  REQUIRE(hipMallocManaged(&managed, 64, hipMemAttachGlobal) == hipSuccess);
  struct row {
    const char* what;
    std::byte* start;
    std::size_t bytes;
    int device;
    bool on_host;
    bool is_managed;
  };
  for (const row& each : {row{"hipMalloc", device.at(), 4096, 1, false, false},
                          row{"pinned", host.at(), 64, 0, true, false},
                          row{"mapped", chunk.at(), granule, 0, false, false},
                          row{"managed", static_cast<std::byte*>(managed), 64, 0, true, true}}) {
    CAPTURE(each.what);
    void* const inside = each.start + 8;
    CHECK(attribute<unsigned>(HIP_POINTER_ATTRIBUTE_MEMORY_TYPE, inside) ==
          static_cast<unsigned>(each.on_host ? hipMemoryTypeHost : hipMemoryTypeDevice));
    CHECK(attribute<void*>(HIP_POINTER_ATTRIBUTE_DEVICE_POINTER, inside) == inside);
    CHECK(attribute<bool>(HIP_POINTER_ATTRIBUTE_IS_MANAGED, inside) == each.is_managed);
    CHECK(attribute<int>(HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL, inside) == each.device);
    CHECK(attribute<void*>(HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR, inside) == each.start);
    CHECK(attribute<std::size_t>(HIP_POINTER_ATTRIBUTE_RANGE_SIZE, inside) == each.bytes);
    CHECK(attribute<bool>(HIP_POINTER_ATTRIBUTE_MAPPED, inside));
    CHECK_FALSE(attribute<bool>(HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS, inside));
    CHECK(attribute<int>(HIP_POINTER_ATTRIBUTE_ACCESS_FLAGS, inside) == 0);
    void* at_host = &at_host;
    CHECK(hipPointerGetAttribute(&at_host, HIP_POINTER_ATTRIBUTE_HOST_POINTER, inside) ==
          (each.on_host ? hipSuccess : hipErrorInvalidValue));
    CHECK(at_host == (each.on_host ? inside : nullptr));
  }
  CHECK(attribute<std::uint32_t>(HIP_POINTER_ATTRIBUTE_BUFFER_ID, device.at()) ==
        attribute<std::uint32_t>(HIP_POINTER_ATTRIBUTE_BUFFER_ID, device.at(8)));
  CHECK(attribute<std::uint32_t>(HIP_POINTER_ATTRIBUTE_BUFFER_ID, device.at()) !=
        attribute<std::uint32_t>(HIP_POINTER_ATTRIBUTE_BUFFER_ID, host.at()));
  CHECK(hipFree(managed) == hipSuccess);
}

TEST_CASE("hipPointerGetAttribute: memory at freed addresses has another buffer id") {
  std::vector<std::uint32_t> ids;
  for (int round = 0; round < 20; ++round) {
    const allocation memory{4096};
    ids.push_back(attribute<std::uint32_t>(HIP_POINTER_ATTRIBUTE_BUFFER_ID, memory.at()));
  }
  std::sort(ids.begin(), ids.end());
  CHECK(std::adjacent_find(ids.begin(), ids.end()) == ids.end());
}
