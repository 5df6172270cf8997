// SPDX-License-Identifier: MIT
// A loader process fills blocks of its pool, and a trainer process reads them in place: each
// block goes over a channel as the descriptors of its chunks. The trainer maps a chunk once,
// however many blocks it has, and the loader deallocates a block when the trainer says that it is
// done.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <exception>
#include <hipvmm/hipvmm.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t batches = 12;
constexpr std::size_t in_flight = 3;  // blocks that the trainer may have at the same time

// Each batch has another length, as padded sentences do.
std::size_t length_of(std::size_t batch) { return 200'000 + batch % 5 * 150'000; }

/// Deallocates the blocks that the trainer is done with, until at most `most` are left.
void take_back(hipvmm::fd_channel& trainer, hipvmm::mr::vmm_pool_resource& pool,
               std::deque<void*>& sent, std::size_t most) {
  while (sent.size() > most) {
    if (!trainer.receive()) throw std::runtime_error{"the trainer has ended"};
    pool.deallocate(sent.front());
    sent.pop_front();
  }
}

void load(hipvmm::fd_channel trainer) {
  const hipvmm::device_ref device = hipvmm::device_ref::current();
  const hipvmm::stream stream{device};
  hipvmm::mr::pool_options options;
  options.maximum_bytes = 256 * hipvmm::MiB;
  options.shareable = hipvmm::handle_type::posix_fd;
  hipvmm::mr::vmm_pool_resource pool{device, options};
  trainer.send_note(std::to_string(pool.statistics().address_bytes));
  std::deque<void*> sent;
  for (std::size_t batch = 0; batch < batches; ++batch) {
    const std::vector<int> numbers(length_of(batch), static_cast<int>(batch));
    void* const block = pool.allocate(stream, numbers.size() * sizeof(int));
    hipvmm::copy(stream, block, numbers.data(), numbers.size() * sizeof(int));  // waits
    trainer.send(pool.export_block(block));
    sent.push_back(block);
    take_back(trainer, pool, sent, in_flight - 1);
  }
  take_back(trainer, pool, sent, 0);
}

bool train(hipvmm::fd_channel loader) {
  const auto opening = loader.receive();
  if (!opening) return false;  // the loader says why
  const hipvmm::device_ref device = hipvmm::device_ref::current();
  const hipvmm::stream stream{device};
  hipvmm::imported_blocks blocks{device, std::stoull(opening->note)};
  std::size_t seen = 0;
  while (auto message = loader.receive()) {
    const hipvmm::imported_block batch = blocks.add(std::move(message->block.value()));
    std::vector<int> numbers(length_of(seen));
    hipvmm::copy(stream, numbers.data(), batch.data(), numbers.size() * sizeof(int));
    if (std::count(numbers.begin(), numbers.end(), static_cast<int>(seen)) !=
        static_cast<std::ptrdiff_t>(numbers.size()))
      throw std::runtime_error{"read other numbers than were loaded"};
    ++seen;
    loader.send_note("done");  // the copy has passed, so the block may be deallocated
  }
  if (seen != batches) return false;
  std::printf("the trainer read %zu batches of the loader's pool and mapped %zu chunks\n", seen,
              blocks.chunks().size());
  return true;
}

/// Runs one side and turns its exceptions into a sentence.
template <typename Side>
bool succeeds(const char* side, Side run) {
  try {
    return run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "share_pool: %s: %s\n", side, error.what());
    return false;
  }
}

}  // namespace

int main() {
  hipvmm::channel_options options;
  // A driver that many processes start at once needs seconds for each.
  options.timeout = std::chrono::seconds{60};
  std::pair<hipvmm::fd_channel, hipvmm::fd_channel> ends = hipvmm::fd_channel::make_pair(options);
  hipvmm::fd_channel& to_loader = ends.first;
  hipvmm::fd_channel& to_trainer = ends.second;
  // Before the first HIP call: a runtime that is already running does not survive fork.
  const ::pid_t child = ::fork();
  if (child < 0) {
    std::perror("share_pool: fork");
    return 1;
  }
  if (child == 0) {
    { const hipvmm::fd_channel others{std::move(to_trainer)}; }
    return succeeds("trainer", [&] { return train(std::move(to_loader)); }) ? 0 : 1;
  }
  { const hipvmm::fd_channel others{std::move(to_loader)}; }
  const bool loaded = succeeds("loader", [&] {
    load(std::move(to_trainer));
    return true;
  });
  { const hipvmm::fd_channel closing{std::move(to_trainer)}; }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && status == 0 && loaded ? 0 : 1;
}
