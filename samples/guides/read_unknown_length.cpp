// SPDX-License-Identifier: MIT
// Reads a file, or a text it makes up, into device memory without knowing how long it is. Two
// pinned blocks take turns: one is read into while the other one is copied.
#include <cstddef>
#include <cstdio>
#include <exception>
#include <fstream>
#include <hipvmm/hipvmm.hpp>
#include <istream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

/// A block of pinned memory and when the copy out of it is done.
struct pinned_block {
  static constexpr std::size_t bytes = 4 * hipvmm::MiB;
  pinned_block(hipvmm::stream_ref stream, hipvmm::mr::memory_resource* pinned)
      : memory{bytes, stream, pinned} {}
  [[nodiscard]] char* data() { return static_cast<char*>(memory.data()); }

  hipvmm::device_buffer memory;
  hipvmm::event copied;
};

void append_all(hipvmm::growable_device_vector<char>& to, std::istream& input,
                hipvmm::stream_ref stream) {
  hipvmm::mr::pinned_host_resource pinned;
  pinned_block blocks[] = {{stream, &pinned}, {stream, &pinned}};
  for (std::size_t turn = 0;; turn = 1 - turn) {
    pinned_block& block = blocks[turn];
    block.copied.synchronize();  // of the copy two turns ago
    input.read(block.data(), pinned_block::bytes);
    const auto got = static_cast<std::size_t>(input.gcount());
    if (got == 0) break;
    to.append(block.data(), got, stream);  // grows if it must, and does not wait for the copy
    block.copied.record(stream);
  }
}

/// A text of 100 MB or so.
std::string made_up_text() {
  std::string text;
  for (int line = 0; text.size() < 100'000'000; ++line)
    text += "line " + std::to_string(line) + " of a text whose length nobody knows\n";
  return text;
}

void read(std::istream& input, const std::string* expected) {
  const hipvmm::stream stream;
  hipvmm::growth_options options;
  options.grow_ahead.prepare = hipvmm::prefetch_level::mapped;  // the next chunk is made meanwhile
  hipvmm::growable_device_vector<char> text{stream.device(), options};
  append_all(text, input, stream);
  text.shrink_to_fit(stream);  // whole chunks behind the end return to the device
  const hipvmm::growth_statistics growth = text.statistics();
  std::printf("%zu bytes; %zu of them copied by growth\n", text.size(), growth.copied_bytes);
  const std::vector<char> read_back = text.copy_to_host(stream);
  if (expected != nullptr && std::string{read_back.begin(), read_back.end()} != *expected)
    throw std::runtime_error{"the device has another text than was read"};
}

/// The refusal by a reader of input that is longer than its limit.
void read_at_most(std::istream& input, std::size_t bytes) {
  const hipvmm::stream stream;
  hipvmm::growth_options options;
  options.max_bytes = bytes;
  options.past_max = hipvmm::past_max_size::refuse;
  hipvmm::growable_device_vector<char> text{stream.device(), options};
  try {
    append_all(text, input, stream);
  } catch (const std::length_error& error) {
    std::printf("%s\n%zu bytes were read before that and are here\n", error.what(), text.size());
  }
}

void run(int count, char** arguments) {
  static_cast<void>(hipvmm::device_ref::current());  // throws if there is none
  if (count > 1) {
    std::ifstream file{arguments[1], std::ios::binary};
    if (!file) throw std::runtime_error{std::string{"cannot open "} + arguments[1]};
    return read(file, nullptr);
  }
  const std::string text = made_up_text();
  std::istringstream input{text};
  read(input, &text);
  std::istringstream again{text};
  read_at_most(again, 64 * hipvmm::MiB);
}

}  // namespace

int main(int count, char** arguments) {
  try {
    run(count, arguments);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "read_unknown_length: %s\n", error.what());
    return 1;
  }
}
