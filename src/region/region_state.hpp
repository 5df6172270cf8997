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

/// The implementation of a region. Its functions take arguments that region has checked.
class region_state final : idle_holder {
 public:
  /// `at`: unless null, the addresses begin there, and are not fewer than `max_bytes`. Throws: as
  /// region; out_of_memory if others have some of these addresses.
  region_state(device_ref owner, std::size_t max_bytes, const region_options& chosen,
               const capability& found, void* at = nullptr);
  ~region_state();
  region_state& operator=(region_state&&) = delete;

  // Like the functions of region with these names. A commit(), adopt(), extend() or rebase() that
  // fails may leave memory in the addresses: then call reclaim_pinned_if_empty().
  void commit(std::size_t offset, std::size_t bytes, std::size_t largest_chunk);
  std::size_t decommit(std::size_t offset, std::size_t bytes);
  std::size_t decommit(std::size_t offset, std::size_t bytes, stream_ref stream);
  void move_chunks(const std::vector<std::size_t>& from, std::size_t to);
  void end_move(std::size_t from);
  void grant(device_ref to, access_right right);
  /// Both return the devices whose right to some bytes has changed, with the new right.
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
  /// Extends without a new base. Returns false, nothing done, if HIP returns other addresses.
  [[nodiscard]] bool extend_in_place(std::size_t max_bytes, std::size_t commit_bytes);
  void rebase(std::size_t from, std::size_t max_bytes, std::size_t commit_bytes);
  void prepare(std::size_t bytes, prefetch_level how);
  [[nodiscard]] std::vector<chunk_view> chunks() const;
  [[nodiscard]] std::vector<exported_chunk> export_chunks(std::uint64_t since);
  [[nodiscard]] std::vector<exported_fabric_chunk> export_fabric_chunks(std::uint64_t since);
  [[nodiscard]] exported_range export_range(std::size_t offset, std::size_t bytes);
  void adopt(std::map<std::size_t, physical_chunk>& chunks);
  /// Has everything released when the devices with access have passed this point. The region leaves
  /// its tag in any case. Returns false, nothing retired, if the caller must wait for the devices
  /// before it destroys this object.
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
  /// Maps chunks that restore_lost() could not. Throws: out_of_memory, hip_error, which name the
  /// bytes that are not mapped.
  void map_again();
  /// For a call that needs the memory. Throws: std::logic_error while it sleeps; as map_again().
  [[nodiscard]] region_state& awake(const char* function) {
    membership.require_awake(function);
    map_again();
    return *this;
  }
  void return_pinned_memory() noexcept;
  /// Frees the addresses, in which nothing is mapped, and reserves the same again. If another
  /// thread has taken them meanwhile, a warning names `subject`. Throws: hip_error if HIP has
  /// forgotten them.
  void free_for_a_moment(const char* subject);
  /// Reserves them again if they were lost. Throws: out_of_memory while others hold them.
  void require_addresses();
  /// Releases memory that a failed growth left in addresses, if these have no mapping.
  void reclaim_pinned_if_empty() noexcept {
    if (backings.empty() && old_mappings.empty() && prefetch.ready().empty() &&
        addresses->refused().empty() && must_reclaim_pinned())
      reclaim_pinned();
  }
  /// Releases the chunk that is prepared or under way, and allows prepare() again.
  void drop_prepared();
  /// New chunks as `old`: at `to`, or each at the place of its old one if `to` is empty.
  [[nodiscard]] std::vector<physical_chunk> acquire_like(
      const std::vector<backing_map::iterator>& old, std::optional<memory_location> to) const;
  /// Copies each of `old` to one of `fresh`, in `stream`, and waits for it.
  void copy_into(std::vector<physical_chunk>& fresh, const std::vector<backing_map::iterator>& old,
                 stream_ref stream);
  /// Puts the chunks of `fresh` in place of those of `moving`, all or none, and recycles the old
  /// ones.
  /// Pre: `moving` is in the order of addresses.
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
  /// The place of a new chunk at `offset`. A budget counts the present chunks and `additions`.
  [[nodiscard]] chunk_place place_at(std::size_t offset,
                                     const backing_map* additions = nullptr) const noexcept;
  /// A chunk that addresses pin (is_pinned()), from the cache, for a gap of `bytes` bytes, of at
  /// most `most`. Empty if there is none, or without use_pinned_chunks().
  [[nodiscard]] physical_chunk take_pinned(memory_location where, std::size_t bytes,
                                           std::size_t most) const;
  /// A chunk for [offset, offset + bytes), with which a gap of `gap` bytes begins. A pinned chunk
  /// may have fewer bytes, or more if no chunk follows (`is_last_gap`).
  [[nodiscard]] physical_chunk make_chunk(const address_range& range, std::size_t offset,
                                          std::size_t bytes, const chunk_place& place,
                                          std::size_t gap, bool is_last_gap) const;
  /// Of `bytes` bytes of new chunks there, those that the cache lacks.
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

