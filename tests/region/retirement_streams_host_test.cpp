// SPDX-License-Identifier: MIT
// The cases of retirement_streams_test.cpp if the host provider overlooks streams that end, as
// AMD's runtime does, and its order checker reports memory that is taken away in use.
#include "region/region_test.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("retirement: unmaps nothing in use where waits overlook streams that end" *
          names_its_profiles) {
  for (const char* const name :
       {"a stream is destroyed by another thread", "a stream ends beside a wait for its device",
        "a captured stream is destroyed by another thread"}) {
    for (const char* const profile : {"rocm-6.2", "rocm-6.4", "rocm-7.1", "rocm-7.14"}) {
      CAPTURE(profile);
      check_child(name, {std::string{"HIPVMM_HOST_PROFILE="} + profile, "HIPVMM_HOST_CHECK=1"});
    }
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
