// SPDX-License-Identifier: MIT
// Ranks send each other elements that nobody has counted: a ragged all-to-all into growable
// vectors. The ranks are threads of this process; with MPI, NCCL or RCCL the calls are the same.
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <hipvmm/hipvmm.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int ranks_of_sample = 3;

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error{what};
}

/// The rank of a number.
int owner_of(int number, int size) { return number % 10 % size; }

/// Numbers, those for each rank together, and how many these are.
struct grouped_numbers {
  std::vector<int> values;
  std::vector<std::size_t> counts;
};

grouped_numbers numbers_of(int rank, int size) {
  grouped_numbers result;
  for (int to = 0; to < size; ++to) {
    const std::size_t before = result.values.size();
    for (int number = 0; number < 1000 * (rank + 1); ++number)
      if (owner_of(number, size) == to) result.values.push_back(number);
    result.counts.push_back(result.values.size() - before);
  }
  return result;
}

/// Sends each number to its owner. Returns a line about the received numbers.
std::string send_to_owners(hipvmm::communicator& ranks, const hipvmm::stream& stream) {
  const grouped_numbers mine = numbers_of(ranks.rank(), ranks.size());

  hipvmm::growable_device_vector<int> grouped{ranks.device()};  // those for rank 0, for rank 1, ...
  grouped.append(mine.values, stream);
  hipvmm::growable_device_vector<int> received{ranks.device()};
  const hipvmm::exchange_result came =
      hipvmm::exchange(grouped, mine.counts, received, ranks, stream);  // grows as far as it must

  for (const int number : received.copy_to_host(stream))
    require(owner_of(number, ranks.size()) == ranks.rank(), "a number came to the wrong rank");
  std::string line = "rank " + std::to_string(ranks.rank()) + " received " +
                     std::to_string(received.size()) + " numbers:";
  for (const std::size_t count : came.counts) line += " " + std::to_string(count);
  return line;
}

/// One rank has no room: all throw, and all go on. Returns the message of this one's exception.
std::string run_short(hipvmm::communicator& ranks, const hipvmm::stream& stream) {
  const grouped_numbers mine = numbers_of(ranks.rank(), ranks.size());
  hipvmm::growable_device_vector<int> grouped{ranks.device()};
  grouped.append(mine.values, stream);

  hipvmm::growth_options options;
  if (ranks.rank() == 1) {
    options.max_bytes = 2 * hipvmm::MiB;
    options.past_max = hipvmm::past_max_size::refuse;
  }
  hipvmm::growable_device_vector<int> received{ranks.device(), options};
  if (ranks.rank() == 1) received.resize(received.max_size(), stream);
  const std::size_t before = received.size();

  std::string told;
  try {
    hipvmm::exchange(grouped, mine.counts, received, ranks, stream);
  } catch (const hipvmm::rank_error& error) {  // the other ranks
    require(error.reason() == hipvmm::rank_failure::remote, "another failure was expected");
    told = error.what();
  } catch (const std::length_error& error) {  // rank 1, whose fault it is
    told = error.what();
  }
  require(!told.empty() && received.size() == before, "an exchange that fails must change nothing");

  if (ranks.rank() == 1) received.clear();  // room for the numbers of the others
  hipvmm::exchange(grouped, mine.counts, received, ranks, stream);
  return told;
}

struct rank_lines {
  std::string received;
  std::string told;
  std::string failure;
};

/// The work of each thread: makes its rank; the others notice its end, however it ends.
void run_rank(hipvmm::thread_ranks& group, int rank, hipvmm::device_ref device, rank_lines& lines) {
  try {
    hipvmm::thread_communicator ranks{group, rank, device};
    const hipvmm::stream stream{device};
    lines.received = send_to_owners(ranks, stream);
    lines.told = run_short(ranks, stream);
    stream.synchronize();
  } catch (const std::exception& error) {
    lines.failure = error.what();
  }
}

void run() {
  const hipvmm::device_ref device = hipvmm::device_ref::current();
  hipvmm::communicator_options options;
  options.limit = std::chrono::seconds{30};  // how long a rank waits for the others
  hipvmm::thread_ranks group{ranks_of_sample, options};

  std::vector<rank_lines> lines(ranks_of_sample);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks_of_sample; ++rank)
    threads.emplace_back(
        [&, rank] { run_rank(group, rank, device, lines[static_cast<std::size_t>(rank)]); });
  for (std::thread& each : threads) each.join();

  for (const rank_lines& each : lines) {
    if (!each.failure.empty()) throw std::runtime_error{each.failure};
    std::printf("%s\n", each.received.c_str());
  }
  for (std::size_t rank = 0; rank < lines.size(); ++rank)
    std::printf("rank %zu: %s\n", rank, lines[rank].told.c_str());
}

}  // namespace

int main() {
  try {
    run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "exchange_ranks: %s\n", error.what());
    return 1;
  }
}
