// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "stream_model.hpp"

namespace hipvmm::test::model {

struct shared_log {
  static constexpr std::size_t lines = 100;
  std::size_t made;
  std::size_t effects;
  std::size_t refusals;
  std::array<std::array<char, 160>, lines> calls;
  std::array<char, 320> difference;
};

/// A thread that makes calls for another, which waits meanwhile.
class second_thread {
 public:
  second_thread();
  second_thread& operator=(second_thread&&) = delete;
  ~second_thread();

  /// The thread then forgets the call's last error.
  hipError_t make(const std::function<hipError_t()>& call);

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<hipError_t()>* next_ = nullptr;
  hipError_t code_ = hipSuccess;
  bool has_ended_ = false;
  std::thread thread_;  // last: it uses the others
};

/// Makes random calls on streams, events, pools and captures, those on captures each in one of two
/// threads, and compares their codes and effects with a model.
class stream_lockstep {
 public:
  stream_lockstep(stream_rules rules, std::uint32_t seed, shared_log& log);

  [[nodiscard]] bool differs() const { return log_.difference[0] != 0; }
  void step();

 private:
  using state = capture_state;

  std::size_t below(std::size_t most) { return random_() % most; }
  bool one_in(std::size_t count) { return below(count) == 0; }
  template <class Value>
  Value one_of(std::initializer_list<Value> values) {
    return values.begin()[below(values.size())];
  }

  static void must(hipError_t given);
  void make_stream(std::size_t slot);
  __attribute__((format(printf, 2, 3))) void says(const char* format, ...);
  bool is(hipError_t expected, hipError_t given);
  void holds(bool condition, const char* what);
  hipError_t in_thread(std::size_t thread, const std::function<hipError_t()>& call);

  void create_event();
  void record();
  void query();
  void synchronize();
  void elapsed();
  void wait_event();
  void destroy_event();
  void ask_held();

  void create_pool();
  void destroy_pool();
  void set_attribute();
  void get_attribute();
  void trim();
  void allocate();
  void deallocate();

  void fill();
  void fill_null_stream();
  void fill_and_wait();
  void allocate_now();
  void allocate_managed();
  void launch_host_function();
  void add_callback();
  void exchange_mode();
  void begin();
  void end();
  void is_capturing();
  void sync_stream() { ask_stream("hipStreamSynchronize", &hipStreamSynchronize); }
  void query_stream() { ask_stream("hipStreamQuery", &hipStreamQuery); }
  void sync_event() { ask_event("hipEventSynchronize", &hipEventSynchronize); }
  void query_event() { ask_event("hipEventQuery", &hipEventQuery); }
  void ask_stream(const char* name, hipError_t (*call)(hipStream_t));
  void ask_event(const char* name, hipError_t (*call)(hipEvent_t));
  /// Whether a release looks at the mode of the last capture of a stream that is not captured.
  [[nodiscard]] bool is_asked_by_last_mode(std::size_t in) const;
  void sync_device();
  void launch(hipGraph_t graph, std::size_t in, int recorded);
  void count_calls(int more);
  void drain(std::size_t in);

  std::mt19937 random_;
  stream_model model_;
  shared_log& log_;
  std::array<void*, 2> memory_ = {};
  std::vector<void*> unfreed_;  ///< allocated while something was captured
  std::atomic<int> called_{0};  ///< by host functions and callbacks
  int expected_ = 0;
  second_thread other_;
};

}  // namespace hipvmm::test::model
