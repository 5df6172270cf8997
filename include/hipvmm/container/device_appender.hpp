// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>

#include <hipvmm/container/append_slots.hpp>
#include <hipvmm/container/device_appender_ref.hpp>
#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/mr/resource/per_device_resource.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/host_task.hpp>

namespace hipvmm {

/// The treatment of the elements that fitted if others did not.
enum class on_overflow {
  discard,  ///< none is appended: the program repeats the whole run
  keep,     ///< they are appended: kernels remember the others, and repeat only these
};

struct append_result {
  std::size_t appended;
  std::size_t missed;  ///< elements for which the kernel must run again
};

namespace detail {

class append_counter_memory {
 public:
  append_counter_memory(device_ref device, mr::memory_resource* resource)
      : device_{device}, resource_{resource} {
    const scoped_device scope{device};
    mr::require_current_device("device_appender", resource);
    counters_ = static_cast<append_counters*>(resource->allocate_sync(sizeof(append_counters)));
  }
  ~append_counter_memory() {
    mr::deallocate_sync_under(device_, resource_, counters_, sizeof(append_counters));
  }
  append_counter_memory& operator=(append_counter_memory&&) = delete;

  [[nodiscard]] append_counters* get() const noexcept { return counters_; }

 private:
  device_ref device_;
  mr::memory_resource* resource_;
  append_counters* counters_;
};

}  // namespace detail

/// Lets kernels append an unknown number of elements to a growable_device_vector. Same thread rules
/// as std::vector. docs/design/appending_from_kernels.md has an example.
/// - A run lasts from prepare() to commit(). Its kernels are on the vector's device.
/// - Other kernels may use the existing elements meanwhile, also while the vector grows (if
///   is_address_stable(); otherwise growth waits for them and moves the elements).
/// - The appended elements are dense and in no order. commit() adds them to the vector's size.
/// - Its counters are 16 bytes of a memory resource: hipMalloc on NVIDIA may use 2 MiB for them.
/// - The vector must outlive it, not move, and not change in a run; commit() detects most breaches.
template <typename T>
class device_appender {
 public:
  using value_type = T;
  using size_type = std::size_t;

  explicit device_appender(growable_device_vector<T>& target)
      : device_appender{target, mr::get_per_device_resource(target.device())} {}
  /// Pre: `counters` outlives the appender. Throws: std::invalid_argument if it is nullptr or of
  /// another device; out_of_memory; hip_error.
  device_appender(growable_device_vector<T>& target, mr::memory_resource* counters)
      : target_{target}, counters_{target.device(), counters} {}
  /// Kernels of a run may still count: deallocates by memory_resource::deallocate_sync().
  ~device_appender() = default;
  device_appender& operator=(device_appender&&) = delete;

  /// Begins a run with room for `count` elements or more. Zeroes the counters in `stream`: kernels
  /// of other streams must wait for an event recorded in it after this call.
  /// Throws: std::logic_error if a run is open; as growable_device_vector::reserve(); hip_error.
  [[nodiscard]] device_appender_ref<T> prepare(size_type count, stream_ref stream) {
    if (run_)
      throw std::logic_error{
          "device_appender::prepare: the run before has not ended; call commit or discard first"};
    make_room(count);
    fill_async(stream, counters_.get(), 0, sizeof(append_counters));
    const size_type size = target_.size();
    run_ = run{target_.data(), size, target_.capacity() - size, count};
    return {target_.end(), run_->room, counters_.get()};
  }

  /// Ends the run and waits for `stream`. If some elements did not fit, the vector has room for
  /// them on return. Pre: all kernels of the run are ordered before this call in `stream`.
  /// Throws (a run stays open, and commit() may be repeated): hip_error; as
  /// growable_device_vector::reserve(); std::logic_error without a run, or if the vector was
  /// changed during it.
  [[nodiscard]] append_result commit(stream_ref stream,
                                     on_overflow overflow = on_overflow::discard) {
    require_run();
    // For the order checker, which sees no kernel.
    note_use(stream, {run_->data + run_->size, std::min(run_->expected, run_->room) * sizeof(T),
                      memory_use::write});
    append_counters found;
    copy(stream, &found, counters_.get(), sizeof(found));
    const auto taken = static_cast<size_type>(found.taken);
    const size_type fitted = std::min(taken, run_->room) - static_cast<size_type>(found.unused);
    if (fitted != taken) make_room(taken);
    const size_type appended = fitted == taken || overflow == on_overflow::keep ? fitted : 0;
    target_.resize_uninitialized(target_.size() + appended);
    run_.reset();
    return {appended, taken - appended};
  }

  /// Ends the run without adding an element. Pre: its kernels have finished, or are ordered before
  /// the next prepare() in its stream.
  void discard() noexcept { run_.reset(); }

 private:
  struct run {
    const T* data;
    size_type size;
    size_type room;
    size_type expected;
  };

  // With slack, unlike reserve(), because runs may follow one another as calls of append() do.
  void make_room(size_type count) {
    const size_type size = target_.size();
    target_.resize_uninitialized(add_bytes(size, count));
    target_.resize_uninitialized(size);
  }

  void require_run() const {
    if (!run_)
      throw std::logic_error{"device_appender::commit: no run is open; call prepare first"};
    if (target_.data() != run_->data || target_.size() != run_->size ||
        target_.capacity() < run_->size + run_->room)
      throw std::logic_error{
          "device_appender::commit: the vector was changed during the run; it had " +
          std::to_string(run_->size) + " elements and has " + std::to_string(target_.size()) +
          ", or its memory changed. Call discard, and leave the vector alone until commit"};
  }

  growable_device_vector<T>& target_;
  detail::append_counter_memory counters_;
  std::optional<run> run_;
};

}  // namespace hipvmm
