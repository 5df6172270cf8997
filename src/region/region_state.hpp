// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <hipvmm/region/chunk_view.hpp>
#include <hipvmm/region/region_options.hpp>
#include <hipvmm/runtime/stream.hpp>
#include <hipvmm/vmm/access.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>
#include <hipvmm/vmm/mapping.hpp>
#include "core/check.hpp"
#include "core/observers/memory_events.hpp"
#include "core/owner_process.hpp"
#include "region/backing.hpp"
#include "region/chunk_prefetch.hpp"
#include "region/device_work.hpp"
#include "region/region_sleep.hpp"
#include "strategy/memory_strategy.hpp"
#include "vmm/address_range.hpp"
#include "vmm/chunk_placement.hpp"
#include "vmm/idle/idle_memory.hpp"

namespace hipvmm::detail {

/// Takes arguments that region has checked.
class region_state final : idle_holder {
 public:
  /// `at`: unless null, reserves all of `max_bytes` there. Throws: as region; out_of_memory if
  /// others have some of these addresses.
  region_state(device_ref owner, std::size_t max_bytes, const region_options& chosen,
               const capability& found, void* at = nullptr);
  ~region_state();
  region_state& operator=(region_state&&) = delete;

  // As the functions of region. reclaim_pinned_if_empty() must follow a failed growth.
  void commit(std::size_t offset, std::size_t bytes, std::size_t largest_chunk);
  std::size_t decommit(std::size_t offset, std::size_t bytes);
  std::size_t decommit(std::size_t offset, std::size_t bytes, stream_ref stream);
  void move_chunks(const std::vector<std::size_t>& from, std::size_t to);
  void end_move(std::size_t from);
  void grant(device_ref to, access_right right);
  /// Return the devices whose rights have changed, with the new right.
  std::vector<access_desc> set_access(const access_list& wanted);
  std::vector<access_desc> set_access(std::size_t offset, std::size_t bytes,
                                      const access_list& wanted);
  [[nodiscard]] const access_map& rights_at(std::size_t offset) const;
  [[nodiscard]] std::vector<chunk_access> effective_access(std::size_t offset,
                                                           std::size_t bytes) const;
  std::size_t trim(std::size_t bytes, stream_ref stream, tail_chunk tail);
  std::size_t move_range(std::size_t offset, std::size_t bytes, memory_location to,
                         stream_ref stream);
  bool extend(std::size_t max_bytes, std::size_t commit_bytes);
  /// Returns false, nothing done, if HIP gives no addresses or others than those behind the end.
  [[nodiscard]] bool extend_in_place(std::size_t max_bytes, std::size_t commit_bytes);
  void rebase(std::size_t from, std::size_t max_bytes, std::size_t commit_bytes);
  void prepare(std::size_t bytes, prefetch_level how);
  [[nodiscard]] std::vector<chunk_view> chunks() const;
  [[nodiscard]] std::vector<exported_chunk> export_chunks(std::uint64_t since);
  [[nodiscard]] std::vector<exported_fabric_chunk> export_fabric_chunks(std::uint64_t since);
  [[nodiscard]] exported_range export_range(std::size_t offset, std::size_t bytes);
  void adopt(std::map<std::size_t, physical_chunk>& chunks);
  /// Leaves the tag, and retires everything (retirement.hpp). Returns false if the caller must wait
  /// for the devices itself before it destroys this object.
  [[nodiscard]] bool retire_all() noexcept;
  [[nodiscard]] void* base() const noexcept { return addresses->base(); }
  [[nodiscard]] std::size_t max_bytes() const noexcept { return addresses->bytes(); }
  [[nodiscard]] std::size_t committed_from(std::size_t offset) const noexcept;
  [[nodiscard]] std::size_t chunk_bytes_at(std::size_t offset) const noexcept {
    const auto at = backings.find(offset);
    return at == backings.end() ? 0 : at->second.bytes();
  }

