// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <cstdlib>

#include "fixtures.hpp"
#include "rules.hpp"

using namespace hipvmm::test;

namespace {

constexpr std::size_t page = 4096;

class pages {
 public:
  explicit pages(std::size_t count)
      : start_{static_cast<std::byte*>(std::aligned_alloc(page, count * page))} {}
  ~pages() { std::free(start_); }
  pages& operator=(pages&&) = delete;
  [[nodiscard]] std::byte* at(std::size_t bytes = 0) const { return start_ + bytes; }

 private:
  std::byte* start_;
};

hipError_t register_once(std::byte* start, std::size_t bytes, unsigned flags) {
  const hipError_t code = hipHostRegister(start, bytes, flags);
  if (code == hipSuccess) REQUIRE(hipHostUnregister(start) == hipSuccess);
  return code;
}

}  // namespace

TEST_CASE("registration: its arguments") {
  const pages host{2};
  check_rules({
      {"a page", [&] { return register_once(host.at(), page, 0); }, hipSuccess},
      {"portable and mapped", [&] { return register_once(host.at(), page, 3); }, hipSuccess},
      {"read only", [&] { return register_once(host.at(), page, 8); }, hipSuccess},
      {"uncached", [&] { return register_once(host.at(), page, 0x80000000U); }, hipSuccess},
      {"part of a page", [&] { return register_once(host.at(100), 200, 0); }, hipSuccess},
      {"unknown flags", [&] { return register_once(host.at(), page, 0x100); }},
      {"null", [] { return hipHostRegister(nullptr, page, 0); }},
      {"no bytes", [&] { return hipHostRegister(host.at(), 0, 0); }},
      {"unregister null", [] { return hipHostUnregister(nullptr); }},
      {"unregister what was not", [&] { return hipHostUnregister(host.at()); },
       hipErrorHostMemoryNotRegistered},
  });
}

TEST_CASE("registration: is made once and ended by its address") {
  const pages host{2};
  REQUIRE(hipHostRegister(host.at(), page, 0) == hipSuccess);
  unsigned flags = 99;
  void* found = nullptr;
  check_rules({
      {"again", [&] { return hipHostRegister(host.at(), page, 0); },
       hipErrorHostMemoryAlreadyRegistered},
      {"with its neighbour", [&] { return hipHostRegister(host.at(), 2 * page, 0); },
       hipErrorHostMemoryAlreadyRegistered},
      {"unregister inside", [&] { return hipHostUnregister(host.at(64)); },
       hipErrorHostMemoryNotRegistered},
      {"its device address", [&] { return hipHostGetDevicePointer(&found, host.at(64), 0); },
       hipSuccess},
      {"its flags", [&] { return hipHostGetFlags(&flags, host.at(64)); }, hipSuccess},
  });
  CHECK(found == host.at(64));
  CHECK(hipHostUnregister(host.at()) == hipSuccess);
}

TEST_CASE("registration: neighbours in one page are registered apart") {
  const pages host{1};
  REQUIRE(hipHostRegister(host.at(), 1000, 0) == hipSuccess);
  check_rules(
      {{"the next bytes", [&] { return register_once(host.at(1024), 1000, 0); }, hipSuccess}});
  CHECK(hipHostUnregister(host.at()) == hipSuccess);
}

TEST_CASE("registration: memory is copied from and filled at its address") {
  const pages host{1};
  const allocation device{page};
  REQUIRE(hipHostRegister(host.at(), page, 0) == hipSuccess);
  CHECK(fill_and_wait(host.at(), 0x29, page) == hipSuccess);
  CHECK(host.at()[100] == std::byte{0x29});
  CHECK(hipMemcpy(device.get(), host.at(), page, hipMemcpyHostToDevice) == hipSuccess);
  CHECK(byte_at(device.get() + page - 1) == 0x29);
  CHECK(hipHostUnregister(host.at()) == hipSuccess);
}