  /// The mappings in a range: the backings that begin before `backed_end`, and `additions`. In the
  /// region's own addresses also the prepared chunk, and mappings that moved chunks left behind.
  struct mapped_ranges {
    const address_range& range;
    std::size_t backed_end;
    const backing_map* additions = nullptr;
  };
  [[nodiscard]] mapped_ranges mapped_here(const backing_map* additions = nullptr) const noexcept {
    return {*addresses, addresses->bytes(), additions};
  }
  /// Rights are set for all mappings of the region alike, or for some of them.
  enum class rights_for { all, these };
  /// Calls `change(address, bytes)`, which sets rights, for a range that HIP accepts and that
  /// contains the neighbouring mappings of `bytes` bytes at `offset`. Other mappings are in it only
  /// if they get the same rights. Throws: hip_error; unsupported if HIP accepts no range, see
  /// rights_setting.
  template <class Change>
  void change_access(const mapped_ranges& there, std::size_t offset, std::size_t bytes,
                     rights_for which, Change change) const;

  struct rights_change {
    std::size_t offset;
    backing* held;
    std::shared_ptr<const access_map> own;  // its chunk's own afterwards; null: the region's
  };
  using rights_changes = std::vector<rights_change>;
  struct rights_run;
  /// Puts neighbours with the same change into one run if HIP takes several mappings in a call.
  [[nodiscard]] std::vector<rights_run> runs_of(const rights_changes& changes,
                                                const access_map& next) const;
  void set_run(const rights_run& run, const access_map& before, const access_map& after) const;
  /// Sets the region's rights to `next` and makes all `changes`. Returns as set_access(). On any
  /// exception all rights are as before. Pre: no chunk is being prepared.
  std::vector<access_desc> change_rights(rights_changes& changes, access_map next);
  /// The same for all mappings, each with `own_of(held)` as rights_change::own.
  template <class Own>
  std::vector<access_desc> change_all_rights(access_map next, Own own_of);

  /// Gives new mappings, of memory of `owner`, the rights `own`, or the region's.
  void set_first_rights(const mapped_ranges& there, std::size_t offset, std::size_t bytes,
                        device_ref owner, const access_map* own) const;
  static void require_reach(const access_map& of, device_ref owner);
  class map_runs;
  /// Maps with the region's rights. On any exception it is not mapped.
  void map_prepared(std::size_t offset, backing& held);
  [[nodiscard]] moment visible_if_mapped_now() const;
  void await_visible(std::size_t offset, std::size_t bytes) const noexcept;
  /// New backings in `range` for all of [offset, offset + bytes) that has none, of at most
  /// `largest_chunk` bytes each, to be merged. Its out_of_memory states the bytes that the region
  /// holds.
  [[nodiscard]] backing_map make_missing(const address_range& range, std::size_t offset,
                                         std::size_t bytes, std::size_t largest_chunk);
  /// Makes `additions` part of the region, with new serials.
  void merge(backing_map& additions) noexcept;
  [[nodiscard]] static std::uint64_t next_serial() noexcept;
  /// Recycles an unmapped chunk. If HIP refused the unmap, the refused mapping keeps it.
  void recycle(physical_chunk chunk) noexcept {
    if (!addresses->refused().take_if_mapped(chunk)) cache().recycle(std::move(chunk));
  }
  [[nodiscard]] const access_map& rights_to(const backing& held) const noexcept {
    return held.own_rights ? *held.own_rights : rights;
  }
  /// Throws: std::invalid_argument unless new chunks may be mapped in [offset, offset + bytes) of
  /// one reservation, and `offset` is no less than `from`.
  void require_free(const char* function, std::size_t offset, std::size_t bytes,
                    std::size_t from = 0) const;
  [[noreturn]] static void refuse_cut(const char* function, std::size_t offset, std::size_t bytes,
                                      const backing_map::value_type& chunk);
  /// Throws if a moved chunk left a mapping behind in the range.
  void require_none_left_behind(const char* function, std::size_t offset, std::size_t bytes) const;
  /// The same for the mappings that `held` left behind.
  void require_not_moving(const char* function, const backing& held) const;
  /// As map_again(), after a call that unmapped chunks and failed; a refusal is reported.
  void restore_lost() noexcept;
  void map_lost(const std::vector<backing_map::iterator>& lost);

