// SPDX-License-Identifier: MIT
#include "container/container_test.hpp"
#include "support/host/fault_sweep.hpp"
#include "support/region/assumed_capability.hpp"
#include "support/region/held_memory.hpp"

// Vectors that sleep and wake.
namespace hipvmm::test {
namespace {

growth_options with_tag(const memory_tag& tag) {
  return growth_options{.max_bytes = 64 * MiB, .chunks = {.tag = tag}};
}

TEST_SUITE_BEGIN("needs virtual memory");

/// A vector of four elements that do not begin with the first.
struct sleeping_vector {
  memory_tag tag;
  hipvmm::stream stream{first_device};
  growable_device_vector<int> vector{first_device, with_tag(tag)};
  const int* data = nullptr;

  sleeping_vector() {
    vector.append({0, 1, 2, 3, 4}, stream);
    vector.erase_front(1, stream);
    stream.synchronize();
    data = vector.data();
  }
  void check_awake() const {
    CHECK_FALSE(vector.is_asleep());
    CHECK(vector.data() == data);
    CHECK(vector.copy_to_host(stream) == std::vector<int>{1, 2, 3, 4});
  }
};

TEST_CASE_FIXTURE(sleeping_vector, "sleep: a vector wakes with its elements and grows on") {
  const std::size_t capacity = vector.capacity();
  CHECK(suspend(tag, keep::contents, stream) != 0);
  CHECK(vector.is_asleep());
  CHECK(vector.explain().find("sleeps by the tag " + tag.name() + ", and does so now\n") !=
        std::string::npos);
  CHECK(vector.size() == 4);
  CHECK(vector.capacity() == capacity);
  CHECK(vector.data() == data);
  resume(tag);
  check_awake();
  CHECK(vector.explain().find("sleeps by the tag " + tag.name() + '\n') != std::string::npos);
  vector.append({5, 6}, stream);
  vector.resize(capacity + 1000, stream);
  CHECK(vector.data() == data);
  CHECK(vector.element(5, stream) == 6);
}

TEST_CASE_FIXTURE(sleeping_vector, "sleep: what needs a vector's memory is refused") {
  suspend(tag, keep::contents);
  const auto refused = [](auto operation) { CHECK_THROWS_AS(operation(), std::logic_error); };
  refused([&] { vector.append({1}, stream); });
  refused([&] { vector.push_back(1, stream); });
  refused([&] { vector.resize(2000, stream); });
  refused([&] { vector.resize_uninitialized(5); });
  refused([&] { vector.assign({1, 2}, stream); });
  refused([&] { vector.insert(1, {7}, stream); });
  refused([&] { vector.erase(0, 1, stream); });
  refused([&] { vector.erase_front(1, stream); });
  refused([&] { vector.reserve(1); });
  refused([&] { vector.shrink_to_fit(stream); });
  refused([&] { static_cast<void>(vector.element(0, stream)); });
  refused([&] { vector.set_element(0, 1, stream); });
  refused([&] { static_cast<void>(vector.copy_to_host(stream)); });
  refused([&] { static_cast<void>(vector.clone(stream)); });
  refused([&] { vector.grant(first_device); });
  refused([&] { static_cast<void>(vector.export_chunks()); });
  CHECK(vector.size() == 4);
  resume(tag);
  check_awake();
}

TEST_CASE_FIXTURE(sleeping_vector, "sleep: a sleeping vector may be shortened") {
  suspend(tag, keep::contents);
  vector.resize_uninitialized(3);
  vector.resize(2, stream);
  CHECK_THROWS_AS(vector.resize_uninitialized(3), std::logic_error);
  resume(tag);
  CHECK(vector.copy_to_host(stream) == std::vector<int>{1, 2});
  suspend(tag, keep::contents);
  vector.resize_uninitialized(0);
  resume(tag);
  CHECK(vector.empty());
}

TEST_CASE_FIXTURE(sleeping_vector, "sleep: a sleeping vector may be moved, swapped and destroyed") {
  suspend(tag, keep::contents);
  growable_device_vector<int> other = std::move(vector);
  CHECK(other.is_asleep());
  CHECK(tag.statistics().regions == 1);
  resume(tag);
  CHECK(other.data() == data);
  CHECK(other.copy_to_host(stream) == std::vector<int>{1, 2, 3, 4});
  suspend(tag, keep::contents);
  { const growable_device_vector<int> gone = std::move(other); }
  CHECK(tag.statistics().regions == 0);
  CHECK(resume(tag) == 0);
}

TEST_CASE_FIXTURE(sleeping_vector, "sleep: nothing is copied from a vector that sleeps") {
  growable_device_vector<int> other{first_device};
  other.append({7, 8}, stream);
  suspend(tag, keep::contents, stream);
  CHECK_THROWS_AS(other.append(vector, stream), std::logic_error);
  CHECK_THROWS_AS(other.assign(vector, stream), std::logic_error);
  CHECK_THROWS_AS(other.insert(1, vector, stream), std::logic_error);
  CHECK_THROWS_AS((growable_device_vector<int>{vector, stream}), std::logic_error);
  CHECK(other.copy_to_host(stream) == std::vector<int>{7, 8});
  resume(tag);
  other.append(vector, stream);
  CHECK(other.copy_to_host(stream) == std::vector<int>{7, 8, 1, 2, 3, 4});
}

TEST_CASE("sleep: a vector that keeps its address for life keeps it asleep") {
  const assumed_capability assumed{kept_memory};
  const memory_tag tag;
  growth_options options = with_tag(tag);
  options.past_max = past_max_size::refuse;
  stream stream{first_device};
  growable_device_vector<int> vector{first_device, options};
  vector.append({1, 2}, stream);
  const int* const data = vector.data();
  const std::size_t before = first_device.free_memory();
  suspend(tag, keep::contents, stream);
  CHECK(first_device.free_memory() > before);
  resume(tag);
  CHECK(vector.data() == data);
  CHECK(vector.copy_to_host(stream) == std::vector<int>{1, 2});
}

TEST_CASE("sleep: a vector without chunks takes no tag") {
  growth_options options = with_tag(memory_tag{});
  options.fallback = without_vmm::always;
  CHECK_THROWS_AS((growable_device_vector<int>{first_device, options}), unsupported);
}

TEST_SUITE_END();

TEST_SUITE_BEGIN("on hipMalloc");

TEST_CASE("sleep: without virtual memory a tag is refused") {
  CHECK_THROWS_AS((growable_device_vector<int>{first_device, with_tag(memory_tag{})}), unsupported);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
