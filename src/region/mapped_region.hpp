// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <hipvmm/capability/capability.hpp>
#include <hipvmm/region/chunk_view.hpp>
#include <hipvmm/region/region_options.hpp>
#include <hipvmm/runtime/stream.hpp>
#include <hipvmm/vmm/access.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>
#include <hipvmm/vmm/mapping.hpp>
#include "core/background_task.hpp"
#include "core/observers/memory_events.hpp"
#include "core/process_mark.hpp"
#include "region/backing.hpp"
#include "region/device_work.hpp"
#include "region/sleep/memory_tag.hpp"
#include "region/visibility.hpp"
#include "vmm/address_range.hpp"
#include "vmm/chunk_placement.hpp"

namespace hipvmm::detail {

/// The implementation of a region: chunks mapped in reserved addresses, and the steps of its
/// operations. Its functions take arguments that region has checked.
class mapped_region final : public sleeper {
 public:
  mapped_region(device_ref owner, std::size_t max_bytes, const region_options& chosen,
                const capability& found);
  ~mapped_region() override;
  mapped_region(const mapped_region&) = delete;
  mapped_region& operator=(const mapped_region&) = delete;

  // Like the functions of region with these names.
  void commit(std::size_t offset, std::size_t bytes);
  std::size_t decommit(std::size_t offset, std::size_t bytes);
  std::size_t decommit(std::size_t offset, std::size_t bytes, stream_ref stream);
  [[nodiscard]] bool can_move_chunks() const noexcept { return !needs(quirk::no_aliases); }
  void move_chunk(std::size_t from, std::size_t to);
  void end_move(std::size_t from);
  void grant(device_ref to, access_right right);
  /// Both return each device whose right changed, to some of the bytes or to what is backed later,
  /// with the new one.
  std::vector<access_desc> set_access(const access_list& wanted);
  std::vector<access_desc> set_access(std::size_t offset, std::size_t bytes,
                                      const access_list& wanted);
  [[nodiscard]] const access_map& rights_at(std::size_t offset) const;
  [[nodiscard]] std::vector<chunk_access> effective_access(std::size_t offset,
                                                           std::size_t bytes) const;
  std::size_t trim(std::size_t bytes, stream_ref stream, tail_chunk tail);
  std::size_t move_range(std::size_t offset, std::size_t bytes, memory_location to,
                         stream_ref stream);
  /// Pre: both sizes are whole granules, the first no less than the second and than max_bytes().
  bool extend(std::size_t max_bytes, std::size_t commit_bytes);
  /// Reserves more addresses directly after the present ones. Returns false, nothing done, where
  /// HIP returns other addresses.
  [[nodiscard]] bool extend_in_place(std::size_t max_bytes, std::size_t commit_bytes);
  /// Pre: nothing is backed before `from`.
  void rebase(std::size_t from, std::size_t max_bytes, std::size_t commit_bytes);
  void prepare(std::size_t bytes, prefetch_level how);
  void cancel_or_wait() noexcept { preparation.cancel_or_wait(); }
  [[nodiscard]] std::size_t prepared_bytes() const noexcept;
  [[nodiscard]] std::size_t failed_preparations() const noexcept { return failures; }
  [[nodiscard]] std::vector<chunk_view> chunks() const;
  [[nodiscard]] std::vector<exported_chunk> export_chunks(std::uint64_t since);
  [[nodiscard]] std::vector<exported_fabric_chunk> export_fabric_chunks(std::uint64_t since);
  [[nodiscard]] exported_range export_range(std::size_t offset, std::size_t bytes);
  /// Takes `chunk` when it succeeds. Pre: it is memory of `device` and fits in the region.
  void adopt(std::size_t offset, physical_chunk& chunk);
  /// Takes everything out, to be released when the devices with access have passed this point.
  /// Returns false, nothing done, where the caller must wait for them before it destroys this
  /// object.
  [[nodiscard]] bool retire_all() noexcept;
  [[nodiscard]] void* base() const noexcept { return addresses->base(); }
  [[nodiscard]] std::size_t max_bytes() const noexcept { return addresses->bytes(); }
  [[nodiscard]] std::size_t committed_from(std::size_t offset) const noexcept;
  [[nodiscard]] std::size_t chunk_count() const noexcept { return backings.size(); }
  [[nodiscard]] std::size_t chunk_bytes_at(std::size_t offset) const noexcept {
    const auto at = backings.find(offset);
    return at == backings.end() ? 0 : at->second.bytes();
  }

