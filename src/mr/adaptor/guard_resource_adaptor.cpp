// SPDX-License-Identifier: MIT
#include <hipvmm/mr/adaptor/guard_resource_adaptor.hpp>

#include <algorithm>
#include <exception>
#include <iterator>
#include <limits>
#include <list>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/mr/resource/pinned_host_resource.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/event.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "core/call_stack.hpp"
#include "core/capture_mode.hpp"
#include "core/check.hpp"
#include "mr/adaptor/guard_findings.hpp"
#include "mr/address_table.hpp"
#include "mr/stream_wait.hpp"
#include "runtime/stream.hpp"

namespace hipvmm::mr {
namespace {

constexpr std::size_t staging_bytes = 256 * KiB;
// Most queries of unfinished streams in one call.
constexpr int most_unfinished = 16;

const guard_options& checked_guard(const guard_options& options) {
  if (options.canary_bytes == 0)
    throw std::invalid_argument{
        "guard_resource_adaptor: guard_options::canary_bytes is 0; it must be at least 1"};
  return options;
}

}  // namespace

/// Host memory for copies without a wait, in slots of one size. Not thread-safe.
class pinned_slots {
 public:
  explicit pinned_slots(std::size_t slot_bytes) : slot_bytes_{slot_bytes} {}
  ~pinned_slots() {
    for (void* const each : slabs_) memory_.deallocate_sync(each, slots_in_slab * slot_bytes_);
  }
  pinned_slots& operator=(pinned_slots&&) = delete;

  [[nodiscard]] unsigned char* take() {
    if (free_.empty()) add_slab();
    unsigned char* const slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void put(unsigned char* slot) noexcept { free_.push_back(slot); }

 private:
  static constexpr std::size_t slots_in_slab = 64;

  void add_slab() {
    // put() must not fail.
    free_.reserve((slabs_.size() + 1) * slots_in_slab);
    slabs_.reserve(slabs_.size() + 1);
    slabs_.push_back(memory_.allocate_sync(slots_in_slab * slot_bytes_));
    auto* const first = static_cast<unsigned char*>(slabs_.back());
    for (std::size_t i = 0; i < slots_in_slab; ++i) free_.push_back(first + i * slot_bytes_);
  }

  std::size_t slot_bytes_;
  pinned_host_resource memory_;
  std::vector<void*> slabs_;
  std::vector<unsigned char*> free_;
};

class guard_resource_adaptor::state {
 public:
  state(memory_resource& upstream, const guard_options& options)
      : upstream_{upstream},
        options_{options},
        device_{upstream.device().value_or(device_ref::current())},
        own_{device_},
        slots_{2 * options.canary_bytes},
        staging_{static_cast<unsigned char*>(pinned_.allocate_sync(staging_bytes))} {}
  ~state() {
    std::optional<detail::relaxed_captures> relaxed;
    detail::report_exceptions([&] { relaxed.emplace(); });
    release_kept(0);
    release_kept(0);  // once more the blocks that HIP refused to wait for
    wait_and_compare();
    report_allocated();
    found_.deliver(guard_damage::reports);
    pinned_.deallocate_sync(staging_, staging_bytes);
  }
  [[nodiscard]] device_ref device() const noexcept { return device_; }
  state& operator=(state&&) = delete;

  void* allocate(const request& wanted) {
    const detail::relaxed_captures relaxed;
    compare_copied();
    found_.deliver(options_.on_damage);
    const std::size_t bytes = wanted.bytes;
    const std::size_t front = front_of(wanted.alignment);
    const request larger = with_canaries(wanted);
    auto made = blocks_.prepare({bytes, wanted.alignment, stack()});
    unsigned char* base = nullptr;
    const auto ask = [&] { base = static_cast<unsigned char*>(larger.allocate_from(upstream_)); };
    try {
      ask();
    } catch (const std::bad_alloc&) {
      if (kept_bytes() == 0) throw;
      release_kept(0);
      ask();
    }
    try {
      const stream_ref stream = wanted.stream.value_or(own_.ref());
      const scoped_device scope{device_};
      const std::size_t canaries = options_.canary_bytes;
      // A captured fill may never run, or run again when the block is another's.
      made.mapped().is_guarded = stream.is_default() || !detail::is_captured(stream);
      if (made.mapped().is_guarded) {
        fill_async(stream, base + front - canaries, canary, canaries);
        fill_async(stream, base + front, fresh, bytes);
        fill_async(stream, base + front + bytes, canary, canaries);
      }
      if (stream == own_.ref()) own_.synchronize();
      static_cast<void>(blocks_.put(std::move(made), base + front));
    } catch (...) {
      larger.deallocate_to(upstream_, base);
      throw;
    }
    return base + front;
  }

