// SPDX-License-Identifier: MIT
#include <hip/hip_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/runtime/event.hpp>
#include "capability/probe.hpp"
#include "core/check.hpp"
#include "runtime/device.hpp"
#include "runtime/host_function.hpp"
#include "runtime/pool/hip_pool.hpp"

namespace hipvmm::detail {
namespace {

using namespace std::chrono_literals;

/// Lasts until let_go(), or a second.
class lasting_work {
 public:
  explicit lasting_work(stream_ref in) {
    add_host_function(in, [own = shared_](bool) { last(*own); });
  }
  ~lasting_work() { let_go(); }
  lasting_work& operator=(lasting_work&&) = delete;

  void let_go() const noexcept { shared_->let_go = true; }
  [[nodiscard]] bool is_over() const noexcept { return shared_->is_over; }

 private:
  struct state {
    std::atomic<bool> let_go{false};
    std::atomic<bool> is_over{false};
  };

  static void last(state& own) {
    const auto end = std::chrono::steady_clock::now() + 1s;
    while (!own.let_go && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(100us);
    own.is_over = true;
  }

  std::shared_ptr<state> shared_ = std::make_shared<state>();
};

class probe_capture {
 public:
  explicit probe_capture(const stream& origin) : origin_{origin} {
    check(hipStreamBeginCapture(origin.get(), hipStreamCaptureModeGlobal), "hipStreamBeginCapture");
  }
  ~probe_capture() {
    report_exceptions([this] { static_cast<void>(end()); });
  }
  probe_capture& operator=(probe_capture&&) = delete;

  /// Returns whether the capture is still valid.
  bool end() {
    if (ended_) return false;
    hipGraph_t recorded = nullptr;
    const hipError_t result = hipStreamEndCapture(origin_.get(), &recorded);
    ended_ = result == hipSuccess || result == hipErrorStreamCaptureInvalidated;
    if (result == hipErrorStreamCaptureInvalidated) {
      clear_last_error();
      return false;
    }
    check(result, "hipStreamEndCapture");
    report(hipGraphDestroy(recorded), "hipGraphDestroy");
    return true;
  }

 private:
  const stream& origin_;
  bool ended_ = false;
};

class probe_pool {
 public:
  explicit probe_pool(device_ref device) : value_{create_pool(device, hipMemHandleTypeNone)} {}
  ~probe_pool() { destroy_pool(value_); }
  probe_pool& operator=(probe_pool&&) = delete;
  [[nodiscard]] hipMemPool_t get() const noexcept { return value_; }

 private:
  hipMemPool_t value_;
};

class probe_block {
 public:
  probe_block(const probe_pool& pool, const stream& own, std::size_t bytes) : own_{own} {
    check(allocate_from(pool.get(), own, bytes, pointer_), "hipMallocFromPoolAsync");
  }
  ~probe_block() {
    if (!freed_) free_async(own_, pointer_);
  }
  probe_block& operator=(probe_block&&) = delete;

  void free(const stream& in) {
    check(free_in(in, pointer_), "hipFreeAsync");
    freed_ = true;
  }
  [[nodiscard]] const void* get() const noexcept { return pointer_; }