  /// Whether the work-around is in force on a device whose memory the region has, or had.
  [[nodiscard]] bool needs(quirk which) const noexcept;
  /// The first of those devices that lacks the trait, with its record; null where all have it.
  [[nodiscard]] const std::pair<device_ref, capability>* first_without(trait which) const noexcept;
  /// Reserves addresses for the region: where they are to be freed for a moment, so that memory
  /// returns, those that nobody else asks for. Throws: as address_reservation.
  [[nodiscard]] address_reservation reserve(std::size_t bytes) const;
  /// Where the chunk that begins at `offset` is to be made, beside what is there and `made`.
  [[nodiscard]] chunk_place place_at(std::size_t offset,
                                     const backing_map* made = nullptr) const noexcept;
  [[nodiscard]] physical_chunk acquire(memory_location where, std::size_t bytes,
                                       chunk_memory memory) const;
  /// Throws: unsupported where chunks of this region cannot be memory of the host at `where`.
  static void require_host_chunks(const char* what, device_ref owner, const capability& found,
                                  handle_type shareable, memory_location where);
  /// Throws: unsupported where `device` makes no uncached chunks.
  static void require_uncached_chunks(const char* what, device_ref device, const capability& found);
  /// The rights that `wanted` asks for: the devices of the placement have read_write unless it
  /// names them.
  [[nodiscard]] static access_map rights_of(device_ref owner, const access_list& wanted,
                                            const chunk_placement& placement);
  /// Throws: unsupported where HIP would not grant this chunk, mapped anew, what it has.
  void require_grantable(std::size_t offset, const backing& held) const;
  [[nodiscard]] chunk_cache& cache() const noexcept {
    return options.cache != nullptr ? *options.cache : chunk_cache::shared();
  }

  /// What is mapped in a range: the backings that begin before `backed_end`, and `made`. In the
  /// region's own addresses also what is prepared, and mappings that moved chunks left behind.
  struct mapped_there {
    const address_range& range;
    std::size_t backed_end;
    const backing_map* made = nullptr;
  };
  [[nodiscard]] mapped_there mapped_here(const backing_map* made = nullptr) const noexcept {
    return {*addresses, addresses->bytes(), made};
  }
  /// Whether rights are set for all mappings of the region alike, or for some of them.
  enum class rights_for { all, these };
  /// Calls `change(address, bytes)`, which sets rights, for a range that HIP accepts and that
  /// contains the neighbouring mappings of `bytes` bytes at `offset`. The range has others too only
  /// where those get the same rights.
  /// Throws: unsupported where HIP accepts none, by quirk::access_from_base.
  template <class Change>
  void change_access(const mapped_there& there, std::size_t offset, std::size_t bytes,
                     rights_for which, Change change) const;

  /// A mapping whose rights change: those of its chunk alone, or those of the region.
  struct rights_change {
    std::size_t offset;
    backing* held;
    std::shared_ptr<const access_map> own;  // afterwards
  };
  using rights_changes = std::vector<rights_change>;
  struct rights_run;
  /// Neighbours that change from and to the same rights, where HIP takes several mappings.
  [[nodiscard]] std::vector<rights_run> runs_of(const rights_changes& changes,
                                                const access_map& next) const;
  void set_run(const rights_run& run, const access_map& before, const access_map& after) const;
  /// Makes `next` the rights of the region, and all `changes`. Returns as set_access(). On any
  /// exception all rights are as before. Pre: nothing is pending.
  std::vector<access_desc> change_rights(rights_changes& changes, access_map next);
  /// The same for all mappings; `own_of(held)` has the rights that are its chunk's own.
  template <class Own>
  std::vector<access_desc> change_all_rights(access_map next, Own own_of);

