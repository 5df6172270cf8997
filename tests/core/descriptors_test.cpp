// SPDX-License-Identifier: MIT
#include "core/descriptors.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/test.hpp"

namespace hipvmm::test {
namespace {

class open_file {
 public:
  explicit open_file(int descriptor) : descriptor_{descriptor} { REQUIRE(descriptor >= 0); }
  ~open_file() { ::close(descriptor_); }
  open_file& operator=(open_file&&) = delete;
  [[nodiscard]] int get() const { return descriptor_; }

 private:
  int descriptor_;
};

TEST_CASE("bytes_behind: reports the size of shared memory and leaves the position") {
  const open_file memory{::memfd_create("bytes_behind", MFD_CLOEXEC)};
  REQUIRE(::ftruncate(memory.get(), 12345) == 0);
  REQUIRE(::lseek(memory.get(), 77, SEEK_SET) == 77);
  CHECK(detail::bytes_behind(memory.get()) == 12345);
  CHECK(::lseek(memory.get(), 0, SEEK_CUR) == 77);
}

TEST_CASE("bytes_behind: reports nothing where the system knows no size") {
  std::array<int, 2> ends;
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  const open_file reading{ends[0]};
  const open_file writing{ends[1]};
  const open_file nothing{::open("/dev/null", O_RDWR | O_CLOEXEC)};
  const open_file empty{::memfd_create("empty", MFD_CLOEXEC)};
  for (const open_file* each : {&reading, &writing, &nothing, &empty})
    CHECK_FALSE(detail::bytes_behind(each->get()));
  CHECK_FALSE(detail::bytes_behind(-1));
}

}  // namespace
}  // namespace hipvmm::test
