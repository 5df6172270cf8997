// SPDX-License-Identifier: MIT
// What programs of hipMM write beside what its README shows: its macros, and what its
// streams and exceptions are used for.
#include <hip/hip_runtime_api.h>

#include <hipvmm/adaptor/hipmm.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace hipvmm::test {
namespace {

namespace rmm = hipvmm::hipmm;

/// Throws as programs' own resources do.
template <typename Exception>
class refusing_resource final : public rmm::mr::device_memory_resource {
  void* do_allocate(std::size_t, rmm::cuda_stream_view) override { throw make(); }
  void do_deallocate(void*, std::size_t, rmm::cuda_stream_view) override {}
  static Exception make() {
    if constexpr (std::is_constructible_v<Exception, std::string>)
      return Exception{"the quota of this user is spent"};
    else
      return {};
  }
};

TEST_CASE("hipmm: streams are compared whether they are owned or viewed") {
  const rmm::cuda_stream a;
  const rmm::cuda_stream b;
  CHECK(a == a);
  CHECK(a != b);
  CHECK(a == a.view());
  CHECK(b.view() != a);
}

TEST_CASE("hipmm: a program's resource says in its own words that memory ran out") {
  refusing_resource<rmm::out_of_memory> resource;
  try {
    static_cast<void>(resource.allocate(100));
    FAIL("nothing was thrown");
  } catch (const rmm::out_of_memory& error) {
    CHECK(std::string{error.what()} == "the quota of this user is spent");
    CHECK(error.resource() == exhausted::limit);
    CHECK(error.device() == -1);
  }
}

TEST_CASE("hipmm: RMM_CUDA_TRY throws what it is told to, and HIP forgets the failure") {
  CHECK_THROWS_AS(RMM_CUDA_TRY(hipSetDevice(99)), rmm::cuda_error);
  CHECK(hipGetLastError() == hipSuccess);
  CHECK_THROWS_AS(RMM_CUDA_TRY(hipSetDevice(99), std::runtime_error), std::runtime_error);
  CHECK_NOTHROW(RMM_CUDA_TRY(hipSetDevice(0), std::runtime_error));
}

TEST_CASE("hipmm: RMM_CUDA_TRY_ALLOC tells lack of memory from other failures") {
  void* pointer = nullptr;
  try {
    RMM_CUDA_TRY_ALLOC(hipMalloc(&pointer, std::size_t{1} << 50), std::size_t{1} << 50);
    FAIL("nothing was thrown");
  } catch (const rmm::out_of_memory& error) {
    CHECK(error.bytes_requested() == std::size_t{1} << 50);
  }
  CHECK_THROWS_AS(RMM_CUDA_TRY_ALLOC(hipMalloc(nullptr, 100)), rmm::cuda_error);
  RMM_CUDA_TRY_ALLOC(hipMalloc(&pointer, 100));
  RMM_ASSERT_CUDA_SUCCESS(hipFree(pointer));
}

TEST_CASE("hipmm: RMM_EXPECTS and RMM_FAIL throw with the reason, by default a logic_error") {
  CHECK_NOTHROW(RMM_EXPECTS(true, "of no use"));
  CHECK_THROWS_WITH_AS(RMM_EXPECTS(1 > 2, "one is less"), doctest::Contains("one is less"),
                       rmm::logic_error);
  CHECK_THROWS_AS(RMM_EXPECTS(false, "why", std::runtime_error), std::runtime_error);
  CHECK_THROWS_WITH_AS(RMM_FAIL("no way"), doctest::Contains("no way"), rmm::logic_error);
  CHECK_THROWS_AS(RMM_FAIL("no way", rmm::out_of_memory), rmm::out_of_memory);
}

}  // namespace
}  // namespace hipvmm::test
