// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include "kernels/kernels.hpp"
#include "support/device_memory.hpp"
#include "support/devices.hpp"
#include "support/process/child_process.hpp"
#include "support/region/mapped_chunk.hpp"

using namespace hipvmm;
using namespace hipvmm::test;

namespace {

constexpr const char* reads = "a kernel reads what may only be read";
constexpr const char* writes = "a kernel writes what may only be read";

/// A chunk whose first element is 5, which its device may only read from now on. It is left to the
/// end of the process: after a fault nothing can be released.
unsigned* read_only_element() {
  auto& memory = *new mapped_chunk{physical_chunk{first_device, granule()}};
  auto* const element = static_cast<unsigned*>(memory.map.get());
  REQUIRE(hipMemsetD32(element, 5, 1) == hipSuccess);
  set_access(memory.map.get(), memory.map.bytes(), {first_device, access_right::read});
  return element;
}

}  // namespace

TEST_CASE("access: a kernel may read but not write what is read only") {
  for (const char* name : {reads, writes}) {
    check_child(name);
  }
}

HIPVMM_CHILD("a kernel reads what may only be read") {
  const unsigned* const element = read_only_element();
  const pinned_memory word{sizeof(unsigned)};
  auto* const result = reinterpret_cast<unsigned*>(word.get());
  REQUIRE(launch_read(element, result, nullptr) == 0);
  CHECK(hipDeviceSynchronize() == hipSuccess);
  CHECK(*result == 5);
}

HIPVMM_CHILD("a kernel writes what may only be read") {
  unsigned* const element = read_only_element();
  REQUIRE(launch_write(element, 6, nullptr) == 0);
  CHECK(hipDeviceSynchronize() == hipErrorIllegalAddress);
}
