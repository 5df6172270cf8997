// SPDX-License-Identifier: MIT
// One grant lets a second device use a vector of the first, those elements that are there and those
// that come later: growth needs no further call. With virtual memory the second device's pointer
// stays right too; where the vector stands on hipMalloc, growth changes data() for both.
#include <cstdio>
#include <exception>
#include <hipvmm/hipvmm.hpp>
#include <numeric>
#include <vector>

namespace {

constexpr std::size_t half = 4'000'000;

int share(hipvmm::device_ref owner, hipvmm::device_ref peer) {
  const hipvmm::stream owner_stream{owner};
  const hipvmm::stream peer_stream{peer};

  std::vector<int> numbers(2 * half);
  std::iota(numbers.begin(), numbers.end(), 0);

  hipvmm::growable_device_vector<int> shared{owner};
  shared.append(numbers.data(), half, owner_stream);
  shared.grant(peer);
  shared.append(numbers.data() + half, half, owner_stream);  // added after the grant

  hipvmm::event written{owner};
  written.record(owner_stream);
  peer_stream.wait(written);

  hipvmm::growable_device_vector<int> copy{peer};
  copy.grant(owner);  // on ROCm 6 the engine of the memory that is read makes the copy
  copy.append_from_device(shared.span(), peer_stream);  // the peer reads the owner's memory
  if (copy.copy_to_host(peer_stream) != numbers) {
    std::fputs("share_with_peer: the peer read something else than was written\n", stderr);
    return 1;
  }
  std::printf("device %d read %zu ints of device %d, half of them added after the grant\n",
              peer.ordinal(), copy.size(), owner.ordinal());
  return 0;
}

int run() {
  const hipvmm::device_ref owner = hipvmm::device_ref::current();
  const int count = hipvmm::device_count();
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    const hipvmm::device_ref peer{ordinal};
    if (peer != owner && peer.can_access_peer(owner)) return share(owner, peer);
  }
  std::printf("nothing to show: of %d devices, only device %d itself can reach its memory\n", count,
              owner.ordinal());
  return 0;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "share_with_peer: %s\n", error.what());
    return 1;
  }
}