  /// Mappings of chunks in another range, by address. The destructor unmaps those that are left.
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
  /// Whether the runtime keeps records of used addresses until the commands have ended.
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
  /// Frees and re-reserves the addresses, which returns memory that only they held. Backed bytes
  /// stay backed; at other addresses if the old ones are gone or refuse the mappings. Waits for the
  /// devices with access, unless nothing is backed and await_records() would not. Pre: nothing is
  /// prepared.
  void reclaim_pinned() noexcept;

  [[nodiscard]] std::size_t end() const noexcept;
  /// If the order of a cancelled prepare() begins in [offset, offset + bytes): new backings for the
  /// range and the ordered chunk, or none if memory is lacking. The order is void in any case.
  [[nodiscard]] backing_map make_ordered(std::size_t offset, std::size_t bytes,
                                         std::size_t largest_chunk);
  /// Call before the chunks in front of `last` are released. If `last` is the end, drops the
  /// prepared chunk, because it would not follow the last one; else only allows prepare() again.
  void drop_prepared_behind(backing_map::const_iterator last);
  /// Has the chunks [first, last) released when `stream` has passed this point. Returns false,
  /// nothing done, if the caller must wait for the stream itself.
  [[nodiscard]] bool retire_chunks(backing_map::iterator first, backing_map::iterator last,
                                   stream_ref stream);
  /// Returns the first chunk, from `first` on, that reaches beyond `end_offset`, if any. Throws:
  /// std::invalid_argument if a chunk before it is mapped elsewhere too.
  [[nodiscard]] backing_map::iterator require_whole_until(backing_map::iterator first,
                                                          std::size_t end_offset);
  /// How many chunks one step maps and then grants: one if HIP grants a mapping only with all
  /// others.
  [[nodiscard]] std::size_t in_one_step(std::size_t count) const noexcept;
  void copy_into(physical_chunk* fresh, const backing_map::iterator* old, std::size_t count,
                 stream_ref stream);
  /// Maps the chunks of `fresh` in place of those at `at`, which `fresh` then has, unmapped. On any
  /// exception the old ones are mapped again.
  void swap_in(backing_map::iterator* at, physical_chunk* fresh, std::size_t count);
  /// Undoes swap_in(): the chunks at `at` and those of `old` change places again.
  void swap_out(backing_map::iterator* at, physical_chunk* old, std::size_t count) noexcept;
  [[nodiscard]] std::vector<backing_map::iterator> chunks_to_move(std::size_t offset,
                                                                  std::size_t bytes,
                                                                  memory_location to);
  /// Makes `other` an owner in the rights, users and strategy. If the device is new to the region,
  /// returns the strategy without it. Throws: unsupported; then all is as before.
  std::unique_ptr<const memory_strategy> add_memory_of(device_ref other);
  /// Forgets users without any right, and owners without a chunk, unless the placement names them.
  void forget_unused() noexcept;
  /// If that pays, replaces the chunk that reaches beyond `end` by one that ends there.
  void replace_tail(std::size_t end, stream_ref stream);

 public:
  owner_process process;
  const std::uint64_t event_id = next_event_id();
  device_ref device;
  // The first record is of the region's device, the others are of its stripes and of devices that
  // it has or had memory of, each as it was when the device came in.
  std::unique_ptr<const memory_strategy> strategy;
  std::size_t granularity;
  access_map rights;
  // Some devices have a right to single chunks alone, and need not reach the other owners.
  memory_users users;
  std::size_t committed = 0;
  region_options options;
  // Bytes that rebase() left out in front: the placement counts from there.
  std::size_t placement_start = 0;
  bool may_pin_memory = false;  // something was unmapped in `addresses`, which may hold its memory
  bool takes_pinned = false;    // use_pinned_chunks()
  // The order of these two members unmaps everything before the addresses are freed.
  std::shared_ptr<address_range> addresses;
  backing_map backings;
  // A call that unmapped chunks failed, or suspend() unmaps: some backings may have no mapping.
  // Their chunks are kept, with the contents. Nothing else is done before they are mapped again.
  bool is_torn = false;
  // Mappings that moved chunks left behind; `committed` does not count them. While there are any,
  // nothing is prepared.
  backing_map old_mappings;
  region_sleep sleep{*this};

 private:
  /// Makes the prepared chunk part of the region while the object lives, and for good after keep().
  class adoption;
  [[nodiscard]] backing_map make_ahead(const chunk_prefetch::order& wanted);
  [[nodiscard]] given_memory give_idle(const idle_request& wanted) override;
  [[nodiscard]] std::size_t idle_bytes() override { return prefetch.offered_bytes(); }

 public:
  // After all that it uses: it must be cancelled before that is destroyed.
  chunk_prefetch prefetch{[this](const auto& wanted) { return make_ahead(wanted); }};
  // After all that suspend() of another thread may use.
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
