// SPDX-License-Identifier: MIT
#include <hipvmm/mr/pool/vmm_pool_resource.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/capability/capability.hpp>
#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "mr/pool/backend/device_backend.hpp"
#include "mr/pool/backend/region_backend.hpp"
#include "mr/pool/backend/slab_backend.hpp"
#include "mr/pool/pool_sleep.hpp"
#include "mr/pool/pool_state.hpp"
#include "region/available.hpp"
#include "region/device_work.hpp"
#include "runtime/device.hpp"
#include "runtime/runtime_rules.hpp"
#include "strategy/memory_strategy.hpp"
#include "vmm/access.hpp"
#include "vmm/idle/idle_memory.hpp"

namespace hipvmm::mr {
namespace {

// Moved chunks leave holes, so long gaps need several times more addresses than memory.
constexpr std::size_t addresses_for_memory = 8;

/// Throws: out_of_memory without addresses; unsupported if the device lacks something.
std::unique_ptr<pool::device_backend> make_backend(device_ref device, std::size_t needed_bytes,
                                                   const region_options& chunks,
                                                   without_vmm fallback) {
  const std::size_t address_bytes = addresses_for_memory * needed_bytes;
  const capability found = capability_of(device);
  const bool has_vmm = found.path() != memory_path::fallback;
  if (fallback == without_vmm::always || (!has_vmm && fallback == without_vmm::use_hip_malloc))
    return std::make_unique<pool::slab_backend>(device, address_bytes, chunks);
  if (has_vmm && chunks.memory == chunk_memory::uncached)
    detail::memory_strategy{{{device, found}}}.uncached_chunks.require("pool_options::memory");
  return std::make_unique<pool::region_backend>(
      device, detail::address_share(device, needed_bytes, address_bytes), chunks);
}

std::size_t maximum_from(device_ref device, const pool_options& options) {
  require_device(device);
  return options.maximum_bytes == 0 ? detail::usable_memory(device)
                                    : std::min(options.maximum_bytes, detail::most_memory(device));
}

/// In whole granules. Throws: std::invalid_argument.
std::size_t maximum_of(const pool_options& options, std::size_t wanted, std::size_t granularity) {
  const std::size_t maximum = align_down(wanted, granularity);
  if (maximum == 0)
    throw std::invalid_argument{"a pool that may hold " + format_bytes(wanted) +
                                " holds nothing: memory comes in granules of " +
                                format_bytes(granularity) + "; raise maximum_bytes"};
  if (options.initial_bytes > maximum)
    throw std::invalid_argument{"a pool that begins with " + format_bytes(options.initial_bytes) +
                                " and may hold " + format_limit(maximum) +
                                ": initial_bytes must not exceed that"};
  return maximum;
}

std::string describe_pool(const pool_statistics& now, std::size_t maximum) {
  return "the pool holds " + format_bytes(now.reserved_current) + " of at most " +
         format_limit(maximum) + ", of which " + format_bytes(now.used_current) +
         " are in use. The largest request that it could serve is " +
         format_bytes(now.largest_now) + " without moving chunks, " +
         format_bytes(now.largest_moved) + " after moving idle chunks and " +
         format_bytes(now.largest_possible) + " with new memory of the device";
}

}  // namespace

struct vmm_pool_resource::state final : pool_state, private detail::idle_holder {
  state(device_ref owner, std::unique_ptr<pool::device_backend> from, std::size_t allowed,
        const pool_options& options)
      : pool_state{{"vmm_pool_resource", "pool_options::maximum_bytes", describe_pool},
                   owner,
                   std::move(from),
                   allowed,
                   options},
        floor{std::max(options.initial_bytes, options.floor_bytes)},
        idle{*this, device, detail::idle_membership::price::pooled, options.priority} {
    if (options.tag) sleep.emplace(options.tag, allocator, backend());
  }

