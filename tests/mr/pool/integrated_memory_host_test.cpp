// SPDX-License-Identifier: MIT
// Devices that share the host's memory: ROCm may report as their total less than the memory that is
// free (ROCm/hip#3892). Each case runs in a process with such devices.
#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include "support/test.hpp"

namespace hipvmm::mr {
namespace {

using test::first_device;

/// The pool's refusal of a request of so many bytes.
std::string refusal_of(vmm_pool_resource& pool, std::size_t bytes) {
  return test::text_thrown_by<out_of_memory>(
      [&] { pool.deallocate_sync(pool.allocate_sync(bytes), bytes); });
}

}  // namespace

HIPVMM_TEST_CASE_IN("vmm_pool_resource: on an APU it may hold all that is free by default",
                    {"HIPVMM_HOST_MEMORY=1GiB", "HIPVMM_HOST_REPORTED_MEMORY=64MiB"}) {
  REQUIRE(first_device.free_memory() > first_device.total_memory());
  vmm_pool_resource pool{first_device};
  CHECK(pool.maximum_bytes() == GiB);
  CHECK(refusal_of(pool, 512 * MiB) == "");
  CHECK(pool.report().find("limit 1.00 GiB") != std::string::npos);
}

HIPVMM_TEST_CASE_IN("vmm_pool_resource: on an APU maximum_bytes may exceed the reported total",
                    {"HIPVMM_HOST_MEMORY=1GiB", "HIPVMM_HOST_REPORTED_MEMORY=64MiB",
                     "HIP_HIDDEN_FREE_MEM=1000"}) {
  vmm_pool_resource pool{first_device, {.maximum_bytes = 256 * MiB}};
  CHECK(pool.maximum_bytes() == 256 * MiB);
  CHECK(refusal_of(pool, 200 * MiB) == "");
}

HIPVMM_TEST_CASE_IN("vmm_pool_resource: on an APU a refusal advises by what is free",
                    {"HIPVMM_HOST_MEMORY=1GiB", "HIPVMM_HOST_REPORTED_MEMORY=64MiB"}) {
  vmm_pool_resource pool{first_device, {.maximum_bytes = 128 * MiB}};
  const std::string raise = refusal_of(pool, 512 * MiB);
  CAPTURE(raise);
  CHECK(raise.find("raise maximum_bytes") != std::string::npos);
  CHECK(raise.find("larger than the device's memory") == std::string::npos);
  const std::string less = refusal_of(pool, 2 * GiB);
  CAPTURE(less);
  CHECK(less.find("larger than the device's memory of 1.00 GiB") != std::string::npos);
}

HIPVMM_TEST_CASE_IN("growable_device_vector: on an APU it reserves for all that is free",
                    {"HIPVMM_HOST_MEMORY=1GiB", "HIPVMM_HOST_REPORTED_MEMORY=64MiB"}) {
  growable_device_vector<char> bytes{first_device};
  CHECK(bytes.max_size() >= GiB);
  bytes.reserve(512 * MiB);
  CHECK(bytes.statistics().base_moves == 0);
}

HIPVMM_TEST_CASE_IN("vmm_pool_resource: less free than the total changes nothing",
                    {"HIPVMM_HOST_MEMORY=1GiB", "HIPVMM_HOST_REPORTED_MEMORY=2GiB"}) {
  const pool_options options{.maximum_bytes = 4 * GiB};
  CHECK(vmm_pool_resource{first_device}.maximum_bytes() == 2 * GiB);
  vmm_pool_resource pool{first_device, options};
  const std::string refused = refusal_of(pool, 1536 * MiB);
  CAPTURE(refused);
  CHECK(refused.find("The device has not enough free memory") != std::string::npos);
}

}  // namespace hipvmm::mr
