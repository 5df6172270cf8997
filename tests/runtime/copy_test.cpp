// SPDX-License-Identifier: MIT
#include <hipvmm/runtime/copy.hpp>

#include "support/device_bytes.hpp"
#include "support/device_memory.hpp"
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

constexpr unsigned char untouched = 0xAB;

TEST_CASE("copy: carries bytes from host to device to device to host") {
  const stream stream;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{1000}, 64 * KiB + 1, 3 * MiB + 7}) {
    const device_memory first{bytes};
    const device_memory second{bytes};
    const byte_vector sent = pattern(bytes, 11);
    copy_async(stream, first.get(), sent.data(), bytes);
    copy_async(stream, second.get(), first.get(), bytes);
    CHECK(read_bytes(stream, second.get(), bytes) == sent);
  }
}

TEST_CASE("copy: zero bytes are copied without touching anything") {
  const stream stream;
  const device_memory memory{16};
  fill_async(stream, memory.get(), untouched, 16);
  unsigned char source = 1;
  copy(stream, memory.get(), &source, 0);
  CHECK(read_bytes(stream, memory.get(), 16) == byte_vector(16, untouched));
}

TEST_CASE("copy_async: pageable memory has been read when the call returns") {
  const stream stream;
  for (const std::size_t bytes : {std::size_t{8}, 64 * KiB, MiB}) {
    const device_memory memory{bytes};
    byte_vector source = pattern(bytes, 3);
    copy_async(stream, memory.get(), source.data(), bytes);
    source.assign(bytes, 0);
    CHECK(read_bytes(stream, memory.get(), bytes) == pattern(bytes, 3));
  }
}

TEST_CASE("copy_async: pageable memory has been written when the call returns") {
  const stream stream;
  const device_memory memory{MiB};
  write_bytes(stream, memory.get(), pattern(MiB, 4));
  byte_vector target(MiB);
  copy_async(stream, target.data(), memory.get(), MiB);
  CHECK(target == pattern(MiB, 4));
}

TEST_CASE("copy_peer_async: carries bytes between two devices") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "second device that reaches the first");
  const stream stream;
  const device_memory here{MiB};
  const device_memory there{MiB, peer};
  write_bytes(stream, here.get(), pattern(MiB, 6));
  copy_peer_async(stream, there.get(), peer, here.get(), first_device, MiB);
  fill_async(stream, here.get(), 0, MiB);
  copy_peer_async(stream, here.get(), first_device, there.get(), peer, MiB);
  CHECK(read_bytes(stream, here.get(), MiB) == pattern(MiB, 6));
}

TEST_CASE("fill_async: sets exactly the bytes asked for") {
  const stream stream;
  const device_memory memory{1000};
  fill_async(stream, memory.get(), untouched, 1000);
  fill_async(stream, memory.get() + 10, 0x5C, 980);
  byte_vector expected(1000, 0x5C);
  std::fill_n(expected.begin(), 10, untouched);
  std::fill_n(expected.end() - 10, 10, untouched);
  CHECK(read_bytes(stream, memory.get(), 1000) == expected);
}

/// Compares the result of fill_pattern_async with a model on the host, and the bytes around it.
void check_fill(const byte_vector& element, std::size_t count, std::size_t offset) {
  constexpr std::size_t margin = 64;
  CAPTURE(element.size());
  CAPTURE(count);
  CAPTURE(offset);
  const stream stream;
  const std::size_t bytes = element.size() * count;
  const device_memory memory{bytes + 2 * margin};
  fill_async(stream, memory.get(), untouched, bytes + 2 * margin);
  fill_pattern_async(stream, memory.get() + offset, element.data(), element.size(), count);
  byte_vector expected(bytes + 2 * margin, untouched);
  for (std::size_t i = 0; i < bytes; ++i) expected[offset + i] = element[i % element.size()];
  CHECK(read_bytes(stream, memory.get(), expected.size()) == expected);
}

constexpr std::size_t element_sizes[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 24, 100};

TEST_CASE("fill_pattern_async: repeats elements of any size any number of times") {
  for (const std::size_t size : element_sizes)
    for (const std::size_t count : {0, 1, 2, 3, 1000})
      check_fill(pattern(size, static_cast<std::uint32_t>(size)), count, 64);
}