  [[nodiscard]] static std::unique_ptr<state> make(device_ref owner, const pool_options& options) {
    const std::size_t wanted = maximum_from(owner, options);
    const region_options chunks{.shareable = options.shareable,
                                .memory = options.memory,
                                .tag = options.tag,
                                .registrar = options.registrar};
    auto from = make_backend(owner, wanted, chunks, options.fallback);
    if (options.tag && !from->traits.moves_chunks)
      throw unsupported{"pool_options::tag: only chunks sleep, and the pool has none: " +
                        from->explain() + "; leave the tag out"};
    if (options.registrar && !from->traits.moves_chunks)
      throw unsupported{
          "pool_options::registrar: only chunks are registered, and the pool has none: " +
          from->explain() + "; leave it out, and register the blocks"};
    from->set_access(options.access);
    const std::size_t allowed =
        maximum_of(options, std::min(wanted, from->traits.address_bytes), from->traits.granularity);
    return std::make_unique<state>(owner, std::move(from), allowed, options);
  }

  void note_users(const access_list& wanted) {
    for (const access_desc& each : wanted.entries())
      if (each.right != access_right::none) fences.add(each.device);
  }

  /// Throws: unsupported on slabs; std::logic_error while the memory sleeps or falls asleep.
  template <typename Work>
  auto with_chunks(const char* function, Work work) {
    return allocator.with_backend([&] {
      require_awake(function);
      return work(backend().chunk_region());
    });
  }

  struct block_place {
    std::size_t offset;
    std::size_t bytes;
  };
  /// Throws: std::invalid_argument, for `function`, unless an allocation begins at `pointer`.
  [[nodiscard]] block_place require_block(const char* function, const void* pointer) {
    const std::optional<std::size_t> offset = offset_of(pointer);
    const auto found = offset ? allocator.find(*offset) : std::nullopt;
    if (!found)
      throw std::invalid_argument{
          std::string{"vmm_pool_resource::"} + function +
          ": no allocation of this pool begins at " + detail::address_text(pointer) +
          ": pass a pointer that allocate() returned and that was not deallocated"};
    return {*offset, found->bytes};
  }

  [[nodiscard]] pool::device_backend& backend() const noexcept {
    return static_cast<pool::device_backend&>(*memory);
  }
  /// Throws: std::logic_error while the memory sleeps. It cannot fall asleep in with_backend().
  void require_awake(const char* function) const {
    if (sleep) sleep->require_awake(function);
  }

  /// Throws: std::logic_error if asleep, or if the tag has an evictable that is not in use.
  void require_use() const {
    if (sleep) [[unlikely]]
      sleep->require_use();
  }

  [[nodiscard]] detail::given_memory give_idle(const detail::idle_request& wanted) override {
    // A pool that lacks memory itself uses all that it has.
    if (memory->is_reclaiming()) return {};
    const std::size_t held = allocator.physical_bytes();
    pool::chunk_gift gift{wanted};
    std::size_t given = 0;
    pool::chunk_gift* to = wanted.taker == nullptr ? nullptr : &gift;
    // If addresses pin memory, this pool's addresses would pin a chunk that the taker got.
    const bool gives_all = !memory->traits.returns_memory;
    if (gives_all) to = nullptr;
    for (auto deadline : {std::chrono::steady_clock::time_point{}, wanted.deadline}) {
      // A trim leaves chunks that are larger than its excess.
      for (std::size_t excess = gives_all ? held : wanted.bytes; given < wanted.bytes;
           excess *= 2) {
        const std::size_t kept = std::max(floor, held - std::min(held, excess));
        detail::report_exceptions([&] {
          given += allocator.trim(kept, std::exchange(deadline, {}), std::exchange(to, nullptr));
        });
        // Chunks that have moved count even if a turn of the trim fails.
        given = std::max(given, gift.moved);
        if (kept == floor) break;
      }
    }
    return {.released = given - gift.moved, .moved = gift.moved};
  }

  [[nodiscard]] std::size_t idle_bytes() override {
    const pool_usage now = allocator.held_and_used();
    return now.reserved_current - std::min(now.reserved_current, std::max(floor, now.used_current));
  }

