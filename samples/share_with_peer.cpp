// SPDX-License-Identifier: MIT
// One grant lets a second device use a vector of the first, those elements that are there and those
// that come later: growth needs no further call. With virtual memory the second device's pointer
// stays right too; if the vector stands on hipMalloc, growth changes data() for both. Devices
// without a link copy instead. `share_with_peer forget` leaves the grant out, to show HIP's answer.
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <hipvmm/hipvmm.hpp>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace {

constexpr std::size_t half = 4'000'000;

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error{what};
}

std::vector<int> made_numbers() {
  std::vector<int> numbers(2 * half);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

void share(hipvmm::device_ref owner, hipvmm::device_ref peer, bool forget) {
  const std::vector<int> numbers = made_numbers();
  const hipvmm::stream owner_stream{owner};
  const hipvmm::stream peer_stream{peer};

  hipvmm::growable_device_vector<int> shared{owner};
  shared.append(numbers.data(), half, owner_stream);
  if (!forget) shared.grant(peer);
  shared.append(numbers.data() + half, half, owner_stream);  // added after the grant

  hipvmm::event written{owner};
  written.record(owner_stream);
  peer_stream.wait(written);  // the order of the two streams is the program's task

  hipvmm::growable_device_vector<int> copy{peer};
  copy.grant(owner);  // on ROCm 6 the engine of the memory that is read makes the copy
  copy.append_from_device(shared.span(), peer_stream);  // the peer reads the owner's memory
  require(copy.copy_to_host(peer_stream) == numbers,
          "the peer read something else than was written");
  std::printf("device %d read %zu ints of device %d, half of them added after the grant\n",
              peer.ordinal(), copy.size(), owner.ordinal());
}

void share_pool(hipvmm::device_ref owner, hipvmm::device_ref peer) {
  const hipvmm::stream owner_stream{owner};
  const hipvmm::stream peer_stream{peer};
  int sum = 0;
  hipvmm::mr::vmm_pool_resource pool{owner};
  pool.grant(peer);  // all memory of the pool, also memory that it takes later
  {
    const hipvmm::scoped_device current{owner};
    hipvmm::device_scalar<int> value{42, owner_stream, &pool};
    hipvmm::event written{owner};
    written.record(owner_stream);
    peer_stream.wait(written);
    hipvmm::copy(peer_stream, &sum, value.data(), sizeof(int));
  }
  require(sum == 42, "the peer read something else from the pool");
}

/// A table that all devices with a link may write, and only read once it is complete.
void share_with_all(hipvmm::device_ref owner, hipvmm::device_ref peer) {
  const hipvmm::stream owner_stream{owner};
  const hipvmm::stream peer_stream{peer};

  hipvmm::growth_options options;
  options.chunks.access = hipvmm::all_reachable_peers(owner);
  hipvmm::growable_device_vector<int> table{owner, options};
  table.append(made_numbers(), owner_stream);
  owner_stream.synchronize();  // HIP takes rights away at once, from work in flight too

  // Memory of hipMalloc cannot be read-only.
  if (hipvmm::capability_of(owner).path() == hipvmm::memory_path::fallback) return;
  table.set_access({{owner, hipvmm::access_right::read}, {peer, hipvmm::access_right::read}});
  for (const hipvmm::chunk_access& each : table.effective_access())  // HIP's answer
    require(each.rights.find(peer) == hipvmm::access_right::read, "the peer has another right");
  require(table.copy_to_host(peer_stream) == made_numbers(), "the peer read something else");
}

/// Without a link each device reaches only its own side of a copy. The arrays are of hipMalloc,
/// which every release copies so; between vectors ROCm 6 does not (trait::peer_copies).
void copy_across(hipvmm::device_ref owner, hipvmm::device_ref peer) {
  try {
    hipvmm::growable_device_vector<int> shared{owner};
    shared.grant(peer);
  } catch (const hipvmm::unsupported& error) {
    std::printf("%s\n", error.what());
  }

  const std::vector<int> numbers = made_numbers();
  const hipvmm::stream stream{owner};
  hipvmm::device_uvector<int> ours{numbers.size(), stream};
  hipvmm::copy(stream, ours.data(), numbers.data(), numbers.size() * sizeof(int));

  const hipvmm::scoped_device there{peer};  // the device of the copy
  const hipvmm::stream peer_stream{peer};
  const hipvmm::device_uvector<int> theirs{ours, peer_stream};
  std::vector<int> read(theirs.size());
  hipvmm::copy(peer_stream, read.data(), theirs.data(), read.size() * sizeof(int));
  require(read == numbers, "the copy has other numbers");
  std::printf("copied %zu ints from device %d to device %d\n", theirs.size(), owner.ordinal(),
              peer.ordinal());
}

void run(bool forget) {
  const hipvmm::device_ref owner = hipvmm::device_ref::current();
  const int count = hipvmm::device_count();
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    const hipvmm::device_ref peer{ordinal};
    if (peer == owner || !peer.can_access_peer(owner)) continue;
    share(owner, peer, forget);
    share_pool(owner, peer);
    return share_with_all(owner, peer);
  }
  for (int ordinal = 0; ordinal < count; ++ordinal)
    if (ordinal != owner.ordinal()) return copy_across(owner, hipvmm::device_ref{ordinal});
  std::puts("nothing to show: there is one device");
}

}  // namespace

int main(int count, char** arguments) {
  try {
    run(count > 1 && std::strcmp(arguments[1], "forget") == 0);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "share_with_peer: %s\n", error.what());
    return 1;
  }
}