  /// Maps `chunk` for the region, with `own`, the rights of the chunk, where they are not the
  /// region's, and registers it.
  [[nodiscard]] mapping map_with_rights(const mapped_there& there, std::size_t offset,
                                        const physical_chunk& chunk,
                                        const access_map* own = nullptr) const;
  /// The same without the registration, for what the region does not keep.
  [[nodiscard]] mapping map_unregistered(const mapped_there& there, std::size_t offset,
                                         const physical_chunk& chunk, const access_map* own) const;
  /// Adds what is mapped in `range` to the registrar, where there is one.
  void add_to_registrar(mapping& made, const physical_chunk& chunk) const;
  /// The same in the region's addresses; on failure these may hold memory.
  [[nodiscard]] mapping map_here(std::size_t offset, const physical_chunk& chunk,
                                 const access_map* own = nullptr,
                                 const backing_map* made = nullptr);
  /// The moment from which all work sees what is mapped now.
  [[nodiscard]] moment visible_if_mapped_now() const;
  /// Waits until all work sees what is mapped in [offset, offset + bytes).
  void await_visible(std::size_t offset, std::size_t bytes) const noexcept;
  /// Makes new backings in `range` for all of [offset, offset + bytes) that has none, ready to be
  /// merged.
  [[nodiscard]] backing_map make_missing(const address_range& range, std::size_t offset,
                                         std::size_t bytes);
  /// The same, but `made`, which is empty before, keeps what was made before a failure.
  void add_missing(backing_map& made, const address_range& range, std::size_t offset,
                   std::size_t bytes);
  /// Like make_missing(); its out_of_memory states what the region holds.
  [[nodiscard]] backing_map make_missing_or_explain(const address_range& range, std::size_t offset,
                                                    std::size_t bytes);
  /// Makes `made` part of the region: each of its chunks gets a new serial.
  void merge(backing_map& made) noexcept;
  [[nodiscard]] static std::uint64_t next_serial() noexcept;
  /// Recycles a chunk that is mapped nowhere, except where HIP refused to unmap it.
  void recycle(physical_chunk chunk) noexcept {
    if (!addresses->refused().keep_chunk(chunk)) cache().recycle(std::move(chunk));
  }
  /// The chunk that contains `offset`, or the end.
  [[nodiscard]] backing_map::const_iterator chunk_with(std::size_t offset) const noexcept;
  [[nodiscard]] bool is_backed_within(std::size_t offset, std::size_t bytes) const noexcept;
  /// Throws unless all mappings that moved chunks left behind are outside [offset, offset + bytes).
  void require_none_left_behind(const char* function, std::size_t offset, std::size_t bytes) const;
  /// Maps a chunk again where it was. What HIP refuses is reported, and the bytes are then lost.
  void restore(backing_map::iterator entry) noexcept;

  /// Mappings of all backings in another range, in their order. The destructor unmaps those that
  /// are left.
  struct mapping_list {
    explicit mapping_list(std::shared_ptr<address_range>& of) noexcept : range{of} {}
    ~mapping_list() {
      for (mapping& each : maps) range->refused().unmap_or_keep(each, nullptr);
    }
    mapping_list(const mapping_list&) = delete;
    mapping_list& operator=(const mapping_list&) = delete;

    std::shared_ptr<address_range>& range;
    boost::container::small_vector<mapping, 8> maps;
  };
  void map_all(mapping_list& moved) const;
  /// Makes `moved.range` and its mappings those of the region. `moved` gets the old ones.
  void move_to(mapping_list& moved) noexcept;
  /// Returns whether the runtime may forget addresses only after they were freed and reserved
  /// again.
  [[nodiscard]] static bool frees_late_records() noexcept;
  /// Waits for the devices with access where used addresses must not be freed earlier. Returns
  /// whether it waited, or need not.
  [[nodiscard]] bool await_records() const noexcept;
  /// Returns whether addresses that held memory must be re-reserved.
  [[nodiscard]] bool must_re_reserve() const noexcept { return holds_memory && renews(); }
  [[nodiscard]] bool renews() const noexcept {
    return options.when_empty == empty_policy::re_reserves && needs(quirk::re_reserve);
  }
  /// Frees and re-reserves the addresses: memory that only they held returns to the device.
  /// - What is backed stays backed; at other addresses where the old ones are no longer available
  ///   or refuse the mappings.
  /// - Waits for the devices with access unless nothing is backed and await_records() would not
  ///   wait.
  /// Pre: nothing is prepared.
  void re_reserve() noexcept;
  /// Releases what a failed growth left in addresses where nothing is mapped, nor refused to be
  /// unmapped.
  void renew_if_empty() noexcept {
    if (backings.empty() && left_behind.empty() && prepared.empty() &&
        addresses->refused().empty() && must_re_reserve())
      re_reserve();
  }
  /// The body of commit(), which leaves memory in the addresses where it fails.
  void commit_or_leave(std::size_t offset, std::size_t bytes);