  const std::size_t floor;  // bytes that no other holder gets
  std::optional<pool_sleep> sleep;
  detail::idle_membership idle;
};

vmm_pool_resource::vmm_pool_resource(device_ref device, const pool_options& options)
    : state_{state::make(device, options)} {
  keep_to_process();
  state_->note_users(options.access);
  if (options.initial_bytes != 0) state_->require_use();
  state_->allocator.reserve(align_up(options.initial_bytes, state_->memory->traits.granularity));
  if (state_->allocator.physical_bytes() < options.initial_bytes)
    throw out_of_memory{state_->explain({options.initial_bytes, default_alignment}, std::nullopt)};
}

vmm_pool_resource::~vmm_pool_resource() {
  if (is_of_parent()) {
    static_cast<void>(state_.release());
    return;
  }
  state_->idle.end();
  if (state_->sleep) state_->sleep->end();
  static_cast<void>(state_->ends_unused());
  state_->wait_for_devices_without_access();
}

vmm_pool_resource::state& vmm_pool_resource::live() const {
  require_own_process();
  return *state_;
}

void* vmm_pool_resource::do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) {
  state_->require_use();
  return state_->allocate(stream, bytes, alignment);
}

void vmm_pool_resource::do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                                      std::size_t) noexcept {
  detail::report_exceptions([&] { state_->deallocate(stream, pointer, bytes); });
}

bool vmm_pool_resource::try_deallocate(stream_ref stream, void* pointer,
                                       std::size_t bytes) noexcept {
  if (pointer == nullptr || is_of_parent()) return false;
  return detail::report_exceptions([&] { return state_->deallocate(stream, pointer, bytes); });
}

void* vmm_pool_resource::do_allocate_sync(std::size_t bytes, std::size_t alignment) {
  state_->require_use();
  return state_->allocate(std::nullopt, bytes, alignment);
}

void vmm_pool_resource::do_deallocate_sync(void* pointer, std::size_t bytes, std::size_t) noexcept {
  detail::report_exceptions([&] { state_->deallocate(std::nullopt, pointer, bytes); });
}

void vmm_pool_resource::deallocate(void* pointer) noexcept {
  if (pointer != nullptr && !is_of_parent())
    detail::report_exceptions([&] { state_->deallocate(pointer); });
}

void vmm_pool_resource::note_stream_wait(stream_ref waiter, stream_ref other) {
  live().note_stream_wait(waiter, other);
}

void vmm_pool_resource::forget_stream(stream_ref stream) { live().allocator.forget(stream); }

pool_reuse vmm_pool_resource::reuse() const { return live().allocator.reuse(); }

void vmm_pool_resource::set_reuse(pool_reuse reuse) { live().allocator.set_reuse(reuse); }

std::size_t vmm_pool_resource::release_threshold() const noexcept { return state_->threshold; }

void vmm_pool_resource::set_release_threshold(std::size_t bytes) {
  live().threshold = bytes;
  state_->allocator.empty_all_caches();
  detail::report_exceptions([this] { state_->release_excess(); });
}

std::size_t vmm_pool_resource::maximum_bytes() const { return state_->maximum; }

void vmm_pool_resource::grant(device_ref device, access_right right) {
  live().require_awake("vmm_pool_resource::grant");
  // Waits without the lock, which requests need.
  if (detail::rules_of_runtime().wait_before_grant) state_->fences.synchronize();
  const detail::waited_before_grant no_wait;
  state_->allocator.with_backend([&] {
    state_->require_awake("vmm_pool_resource::grant");
    if (right != access_right::none) state_->fences.add(device);
    state_->backend().grant(device, right);
  });
  state_->report_event(
      right == access_right::none ? memory_event_kind::revoke : memory_event_kind::grant,
      {.peer = device.ordinal()});
}

