// SPDX-License-Identifier: MIT
// The depth of a growth in calls: each hop is one more to read on the way to HIP.
#include <execinfo.h>

#include <fstream>

#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/vmm/memory_registrar.hpp>
#include "region/region_test.hpp"

namespace hipvmm::test {
namespace {

[[gnu::noinline]] int depth() {
  std::array<void*, 256> frames{};
  return ::backtrace(frames.data(), static_cast<int>(frames.size()));
}

/// Takes the depth of the call that adds memory, which is as deep as that of hipMemMap.
class depth_registrar final : public memory_registrar {
 public:
  void add(const mapped_memory&) override { added = depth(); }
  void remove(const mapped_memory&) noexcept override {}

  int added = 0;
};

int recorded() {
  std::ifstream list{HIPVMM_DEBT};
  for (std::string kind; list >> kind;)
    if (int count = 0; kind == "calls_of_a_growth" && list >> count) return count;
  return 0;
}

TEST_SUITE("needs virtual memory") {
  TEST_CASE("growable_device_vector: a growth makes no more calls one in another than recorded") {
    const auto registrar = std::make_shared<depth_registrar>();
    growable_device_vector<int> numbers{first_device, {.chunks = {.registrar = registrar}}};
    const int before = depth();
    numbers.reserve(1);
    REQUIRE(registrar->added > before);
    // Optimised calls may be fewer. A lower number belongs into the list.
    CHECK(registrar->added - before <= recorded());
  }
}

}  // namespace
}  // namespace hipvmm::test
