// SPDX-License-Identifier: MIT
#include "runtime/host_function.hpp"

#include "support/host/host_provider.hpp"
#include "support/test.hpp"

namespace hipvmm::test {

TEST_CASE("outlast_handlers: HIP's first stream, which takes long to make, is not in the limit") {
  using namespace std::chrono_literals;
  REQUIRE(hipvmm_host_set_faults("hipStreamCreateWithFlags nth=1 delay=220ms") == nullptr);
  CHECK(detail::outlast_handlers(device_ref{0}, 200ms));
  hipvmm_host_set_faults(nullptr);
}

}  // namespace hipvmm::test
