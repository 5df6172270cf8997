// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <vector>

#include <hipvmm/core/error.hpp>
#include <hipvmm/vmm/region.hpp>
#include <hipvmm/vmm/shareable_handle.hpp>
#include "support/devices.hpp"
#include "support/error_recorder.hpp"
#include "support/host_provider.hpp"

namespace hipvmm::test {
namespace {

/// Leaves this process no descriptor to open while it lives.
class no_descriptors_left {
 public:
  no_descriptors_left() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::close(next);
    rlimit none = before_;
    none.rlim_cur = static_cast<rlim_t>(next);
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
    REQUIRE(::open("/dev/null", O_RDONLY | O_CLOEXEC) == -1);
  }
  ~no_descriptors_left() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  no_descriptors_left(const no_descriptors_left&) = delete;
  no_descriptors_left& operator=(const no_descriptors_left&) = delete;

 private:
  rlimit before_{};
};

template <typename Operation>
void check_descriptors_are_named(Operation operation) {
  const hipvmm_host_counters before = live_objects();
  try {
    operation();
    FAIL("the operation needed no descriptor");
  } catch (const out_of_memory& error) {
    CHECK(error.resource() == exhausted::descriptors);
    CHECK(std::string{error.what()}.find("ulimit -n") != std::string::npos);
  }
  CHECK(live_objects() == before);
}

TEST_CASE("physical_chunk: a lack of descriptors throws out_of_memory that says so") {
  // The first use of the provider opens what it keeps open.
  const physical_chunk warm_up{first_device, granule()};
  const no_descriptors_left limit;
  check_descriptors_are_named([] {
    const physical_chunk chunk{first_device, granule(), handle_type::posix_fd};
  });
}

TEST_CASE("physical_chunk: an ordinary one costs no descriptor") {
  const physical_chunk warm_up{first_device, granule()};
  const no_descriptors_left limit;
  CHECK_NOTHROW(physical_chunk{first_device, granule()});
}

TEST_CASE("shareable_handle: a lack of descriptors throws out_of_memory that says so") {
  physical_chunk chunk{first_device, granule(), handle_type::posix_fd};
  const no_descriptors_left limit;
  check_descriptors_are_named([&] { const shareable_handle handle{chunk}; });
}

TEST_CASE("region: a lack of descriptors leaves what was committed") {
  region_options options;
  options.shareable = handle_type::posix_fd;
  region region{first_device, 4 * granule(), options};
  region.commit(0, granule());
  const no_descriptors_left limit;
  check_descriptors_are_named([&] { region.commit(granule(), granule()); });
  CHECK(region.committed_bytes() == granule());
}

}  // namespace
}  // namespace hipvmm::test