  [[nodiscard]] physical_chunk acquire(memory_location where, std::size_t bytes,
                                       chunk_memory memory) const;
  /// Ends is_torn. Throws: out_of_memory, hip_error, which name the bytes without a mapping.
  void map_again();
  /// Throws: std::logic_error while the memory sleeps or may be evicted; as map_again().
  [[nodiscard]] region_state& awake(const char* function) {
    membership.require_awake(function);
    map_again();
    return *this;
  }
  void return_pinned_memory() noexcept;
  /// Frees and reserves the addresses; warns if others took them. Pre: nothing is mapped there.
  /// Throws: hip_error if HIP has forgotten them.
  void free_for_a_moment(const char* subject);
  /// Reserves them again if they were lost. Throws: out_of_memory while others hold them.
  void require_addresses();
  /// After a growth that failed: returns the memory that addresses without mappings pin.
  void reclaim_pinned_if_empty() noexcept {
    if (backings.empty() && old_mappings.empty() && prefetch.ready().empty() &&
        addresses->refused().empty() && must_reclaim_pinned())
      reclaim_pinned();
  }
  /// Releases the chunk that is prepared or under way, and allows prepare() again.
  void drop_prepared();
  /// New chunks of the sizes and kinds of `old`, in the same places or, if given, at `to`.
  [[nodiscard]] std::vector<physical_chunk> acquire_like(
      const std::vector<backing_map::iterator>& old, std::optional<memory_location> to) const;
  /// Copies in `stream`, and waits for it.
  void copy_into(std::vector<physical_chunk>& fresh, const std::vector<backing_map::iterator>& old,
                 stream_ref stream);
  /// All or none. Recycles the old chunks. Pre: `moving` is in the order of addresses.
  void replace_chunks(std::vector<backing_map::iterator>& moving,
                      std::vector<physical_chunk>& fresh);
  void require_within(const char* function, std::size_t offset, std::size_t bytes) const;

  void report(memory_event_kind kind, const event_details& details) const noexcept {
    report_event({memory_event_source::region, event_id, device.ordinal()}, kind, details);
  }
  [[nodiscard]] std::string text() const { return "the region at " + address_text(base()); }
  [[nodiscard]] std::uintptr_t address_of(std::size_t offset) const noexcept {
    return event_address(base()) + offset;
  }

 private:
  friend class region_sleep;

  /// At addresses that nobody else requests, if memory returns only with its addresses or the
  /// region has a tag. Throws: as address_reservation.
  [[nodiscard]] address_reservation reserve(std::size_t bytes) const;
  [[nodiscard]] std::shared_ptr<address_range> make_range(address_reservation reserved) const;
  /// A budget counts the present chunks and `additions`.
  [[nodiscard]] chunk_place place_at(std::size_t offset,
                                     const backing_map* additions = nullptr) const noexcept;
  /// As cached_chunks::take_pinned(). Empty if there is none, or without use_pinned_chunks().
  [[nodiscard]] physical_chunk take_pinned(memory_location where, std::size_t bytes,
                                           std::size_t most) const;
  /// `gap`: the unbacked bytes from `offset` on, of which the chunk gets `bytes`. A pinned chunk
  /// may have fewer bytes, or more if no chunk follows (`is_last_gap`).
  [[nodiscard]] physical_chunk make_chunk(const address_range& range, std::size_t offset,
                                          std::size_t bytes, const chunk_place& place,
                                          std::size_t gap, bool is_last_gap) const;
  [[nodiscard]] std::size_t not_cached(memory_location where, std::size_t bytes) const {
    if (!where.device()) return bytes;
    return bytes - std::min(bytes, cache().statistics(*where.device()).bytes);
  }
  static void require_host_chunks(const char* what, const memory_strategy& devices,
                                  handle_type shareable, memory_location where);
  /// Throws: std::invalid_argument, unsupported, if there is none for these options.
  [[nodiscard]] static std::unique_ptr<const memory_strategy> strategy_for(
      device_ref owner, const capability& found, const region_options& chosen);
  /// Devices of the placement that `wanted` does not name get read_write.
  [[nodiscard]] static access_map rights_of(device_ref owner, const access_list& wanted,
                                            const chunk_placement& placement);
  [[nodiscard]] chunk_cache& cache() const noexcept {
    return options.cache != nullptr ? *options.cache : chunk_cache::shared();
  }

  /// The mappings that change_access() counts: backings before `backed_end`, and `additions`. In
  /// `addresses` it counts the prepared chunk and old_mappings too.
  struct mapped_ranges {
    const address_range& range;
    std::size_t backed_end;
    const backing_map* additions = nullptr;
  };
  [[nodiscard]] mapped_ranges mapped_here(const backing_map* additions = nullptr) const noexcept {
    return {*addresses, addresses->bytes(), additions};
  }
  /// `all`: of mappings with the region's rights; `these`: of mappings with their own.
  enum class rights_for { all, these };
  /// Calls `change(address, bytes)`, which sets rights, for a range that HIP accepts: [offset,
  /// offset + bytes), or all mappings of the reservation if they get the same rights. Throws:
  /// hip_error; unsupported if there is none, see rights_setting.
  template <class Change>
  void change_access(const mapped_ranges& there, std::size_t offset, std::size_t bytes,
                     rights_for which, Change change) const;

