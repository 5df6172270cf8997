// SPDX-License-Identifier: MIT
// Each function of "HIP Runtime API Reference: Managed Memory", as that page describes it.
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include "managed_fixture.hpp"

using namespace hipvmm::test;

WORK_CASE("managed reference: hipMallocManaged gives host and device one pointer") {
  for (const unsigned flags : {hipMemAttachGlobal, hipMemAttachHost}) {
    const managed both{page, flags};
    *both.at(1) = std::byte{1};
    CHECK(hipMemsetAsync(both.at(), 2, 1, work.get()) == hipSuccess);
    CHECK(work.wait() == hipSuccess);
    CHECK(*both.at(0) == std::byte{2});
    CHECK(*both.at(1) == std::byte{1});
  }
}

TIDY_CASE("managed reference: hipMallocManaged attaches globally unless told otherwise") {
  void* pointer = nullptr;
  REQUIRE(hipMallocManaged(&pointer, page) == hipSuccess);
  hipPointerAttribute_t attributes{};
  CHECK(hipPointerGetAttributes(&attributes, pointer) == hipSuccess);
  CHECK(attributes.allocationFlags == hipMemAttachGlobal);
  CHECK(hipFree(pointer) == hipSuccess);
}

TIDY_CASE("managed reference: hipStreamAttachMemAsync takes the whole allocation by default") {
  const managed both{2 * page};
  const stream work;
  CHECK(hipStreamAttachMemAsync(work.get(), both.at()) == hipSuccess);
  CHECK(work.wait() == hipSuccess);
}
