// SPDX-License-Identifier: MIT
// Failures of ingest that settings of the host provider cause.
#include "samples/ingest_program.hpp"
#include "support/test.hpp"

using hipvmm::MiB;
using namespace hipvmm::test;

TEST_CASE("ingest: a full device is told with what was asked and what was held") {
  surroundings given;
  given.environment = {"HIPVMM_HOST_MEMORY=16MiB"};
  given.standard_input = arbitrary_bytes(32 * MiB);
  for (const char* method : {"--method=vmm", "--method=copy"})
    check_refused({method, "--block=1MiB"}, {"out of device memory", "device 0", "MiB"}, 1, given);
}

TEST_CASE("ingest: a machine without a device is told how to go on") {
  surroundings given;
  given.environment = {"HIPVMM_HOST_DEVICES=0"};
  for (const char* method : {"--method=vmm", "--method=copy"})
    check_refused({method}, {"no HIP device"}, 1, given);
}

TEST_CASE("ingest: without virtual memory management it works and says that the base moved" *
          names_its_profiles) {
  surroundings given;
  given.environment = {"HIPVMM_HOST_PROFILE=rocm-5.7"};
  given.standard_input = arbitrary_bytes(9 * MiB);
  const outcome ended = ingest({"--block=1MiB", "--check"}, given);
  CHECK(ended.status == 0);
  CHECK(ended.out.find("base moved") != std::string::npos);
  CHECK(ended.out.find("verified") != std::string::npos);
}
