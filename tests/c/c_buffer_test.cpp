// SPDX-License-Identifier: MIT
#include "c/c_interface.hpp"
#include "support/blocked_stream.hpp"

namespace hipvmm::test {
namespace {

std::string bytes_of(hipvmm_buffer buffer) {
  std::string content(size_of(buffer), '\0');
  require_ok(hipvmm_buffer_read(buffer, 0, content.data(), content.size(), nullptr));
  return content;
}

TEST_CASE("C buffer: appended bytes are read again, in place while it grows") {
  const owned_buffer buffer = make_buffer();
  require_ok(hipvmm_buffer_append(buffer, "abc", 3, nullptr));
  void* const before = result_of(hipvmm_buffer_data, buffer);
  const int stable = result_of(hipvmm_buffer_is_address_stable, buffer);
  require_ok(hipvmm_buffer_resize(buffer, 3 * MiB, nullptr));
  void* const after = result_of(hipvmm_buffer_data, buffer);
  if (stable != 0) CHECK(after == before);
  CHECK((stable != 0) != on_fallback());
  const std::string content = bytes_of(buffer);
  CHECK(content.substr(0, 4) == std::string{"abc\0", 4});
  CHECK(content.back() == '\0');

  const std::size_t capacity = result_of(hipvmm_buffer_capacity, buffer);
  CHECK(capacity >= 3 * MiB);
  CHECK(result_of(hipvmm_buffer_max_size, buffer) >= capacity);
  CHECK(result_of(hipvmm_buffer_device, buffer) == 0);
}

TEST_CASE("C buffer: bytes are overwritten, erased at the front and appended from the device") {
  const owned_buffer buffer = make_buffer();
  require_ok(hipvmm_buffer_append(buffer, "0123456789", 10, nullptr));
  require_ok(hipvmm_buffer_write(buffer, 2, "xy", 2, nullptr));
  require_ok(hipvmm_buffer_erase_front(buffer, 1, nullptr));
  CHECK(bytes_of(buffer) == "1xy456789");
  void* const data = result_of(hipvmm_buffer_data, buffer);
  require_ok(hipvmm_buffer_append_from_device(buffer, data, 3, nullptr));
  CHECK(bytes_of(buffer) == "1xy4567891xy");
}

TEST_CASE("C buffer: bytes of the host, of a device and its own are inserted, and erased") {
  const owned_buffer buffer = make_buffer();
  require_ok(hipvmm_buffer_append(buffer, "0123", 4, nullptr));
  require_ok(hipvmm_buffer_insert(buffer, 2, "ab", 2, nullptr));
  CHECK(bytes_of(buffer) == "01ab23");
  require_ok(hipvmm_buffer_insert(buffer, 6, "z", 1, nullptr));
  void* data = result_of(hipvmm_buffer_data, buffer);
  // Its own bytes, of which some are behind the gap.
  require_ok(hipvmm_buffer_insert(buffer, 3, static_cast<char*>(data) + 1, 4, nullptr));
  CHECK(bytes_of(buffer) == "01a1ab2b23z");
  const owned_buffer other = make_buffer();
  require_ok(hipvmm_buffer_append(other, "XY", 2, nullptr));
  data = result_of(hipvmm_buffer_data, other);
  require_ok(hipvmm_buffer_insert(buffer, 0, data, 2, nullptr));
  CHECK(bytes_of(buffer) == "XY01a1ab2b23z");
  require_ok(hipvmm_buffer_erase(buffer, 4, 6, nullptr));
  CHECK(bytes_of(buffer) == "XY0123z");
  require_ok(hipvmm_buffer_erase(buffer, 6, 1, nullptr));
  require_ok(hipvmm_buffer_erase(buffer, 6, 0, nullptr));
  require_ok(hipvmm_buffer_insert(buffer, 6, nullptr, 0, nullptr));
  CHECK(bytes_of(buffer) == "XY0123");

  CHECK(hipvmm_buffer_insert(buffer, 7, "a", 1, nullptr) == HIPVMM_ERROR_OUT_OF_RANGE);
  CHECK(hipvmm_buffer_insert(buffer, 7, nullptr, 0, nullptr) == HIPVMM_ERROR_OUT_OF_RANGE);
  CHECK(hipvmm_buffer_insert(buffer, 0, nullptr, 1, nullptr) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_buffer_insert(buffer, 0, data, ~std::size_t{0}, nullptr) ==
        HIPVMM_ERROR_OUT_OF_RANGE);
  CHECK(hipvmm_buffer_erase(buffer, 5, 2, nullptr) == HIPVMM_ERROR_OUT_OF_RANGE);
  CHECK(hipvmm_buffer_erase(buffer, 1, ~std::size_t{0}, nullptr) == HIPVMM_ERROR_OUT_OF_RANGE);
  CHECK(bytes_of(buffer) == "XY0123");
}

TEST_CASE("C buffer: ranges and null pointers are checked before anything changes") {
  const owned_buffer buffer = make_buffer();
  require_ok(hipvmm_buffer_append(buffer, "abc", 3, nullptr));
  char byte = 0;
  CHECK(fails(hipvmm_buffer_read(buffer, 3, &byte, 1, nullptr), HIPVMM_ERROR_OUT_OF_RANGE,
              "1 bytes from offset 3"));
  CHECK(hipvmm_buffer_read(buffer, 4, &byte, 0, nullptr) == HIPVMM_ERROR_OUT_OF_RANGE);
  CHECK(hipvmm_buffer_read(buffer, 1, &byte, ~std::size_t{0}, nullptr) ==
        HIPVMM_ERROR_OUT_OF_RANGE);
  CHECK(hipvmm_buffer_write(buffer, 2, "xy", 2, nullptr) == HIPVMM_ERROR_OUT_OF_RANGE);
  CHECK(hipvmm_buffer_erase_front(buffer, 4, nullptr) == HIPVMM_ERROR_OUT_OF_RANGE);
  CHECK(hipvmm_buffer_append(buffer, nullptr, 1, nullptr) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_buffer_read(buffer, 0, nullptr, 1, nullptr) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_buffer_size(buffer, nullptr) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_buffer_shrink(buffer, static_cast<hipvmm_tail>(7), nullptr, nullptr) ==
        HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_buffer_resize(buffer, ~std::size_t{0}, nullptr) == HIPVMM_ERROR_OUT_OF_RANGE);
  CHECK(bytes_of(buffer) == "abc");
  CHECK(hipvmm_buffer_create(0, nullptr, nullptr) == HIPVMM_ERROR_INVALID_ARGUMENT);
  hipvmm_buffer none = buffer;
  CHECK(fails(hipvmm_buffer_create(9, nullptr, &none), HIPVMM_ERROR_INVALID_ARGUMENT, "device 9"));
  CHECK(none == nullptr);
}

TEST_CASE("C buffer: shrinking releases chunks behind the last byte" * needs_virtual_memory) {
  const owned_buffer buffer = make_buffer("max=256MiB,step_limit=0");
  for (std::size_t bytes = 4 * MiB; bytes <= 12 * MiB; bytes += 4 * MiB)
    require_ok(hipvmm_buffer_resize_uninitialized(buffer, bytes));
  require_ok(hipvmm_buffer_resize(buffer, 1, nullptr));
  CHECK(result_of(hipvmm_buffer_shrink, buffer, HIPVMM_TAIL_KEEP, nullptr) == 8 * MiB);
  require_ok(hipvmm_buffer_reserve(buffer, 5 * MiB));
  const auto statistics = result_of(hipvmm_buffer_get_statistics, buffer);
  CHECK(statistics.growth_steps == 4);
  CHECK(statistics.peak_bytes == 12 * MiB);
}

TEST_CASE("C buffer: rights of other devices are set one by one and all at once" *
          needs_virtual_memory) {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "two devices that reach each other");
  const owned_buffer buffer = make_buffer();
  require_ok(hipvmm_buffer_append(buffer, "abc", 3, nullptr));
  require_ok(hipvmm_buffer_grant(buffer, peer.ordinal(), HIPVMM_RIGHT_READ_WRITE));
  hipvmm_right right = result_of(hipvmm_buffer_access, buffer, peer.ordinal());
  CHECK(right == HIPVMM_RIGHT_READ_WRITE);
  require_ok(hipvmm_buffer_set_access(buffer, nullptr, 0));
  CHECK(result_of(hipvmm_buffer_access, buffer, peer.ordinal()) == HIPVMM_RIGHT_NONE);
  CHECK(hipvmm_buffer_set_access(buffer, nullptr, 1) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_buffer_grant(buffer, peer.ordinal(), static_cast<hipvmm_right>(9)) ==
        HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_buffer_access(buffer, 99, &right) == HIPVMM_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("C buffer: in memory of a resource, which lives as long") {
  owned_resource pool = make_pool();
  const owned_buffer buffer{result_of(hipvmm_buffer_create_on, pool, nullptr)};
  pool.reset();
  require_ok(hipvmm_buffer_append(buffer, "abc", 3, nullptr));
  require_ok(hipvmm_buffer_resize(buffer, 100'000, nullptr));
  CHECK(bytes_of(buffer).substr(0, 3) == "abc");
}

TEST_CASE("C buffer: threads append to one buffer, and each append is whole") {
  const owned_buffer buffer = make_buffer();
  in_a_thread_each(std::string_view{"abcd"}, [&](const char letter) {
    const std::string bytes(100, letter);
    for (int i = 0; i < 10; ++i)
      if (hipvmm_buffer_append(buffer, bytes.data(), bytes.size(), nullptr) != HIPVMM_OK)
        FAIL_CHECK(hipvmm_last_error());
  });
  const std::string content = bytes_of(buffer);
  REQUIRE(content.size() == 4000);
  for (std::size_t at = 0; at < content.size(); at += 100)
    CHECK(content.substr(at, 100) == std::string(100, content[at]));
}

TEST_CASE("C buffer: a buffer that is destroyed during a call ends after it") {
  for (int i = 0; i < 20; ++i) {
    const hipvmm_buffer buffer = result_of(hipvmm_buffer_create, 0, "max=64MiB");
    hipvmm_status last = HIPVMM_OK;
    std::thread user{[buffer, &last] {
      std::size_t bytes = 0;
      while ((last = hipvmm_buffer_append(buffer, "abc", 3, nullptr)) == HIPVMM_OK)
        static_cast<void>(hipvmm_buffer_size(buffer, &bytes));
    }};
    require_ok(hipvmm_buffer_destroy(buffer));
    user.join();
    CHECK(last == HIPVMM_ERROR_INVALID_HANDLE);
  }
}

TEST_CASE("C buffer: a null stream is that of the buffer's device, not of the current one") {
  HIPVMM_REQUIRE_TWO_DEVICES();
  int release = 0;
  REQUIRE(hipRuntimeGetVersion(&release) == hipSuccess);
  HIPVMM_SKIP_IF(HIPVMM_TEST_ON_AMD != 0 && release / 10'000'000 == 6,
                 "on AMD's runtime 6 a wait for a null stream is one for all host functions");
  const owned_buffer buffer = make_buffer("max=64MiB", 1);
  const owned_resource pool = make_pool(nullptr, 1);
  require_ok(hipvmm_buffer_resize(buffer, 1000, nullptr));
  void* const first = result_of(hipvmm_allocate, pool, 1000, 0, nullptr);
  require_ok(hipvmm_deallocate(pool, first, 1000, 0, nullptr));
  std::promise<void> gate;
  std::shared_future<void> opened{gate.get_future()};
  const auto wait = [](void* of) { static_cast<std::shared_future<void>*>(of)->wait(); };
  REQUIRE(hipLaunchHostFunc(nullptr, wait, &opened) == hipSuccess);  // of device 0
  std::future<bool> passed = std::async(std::launch::async, [&] {
    char byte = 'x';
    void* memory = nullptr;
    return hipvmm_buffer_read(buffer, 999, &byte, 1, nullptr) == HIPVMM_OK && byte == 0 &&
           hipvmm_allocate(pool, 1000, 0, nullptr, &memory) == HIPVMM_OK &&
           hipvmm_deallocate(pool, memory, 1000, 0, nullptr) == HIPVMM_OK;
  });
  const bool came = comes_true(
      [&] { return passed.wait_for(std::chrono::seconds{0}) == std::future_status::ready; });
  gate.set_value();
  CHECK(came);
  CHECK(passed.get());
  require_ok(hipvmm_device_synchronize(0));
}

TEST_CASE("C copies: to the device, set and back, in a stream of the library") {
  const owned_stream stream{result_of(hipvmm_stream_create, 0)};
  void* const value = result_of(hipvmm_stream_get, stream);
  CHECK(value != nullptr);
  const owned_resource pool = make_pool();
  void* const memory = result_of(hipvmm_allocate, pool, 8, 0, value);
  require_ok(hipvmm_fill_async(memory, 'x', 8, value));
  require_ok(hipvmm_copy_async(memory, "ab", 2, value));
  char read[9] = {};
  require_ok(hipvmm_copy(read, memory, 8, value));
  CHECK(std::string{read} == "abxxxxxx");
  require_ok(hipvmm_synchronize(value));
  require_ok(hipvmm_deallocate(pool, memory, 8, 0, value));
  CHECK(hipvmm_fill_async(memory, 256, 8, value) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_copy(nullptr, memory, 8, value) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_copy_async(memory, nullptr, 8, value) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(result_of(hipvmm_per_thread_stream) != nullptr);
  require_ok(hipvmm_device_synchronize(0));
  require_ok(hipvmm_drain_retired_memory());
}

TEST_CASE("C events: a stream waits for the work in front of a record of another") {
  owned_event between;
  const owned_stream second{result_of(hipvmm_stream_create, 0)};
  require_ok(hipvmm_event_create(0, between.out()));
  void* const behind = result_of(hipvmm_stream_get, second);
  int done = result_of(hipvmm_event_is_done, between);
  CHECK(done == 1);  // never recorded
  require_ok(hipvmm_event_synchronize(between));
  const owned_resource pool = make_pool();
  void* const memory = result_of(hipvmm_allocate, pool, 8, 0, behind);
  require_ok(hipvmm_synchronize(behind));
  blocked_stream first{first_device};
  void* const ahead = static_cast<stream_ref>(first).get();
  require_ok(hipvmm_fill_async(memory, 'x', 8, ahead));
  require_ok(hipvmm_event_record(between, ahead));
  require_ok(hipvmm_stream_wait(behind, between));
  require_ok(hipvmm_fill_async(memory, 'y', 4, behind));
  CHECK(result_of(hipvmm_event_is_done, between) == 0);
  first.release();
  require_ok(hipvmm_event_synchronize(between));
  CHECK(result_of(hipvmm_event_is_done, between) == 1);
  char read[9] = {};
  require_ok(hipvmm_copy(read, memory, 8, behind));
  CHECK(std::string{read} == "yyyyxxxx");
  require_ok(hipvmm_deallocate(pool, memory, 8, 0, behind));
  CHECK(result_of(hipvmm_event_get, between) != nullptr);
  CHECK(hipvmm_event_create(99, owned_event{}.out()) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_event_create(0, nullptr) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_event_is_done(between, nullptr) == HIPVMM_ERROR_INVALID_ARGUMENT);
  require_ok(hipvmm_drain_retired_memory());
}

TEST_CASE("C devices: what HIP reports, and what was found out") {
  CHECK(result_of(hipvmm_device_count) >= 1);
  CHECK(result_of(hipvmm_device_current) == 0);
  std::size_t unused = 0;
  std::size_t total = result_of(hipvmm_device_memory, 0, &unused);
  CHECK(unused <= total);
  CHECK(hipvmm_device_memory(0, nullptr, &total) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(result_of(hipvmm_device_can_access_peer, 0, 0) == 1);
  CHECK_FALSE(text_of(hipvmm_device_name, 0).empty());
  const std::string known = text_of(hipvmm_device_capability, 0);
  CHECK_MESSAGE(known.find("path: ") == 0, known);
  CHECK_MESSAGE(known.find("\nvirtual_memory: ") != std::string::npos, known);
  CHECK(std::string{"amd cuda host"}.find(result_of(hipvmm_provider)) != std::string::npos);
  const int accessible = result_of(hipvmm_device_is_host_accessible, 0);
  CHECK((known.find("\nhost_access: yes") != std::string::npos) == (accessible == 1));
  CHECK(hipvmm_device_synchronize(99) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_stream_create(99, owned_stream{}.out()) == HIPVMM_ERROR_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace hipvmm::test