  /// Pre: without a stream, no work under way uses the memory.
  void deallocate(void* pointer, const request& returned) noexcept {
    std::optional<detail::relaxed_captures> relaxed;
    detail::report_exceptions([&] { relaxed.emplace(); });
    compare_copied();
    auto known = blocks_.take(pointer);
    if (known.empty()) {
      if (!note_freed_twice(pointer)) {
        found_.add([&] {
          return std::to_string(returned.bytes) + " bytes at " + detail::address_text(pointer) +
                 " are freed that the adaptor did not allocate";
        });
        returned.deallocate_to(upstream_, pointer);
      }
    } else {
      free_known(static_cast<unsigned char*>(pointer), known.mapped(), returned);
    }
    if (options_.on_damage == guard_damage::reports) found_.deliver(guard_damage::reports);
  }

  void flush() {
    const detail::relaxed_captures relaxed;
    release_kept(0);
    wait_and_compare();
    found_.deliver(options_.on_damage);
  }
  [[nodiscard]] std::uint64_t damages() const noexcept { return found_.damages(); }
  [[nodiscard]] std::size_t kept_bytes() const noexcept {
    const std::lock_guard lock{mutex_};
    return kept_bytes_;
  }

 private:
  using freed_list = std::list<freed_block>;

  [[nodiscard]] call_addresses stack() const {
    return options_.capture_stacks ? detail::call_stack() : call_addresses{};
  }
  [[nodiscard]] std::size_t front_of(std::size_t alignment) const {
    return align_up(options_.canary_bytes, alignment);
  }
  [[nodiscard]] request with_canaries(const request& inner) const {
    constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
    const std::size_t more = front_of(inner.alignment) + options_.canary_bytes;
    // Every upstream refuses such a size.
    return {inner.stream, inner.bytes > most - more ? most : inner.bytes + more, inner.alignment};
  }
  [[nodiscard]] std::size_t held_of(const guarded_block& block) const {
    return align_up(with_canaries({std::nullopt, block.bytes, block.alignment}).bytes,
                    memory_resource::default_alignment);
  }

  void free_known(unsigned char* pointer, guarded_block& block, const request& returned) noexcept {
    const request right{returned.stream, block.bytes, block.alignment};
    const auto free_it = [&] {
      with_canaries(right).deallocate_to(upstream_, pointer - front_of(right.alignment));
    };
    freed_list made;
    detail::report_exceptions([&] { made.push_back({pointer, std::move(block), stack()}); });
    // Without memory for it, or a copy, the upstream gets the block as it is.
    if (made.empty()) return free_it();
    freed_block& one = made.front();
    if (right.bytes != returned.bytes)
      found_.add([&] {
        return "a block of " + text_of(one) + " is freed as " + std::to_string(returned.bytes) +
               " bytes" + calls_of(one);
      });
    if (!one.block.is_guarded || !guard(one, returned.stream)) return free_it();
    if (!one.is_kept) free_it();
    // If the wait fails, the canaries are compared with those of other blocks.
    if (options_.check == guard_check::at_once && has_copied(one)) compare_canaries(one);
    {
      const std::lock_guard lock{mutex_};
      one.number = ++freed_so_far_;
      if (one.is_kept) kept_bytes_ += held_of(one.block);
      if (one.canaries != nullptr) {
        freed_.splice(freed_.end(), made);
      } else if (one.is_kept) {
        keep(made, made.begin());
      }
    }
    release_kept(options_.quarantine_bytes);
  }

