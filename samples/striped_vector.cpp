// SPDX-License-Identifier: MIT
// One array on two devices: stripes of it are memory of each device in turn, behind one range of
// addresses, and growth goes on so. Then a region moves to the other
// device, and its addresses stay.
#include <cstddef>
#include <cstdio>
#include <exception>
#include <hipvmm/hipvmm.hpp>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <vector>

namespace {

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error{what};
}

/// Another device that reaches `device` and is reached by it.
std::optional<hipvmm::device_ref> peer_of(hipvmm::device_ref device) {
  for (int ordinal = 0; ordinal < hipvmm::device_count(); ++ordinal) {
    const hipvmm::device_ref other{ordinal};
    if (other != device && other.can_access_peer(device) && device.can_access_peer(other))
      return other;
  }
  return std::nullopt;
}

std::size_t bytes_on(const std::vector<hipvmm::chunk_view>& chunks, hipvmm::device_ref device) {
  std::size_t sum = 0;
  for (const hipvmm::chunk_view& each : chunks)
    if (each.device == device) sum += each.bytes;
  return sum;
}

void grow_over(hipvmm::device_ref first, hipvmm::device_ref second) {
  const std::size_t stripe = 4 * hipvmm::MiB;
  hipvmm::growth_options options;
  options.chunks.placement = hipvmm::chunk_placement::striped({first, second}, stripe);
  hipvmm::growable_device_vector<int> numbers{first, options};

  const hipvmm::stream stream{first};
  std::vector<int> expected(8'000'000);
  std::iota(expected.begin(), expected.end(), 0);
  const std::size_t half = expected.size() / 2;
  numbers.append(expected.data(), half, stream);
  numbers.append(expected.data() + half, half, stream);  // growth goes on by stripes

  const hipvmm::stream other{second};
  stream.synchronize();
  require(numbers.copy_to_host(other) == expected, "the second device read other numbers");
  const std::vector<hipvmm::chunk_view> chunks = numbers.chunks();
  std::printf("%zu ints in one range: %s on device %d, %s on device %d\n", numbers.size(),
              hipvmm::format_bytes(bytes_on(chunks, first)).c_str(), first.ordinal(),
              hipvmm::format_bytes(bytes_on(chunks, second)).c_str(), second.ordinal());
}

void move_between(hipvmm::device_ref first, hipvmm::device_ref second) {
  const hipvmm::stream stream{first};
  hipvmm::region region{first, 64 * hipvmm::MiB};
  region.grant(second);
  region.commit(0, 32 * hipvmm::MiB);
  hipvmm::fill_async(stream, region.base(), 0x42, 32 * hipvmm::MiB);

  const std::size_t moved = region.move_range(0, 32 * hipvmm::MiB, second, stream);
  unsigned char last = 0;
  hipvmm::copy(stream, &last, static_cast<char*>(region.base()) + moved - 1, 1);
  require(last == 0x42, "a byte was lost on the way");
  std::printf("%s moved to device %d behind the same addresses\n",
              hipvmm::format_bytes(moved).c_str(), region.chunks().front().device.ordinal());
}

void run() {
  const hipvmm::device_ref first = hipvmm::device_ref::current();
  const std::optional<hipvmm::device_ref> second = peer_of(first);
  if (!second) {
    std::puts("nothing to show: no two devices reach each other's memory");
    return;
  }
  for (const hipvmm::device_ref each : {first, *second}) {
    const hipvmm::capability found = hipvmm::capability_of(each);
    if (found.path() != hipvmm::memory_path::fallback) continue;
    std::printf("nothing to show: %s\n", found.why_fallback().c_str());
    return;
  }
  grow_over(first, *second);
  move_between(first, *second);
}

}  // namespace

int main() {
  try {
    run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "striped_vector: %s\n", error.what());
    return 1;
  }
}