TEST_CASE("fill_pattern_async: repeats elements of any size a million times") {
  for (const std::size_t size : element_sizes)
    check_fill(pattern(size, static_cast<std::uint32_t>(size)), size < 100 ? 1'000'003 : 250'007,
               64);
}

TEST_CASE("fill_pattern_async: a pattern that is nullptr is refused") {
  const stream stream{first_device};
  const device_memory memory{4};
  fill_pattern_async(stream, memory.get(), nullptr, 4, 0);
  CHECK_THROWS_WITH_AS(fill_pattern_async(stream, memory.get(), nullptr, 4, 1),
                       doctest::Contains("nullptr"), std::invalid_argument);
}

TEST_CASE("fill_pattern_async: elements of zero bytes and of one repeated byte") {
  for (const std::size_t size : element_sizes)
    for (const std::size_t count : {1, 3, 1000})
      for (const auto value : std::array<unsigned char, 3>{0x00, 0x77, 0xFF})
        check_fill(byte_vector(size, value), count, 64);
}

TEST_CASE("fill_pattern_async: elements that repeat two or four bytes") {
  for (const std::size_t period : {2, 4})
    for (const std::size_t size : {4, 8, 12, 16, 24, 100}) {
      byte_vector element;
      for (std::size_t i = 0; i < size; ++i)
        element.push_back(static_cast<unsigned char>(1 + i % period));
      for (const std::size_t count : {1, 3, 1000}) check_fill(element, count, 64);
    }
}

TEST_CASE("fill_pattern_async: elements that begin with a repetition and go on otherwise") {
  for (const byte_vector& element :
       {byte_vector{1, 1, 2, 2}, byte_vector{1, 2, 1, 2, 3, 4}, byte_vector{1, 2, 1, 2, 1, 3},
        byte_vector{1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8}})
    for (const std::size_t count : {1, 3, 1000}) check_fill(element, count, 64);
}

TEST_CASE("fill_pattern_async: any address will do") {
  for (const std::size_t offset : {61, 62, 63})
    for (const std::size_t size : {2, 4, 8, 12}) check_fill(pattern(size, 9), 1000, offset);
}

/// The work of `submit()`, captured and launched when `end()` has run.
template <typename Submit, typename End>
void run_as_graph(const stream& stream, Submit submit, End end) {
  REQUIRE(hipStreamBeginCapture(stream.get(), hipStreamCaptureModeRelaxed) == hipSuccess);
  submit();
  hipGraph_t graph = nullptr;
  REQUIRE(hipStreamEndCapture(stream.get(), &graph) == hipSuccess);
  hipGraphExec_t runnable = nullptr;
  REQUIRE(hipGraphInstantiate(&runnable, graph, nullptr, nullptr, 0) == hipSuccess);
  end();
  CHECK(hipGraphLaunch(runnable, stream.get()) == hipSuccess);
  stream.synchronize();
  CHECK(hipGraphExecDestroy(runnable) == hipSuccess);
  CHECK(hipGraphDestroy(graph) == hipSuccess);
}

TEST_CASE("fill_pattern_async: what is captured needs the pattern no more when it returns") {
  constexpr std::size_t margin = 64;
  const stream stream;
  for (const std::size_t size : element_sizes)
    for (const std::size_t count : {1, 3, 1000})
      for (const std::size_t offset : {64, 63}) {
        CAPTURE(size);
        CAPTURE(count);
        CAPTURE(offset);
        const std::size_t bytes = size * count;
        const device_memory memory{bytes + 2 * margin};
        fill_async(stream, memory.get(), untouched, bytes + 2 * margin);
        byte_vector element = pattern(size, static_cast<std::uint32_t>(size));
        // Words that follow each other and are equal.
        if (size == 100) std::fill_n(element.begin() + 8, 16, element[8]);
        byte_vector expected(bytes + 2 * margin, untouched);
        for (std::size_t i = 0; i < bytes; ++i) expected[offset + i] = element[i % size];
        run_as_graph(
            stream,
            [&] { fill_pattern_async(stream, memory.get() + offset, element.data(), size, count); },
            [&] { element.assign(size, 0); });
        CHECK(read_bytes(stream, memory.get(), expected.size()) == expected);
      }
}

}  // namespace
}  // namespace hipvmm::test