 private:
  stream_ref own_;
  void* pointer_ = nullptr;
  bool freed_ = false;
};

/// Whether `own` reuses a block that `other` freed only behind the work of `other`.
bool reuses_in_order(const probe_pool& pool, const stream& own, const stream& other,
                     std::size_t bytes) {
  probe_block first{pool, own, bytes};
  own.synchronize();
  const lasting_work work{other};
  first.free(other);
  const probe_block second{pool, own, bytes};
  event used;
  used.record(own);
  bool is_early = false;
  if (second.get() == first.get())
    for (int turn = 0; turn < 100 && !is_early; ++turn) {  // a busy device may need so long
      std::this_thread::sleep_for(1ms);
      is_early = used.is_done() && !work.is_over();
    }
  work.let_go();
  other.synchronize();
  own.synchronize();
  return !is_early;
}

constexpr auto longest_free = 100ms;

/// On AMD's runtime a free waits for an earlier one of the same block.
void allocate_and_free(const probe_pool& pool, const stream& own, std::size_t bytes) {
  for (int turn = 0; turn < 3; ++turn) probe_block{pool, own, bytes}.free(own);
}

bool frees_return(const probe_pool& pool, const stream& own, std::size_t bytes) {
  const lasting_work work{own};
  bool held_up = false;
  {
    std::promise<void> returned;
    const std::jthread timer{[&, end = returned.get_future()] {
      held_up = end.wait_for(longest_free) == std::future_status::timeout;
      work.let_go();
    }};
    allocate_and_free(pool, own, bytes);
    returned.set_value();
  }
  own.synchronize();
  return !held_up;
}

}  // namespace

void probe_counts_ending_streams(probe_site& site) {
  site.during = "when a device was waited for while another thread destroyed one of its streams";
  constexpr int rounds = 3;
  for (int round = 0; round < rounds; ++round) {
    std::optional<stream> leaving{std::in_place, site.device};
    const lasting_work work{*leaving};
    std::atomic<bool> begun{false};
    const std::jthread destroying{[&] {
      begun = true;
      leaving.reset();
    }};
    while (!begun) std::this_thread::yield();
    std::this_thread::sleep_for(5ms * (1 << round));  // until the thread is in hipStreamDestroy
    const std::jthread timer{[&work] {
      std::this_thread::sleep_for(20ms);
      work.let_go();
    }};
    synchronize_device(site.device);
    if (!work.is_over())
      return site.answer(trait::counts_ending_streams, finding::no,
                         "hipDeviceSynchronize returned while a stream still worked that another "
                         "thread was destroying");
  }
  site.answer(trait::counts_ending_streams, finding::yes,
              "hipDeviceSynchronize waited for a stream that another thread was destroying");
}

void probe_free_waits(probe_site& site) {
  site.during = "when memory of hipMalloc was freed";
  // The time of a free is measured, because the work must last longer than a free that does not
  // wait. The second call is timed, because the first may load code.
  if (!wait_by_free(site.device)) throw std::bad_alloc{};
  const auto begin = std::chrono::steady_clock::now();
  if (!wait_by_free(site.device)) throw std::bad_alloc{};
  const auto idle =
      std::chrono::ceil<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
  if (idle > 100ms)
    return site.answer(trait::free_waits, finding::unknown,
                       "not found out: hipMalloc and hipFree took " + std::to_string(idle.count()) +
                           " ms on an idle device",
                       persistence::open);
  const auto part = std::max<std::chrono::milliseconds>(10ms, 4 * idle);
  site.during = "when memory of hipMalloc was freed beside a stream capture";
  const stream working{site.device};
  const stream captured{site.device};
  const lasting_work before_capture{captured};
  const lasting_work work{working};
  probe_capture capture{captured};
  bool freed = false;
  bool waited = false;
  {
    const std::jthread beside{[&] {
      std::this_thread::sleep_for(part);
      before_capture.let_go();
      std::this_thread::sleep_for(part);
      work.let_go();
    }};
    freed = wait_by_free(site.device);
    waited = work.is_over() && before_capture.is_over();
  }
  const bool kept = capture.end();
  if (!freed) throw std::bad_alloc{};
  const auto refuse = [&site](const char* why) {
    site.answer(trait::free_waits, finding::no, why);
  };
  if (!waited) return refuse("hipFree returned while work of its device went on");
  if (!kept) return refuse("hipFree cost a stream capture");
  site.answer(trait::free_waits, finding::yes,
              "hipFree waited for its device beside a stream capture, which went on");
}

void probe_pools(probe_site& site) {
  site.during = "when memory of a pool was freed in another stream";
  const probe_pool pool{site.device};
  const stream other{site.device};
  bool in_order = true;
  for (const std::size_t bytes : {std::size_t{4} * KiB, site.unit})
    in_order = in_order && reuses_in_order(pool, site.queue, other, bytes);
  site.answer(trait::pools_reuse_in_order, in_order ? finding::yes : finding::no,
              in_order ? "a block was not used again before the stream that freed it had passed"
                       : "a block was used again in the stream of its allocation while the stream "
                         "that freed it still worked");
  site.during = "when memory of a pool was freed again";
  const auto begin = std::chrono::steady_clock::now();
  allocate_and_free(pool, site.queue, site.unit);
  if (std::chrono::steady_clock::now() - begin > longest_free / 3)
    return site.answer(trait::pool_frees_return, finding::unknown,
                       "not found out: three allocations and frees took long on an idle device",
                       persistence::open);
  const bool returned = frees_return(pool, site.queue, site.unit);
  site.answer(trait::pool_frees_return, returned ? finding::yes : finding::no,
              returned ? "hipFreeAsync returned while work was ahead of it"
                       : "hipFreeAsync held up the host until the work ahead had passed");
}

}  // namespace hipvmm::detail
