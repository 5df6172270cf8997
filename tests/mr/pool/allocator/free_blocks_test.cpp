// SPDX-License-Identifier: MIT
#include "mr/pool/allocator/block.hpp"

#include <deque>

#include "support/test.hpp"

namespace hipvmm::mr::pool {
namespace {

/// Blocks of the sizes at which ranges begin and end, and of random ones, in random order.
std::deque<block> blocks_of_all_sizes(std::mt19937_64& random) {
  std::vector<std::size_t> sizes;
  for (std::size_t power = 256; power <= 128 * GiB; power *= 2)
    for (const std::size_t part : {0, 1, 31})
      for (const std::size_t more : {0, 256}) {
        const std::size_t bytes = power + power / 32 / 256 * 256 * part + more;
        sizes.insert(sizes.end(), {bytes, bytes});
      }
  for (int i = 0; i < 200; ++i) sizes.push_back(256 + 256 * (random() % 4096));
  std::shuffle(sizes.begin(), sizes.end(), random);
  std::deque<block> made;
  std::size_t offset = 0;
  for (const std::size_t bytes : sizes) {
    block& one = made.emplace_back();
    one.offset = std::exchange(offset, offset + bytes);
    one.bytes = bytes;
  }
  return made;
}

}  // namespace

TEST_CASE("pool: free blocks are found as in one sorted list") {
  std::mt19937_64 random{7};
  std::deque<block> made = blocks_of_all_sizes(random);
  free_blocks all;
  std::vector<block*> expected;  // sorted
  const auto comes_before = [](const block* a, const block* b) {
    return std::pair{a->bytes, a->offset} < std::pair{b->bytes, b->offset};
  };
  const auto check = [&] {
    REQUIRE(all.empty() == expected.empty());
    block* at = all.first();
    for (const block* const each : expected) {
      REQUIRE(at == each);
      at = all.after(*at);
    }
    REQUIRE(at == nullptr);
    auto next = expected.begin();
    all.for_each([&](const block& each) {
      REQUIRE(next != expected.end());
      REQUIRE(*next++ == &each);
    });
    REQUIRE(next == expected.end());
    if (!expected.empty()) REQUIRE(&all.back() == expected.back());
    for (const block& each : made)
      for (const std::size_t bytes : {each.bytes - 256, each.bytes, each.bytes + 256}) {
        block wanted;
        wanted.bytes = bytes;
        const auto found =
            std::lower_bound(expected.begin(), expected.end(), &wanted, comes_before);
        REQUIRE(all.at_least(bytes) == (found == expected.end() ? nullptr : *found));
      }
  };
  check();
  std::size_t count = 0;
  for (block& each : made) {
    all.insert(each);
    expected.insert(std::upper_bound(expected.begin(), expected.end(), &each, comes_before), &each);
    if (++count % 100 == 0) check();
  }
  std::vector<block*> order = expected;
  std::shuffle(order.begin(), order.end(), random);
  for (block* const each : order) {
    all.erase(*each);
    std::erase(expected, each);
    if (--count % 100 == 0) check();
  }
  CHECK(all.empty());
  all.insert(made.front());
  all.clear();
  CHECK(all.empty());
}

}  // namespace hipvmm::mr::pool
