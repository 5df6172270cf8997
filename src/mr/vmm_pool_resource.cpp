// SPDX-License-Identifier: MIT
#include <hipvmm/mr/vmm_pool_resource.hpp>

#include <stdexcept>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include "core/check.hpp"
#include "mr/pool_report.hpp"
#include "mr/vmm_pool_state.hpp"

namespace hipvmm::mr {

vmm_pool_resource::vmm_pool_resource(device_ref device, const pool_options& options)
    : state_{std::make_unique<state>(device, options)} {
  state_->books.reserve(align_up(options.initial_bytes, state_->memory->granularity()));
  if (state_->books.counters().physical_bytes < options.initial_bytes)
    state_->fail(options.initial_bytes, std::nullopt);
}

vmm_pool_resource::~vmm_pool_resource() {
  std::size_t used = 0;
  detail::report_exceptions([&] { used = state_->books.look().used_bytes; });
  if (used == 0) return;
  detail::report_exceptions([used] {
    throw std::logic_error{"vmm_pool_resource: it ends with " + format_bytes(used) +
                           " still handed out, which go with it: give all back before"};
  });
}

void* vmm_pool_resource::do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) {
  if (alignment <= pool::engine::unit && !state_->is_per_thread(stream))
    return state_->allocate_cached(stream, bytes);
  return state_->allocate(state_->ledger_of(stream), bytes, alignment);
}

void vmm_pool_resource::do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                                      std::size_t) noexcept {
  detail::report_exceptions([&] { state_->deallocate(stream, pointer, bytes); });
}

void* vmm_pool_resource::do_allocate_sync(std::size_t bytes, std::size_t alignment) {
  return state_->allocate(state_->books.idle(), bytes, alignment);
}

void vmm_pool_resource::do_deallocate_sync(void* pointer, std::size_t bytes, std::size_t) noexcept {
  detail::report_exceptions([&] { state_->deallocate(state_->books.idle(), pointer, bytes); });
}

void vmm_pool_resource::deallocate(void* pointer) noexcept {
  if (pointer != nullptr) detail::report_exceptions([&] { state_->deallocate(pointer); });
}

void vmm_pool_resource::note_stream_wait(stream_ref waiter, stream_ref other) {
  if (waiter == other) return;
  state_->books.note_follows(state_->ledger_of(waiter), state_->ledger_of(other));
}

void vmm_pool_resource::forget_stream(stream_ref stream) { state_->books.forget(stream); }

pool_reuse vmm_pool_resource::reuse() const {
  const std::lock_guard lock{state_->settings};
  return state_->reuse;
}

void vmm_pool_resource::set_reuse(pool_reuse reuse) {
  const std::lock_guard lock{state_->settings};
  state_->reuse = reuse;
  state_->books.set_rules(state_->rules());
}

std::size_t vmm_pool_resource::release_threshold() const noexcept { return state_->threshold; }

void vmm_pool_resource::set_release_threshold(std::size_t bytes) {
  state_->threshold = bytes;
  state_->books.empty_all_caches();
  detail::report_exceptions([this] { state_->release_excess(); });
}

std::size_t vmm_pool_resource::maximum_bytes() const { return state_->maximum; }

void vmm_pool_resource::grant(device_ref device, access_right right) {
  const pool::engine::alone turn{state_->books};
  if (right != access_right::none) state_->marks.add(device);
  state_->memory->grant(device, right);
}

access_right vmm_pool_resource::access(device_ref device) const {
  const pool::engine::alone turn{state_->books};
  return state_->memory->access(device);
}

std::size_t vmm_pool_resource::trim_to(std::size_t bytes_to_keep,
                                       std::chrono::steady_clock::time_point deadline) {
  return state_->books.trim(bytes_to_keep, deadline);
}

void vmm_pool_resource::set_out_of_memory_callback(out_of_memory_callback callback) {
  auto next =
      callback ? std::make_shared<const out_of_memory_callback>(std::move(callback)) : nullptr;
  const std::lock_guard lock{state_->settings};
  state_->callback = std::move(next);
}

void vmm_pool_resource::reset_peaks() { state_->books.reset_highs(); }

std::string vmm_pool_resource::explain() const { return state_->memory->explain(); }

device_ref vmm_pool_resource::device() const noexcept { return state_->device; }

std::optional<device_ref> vmm_pool_resource::do_device() const noexcept { return state_->device; }

pool_statistics vmm_pool_resource::statistics() const { return state_->statistics(); }

std::string vmm_pool_resource::report() const {
  return report_of(state_->statistics(), state_->device, state_->maximum) + "memory: " + explain() +
         "\n";
}

}  // namespace hipvmm::mr
