// SPDX-License-Identifier: MIT
#include <hipvmm/runtime/device.hpp>

#include "support/host/host_test.hpp"

namespace hipvmm::test {
namespace {

TEST_CASE("device_ref: every device has a UUID of its own") {
  std::set<device_uuid> seen;
  for (int ordinal = 0; ordinal < device_count(); ++ordinal) {
    const device_uuid uuid = device_ref{ordinal}.uuid();
    CHECK(to_string(uuid).starts_with("GPU-host"));
    seen.insert(uuid);
  }
  CHECK(seen.size() == 3);
}

HIPVMM_CHILD("device 1 has the UUID that was sent, and device 2 is hidden") {
  CHECK(device_with_uuid(std::getenv("TEST_FIRST")) == device_ref{1});
  CHECK(device_with_uuid(std::getenv("TEST_THIRD")) == device_ref{0});
  CHECK(device_with_uuid(std::getenv("TEST_HIDDEN")) == std::nullopt);
}

TEST_CASE("device_with_uuid: finds a device of another process, whatever its ordinal there") {
  const auto text = [](int ordinal) { return to_string(device_ref{ordinal}.uuid()); };
  check_child("device 1 has the UUID that was sent, and device 2 is hidden",
              {"HIP_VISIBLE_DEVICES=2,0", "TEST_FIRST=" + text(0), "TEST_HIDDEN=" + text(1),
               "TEST_THIRD=" + text(2)});
}

HIPVMM_CHILD("device 0 has another UUID than the one that was sent") {
  CHECK(to_string(device_ref{0}.uuid()) != std::getenv("TEST_FIRST"));
}

TEST_CASE("device_ref: devices that behave otherwise have another UUID") {
  for (const char* const setting :
       {"HIPVMM_HOST_FABRIC=1", "HIPVMM_HOST_PAGEABLE=1", "HIPVMM_HOST_CONCURRENT_MANAGED=0",
        "HIPVMM_HOST_MEMORY=512MiB", "HIPVMM_HOST_PEERS=none"}) {
    CAPTURE(setting);
    check_child("device 0 has another UUID than the one that was sent",
                {setting, "TEST_FIRST=" + to_string(device_ref{0}.uuid())});
  }
}

TEST_CASE(
    "device_ref: a runtime that knows no UUIDs is unsupported, and the text says what to do") {
  const planned_faults plan{"hipDeviceGetUuid error=hipErrorNotSupported"};
  CHECK_THROWS_WITH_AS(static_cast<void>(device_ref{1}.uuid()),
                       doctest::Contains("device 1 has no UUID: hipDeviceGetUuid reports none"),
                       unsupported);
  CHECK(hipPeekAtLastError() == hipSuccess);
  CHECK(device_with_uuid("GPU-host000000000000") == std::nullopt);
  CHECK(hipPeekAtLastError() == hipSuccess);
}

TEST_CASE("device_with_uuid: any HIP call that fails is thrown and leaves nothing") {
  const device_uuid last = device_ref{2}.uuid();
  fault_sweep{"uuid"}.run([] { static_cast<void>(device_ref{1}.uuid()); });
  fault_sweep{"device_with_uuid"}.run([&] { static_cast<void>(device_with_uuid(last)); });
}

}  // namespace
}  // namespace hipvmm::test
