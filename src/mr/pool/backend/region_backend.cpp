// SPDX-License-Identifier: MIT
#include "mr/pool/backend/region_backend.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include "core/check.hpp"
#include "core/descriptors.hpp"
#include "core/error.hpp"
#include "region/available.hpp"
#include "region/backing.hpp"
#include "region/chunks/region_chunks.hpp"
#include "region/retirement.hpp"
#include "runtime/runtime_rules.hpp"
#include "strategy/memory_strategy.hpp"
#include "vmm/cached_chunks.hpp"
#include "vmm/chunk_cache.hpp"
#include "vmm/idle/idle_memory.hpp"

namespace hipvmm::mr::pool {
namespace {

// The region keeps its addresses and copies nothing, because blocks are known by their addresses.
region make_region(device_ref device, std::size_t address_bytes, const region_options& chunks,
                   chunk_cache& cache) {
  const region_options options{.shareable = chunks.shareable,
                               .cache = &cache,
                               .when_empty = empty_policy::keeps_addresses,
                               .memory = chunks.memory,
                               .registrar = chunks.registrar};
  return chunks.tag ? detail::region_aside(device, address_bytes, options)
                    : region{device, address_bytes, options};
}

backend_traits traits_for(device_ref device) {
  const detail::memory_strategy strategy{device};
  // Half of the process's descriptors are for chunks.
  const std::size_t each = strategy.descriptors_per_chunk;
  return {
      .most_chunks =
          each == 0 ? 0 : std::max<std::size_t>(1, detail::descriptor_limit() / 2 / each),
      .has_equal_chunks = !strategy.rights.takes_any_mapping,  // needed by regions with holes
      .prices = strategy.prices,
      .unmap_waits =
          detail::rules_of_runtime().unmap_waits || !strategy.prices.unmaps_in_requests(),
      .returns_memory = !strategy.pins_memory,
  };
}

}  // namespace

/// Mappings that one thread detached. The first release unmaps each run of neighbours by one call.
/// Only that thread uses the object.
struct region_backend::detached_run {
  std::thread::id thread;
  std::vector<detached_mapping*> members;
};

struct region_backend::detached_mapping final : pending_release {
  explicit detached_mapping(std::shared_ptr<detached_run> together) : run{std::move(together)} {
    run->members.push_back(this);
  }
  ~detached_mapping() override {
    if (run) std::erase(run->members, this);
  }
  [[nodiscard]] bool release(chunk_gift* gift) noexcept override {
    if (run) unmap_run();
    return detail::report_exceptions([&] {
      const std::size_t moved = one->release(gift == nullptr ? nullptr : &gift->asked);
      if (gift != nullptr) gift->moved += moved;
    });
  }
  /// Leaves mapped those that are alone, or that HIP refuses.
  void unmap_run() noexcept {
    std::vector<detached_mapping*> all;
    all.swap(run->members);
    for (detached_mapping* const each : all) each->run.reset();
    const address_range* const range = &one->addresses();
    std::erase_if(all,
                  [range](detached_mapping* each) { return &each->one->addresses() != range; });
    std::ranges::sort(all, std::less<>{},
                      [](detached_mapping* each) { return each->one->map().get(); });
    if (all.size() >= downward_unmaps::fewest)
      unmap_runs(
          all, [](detached_mapping* each) -> mapping& { return each->one->map(); }, *range);
  }