  /// End of the last backing.
  [[nodiscard]] std::size_t end() const noexcept;
  /// Returns whether the prepared chunk is partly in [offset, offset + bytes), where nothing else
  /// can be mapped then.
  /// Pre, for all functions that follow: nothing is pending.
  [[nodiscard]] bool is_prepared_within(std::size_t offset, std::size_t bytes) const noexcept;
  /// Makes new backings for [offset, offset + bytes) and a cancelled order there. Empty when there
  /// is no such order or no memory for all of it. Voids the order.
  [[nodiscard]] backing_map make_ordered(std::size_t offset, std::size_t bytes);
  /// Releases what is prepared or under way, and allows prepare() again.
  void drop_prepared();
  /// The same where the chunks up to `last` are to be released, unless one stays behind them: what
  /// is prepared is behind that.
  void drop_prepared_behind(backing_map::const_iterator last);
  void note_failed_preparation() noexcept;
  /// Takes out the chunks after `end`, to be released when `stream` has passed this point. Returns
  /// false, nothing done, where the caller must wait for the stream itself.
  [[nodiscard]] bool retire_behind(std::size_t end, stream_ref stream);
  /// The same for the chunks [first, last).
  [[nodiscard]] bool retire_chunks(backing_map::iterator first, backing_map::iterator last,
                                   stream_ref stream);
  /// Returns the end of the chunks from `first` on that end at `end_offset` or before. Throws
  /// std::invalid_argument where one of them is mapped elsewhere too.
  [[nodiscard]] backing_map::iterator require_whole_until(backing_map::iterator first,
                                                          std::size_t end_offset);
  /// Copies the bytes of `old` to `fresh`, in `stream`, and waits for it.
  void copy_into(const physical_chunk& fresh, const backing& old, stream_ref stream) const;
  /// Maps `chunk` in place of the chunk at `at`, which is returned unmapped. On any exception the
  /// old one is mapped again.
  [[nodiscard]] backing swap_in(backing_map::iterator at, physical_chunk chunk);
  /// The chunks of the range that are not at `to`. Throws: std::invalid_argument.
  [[nodiscard]] std::vector<backing_map::iterator> chunks_to_move(std::size_t offset,
                                                                  std::size_t bytes,
                                                                  memory_location to);
  /// Makes the rights those to memory of `other` too. Returns whether its record is new to the
  /// region. Throws: unsupported; then all is as before.
  bool add_memory_of(device_ref other);
  /// Forgets devices whose rights were those of single chunks and have ended, and those of which no
  /// chunk is left, unless the placement names them.
  void forget_unused() noexcept;
  /// Makes new chunks at `to` for those that move, with the same bytes.
  [[nodiscard]] std::vector<physical_chunk> copies_of(
      const std::vector<backing_map::iterator>& moving, memory_location to,
      stream_ref stream) const;
  /// Puts these in the place of those that move, all or none, and recycles the old ones.
  void replace_chunks(const std::vector<backing_map::iterator>& moving,
                      std::vector<physical_chunk>& fresh);
  /// Replaces the chunk that begins before `end` and reaches beyond it by one that ends at `end`.
  void replace_tail(std::size_t end, stream_ref stream);

  // For suspend() and resume(), with what they need.
  void prepare_to_sleep(keep what) override;
  void wait_for_work() override;
  [[nodiscard]] std::size_t sleeping_bytes() const override;
  [[nodiscard]] std::vector<sleeping_range> contents() const override;
  void unmap_to_sleep(const wait_until_saved& saved) override;
  void map_again() noexcept override;
  void fall_asleep() noexcept override;
  void take_addresses_back() override;
  void begin_to_wake(const mapped_again& each) override;
  void sleep_on(bool may_be_in_use) noexcept override;
  void apply_rights() override;
  void finish_waking() noexcept override;
  /// How many mappings of the region show each chunk.
  using owner_counts = std::map<ihipMemGenericAllocationHandle*, std::size_t>;
  void require_can_sleep(std::size_t offset, const backing& held, const owner_counts& owners) const;
  /// Chooses the mappings by which contents are copied back. Throws: std::invalid_argument.
  void choose_contents();
  /// Throws: unsupported where HIP would not grant all chunks, mapped anew by their offsets, what
  /// they have.
  void require_mappable_again() const;
  /// Frees and reserves the addresses where only that returns the memory.
  void renew_for_sleep() noexcept;
  /// Takes out what is made again and may be in use, to be released when that has passed.
  void retire_waking() noexcept;