  /// Returns false in a captured stream, and after the report of a failure.
  bool guard(freed_block& one, std::optional<stream_ref> stream) noexcept {
    const stream_ref in = stream ? *stream : own_.ref();
    const bool is_guarded = detail::report_exceptions([&] {
      const scoped_device scope{device_};
      if (stream && !stream->is_default() && detail::is_captured(*stream)) return false;
      {
        const std::lock_guard lock{mutex_};
        one.canaries = slots_.take();
      }
      const std::size_t canaries = options_.canary_bytes;
      copy_async(in, one.canaries, one.pointer - canaries, canaries);
      copy_async(in, one.canaries + canaries, one.pointer + one.block.bytes, canaries);
      one.is_kept = held_of(one.block) <= options_.quarantine_bytes;
      if (one.is_kept) fill_async(in, one.pointer, freed, one.block.bytes);
      note_copied(one, in);
      return true;
    });
    if (!is_guarded && one.canaries != nullptr) {
      // A copy may be under way. One that cannot be waited for keeps its slot.
      unsigned char* const copies = std::exchange(one.canaries, nullptr);
      detail::report_exceptions([&] {
        if (!detail::wait_for_work(in, one.block.bytes)) return;
        const std::lock_guard lock{mutex_};
        slots_.put(copies);
      });
    }
    return is_guarded;
  }

  void note_copied(freed_block& one, stream_ref in) const {
    try {
      event mark{device_};
      mark.record(in);
      one.copied = std::move(mark);
    } catch (const hip_error&) {
      // A stream of another device cannot record it.
      in.synchronize();
    }
  }

  /// Returns false, after a report, if HIP refuses: the copies must not be compared then.
  static bool has_copied(const freed_block& one) noexcept {
    return detail::report_exceptions([&] {
      if (one.copied) one.copied->synchronize();
    });
  }

  void compare_canaries(freed_block& one) noexcept {
    unsigned char* const copies = std::exchange(one.canaries, nullptr);
    if (copies == nullptr) return;
    found_.compare_canaries(one, copies, options_.canary_bytes);
    const std::lock_guard lock{mutex_};
    slots_.put(copies);
  }

  void compare_copied() noexcept {
    freed_list passed;
    std::exception_ptr refused;  // the error handler may use the adaptor
    {
      const std::lock_guard lock{mutex_};
      int unfinished = 0;
      for (auto next = freed_.begin(); next != freed_.end() && unfinished < most_unfinished;) {
        const auto each = next++;
        try {
          if (!each->copied || each->copied->is_done()) {
            passed.splice(passed.end(), freed_, each);
          } else {
            ++unfinished;
          }
        } catch (...) {
          refused = std::current_exception();
          ++unfinished;
        }
      }
    }
    if (refused) detail::report_exceptions([&] { std::rethrow_exception(refused); });
    for (freed_block& each : passed) compare_canaries(each);
    passed.remove_if([](const freed_block& each) { return !each.is_kept; });
    const std::lock_guard lock{mutex_};
    while (!passed.empty()) keep(passed, passed.begin());
  }

  /// Pre: the lock is held.
  void keep(freed_list& from, freed_list::iterator block) noexcept {
    auto behind = kept_.end();
    while (behind != kept_.begin() && std::prev(behind)->number > block->number) --behind;
    kept_.splice(behind, from, block);
  }

  void wait_and_compare() noexcept {
    freed_list waited;
    {
      const std::lock_guard lock{mutex_};
      for (auto next = freed_.begin(); next != freed_.end();) {
        const auto each = next++;
        if (!each->is_kept) waited.splice(waited.end(), freed_, each);
      }
    }
    for (freed_block& each : waited)
      if (has_copied(each)) compare_canaries(each);
    waited.remove_if([](const freed_block& each) { return each.canaries == nullptr; });
    const std::lock_guard lock{mutex_};
    freed_.splice(freed_.begin(), waited);
  }

  /// The oldest first, until at most `bytes` are kept.
  void release_kept(std::size_t bytes) noexcept {
    for (;;) {
      freed_list oldest;
      {
        const std::lock_guard lock{mutex_};
        if (kept_bytes_ <= bytes) return;
        const auto found = std::find_if(freed_.begin(), freed_.end(),
                                        [](const freed_block& each) { return each.is_kept; });
        const bool is_compared =
            !kept_.empty() && (found == freed_.end() || kept_.front().number < found->number);
        if (!is_compared && found == freed_.end()) return;
        oldest.splice(oldest.end(), is_compared ? kept_ : freed_,
                      is_compared ? kept_.begin() : found);
        kept_bytes_ -= held_of(oldest.front().block);
      }
      freed_block& one = oldest.front();
      // Memory that work may still use stays in quarantine until the next call.
      if (!has_copied(one)) {
        const std::lock_guard lock{mutex_};
        kept_bytes_ += held_of(one.block);
        return one.canaries != nullptr ? freed_.splice(freed_.begin(), oldest)
                                       : keep(oldest, oldest.begin());
      }
      compare_kept(one);
      detail::report_exceptions([&] {
        with_canaries({own_.ref(), one.block.bytes, one.block.alignment})
            .deallocate_to(upstream_, one.pointer - front_of(one.block.alignment));
      });
    }
  }