void vmm_pool_resource::set_access(const access_list& rights) {
  live().require_awake("vmm_pool_resource::set_access");
  // Refuses an impossible request before a wait.
  const access_map wanted{device(), rights};
  if (detail::rules_of_runtime().wait_before_grant) state_->fences.synchronize();
  const detail::waited_before_grant no_wait;
  access_map before{device()};
  state_->allocator.with_backend([&] {
    state_->require_awake("vmm_pool_resource::set_access");
    state_->note_users(rights);
    before = state_->backend().rights();
    state_->backend().set_access(rights);
  });
  detail::for_each_change(before, wanted, [&](device_ref device, access_right right) {
    state_->report_event(
        right == access_right::none ? memory_event_kind::revoke : memory_event_kind::grant,
        {.peer = device.ordinal()});
  });
}

std::vector<chunk_access> vmm_pool_resource::effective_access() const {
  return live().with_chunks("vmm_pool_resource::effective_access", [](const region& all) {
    return all.effective_access(0, all.max_bytes());
  });
}

std::vector<chunk_view> vmm_pool_resource::chunks() const {
  return live().allocator.with_backend([this] {
    const region& all = state_->backend().chunk_region();
    return state_->allocator.is_asleep() ? std::vector<chunk_view>{} : all.chunks();
  });
}

std::vector<exported_chunk> vmm_pool_resource::export_chunks(std::uint64_t since) {
  return live().with_chunks("vmm_pool_resource::export_chunks",
                            [since](region& all) { return all.export_chunks(since); });
}

std::vector<exported_fabric_chunk> vmm_pool_resource::export_fabric_chunks(std::uint64_t since) {
  return live().with_chunks("vmm_pool_resource::export_fabric_chunks",
                            [since](region& all) { return all.export_fabric_chunks(since); });
}

exported_range vmm_pool_resource::export_block(const void* pointer) {
  const state::block_place block = live().require_block("export_block", pointer);
  // The chunks of an allocated block do not move.
  return state_->with_chunks("vmm_pool_resource::export_block", [&](region& all) {
    return all.export_range(block.offset, block.bytes);
  });
}

legacy_ipc_block vmm_pool_resource::export_legacy_block(const void* pointer) {
  const state::block_place block = live().require_block("export_legacy_block", pointer);
  return state_->allocator.with_backend([&] {
    const device_allocation& slab = state_->backend().slab_at(block.offset);
    const auto offset =
        reinterpret_cast<std::uintptr_t>(pointer) - reinterpret_cast<std::uintptr_t>(slab.get());
    return mr::export_legacy_block(slab, offset, block.bytes);
  });
}

access_right vmm_pool_resource::access(device_ref device) const {
  return live().allocator.with_backend([&] { return state_->backend().rights().get(device); });
}

std::size_t vmm_pool_resource::trim_to(std::size_t bytes_to_keep,
                                       std::chrono::steady_clock::time_point deadline) {
  return live().allocator.trim(bytes_to_keep, deadline);
}

void vmm_pool_resource::set_out_of_memory_callback(out_of_memory_callback callback) {
  auto next =
      callback ? std::make_shared<const out_of_memory_callback>(std::move(callback)) : nullptr;
  const std::lock_guard lock{live().settings};
  state_->callback = std::move(next);
}

void vmm_pool_resource::reset_peaks() { live().allocator.reset_highs(); }

std::string vmm_pool_resource::explain() const { return state_->memory->explain(); }

std::uint64_t vmm_pool_resource::event_id() const noexcept { return state_->event_id; }

device_ref vmm_pool_resource::device() const noexcept { return state_->device; }

std::optional<device_ref> vmm_pool_resource::do_device() const noexcept { return state_->device; }

pool_statistics vmm_pool_resource::statistics() const { return live().statistics(); }

pool_usage vmm_pool_resource::usage() const { return live().allocator.held_and_used(); }

bool vmm_pool_resource::contains(const void* address) const noexcept {
  return state_->offset_of(address).has_value();
}

pool_snapshot vmm_pool_resource::snapshot() const { return live().snapshot(); }

std::string vmm_pool_resource::report() const { return live().report(); }

}  // namespace hipvmm::mr
