// SPDX-License-Identifier: MIT
#include "mr/resource/pending_frees.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <thread>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include "core/capture_mode.hpp"
#include "core/check.hpp"
#include "core/owner_process.hpp"
#include "mr/resource/misaligned.hpp"
#include "mr/stream_wait.hpp"
#include "region/retirement.hpp"
#include "runtime/event.hpp"
#include "runtime/pool/hip_pool.hpp"
#include "runtime/stream.hpp"

namespace hipvmm::detail {
namespace {

constexpr std::size_t most_spare_events = 64;

bool fits_well(std::size_t held, std::size_t wanted) {
  return held >= wanted && held - wanted <= wanted / 8;
}

}  // namespace

std::shared_ptr<pending_frees> pending_frees::of(hipMemPool_t pool, device_ref device) {
  static std::mutex mutex;
  static never_destroyed<std::map<hipMemPool_t, std::weak_ptr<pending_frees>>> all;
  auto& known = all.get();
  const std::lock_guard lock{mutex};
  for (auto each = known.begin(); each != known.end();)
    each = each->second.expired() ? known.erase(each) : std::next(each);
  std::weak_ptr<pending_frees>& entry = known[pool];
  std::shared_ptr<pending_frees> result = entry.lock();
  if (!result) entry = result = std::make_shared<pending_frees>(device);
  return result;
}

pending_frees::pending_frees(device_ref device) : frees_{device} {
  spare_.reserve(most_spare_events);
}

pending_frees::~pending_frees() {
  free_all();
  const auto end = std::chrono::steady_clock::now() + capture_patience;
  while (!retry_refused()) {
    if (std::chrono::steady_clock::now() >= end) {
      warn("hipFreeAsync",
           format_bytes(bytes()) +
               " of a pool of HIP's stay allocated, because HIP refuses to free them, as "
               "while a blocking stream of the device is captured; end captures before "
               "the pool's last resource");
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
}

event pending_frees::take_event(stream_ref stream) {
  const device_ref device = device_of_stream(stream).value_or(frees_.device());
  {
    const std::lock_guard lock{mutex_};
    const auto found = std::ranges::find(spare_, device, &event::device);
    if (found != spare_.end()) {
      std::swap(*found, spare_.back());
      event result = std::move(spare_.back());
      spare_.pop_back();
      return result;
    }
  }
  return event{device};
}

void pending_frees::add(stream_ref stream, void* pointer, std::size_t bytes) {
  blocks added;
  block& one = added.emplace_back(block{pointer, bytes});
  if (needs_no_event(stream)) {
    {
      const std::lock_guard lock{mutex_};
      one.bytes = forget_size(pointer, bytes);
      waited_bytes_ += one.bytes;
    }
    return free(added);
  }
  one.freed = take_event(stream);
  record_without_notify(*one.freed, stream);
  const std::lock_guard lock{mutex_};
  blocks& of_stream = kept_[stream.get()];
  one.bytes = forget_size(pointer, bytes);
  of_stream.splice(of_stream.end(), added);
}

bool pending_frees::add_without_stream(void* pointer, std::size_t bytes, device_list users) {
  blocks added;
  block& one = added.emplace_back(block{pointer, bytes});
  one.users = std::move(users);
  auto token = std::make_shared<char>();
  one.waited_for = token;
  std::shared_ptr<void> given = std::move(token);
  if (!retire_token(given, one.users)) return false;
  const std::lock_guard lock{mutex_};
  blocks& without_stream = kept_[std::nullopt];
  one.bytes = forget_size(pointer, bytes);
  without_stream.splice(without_stream.end(), added);
  return true;
}

std::size_t pending_frees::forget_size(void* pointer, std::size_t bytes) {
  const auto found = larger_.find(pointer);
  if (found == larger_.end()) return bytes;
  const std::size_t held = found->second;
  larger_.erase(found);
  return held;
}

void* pending_frees::take(stream_ref stream, std::size_t bytes, std::size_t alignment) {
  const auto fits = [=](const block& one) {
    return fits_well(one.bytes, bytes) && is_aligned(one.pointer, alignment);
  };
  const std::lock_guard lock{mutex_};
  // Refused blocks are idle, so that any stream may have them.
  if (const auto idle = std::ranges::find_if(refused_, fits); idle != refused_.end()) {
    if (idle->bytes != bytes) larger_[idle->pointer] = idle->bytes;
    void* const pointer = idle->pointer;
    refused_.erase(idle);
    return pointer;
  }
  const auto of = kept_.find(stream.get());
  if (of == kept_.end()) return nullptr;
  const auto found = std::ranges::find_if(of->second, fits);
  return found != of->second.end() ? take_for(stream, of, found, bytes) : nullptr;
}

void* pending_frees::take_of_any(stream_ref stream, std::size_t bytes, std::size_t alignment) {
  const std::lock_guard lock{mutex_};
  auto best_of = kept_.end();
  blocks::iterator best;
  for (auto of = kept_.begin(); of != kept_.end(); ++of) {
    if (!of->first) continue;
    for (auto each = of->second.begin(); each != of->second.end(); ++each) {
      if (each->bytes < bytes || !is_aligned(each->pointer, alignment)) continue;
      if (best_of != kept_.end() && best->bytes <= each->bytes) continue;
      best_of = of;
      best = each;
    }
  }
  return best_of == kept_.end() ? nullptr : take_for(stream, best_of, best, bytes);
}

// The wait costs nothing in the stream of the free, unless another stream has its handle now.
void* pending_frees::take_for(stream_ref stream, streams::iterator of, blocks::iterator which,
                              std::size_t bytes) {
  if (which->bytes != bytes) larger_[which->pointer] = which->bytes;
  try {
    stream.wait(*which->freed);
  } catch (...) {
    larger_.erase(which->pointer);
    throw;
  }
  void* const pointer = which->pointer;
  if (spare_.size() < spare_.capacity()) spare_.push_back(std::move(*which->freed));
  of->second.erase(which);
  if (of->second.empty()) kept_.erase(of);
  return pointer;
}

void pending_frees::note_new(void* pointer) {
  const std::lock_guard lock{mutex_};
  larger_.erase(pointer);
}

// hipFreeAsync waits if the block's earlier free has not passed: all of them were in this stream.
void pending_frees::free(blocks& passed) noexcept {
  if (passed.empty()) return;
  const std::size_t bytes = bytes_of(passed);
  {
    const std::lock_guard lock{mutex_};
    for (block& each : passed)
      if (each.freed && spare_.size() < spare_.capacity()) spare_.push_back(std::move(*each.freed));
  }
  passed.remove_if([this](const block& each) { return try_free_async(frees_, each.pointer); });
  const std::lock_guard lock{mutex_};
  refused_.splice(refused_.end(), passed);
  waited_bytes_ -= bytes;
}

void pending_frees::free_idle(void* pointer, std::size_t bytes) noexcept {
  if (try_free_async(frees_, pointer)) return;
  report_exceptions([&] {
    const std::lock_guard lock{mutex_};
    refused_.push_back({pointer, forget_size(pointer, bytes)});
  });
}

// A block that HIP refuses again ends the loop: it would refuse the others too.
bool pending_frees::retry_refused() noexcept {
  blocks again;
  std::size_t waited_bytes = 0;
  {
    const std::lock_guard lock{mutex_};
    again.swap(refused_);
    waited_bytes = bytes_of(again);
    waited_bytes_ += waited_bytes;
  }
  while (!again.empty() && try_free_async(frees_, again.front().pointer, false)) again.pop_front();
  const std::lock_guard lock{mutex_};
  waited_bytes_ -= waited_bytes;
  refused_.splice(refused_.begin(), again);
  return refused_.empty();
}

void pending_frees::free_passed(std::optional<stream_ref> only) noexcept {
  const std::lock_guard alone{freeing_};
  static_cast<void>(retry_refused());
  blocks passed;
  report_exceptions([&] {
    const std::lock_guard lock{mutex_};
    if (kept_.empty()) return;
    const relaxed_captures relaxed;
    if (!is_idle(frees_)) return;
    const auto collect = [&](streams::iterator of) {
      blocks& from = of->second;
      while (!from.empty() && from.front().has_passed()) {
        waited_bytes_ += from.front().bytes;
        passed.splice(passed.end(), from, from.begin());
      }
      return from.empty() ? kept_.erase(of) : std::next(of);
    };
    if (!only) {
      for (auto of = kept_.begin(); of != kept_.end();) of = collect(of);
      return;
    }
    for (const stream_key& key : {stream_key{}, stream_key{only->get()}})
      if (const auto own = kept_.find(key); own != kept_.end()) collect(own);
    if (kept_.empty()) return;
    auto other = kept_.lower_bound(next_);
    other = collect(other == kept_.end() ? kept_.begin() : other);
    next_ = other == kept_.end() ? std::nullopt : other->first;
  });
  free(passed);
}

void pending_frees::wait_for_frees() noexcept {
  report_exceptions([&] {
    const std::lock_guard others{freeing_};
    const relaxed_captures relaxed;
    frees_.synchronize();
  });
}

void pending_frees::free_all() noexcept {
  const std::lock_guard alone{waiting_};
  static_cast<void>(retry_refused());
  wait_and_free([this](streams& taken) { taken.swap(kept_); });
}

template <typename Take>
void pending_frees::wait_and_free(Take take) noexcept {
  streams waited_for;
  {
    const std::lock_guard lock{mutex_};
    take(waited_for);
    for (const auto& [stream, of] : waited_for) waited_bytes_ += bytes_of(of);
  }
  // One wait serves all blocks of the same users, because all came before it.
  const device_list* finished = nullptr;
  const auto wait_for = [&](const block& one) {
    if (one.freed) return wait_until_passed(*one.freed);
    if (one.has_passed() || (finished != nullptr && *finished == one.users)) return true;
    if (!report_exceptions([&] { wait_for_devices(one.users); })) return false;
    finished = &one.users;
    return true;
  };
  blocks passed;
  for (auto& [stream, of] : waited_for) {
    for (auto each = of.begin(); each != of.end();) {
      const auto current = each++;
      if (wait_for(*current)) passed.splice(passed.end(), of, current);
    }
  }
  {
    const std::lock_guard lock{mutex_};
    for (const auto& [stream, of] : waited_for) waited_bytes_ -= bytes_of(of);
    while (!waited_for.empty()) {
      const auto back = kept_.insert(waited_for.extract(waited_for.begin()));
      if (back.inserted) continue;
      blocks& newer = back.position->second;
      newer.splice(newer.begin(), back.node.mapped());
    }
    std::erase_if(kept_, [](const auto& of) { return of.second.empty(); });
  }
  free(passed);
}

bool pending_frees::has_any_without_stream() const {
  const std::lock_guard lock{mutex_};
  return waited_bytes_ != 0 || kept_.contains(std::nullopt);
}

void pending_frees::free_fitting_without_stream(std::size_t bytes) noexcept {
  if (!has_any_without_stream()) return;
  free_passed();
  bool is_worth_a_wait = false;
  {
    const std::lock_guard lock{mutex_};
    const auto without_stream = kept_.find(std::nullopt);
    is_worth_a_wait = without_stream != kept_.end() &&
                      std::ranges::any_of(without_stream->second, [bytes](const auto& each) {
                        return fits_well(each.bytes, bytes);
                      });
  }
  if (is_worth_a_wait) {
    const std::lock_guard alone{waiting_};
    wait_and_free([this](streams& taken) { taken.insert(kept_.extract(std::nullopt)); });
  }
  wait_for_frees();
}

// Memory that work may still use is never freed: if HIP refuses both waits it stays kept.
bool pending_frees::wait_until_passed(const event& freed) const noexcept {
  try {
    const relaxed_captures relaxed;
    freed.synchronize();
    return true;
  } catch (...) {
  }
  return report_exceptions([&] {
    const relaxed_captures relaxed;
    frees_.device().synchronize();
  });
}

std::size_t pending_frees::bytes_of(const blocks& of) noexcept {
  std::size_t total = 0;
  for (const block& each : of) total += each.bytes;
  return total;
}

std::size_t pending_frees::bytes() const {
  const std::lock_guard lock{mutex_};
  std::size_t total = waited_bytes_ + bytes_of(refused_);
  for (const auto& [stream, of] : kept_) total += bytes_of(of);
  return total;
}

}  // namespace hipvmm::detail
