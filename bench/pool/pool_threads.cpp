// SPDX-License-Identifier: MIT
// Do threads that allocate at the same time hold each other up, each with a stream of its own or
// all on one?
//
// Above 40 ns a pair in aggregate with four threads on as many cores, threads wait for a lock.
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <exception>
#include <thread>
#include <utility>

#include "pool_contenders.hpp"

namespace bench {
namespace {

constexpr std::size_t request_bytes = 256;
// So that it does not matter when the last of them begins.
constexpr double samples_longer = 8;

enum class streams { one, one_for_each };

class threads_job final : public repeating_job {
 public:
  threads_job(resource_ptr resource, hipvmm::device_ref device, streams which, int threads,
              double sample_seconds)
      : repeating_job{sample_seconds}, resource_{std::move(resource)}, meeting_{threads + 1} {
    for (int i = 0; i < (which == streams::one ? 1 : threads); ++i) streams_.emplace_back(device);
    members_.resize(static_cast<std::size_t>(threads));
    for (std::size_t i = 0; i < members_.size(); ++i)
      threads_.emplace_back([this, i] { work(members_[i], streams_[i % streams_.size()]); });
  }
  ~threads_job() override {
    ends_ = true;
    meeting_.arrive_and_wait();
    for (std::thread& each : threads_) each.join();
  }

 private:
  using clock = std::chrono::steady_clock;
  struct member {
    clock::time_point begin;
    clock::time_point end;
    std::exception_ptr failure;
  };

  double run(std::size_t steps) override {
    pairs_of_each_ = steps / members_.size() + 1;
    meeting_.arrive_and_wait();  // all begin
    meeting_.arrive_and_wait();  // all have ended
    clock::time_point begin = clock::time_point::max();
    clock::time_point end = clock::time_point::min();
    for (const member& each : members_) {
      if (each.failure) std::rethrow_exception(each.failure);
      begin = std::min(begin, each.begin);
      end = std::max(end, each.end);
    }
    const auto done = static_cast<double>(pairs_of_each_ * members_.size());
    return std::chrono::duration<double>(end - begin).count() * static_cast<double>(steps) / done;
  }

  void work(member& me, hipvmm::stream_ref stream) {
    for (;;) {
      meeting_.arrive_and_wait();
      if (ends_) return;
      me.begin = clock::now();
      try {
        static_cast<void>(time_pairs(*resource_, stream, request_bytes, pairs_of_each_));
      } catch (...) {
        me.failure = std::current_exception();
      }
      me.end = clock::now();
      meeting_.arrive_and_wait();
    }
  }

  resource_ptr resource_;
  std::vector<hipvmm::stream> streams_;
  // Written between two meetings, while the others wait for the second.
  std::size_t pairs_of_each_ = 0;
  bool ends_ = false;
  std::vector<member> members_;
  std::barrier<> meeting_;
  std::vector<std::thread> threads_;
};

}  // namespace

std::vector<measurement> measure_threads(const pool_settings& chosen) {
  const hipvmm::device_ref device = chosen.common.device;
  std::vector<measurement> rows;
  for (const auto& [scenario, which] : {std::pair{scenario::own_streams, streams::one_for_each},
                                        std::pair{scenario::one_stream, streams::one}})
    for (const int threads : chosen.threads)
      for (measurement& row : measure_each<threads_job>(
               row_for(scenario, request_bytes, threads), contenders(device), chosen, device, which,
               threads, samples_longer * chosen.sample_seconds))
        rows.push_back(std::move(row));
  return rows;
}

}  // namespace bench