  std::shared_ptr<detached_run> run;  // none once any thread may have the mapping
  std::optional<detail::detached_chunk> one;
};

region_backend::region_backend(device_ref device, std::size_t address_bytes,
                               const region_options& chunks)
    : device_backend{traits_for(device)},
      device_{device},
      chunks_{chunks},
      set_aside_{traits.returns_memory ? std::numeric_limits<std::size_t>::max() : 0},
      addresses_{make_region(device, address_bytes, chunks_, set_aside_)} {
  traits.address_bytes = addresses_.max_bytes();
  traits.granularity = addresses_.granularity();
  traits.has_aliases = addresses_.can_move_chunks();
}

region_backend::~region_backend() { addresses_.retire(); }

std::string region_backend::explain() const {
  return std::string{
             "chunks of virtual memory in one range of addresses; chunks that work in flight "
             "uses "} +
         (traits.has_aliases ? "move without a wait" : "move when it has passed") +
         (traits.returns_memory ? ""
                                : "; memory is released to the device only when all of the pool is "
                                  "idle, because HIP frees it only with its addresses");
}

const device_allocation& region_backend::slab_at(std::size_t) const {
  throw unsupported{
      "legacy IPC (hipIpcGetMemHandle) takes no memory of chunks, and the pool on device " +
      std::to_string(device_.ordinal()) +
      " has chunks: make it with pool_options::fallback at without_vmm::always, or share its "
      "blocks "
      "by export_block()"};
}

void region_backend::create(std::size_t offset, std::size_t bytes, std::size_t chunk) {
  // The caller waits for retired memory, without a lock.
  const detail::without_reclaim now;
  static_cast<void>(detail::attempt([&] { addresses_.commit(offset, bytes, chunk); },
                                    [&](const shortage&) {
                                      const std::size_t had = set_aside_.statistics().bytes;
                                      missing_ = bytes - std::min(bytes, had);
                                      return false;
                                    }));
}

new_memory region_backend::available() const {
  const detail::creatable_memory fresh =
      detail::creatable(device_, std::max(traits.granularity, 2 * MiB));
  return {fresh.bytes, fresh.chunks};
}

bool region_backend::reclaim(const out_of_memory& shortage, std::uint64_t seen) {
  const detail::counted_scope now{reclaiming};
  detail::idle_request asks;
  if (chunks_.memory == chunk_memory::standard)
    asks = {.bytes = missing_,
            .taker = &set_aside_,
            .chunk_bytes = shortage.why().requested,
            .shareable = chunks_.shareable};
  return detail::reclaim_retired(shortage, seen, asks);
}

void region_backend::release_set_aside() noexcept { set_aside_.trim(); }

std::size_t region_backend::pinned_bytes() const noexcept {
  return traits.returns_memory ? 0 : set_aside_.statistics().bytes;
}

std::size_t region_backend::set_aside_bytes(std::size_t chunk) const {
  return detail::cache_registry::of(set_aside_, device_).bytes_to_take(chunk, chunks_.shareable);
}

void region_backend::set_aside(std::size_t offset, std::size_t bytes) {
  addresses_.decommit(offset, bytes);
}

/// Allocates first, because the destructor of a detached chunk would unmap it under the lock.
template <typename Detach>
std::unique_ptr<pending_release> region_backend::detach_by(Detach detach) {
  const std::thread::id thread = std::this_thread::get_id();
  if (run_ == nullptr || run_->thread != thread)
    run_ = std::make_shared<detached_run>(detached_run{thread, {}});
  auto made = std::make_unique<detached_mapping>(run_);
  made->one.emplace(detach());
  return made;
}

std::unique_ptr<pending_release> region_backend::detach(std::size_t offset, std::size_t) {
  return detach_by([&] { return detail::detach_chunk(addresses_, offset); });
}

memory_backend::left_mapped region_backend::detach_refused(std::size_t offset, std::size_t bytes) {
  detail::refused_mappings taken = detail::take_refused(addresses_, offset, bytes);
  if (taken.empty()) return {};
  const std::size_t held = taken.chunk_bytes();
  return {std::make_unique<pending_release_of<detail::refused_mappings>>(
              [](detail::refused_mappings& left) { left.release(); }, std::move(taken)),
          held};
}

void region_backend::alias(const std::vector<std::size_t>& from, std::size_t to) {
  detail::move_chunks(addresses_, from, to);
}

std::unique_ptr<pending_release> region_backend::detach_old_mapping(std::size_t from) {
  return detach_by([&] { return detail::detach_old_mapping(addresses_, from); });
}

std::unique_ptr<pending_release> region_backend::replace_addresses() {
  const detail::without_reclaim now;
  region fresh = make_region(device_, traits.address_bytes, chunks_, set_aside_);
  if (fresh.max_bytes() < traits.address_bytes)
    throw out_of_memory{exhausted::addresses, device_.ordinal(), traits.address_bytes,
                        fresh.max_bytes(), "the pool keeps its memory"};
  fresh.set_access(rights().list());
  auto old = std::make_unique<pending_release_of<std::optional<region>>>(
      [](std::optional<region>& all) { all.reset(); });
  old->held = std::move(addresses_);
  addresses_ = std::move(fresh);
  return old;
}

}  // namespace hipvmm::mr::pool