  /// Compares an unshared block whose stream has passed the deallocation.
  void compare_kept(freed_block& one) noexcept {
    detail::report_exceptions([&] {
      const std::lock_guard one_at_a_time{staging_mutex_};
      for (std::size_t at = 0; at < one.block.bytes; at += staging_bytes) {
        const std::size_t count = std::min(staging_bytes, one.block.bytes - at);
        copy(own_, staging_, one.pointer + at, count);
        if (!found_.compare_freed(one, at, staging_, count)) break;
      }
    });
    compare_canaries(one);
  }

  bool note_freed_twice(const void* pointer) noexcept {
    const std::lock_guard lock{mutex_};
    for (const freed_list* const list : {&freed_, &kept_}) {
      const auto found = std::find_if(list->begin(), list->end(), [&](const freed_block& each) {
        return each.is_kept && each.pointer == pointer;
      });
      if (found == list->end()) continue;
      found_.add([&] {
        return "a block of " + text_of(*found) + " is freed twice; the first time" +
               calls_of(*found);
      });
      return true;
    }
    return false;
  }

  void report_allocated() noexcept {
    std::size_t count = 0;
    std::size_t bytes = 0;
    std::string text;
    detail::report_exceptions([&] {
      blocks_.for_each([&](const void* pointer, const guarded_block& each) {
        ++count;
        bytes += each.bytes;
        text += '\n';
        text += std::to_string(each.bytes) + " bytes at " + detail::address_text(pointer) +
                calls_text("allocated", each.allocated_by);
      });
      if (count != 0)
        found_.add([&] {
          return "it ends with " + format_bytes(bytes) + " still in use, in " +
                 std::to_string(count) + (count == 1 ? " block" : " blocks") +
                 "; their canaries are not compared:" + text;
        });
    });
  }

  memory_resource& upstream_;
  const guard_options options_;
  const device_ref device_;
  const stream own_;
  guard_findings found_;
  detail::address_table<guarded_block> blocks_;

  mutable std::mutex mutex_;  // for the members up to `freed_so_far_`
  pinned_slots slots_;
  freed_list freed_;  // with canaries to compare
  freed_list kept_;   // compared, in quarantine; oldest first
  std::size_t kept_bytes_ = 0;
  std::uint64_t freed_so_far_ = 0;

  pinned_host_resource pinned_;
  std::mutex staging_mutex_;
  unsigned char* const staging_;
};

guard_resource_adaptor::guard_resource_adaptor(memory_resource* upstream,
                                               const guard_options& options)
    : resource_adaptor{"guard_resource_adaptor", upstream},
      state_{std::make_unique<state>(*upstream, checked_guard(options))} {}

guard_resource_adaptor::~guard_resource_adaptor() {
  if (is_of_parent()) static_cast<void>(state_.release());
}

std::optional<device_ref> guard_resource_adaptor::do_device() const noexcept {
  return state_->device();
}

void guard_resource_adaptor::flush() {
  require_own_process();
  state_->flush();
}

std::uint64_t guard_resource_adaptor::damages() const noexcept { return state_->damages(); }

std::size_t guard_resource_adaptor::quarantined_bytes() const noexcept {
  return state_->kept_bytes();
}

void* guard_resource_adaptor::do_allocate_any(const request& wanted) {
  return state_->allocate(wanted);
}

void guard_resource_adaptor::do_deallocate_any(void* pointer, const request& returned) noexcept {
  detail::report_exceptions([&] {
    // Work of any stream may still use it; if the wait fails, it stays allocated.
    if (!returned.stream) detail::wait_for_users(pointer, detail::all_devices());
    state_->deallocate(pointer, returned);
  });
}

}  // namespace hipvmm::mr