  struct rights_change {
    std::size_t offset;
    backing* held;
    std::shared_ptr<const access_map> own;  // afterwards, as backing::own_rights
  };
  using rights_changes = std::vector<rights_change>;
  struct rights_run;
  [[nodiscard]] std::vector<rights_run> runs_of(const rights_changes& changes,
                                                const access_map& next) const;
  void set_run(const rights_run& run, const access_map& before, const access_map& after) const;
  /// Makes all `changes`, and `next` the region's rights. Returns as set_access(). On any exception
  /// all rights are as before. Pre: no preparation is under way.
  std::vector<access_desc> change_rights(rights_changes& changes, access_map next);
  /// The same for all mappings, each with `own_of(held)` as rights_change::own.
  template <class Own>
  std::vector<access_desc> change_all_rights(access_map next, Own own_of);

  /// `own`: null for the region's rights.
  void set_first_rights(const mapped_ranges& there, std::size_t offset, std::size_t bytes,
                        device_ref owner, const access_map* own) const;
  static void require_reach(const access_map& of, device_ref owner);
  class map_runs;
  /// Maps with the region's rights. On any exception the chunk is not mapped.
  void map_prepared(std::size_t offset, backing& held);
  [[nodiscard]] moment visible_if_mapped_now() const;
  void await_visible(std::size_t offset, std::size_t bytes) const noexcept;
  /// New backings for all gaps, for merge(). Its out_of_memory names the held bytes.
  [[nodiscard]] backing_map make_missing(const address_range& range, std::size_t offset,
                                         std::size_t bytes, std::size_t largest_chunk);
  /// Gives them new serials.
  void merge(backing_map& additions) noexcept;
  [[nodiscard]] static std::uint64_t next_serial() noexcept;
  /// If HIP refused to unmap the chunk, the refused mapping keeps it.
  void recycle(physical_chunk chunk) noexcept {
    if (!addresses->refused().take_if_mapped(chunk)) cache().recycle(std::move(chunk));
  }
  [[nodiscard]] const access_map& rights_to(const backing& held) const noexcept {
    return held.own_rights ? *held.own_rights : rights;
  }
  /// Throws: std::invalid_argument unless the range is free, in one reservation, and not below
  /// `from`.
  void require_free(const char* function, std::size_t offset, std::size_t bytes,
                    std::size_t from = 0) const;
  [[noreturn]] static void refuse_cut(const char* function, std::size_t offset, std::size_t bytes,
                                      const backing_map::value_type& chunk);
  void require_none_left_behind(const char* function, std::size_t offset, std::size_t bytes) const;
  void require_not_moving(const char* function, const backing& held) const;
  /// After a call that unmapped chunks and failed: map_again(), but reports refusals.
  void restore_lost() noexcept;
  void map_lost(const std::vector<backing_map::iterator>& lost);

  /// The destructor unmaps the mappings that are left.
  struct mapping_list {
    explicit mapping_list(std::shared_ptr<address_range>& of) noexcept : range{of} {}
    ~mapping_list() {
      unmap_runs(maps, std::identity{}, *range);
      for (mapping& each : maps) range->refused().unmap_or_defer(each, nullptr);
    }
    mapping_list& operator=(mapping_list&&) = delete;

    std::shared_ptr<address_range>& range;
    boost::container::small_vector<mapping, 8> maps;
  };
  void map_all(mapping_list& moved);
  /// `moved` gets the old range and mappings.
  void move_to(mapping_list& moved) noexcept;
  /// Whether a free of addresses must come after the end of all commands that used them.
  [[nodiscard]] static bool frees_late_records() noexcept;
  /// Waits for the devices with access if frees_late_records(). Returns false if HIP refuses.
  [[nodiscard]] bool await_records() const noexcept;
  /// Whether retired or detached chunks may still be mapped in the addresses.
  [[nodiscard]] bool shares_addresses() const noexcept { return addresses.use_count() > 1; }
  [[nodiscard]] bool must_reclaim_pinned() const noexcept {
    return may_pin_memory && reclaims_pinned();
  }
  [[nodiscard]] bool reclaims_pinned() const noexcept {
    return options.when_empty == empty_policy::re_reserves && strategy->pins_memory;
  }
  /// Frees the addresses, which returns the memory that they pin, and reserves them again. Backed
  /// bytes stay backed, perhaps at other addresses. Waits for the devices with access if something
  /// is backed or frees_late_records(). Pre: nothing is prepared.
  void reclaim_pinned() noexcept;

