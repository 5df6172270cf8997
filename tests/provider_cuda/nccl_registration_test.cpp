// SPDX-License-Identifier: MIT
// Over NCCL itself, two devices in one process, a thread for each rank.
#include <hipvmm/compat/nccl_registration.hpp>

#include <doctest/doctest.h>

#include <array>
#include <barrier>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/region/retirement.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "support/devices.hpp"

namespace hipvmm::test {
namespace {

/// A stream as NCCL's functions take it.
struct stream_of_nccl {
  stream_ref stream;
  template <typename T>
  operator T*() const noexcept {  // NOLINT(google-explicit-constructor): a parameter decides
    return reinterpret_cast<T*>(stream.get());
  }
};

void require_success(ncclResult_t result) {
  if (result != ncclSuccess) throw std::runtime_error{ncclGetErrorString(result)};
}

/// Two communicators of devices 0 and 1.
struct two_ranks {
  std::array<ncclComm_t, 2> communicators{};
  std::barrier<> all{2};

  two_ranks() { require_success(ncclCommInitAll(communicators.data(), 2, nullptr)); }
  ~two_ranks() {
    for (const ncclComm_t each : communicators) ncclCommDestroy(each);
  }
  two_ranks& operator=(two_ranks&&) = delete;

  /// Runs `work(rank)` in a thread for each, whose device is current.
  void run(const std::function<void(int)>& work) {
    std::array<std::exception_ptr, 2> thrown;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank)
      threads.emplace_back([&, rank] {
        try {
          const scoped_device scope{device_ref{rank}};
          work(rank);
        } catch (...) {
          thrown[static_cast<std::size_t>(rank)] = std::current_exception();
        }
      });
    for (std::thread& each : threads) each.join();
    for (const std::exception_ptr& each : thrown)
      if (each) std::rethrow_exception(each);
  }
};

/// A rank's vector, registered with its communicator.
struct registered_rank {
  static constexpr std::size_t chunk = 16 * MiB;
  int rank;
  ncclComm_t communicator;
  stream own{device_ref{rank}};
  std::shared_ptr<nccl_registration> registration;
  growable_device_vector<int> vector;

  registered_rank(int which, ncclComm_t ranks)
      : rank{which},
        communicator{ranks},
        registration{std::make_shared<nccl_registration>(device_ref{rank}, plain_options())},
        vector{device_ref{rank}, options()} {
    registration->add_communicator(communicator);
  }
  ~registered_rank() {
    drain_retired_memory();
    registration->remove_communicator(communicator);
  }
  registered_rank& operator=(registered_rank&&) = delete;

  [[nodiscard]] growth_options plain_options() const {
    return growth_options{.max_bytes = GiB,
                          .step_limit = 0,
                          .granule_bytes = chunk,
                          .chunks = {.shareable = handle_type::posix_fd}};
  }
  [[nodiscard]] growth_options options() const {
    growth_options result = plain_options();
    result.chunks.registrar = registration;
    return result;
  }
  void grow_to(std::size_t chunks) {
    while (vector.capacity() < chunks * chunk / sizeof(int))
      vector.resize_uninitialized(vector.capacity() + chunk / sizeof(int));
    vector.resize_uninitialized(chunks * chunk / sizeof(int));
  }
  /// Sends half of each chunk to the other rank, and receives in the other half.
  void swap_halves() {
    const std::size_t half = chunk / sizeof(int) / 2;
    const std::size_t chunks = vector.size() / half / 2;
    for (std::size_t at = 0; at < chunks; ++at)
      for (const std::size_t element : {std::size_t{0}, half - 1})
        vector.set_element(at * 2 * half + element, 100 * rank + static_cast<int>(at), own);
    const auto held = registration->lock();
    require_success(ncclGroupStart());
    for (std::size_t at = 0; at < chunks; ++at) {
      int* const begin = vector.data() + at * 2 * half;
      require_success(ncclSend(begin, half * sizeof(int), ncclInt8, 1 - rank, communicator,
                               stream_of_nccl{own}));
      require_success(ncclRecv(begin + half, half * sizeof(int), ncclInt8, 1 - rank, communicator,
                               stream_of_nccl{own}));
    }
    require_success(ncclGroupEnd());
  }
  [[nodiscard]] bool has_swapped() {
    const std::size_t half = chunk / sizeof(int) / 2;
    for (std::size_t at = 0; at < vector.size() / half / 2; ++at)
      for (const std::size_t element : {half, 2 * half - 1})
        if (vector.element(at * 2 * half + element, own) != 100 * (1 - rank) + static_cast<int>(at))
          return false;
    return true;
  }
};

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("nccl_registration: two devices exchange registered chunks while they grow and shrink") {
  HIPVMM_REQUIRE_TWO_DEVICES();
  two_ranks ranks;
  std::array<std::size_t, 2> registered{};
  std::array<bool, 2> is_right{true, true};
  ranks.run([&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    registered_rank own{rank, ranks.communicators[at]};
    for (const std::size_t chunks : {1, 3, 6}) {
      own.grow_to(chunks);
      own.swap_halves();
      is_right[at] = is_right[at] && own.has_swapped();
    }
    registered[at] = own.registration->count();
    // NCCL has ended in both streams.
    own.own.synchronize();
    ranks.all.arrive_and_wait();
    own.vector.resize_uninitialized(registered_rank::chunk / sizeof(int));
    own.vector.shrink_to_fit(own.own);
    drain_retired_memory();
    is_right[at] = is_right[at] && own.registration->count() == 1;
    own.grow_to(2);
    own.swap_halves();
    is_right[at] = is_right[at] && own.has_swapped();
    own.own.synchronize();
    ranks.all.arrive_and_wait();
  });
  CHECK(registered[0] == 6);
  CHECK(registered[1] == 6);
  CHECK(is_right[0]);
  CHECK(is_right[1]);
}

TEST_CASE("nccl_registration: a range of chunks as one buffer, and as a window where NCCL has it") {
  HIPVMM_REQUIRE_TWO_DEVICES();
  two_ranks ranks;
  std::array<std::string, 2> window{"made", "made"};
  std::array<bool, 2> is_right{true, true};
  ranks.run([&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    registered_rank own{rank, ranks.communicators[at]};
    own.grow_to(2);
    own.registration->register_range(own.communicator, own.vector.data(),
                                     2 * registered_rank::chunk);
    own.swap_halves();
    is_right[at] = own.has_swapped() && own.registration->count() == 3;
#if HIPVMM_NCCL_DECLARES_WINDOWS
    try {
      static_cast<void>(own.registration->register_window(own.communicator, own.vector.data(),
                                                          2 * registered_rank::chunk));
    } catch (const std::exception& error) {
      window[at] = error.what();
    }
#endif
    own.own.synchronize();
    ranks.all.arrive_and_wait();
  });
  CHECK(is_right[0]);
  CHECK(is_right[1]);
  MESSAGE("windows: " << window[0] << "; " << window[1]);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
