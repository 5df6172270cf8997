// SPDX-License-Identifier: MIT
#include <hipvmm/runtime/stream_pool.hpp>
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

TEST_CASE("stream_pool: has the size asked for, else the default") {
  CHECK(stream_pool{first_device, 3}.size() == 3);
  CHECK(stream_pool{first_device}.size() == stream_pool::default_size);
  CHECK(stream_pool{5}.size() == 5);
  CHECK(stream_pool{}.size() == stream_pool::default_size);
}

TEST_CASE("stream_pool: a size of zero and an unknown device throw invalid_argument") {
  CHECK_THROWS_AS((stream_pool{first_device, 0}), std::invalid_argument);
  CHECK_THROWS_AS((stream_pool{device_ref{-1}, 2}), std::invalid_argument);
  CHECK_THROWS_WITH_AS((stream_pool{first_device, SIZE_MAX}),
                       doctest::Contains(std::to_string(SIZE_MAX).c_str()), std::invalid_argument);
}

TEST_CASE("stream_pool: lends its streams in turn") {
  const stream_pool pool{first_device, 3};
  std::vector<ihipStream_t*> lent;
  for (int i = 0; i < 6; ++i) lent.push_back(pool.get_stream().get());
  CHECK(lent[0] != lent[1]);
  CHECK(lent[1] != lent[2]);
  CHECK(lent[0] != lent[2]);
  for (std::size_t i = 0; i < 3; ++i) CHECK(lent[i] == lent[i + 3]);
}

TEST_CASE("stream_pool: equal indices give the same stream, and they wrap") {
  const stream_pool pool{first_device, 4};
  CHECK(pool.get_stream(1) == pool.get_stream(1));
  CHECK(pool.get_stream(1) == pool.get_stream(5));
  CHECK(pool.get_stream(1) != pool.get_stream(2));
}

TEST_CASE("stream_pool: asking by index takes no turn") {
  const stream_pool pool{first_device, 3};
  const stream_ref first = pool.get_stream();
  static_cast<void>(pool.get_stream(0));
  static_cast<void>(pool.get_stream());
  static_cast<void>(pool.get_stream());
  CHECK(pool.get_stream() == first);
}

TEST_CASE("stream_pool: threads get every stream equally often") {
  constexpr std::size_t threads = 4;
  constexpr std::size_t turns = 600;
  const stream_pool pool{first_device, 3};
  std::array<std::vector<ihipStream_t*>, threads> lent;
  in_a_thread_each(lent, [&](auto& mine) {
    for (std::size_t i = 0; i < turns; ++i) mine.push_back(pool.get_stream().get());
  });
  for (std::size_t index = 0; index < pool.size(); ++index) {
    std::ptrdiff_t times = 0;
    for (const auto& mine : lent)
      times += std::count(mine.begin(), mine.end(), pool.get_stream(index).get());
    CHECK(times == threads * turns / 3);
  }
}

}  // namespace
}  // namespace hipvmm::test