  [[nodiscard]] std::size_t end() const noexcept;
  /// If a cancelled prepare() was to begin in the range: new backings for the range and that chunk,
  /// or none if memory is lacking. Ends the order.
  [[nodiscard]] backing_map make_ordered(std::size_t offset, std::size_t bytes,
                                         std::size_t largest_chunk);
  /// Before chunks in front of `last` are released: drops a prepared chunk that would follow a gap.
  void drop_prepared_behind(backing_map::const_iterator last);
  /// Releases [first, last) when `stream` has passed this point. Returns false, nothing done, if
  /// the caller must wait for the stream itself.
  [[nodiscard]] bool retire_chunks(backing_map::iterator first, backing_map::iterator last,
                                   stream_ref stream);
  /// The first chunk that reaches beyond `end_offset`. Throws: std::invalid_argument if one before
  /// it is moving.
  [[nodiscard]] backing_map::iterator require_whole_until(backing_map::iterator first,
                                                          std::size_t end_offset);
  /// How many chunks may be mapped before their rights are set.
  [[nodiscard]] std::size_t in_one_step(std::size_t count) const noexcept;
  void copy_into(physical_chunk* fresh, const backing_map::iterator* old, std::size_t count,
                 stream_ref stream);
  /// Exchanges mapped chunks for those of `fresh`. On any exception the old ones are mapped again.
  void swap_in(backing_map::iterator* at, physical_chunk* fresh, std::size_t count);
  void swap_out(backing_map::iterator* at, physical_chunk* old, std::size_t count) noexcept;
  [[nodiscard]] std::vector<backing_map::iterator> chunks_to_move(std::size_t offset,
                                                                  std::size_t bytes,
                                                                  memory_location to);
  /// Adds `other` as an owner to rights, users and strategy. Returns the old strategy if it lacked
  /// the device. Throws: unsupported; then all is as before.
  std::unique_ptr<const memory_strategy> add_memory_of(device_ref other);
  /// Forgets users without any right, and owners without a chunk unless the placement names them.
  void forget_unused() noexcept;
  /// Replaces the chunk that reaches beyond `end` in the cases that trim() lists.
  void replace_tail(std::size_t end, stream_ref stream);

 public:
  owner_process process;
  const std::uint64_t event_id = next_event_id();
  device_ref device;
  // The first record is of `device`. Each is as it was when its device came in.
  std::unique_ptr<const memory_strategy> strategy;
  std::size_t granularity;
  access_map rights;
  // Devices with a right to single chunks alone need not reach the other owners.
  memory_users users;
  std::size_t committed = 0;
  region_options options;
  std::size_t placement_start = 0;           // of offset 0 in the placement, after rebase()
  bool may_pin_memory = false;               // `addresses` may hold memory of chunks unmapped there
  bool takes_pinned = false;                 // use_pinned_chunks()
  std::shared_ptr<address_range> addresses;  // outlives the mappings below
  backing_map backings;
  // Some backings may have no mapping, after a failed call or during suspend(). Their chunks keep
  // the contents, and map_again() comes before all else.
  bool is_torn = false;
  // Left by move_chunks(); not in `committed`. Nothing is prepared while there are any.
  backing_map old_mappings;
  region_sleep sleep{*this};

 private:
  /// Makes the prepared chunk part of the region while the object lives, and for good after keep().
  class adoption;
  [[nodiscard]] backing_map make_ahead(const chunk_prefetch::order& wanted);
  [[nodiscard]] given_memory give_idle(const idle_request& wanted) override;
  [[nodiscard]] std::size_t idle_bytes() override { return prefetch.offered_bytes(); }

 public:
  // Last, because other threads use the members above through these.
  chunk_prefetch prefetch{[this](const auto& wanted) { return make_ahead(wanted); }};
  tag_membership membership{options.tag, sleep};
  std::optional<idle_membership> idle;  // since the first prepare()
};

class region_state::adoption {
 public:
  /// Cancels or waits for the preparation, and maps the chunk if it is not.
  explicit adoption(region_state& owner);
  ~adoption();
  adoption& operator=(adoption&&) = delete;
  void keep() noexcept { offset_.reset(); }

 private:
  region_state& owner_;
  std::optional<std::size_t> offset_;
};

}  // namespace hipvmm::detail
