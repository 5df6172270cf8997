// SPDX-License-Identifier: MIT
// Each child loads, or does not, a library of these tests in place of ROCTx.
#include <dlfcn.h>

#include "mr/mr_test.hpp"

namespace hipvmm {
namespace {

constexpr const char* soname = "libroctx64.so.4";

void* loaded_library() { return ::dlopen(soname, RTLD_NOW | RTLD_NOLOAD); }

void grow_and_trim() {
  mr::vmm_pool_resource pool{test::first_device};
  const stream stream{test::first_device};
  pool.deallocate(stream, pool.allocate(stream, 3 * MiB), 3 * MiB);
  stream.synchronize();
  static_cast<void>(pool.trim_to(0));
}

}  // namespace

HIPVMM_TEST_CASE_IN("profiler_range: with HIPVMM_RANGES=1 slow paths, growth and trims are ranges",
                    {"HIPVMM_RANGES=1", "LD_LIBRARY_PATH=" FAKE_ROCTX_FOLDER}) {
  grow_and_trim();
  void* const library = loaded_library();
  REQUIRE(library != nullptr);
  const auto depth = reinterpret_cast<int (*)()>(::dlsym(library, "fake_roctx_depth"));
  const auto names = reinterpret_cast<const char* (*)()>(::dlsym(library, "fake_roctx_names"));
  REQUIRE((depth != nullptr && names != nullptr));
  CHECK(depth() == 0);
  const std::string seen = names();
  CAPTURE(seen);
  CHECK(seen.find("hipvmm pool: slow path\nhipvmm pool: growth\n") != std::string::npos);
  CHECK(seen.find("hipvmm pool: trim\n") != std::string::npos);
}

HIPVMM_TEST_CASE_IN("profiler_range: without HIPVMM_RANGES=1 no library is loaded",
                    {"HIPVMM_RANGES=0", "LD_LIBRARY_PATH=" FAKE_ROCTX_FOLDER}) {
  grow_and_trim();
  CHECK(loaded_library() == nullptr);
}

HIPVMM_TEST_CASE_IN("profiler_range: without a library there are no ranges, and no failure",
                    {"HIPVMM_RANGES=1"}) {
  grow_and_trim();
  CHECK(loaded_library() == nullptr);
}

}  // namespace hipvmm
