// SPDX-License-Identifier: MIT
#include <hipvmm/container/device_vector.hpp>

#include "container/container_test.hpp"
#include "support/host/fault_sweep.hpp"

namespace hipvmm::test {
namespace {

// If a call that frees fails, memory is lost to the process; other tests fill the first device
// to its last granule.
constexpr device_ref sweeping_device{2};

TEST_CASE("device_vector: a construction that fails leaves nothing") {
  const scoped_device current{sweeping_device};
  fault_sweep{"device_vector"}.run([] {
    const stream stream;
    const device_vector<element12> made{1000, numbered<element12>(1), stream};
    stream.synchronize();
  });
}

TEST_CASE("device_vector: resize that fails keeps size and elements") {
  const scoped_device current{sweeping_device};
  struct subject {
    hipvmm::stream stream;
    device_vector<element12> vector{1000, numbered<element12>(1), stream};
  };
  const auto check = [](auto& made, std::size_t size) {
    REQUIRE(made.vector.size() == size);
    CHECK(made.vector.element(999, made.stream) == numbered<element12>(1));
    if (size > 1000) CHECK(made.vector.back_element(made.stream) == numbered<element12>(2));
  };
  fault_sweep{"device_vector::resize", after_failure::capacity}.run<subject>(
      [](auto& made) { made.vector.resize(3000, numbered<element12>(2), made.stream); },
      [&](auto& made) { check(made, 1000); }, [&](auto& made) { check(made, 3000); });
}

}  // namespace
}  // namespace hipvmm::test
