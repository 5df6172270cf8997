// SPDX-License-Identifier: MIT
#include "ipc/packet.hpp"

#include "ipc/ipc_test.hpp"
#include "support/random_seed.hpp"

// In fuzz_packet.cpp; ends the process if the decoder is wrong.
// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes);

// The decoder of packets: a pure function that meets any bytes.
namespace hipvmm::test {
namespace {

using byte_list = std::vector<unsigned char>;

detail::welcome_packet any_welcome() {
  detail::welcome_packet result{};
  result.identity = {{0, 2, 0}, {'h', 'o', 's', 't'}, 7};
  result.shape = {{1, 2, 3}, 4096, 1 << 20, 4096, 12, 4, 99};
  result.epoch = 5;
  return result;
}

detail::welcome_packet welcome_of_three_devices() {
  detail::welcome_packet result = any_welcome();
  result.other_devices = {{4, 5}, {6}};
  return result;
}

/// One packet of each kind, and the number of descriptors that goes with it.
struct sample {
  detail::packet content;
  std::size_t descriptors;
};
std::vector<sample> samples() {
  return {{detail::chunk_packet{{{0, 4096, 1}, {4096, 8192, 2, 1}}}, 2},
          {detail::note_packet{"a note"}, 0},
          {detail::hello_packet{any_welcome().identity}, 0},
          {any_welcome(), 1},
          {welcome_of_three_devices(), 1},
          {detail::refusal_packet{"no"}, 0},
          {detail::request_packet{3, 4}, 0},
          {detail::retired_packet{{{0, 4096, 1}}}, 0},
          {detail::complete_packet{3, 4}, 0},
          {detail::block_packet{4096, 100, 1}, 0},
          {detail::present_packet{{{0, 4096, 1}}}, 0},
          {detail::present_packet{}, 0},
          {detail::answer_packet{3, 4}, 0},
          {detail::expired_packet{"too late"}, 0}};
}

std::string complaint(const byte_list& bytes, std::size_t descriptors) {
  const detail::decoded_packet result = detail::decode(bytes.data(), bytes.size(), descriptors);
  if (result.content) return {};
  REQUIRE(result.wrong != nullptr);
  return result.wrong;
}

bool mentions(const std::string& text, const char* word) {
  return text.find(word) != std::string::npos;
}

TEST_CASE("packet: every kind is read as it was written") {
  for (const sample& each : samples()) {
    CAPTURE(each.content.index());
    const byte_list bytes = detail::encode(each.content, each.descriptors);
    CHECK(bytes.size() <= detail::max_packet_bytes);
    CHECK(detail::promised_descriptors(bytes.data(), bytes.size()) == each.descriptors);
    const detail::decoded_packet read =
        detail::decode(bytes.data(), bytes.size(), each.descriptors);
    REQUIRE(read.content.has_value());
    CHECK(read.content->index() == each.content.index());
    CHECK(detail::encode(*read.content, each.descriptors) == bytes);
  }
  const byte_list welcome = detail::encode(any_welcome(), 1);
  const auto read = detail::decode(welcome.data(), welcome.size(), 1);
  CHECK(std::get<detail::welcome_packet>(*read.content).shape == any_welcome().shape);
  CHECK(std::get<detail::welcome_packet>(*read.content).identity == any_welcome().identity);
}

TEST_CASE("packet: the numbers are little-endian behind a fixed header") {
  const byte_list bytes = detail::encode(detail::request_packet{0x0102, 0x0304}, 0);
  const byte_list expected{'h', 'i', 'p', 'v', 'm', 'm', 'I', 'P', 1, 0, 6, 0, 0, 0,
                           0,   0,   16,  0,   0,   0,   0,   0,   0, 0, 2, 1, 0, 0,
                           0,   0,   0,   0,   4,   3,   0,   0,   0, 0, 0, 0};
  CHECK(bytes == expected);
}

TEST_CASE("packet: each cut and each byte more is refused") {
  for (const sample& each : samples()) {
    const byte_list whole = detail::encode(each.content, each.descriptors);
    for (std::size_t length = 0; length < whole.size(); ++length)
      CHECK(!complaint({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)},
                       each.descriptors)
                 .empty());
    byte_list longer = whole;
    longer.push_back(0);
    CHECK(mentions(complaint(longer, each.descriptors), "length"));
  }
}

TEST_CASE("packet: other descriptors than its kind has are refused") {
  for (const sample& each : samples()) {
    const byte_list bytes = detail::encode(each.content, each.descriptors);
    CHECK(mentions(complaint(bytes, each.descriptors + 1), "descriptors"));
    // Stated and received, but more than the kind has.
    const byte_list more = detail::encode(each.content, each.descriptors + 1);
    CHECK(mentions(complaint(more, each.descriptors + 1), "descriptors"));
  }
}

TEST_CASE("packet: each field of the header is checked") {
  const byte_list whole = detail::encode(detail::note_packet{"text"}, 0);
  const auto with = [&](std::size_t index, unsigned char value) {
    byte_list changed = whole;
    changed[index] = value;
    return complaint(changed, 0);
  };
  CHECK(mentions(with(0, 'x'), "mark"));
  CHECK(mentions(with(8, 2), "version of the protocol"));
  CHECK(mentions(with(10, 0), "kind"));
  CHECK(mentions(with(10, 13), "kind"));
  CHECK(mentions(with(12, 1), "descriptors"));
  CHECK(mentions(with(14, 1), "reserved"));
  CHECK(mentions(with(16, 5), "length"));
  CHECK(mentions(with(20, 1), "reserved"));
}

TEST_CASE("packet: numbers that contradict each other are refused") {
  const auto chunk = [](detail::chunk_record place) {
    return complaint(detail::encode(detail::chunk_packet{{place}}, 1), 1);
  };
  CHECK(chunk({0, 4096, 1}).empty());
  CHECK(mentions(chunk({0, 0, 1}), "size"));
  CHECK(mentions(chunk({0, 4096, 0}), "serial"));
  CHECK(mentions(chunk({UINT64_MAX - 1, 4096, 1}), "2^64"));
  CHECK(chunk({0, 4096, 1, 15}).empty());
  CHECK(mentions(chunk({0, 4096, 1, 16}), "device"));

  const auto block = [](detail::block_packet content) {
    return complaint(detail::encode(content, 0), 0);
  };
  CHECK(block({0, 1, 65'536}).empty());
  CHECK(mentions(block({0, 0, 1}), "size"));
  CHECK(mentions(block({UINT64_MAX, 1, 1}), "2^64"));
  CHECK(mentions(block({0, 1, 0}), "no chunks"));
  CHECK(mentions(block({0, 1, 65'537}), "too many"));

  const auto shape = [](auto change) {
    detail::welcome_packet changed = any_welcome();
    change(changed.shape);
    return complaint(detail::encode(changed, 1), 1);
  };
  CHECK(shape([](auto&) {}).empty());
  CHECK(!shape([](auto& s) { s.granularity = 0; }).empty());
  CHECK(!shape([](auto& s) { s.granularity = 4097; }).empty());
  CHECK(!shape([](auto& s) { s.max_bytes = 0; }).empty());
  CHECK(!shape([](auto& s) { s.max_bytes += 1; }).empty());
  CHECK(!shape([](auto& s) { s.data_offset = s.max_bytes; }).empty());
  CHECK(!shape([](auto& s) { s.element_align = 0; }).empty());
  CHECK(!shape([](auto& s) { s.element_size = 13; }).empty());
  CHECK(shape([](auto& s) { s.element_size = s.element_align = 0; }).empty());
}

TEST_CASE("packet: what random changes make is refused, or read as it is written") {
  std::mt19937 random = seeded_generator();
  const std::vector<sample> all = samples();
  for (int round = 0; round < 20'000; ++round) {
    const sample& one = all[below(random, all.size())];
    byte_list bytes = detail::encode(one.content, one.descriptors);
    for (std::size_t changes = 1 + below(random, 3); changes != 0; --changes)
      bytes[below(random, bytes.size())] = static_cast<unsigned char>(below(random, 256));
    bytes.insert(bytes.begin(), static_cast<unsigned char>(one.descriptors));
    CHECK(LLVMFuzzerTestOneInput(bytes.data(), bytes.size()) == 0);
  }
}

}  // namespace
}  // namespace hipvmm::test
