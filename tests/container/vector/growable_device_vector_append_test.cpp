// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/chunk_placement.hpp>
#include "container/container_test.hpp"

namespace hipvmm::test {
namespace {

struct hundred_elements {
  hipvmm::stream stream;
  growable_device_vector<element12> vector;

  hundred_elements() { vector.append(series<element12>(0, 100), stream); }
  [[nodiscard]] std::vector<element12> contents() const { return vector.copy_to_host(stream); }
};

TEST_CASE_FIXTURE(hundred_elements, "growable_device_vector: append takes any contiguous range") {
  const std::vector<element12> from_vector = series<element12>(100, 3);
  const std::array<element12, 2> from_array{numbered<element12>(103), numbered<element12>(104)};
  const element12 from_c_array[] = {numbered<element12>(105)};
  vector.append(from_vector, stream);
  vector.append(from_array, stream);
  vector.append(from_c_array, stream);
  vector.append({numbered<element12>(106), numbered<element12>(107)}, stream);
  vector.append(from_vector.data(), 1, stream);
  std::vector<element12> expected = series<element12>(0, 108);
  expected.push_back(numbered<element12>(100));
  CHECK(contents() == expected);
}

TEST_CASE_FIXTURE(hundred_elements, "growable_device_vector: an empty source changes nothing") {
  vector.append(nullptr, 0, stream);
  vector.append(std::vector<element12>{}, stream);
  vector.append_from_device(device_span<const element12>{}, stream);
  vector.append_from_device(vector.span().first(0), stream);
  CHECK(contents() == series<element12>(0, 100));
  vector.assign(nullptr, 0, stream);
  CHECK(vector.empty());
}

TEST_CASE_FIXTURE(hundred_elements, "growable_device_vector: a null source throws and is named") {
  const std::size_t capacity = vector.capacity();
  CHECK_THROWS_WITH_AS(vector.append(nullptr, 5, stream), doctest::Contains("5 elements"),
                       std::invalid_argument);
  CHECK_THROWS_AS(vector.append_from_device({nullptr, 5}, stream), std::invalid_argument);
  CHECK_THROWS_AS(vector.assign(nullptr, 5, stream), std::invalid_argument);
  CHECK(vector.capacity() == capacity);
  CHECK(contents() == series<element12>(0, 100));
}

TEST_CASE_FIXTURE(hundred_elements,
                  "growable_device_vector: append takes another vector's elements") {
  growable_device_vector<element12> other;
  other.append(series<element12>(100, 50), stream);
  const auto& constant = other;
  vector.append(other.span(), stream);
  vector.append(constant.span().first(1), stream);
  std::vector<element12> expected = series<element12>(0, 150);
  expected.push_back(numbered<element12>(100));
  CHECK(contents() == expected);
}

TEST_CASE_FIXTURE(hundred_elements,
                  "growable_device_vector: append takes elements of another device") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "second device that reaches the first");
  growable_device_vector<element12> other{peer};
  const hipvmm::stream of_peer{peer};
  other.append(series<element12>(100, 50), of_peer);
  other.grant(first_device, peer_right());
  of_peer.synchronize();
  const capability known = capability_of(first_device);
  if (known.path() != memory_path::fallback && !known.has(trait::peer_copies)) {
    CHECK_THROWS_WITH_AS(vector.append_from_device(other.span(), stream),
                         doctest::Contains("grant device 1 read_write access"), unsupported);
    CHECK(contents() == series<element12>(0, 100));
    vector.grant(peer, access_right::read_write);
  }
  vector.append_from_device(other.span(), stream);
  CHECK(contents() == series<element12>(0, 150));
}

TEST_CASE("growable_device_vector: one that was moved from has the rights of its options") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "second device that reaches the first");
  const stream of_peer{peer};
  growable_device_vector<element12> source{peer};
  source.append(series<element12>(0, 50), of_peer);
  source.grant(first_device, peer_right());
  growth_options options;
  options.chunks.access = {{peer, access_right::read_write}};
  growable_device_vector<element12> target{first_device, options};
  const growable_device_vector<element12> taken{std::move(target)};
  target.append(source.span(), of_peer);  // NOLINT(bugprone-use-after-move)
  CHECK(target.copy_to_host(of_peer) == series<element12>(0, 50));
}

TEST_CASE("growable_device_vector: elements that the target's devices may not read are refused" *
          needs_virtual_memory) {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "second device that reaches the first");
  const stream of_peer{peer};
  const stream own{first_device};
  growable_device_vector<element12> source{peer};
  source.append(series<element12>(100, 50), of_peer);
  growth_options both;
  both.chunks.placement = chunk_placement::striped({peer, first_device}, granule());
  const growth_options plain;
  const growth_options copied{.fallback = without_vmm::always};
  const growth_options at_once{.max_bytes = 16 * granule(),
                               .past_max = past_max_size::refuse,
                               .fallback = without_vmm::always};
  for (const growth_options& options : {plain, both, copied, at_once}) {
    growable_device_vector<element12> target{first_device, options};
    target.grant(peer);
    target.append(series<element12>(0, 100), of_peer);
    const std::size_t backed = target.capacity();
    if (!capability_of(first_device).has(trait::peer_copies)) {
      const auto refused = doctest::Contains("grant device 0 read access to the source first");
      CHECK_THROWS_WITH_AS(target.append(source.span(), of_peer), refused, unsupported);
      CHECK_THROWS_WITH_AS(target.insert(1, source.span(), of_peer), refused, unsupported);
      CHECK_THROWS_WITH_AS(target.assign(source.span(), of_peer), refused, unsupported);
      // Into memory of hipMalloc the target's device copies, in each stream.
      if (options.fallback == without_vmm::always)
        CHECK_THROWS_WITH_AS(target.append(source.span(), own), refused, unsupported);
      CHECK(target.capacity() == backed);
      CHECK(target.copy_to_host(of_peer) == series<element12>(0, 100));
      source.grant(first_device, access_right::read);
    }
    target.append(source.span(), of_peer);
    CHECK(target.copy_to_host(of_peer) == series<element12>(0, 150));
    source.revoke(first_device);
  }
}

TEST_CASE_FIXTURE(hundred_elements,
                  "growable_device_vector: a count that overflows throws length_error") {
  constexpr std::size_t largest = std::numeric_limits<std::size_t>::max();
  const element12 single = numbered<element12>(1);
  CHECK_THROWS_AS(vector.append(&single, largest, stream), std::length_error);
  CHECK_THROWS_AS(vector.append(&single, largest - 99, stream), std::length_error);
  CHECK_THROWS_AS(vector.append(&single, largest / sizeof(element12), stream), std::length_error);
  CHECK_THROWS_AS(vector.append_from_device({vector.data(), largest / 2}, stream),
                  std::length_error);
  CHECK_THROWS_AS(vector.assign(&single, largest, stream), std::length_error);
  CHECK_THROWS_AS(vector.assign(largest, single, stream), std::length_error);
  CHECK(contents() == series<element12>(0, 100));
}

}  // namespace
}  // namespace hipvmm::test