  /// Throws: std::out_of_range unless [offset, offset + bytes) is in the region.
  void require_within(const char* function, std::size_t offset, std::size_t bytes) const;

  void report(memory_event_kind kind, const event_details& details) const noexcept {
    report_event({memory_event_source::region, event_id, device.ordinal()}, kind, details);
  }
  [[nodiscard]] std::uintptr_t address_of(std::size_t offset) const noexcept {
    return event_address(base()) + offset;
  }

  process_mark process;
  const std::uint64_t event_id = next_event_id();
  device_ref device;
  // The records as they were when the region was made, or a chunk first came to another device: of
  // the region's device, which is the first, and of others.
  std::vector<std::pair<device_ref, capability>> known;
  std::size_t granularity;
  access_map rights;
  // Rights of its own are a chunk's alone: not every one of these devices reaches every owner.
  memory_users users;
  std::size_t committed = 0;
  region_options options;
  // What rebase() left out in front: the placement counts offsets from there.
  std::size_t placement_start = 0;
  bool holds_memory = false;  // something was unmapped in `addresses`
  // The order of these two members unmaps everything before the addresses are freed. Shared with
  // chunks that were taken out of the backings and are still mapped.
  std::shared_ptr<address_range> addresses;
  backing_map backings;
  // Mappings that moved chunks left behind, counted in no size. Nothing is prepared while there are
  // any.
  backing_map left_behind;

  // What sleeps, from prepare_to_sleep() on: to be made again at these offsets.
  struct sleeping_chunk {
    std::size_t bytes;
    memory_location where;
    device_ref device;
    chunk_memory memory;
    std::shared_ptr<const access_map> own_rights;
    std::size_t first;         // offset of the first mapping of its memory
    bool has_contents = true;  // whose are copied: one of the mappings of a chunk
    // Gets its own rights when the contents are there, and those of the region before.
    bool opens_late = false;
  };
  std::map<std::size_t, sleeping_chunk> asleep;
  // Made again and not yet part of the region; or what sleep_on() had to leave mapped.
  backing_map waking;

  /// Counts the offsets of all backings, and of the placement, from `from` on while the object
  /// lives, and permanently once kept.
  class shifted_offsets;
  /// Makes the prepared chunk part of the region while the object lives, and permanently once kept.
  class adoption;
  struct preparation_order {
    std::size_t offset;
    std::size_t bytes;
    prefetch_level how;
    memory_location where;
  };
  /// The body of `preparation`. It reads the other members of the region: code that changes them
  /// cancels first.
  void make_prepared() noexcept;

  // Set while pending, and from the time when an order is cancelled until it is filled or void.
  std::optional<preparation_order> ordered;
  // At most one chunk, not counted in `committed`, mapped or not. Its node moves to `backings`.
  backing_map prepared;
  bool may_prepare = true;  // not after a failure
  std::atomic<std::size_t> failures{0};
  // Last but one: it must be cancelled before anything it uses is destroyed.
  background_task preparation{[this] { make_prepared(); }};
  // Not before all that suspend() of another thread may use is there; it ends first.
  tag_membership membership{options.tag, *this};
};

class mapped_region::shifted_offsets {
 public:
  shifted_offsets(mapped_region& owner, std::size_t from) noexcept;
  ~shifted_offsets();
  shifted_offsets(const shifted_offsets&) = delete;
  shifted_offsets& operator=(const shifted_offsets&) = delete;
  void keep() noexcept { from_ = 0; }

 private:
  mapped_region& owner_;
  std::size_t from_;
};

class mapped_region::adoption {
 public:
  /// Cancels or waits for the preparation, and maps the chunk if it is not yet mapped.
  explicit adoption(mapped_region& owner);
  ~adoption();
  adoption(const adoption&) = delete;
  adoption& operator=(const adoption&) = delete;
  void keep() noexcept { offset_.reset(); }

 private:
  mapped_region& owner_;
  std::optional<std::size_t> offset_;
};

}  // namespace hipvmm::detail
