// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>

#include <hipvmm/vmm/capability.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>
#include <hipvmm/vmm/mapping.hpp>
#include <hipvmm/vmm/region.hpp>
#include "core/background_task.hpp"
#include "vmm/address_range.hpp"
#include "vmm/settling.hpp"

namespace hipvmm {

/// A chunk and where it is mapped, or a mapping that a chunk left behind, without it. The members'
/// order unmaps before it releases.
struct backing {
  physical_chunk chunk;
  mapping map;
  detail::moment visible = {};                          // from when on all work finds the bytes
  ihipMemGenericAllocationHandle* elsewhere = nullptr;  // the chunk that left

  [[nodiscard]] std::size_t bytes() const noexcept {
    return chunk.empty() ? map.bytes() : chunk.bytes();
  }
};

/// By offset in the region. Adjacent backings may touch, never overlap.
using backing_map = std::map<std::size_t, backing>;

/// Unmaps all `backings` and passes their chunks to `cache`; what HIP refuses is reported.
void give_back(backing_map& backings, chunk_cache& cache) noexcept;

/// What a region owns, and what it does with arguments that region has checked: one implementation
/// for each way to have memory.
struct region::state {
  state(device_ref owner, std::size_t unit) : device{owner}, granularity{unit}, rights{owner} {}
  virtual ~state() = default;
  state(const state&) = delete;
  state& operator=(const state&) = delete;

  // As the functions of region of these names.
  virtual void commit(std::size_t offset, std::size_t bytes) = 0;
  virtual std::size_t decommit(std::size_t offset, std::size_t bytes) = 0;
  [[nodiscard]] virtual bool can_move_chunks() const noexcept = 0;
  virtual void move_chunk(std::size_t from, std::size_t to) = 0;
  virtual void end_move(std::size_t from) = 0;
  virtual void grant(device_ref to, access_right right) = 0;
  virtual std::size_t trim(std::size_t bytes, stream_ref stream, straddling_chunk straddling) = 0;
  /// Both sizes are whole granules, the first no less than the second and than max_bytes().
  virtual bool extend(std::size_t max_bytes, std::size_t commit_bytes) = 0;
  virtual void prepare(std::size_t bytes, ahead how) = 0;
  virtual void settle() noexcept = 0;
  [[nodiscard]] virtual std::size_t prepared_bytes() const noexcept = 0;
  [[nodiscard]] virtual std::size_t failed_preparations() const noexcept = 0;
  /// Takes everything out, to be given back when the devices with access have passed this point.
  /// Returns false, nothing done, where the caller must wait for them before it destroys this.
  [[nodiscard]] virtual bool retire_all() noexcept = 0;
  [[nodiscard]] virtual bool is_address_stable() const noexcept = 0;
  [[nodiscard]] virtual void* base() const noexcept = 0;
  [[nodiscard]] virtual std::size_t max_bytes() const noexcept = 0;
  [[nodiscard]] virtual std::size_t committed_from(std::size_t offset) const noexcept = 0;
  [[nodiscard]] virtual std::size_t chunk_count() const noexcept = 0;

  void require_units(const char* function, std::size_t offset, std::size_t bytes) const;
  void require_within(const char* function, std::size_t offset, std::size_t bytes) const;

  device_ref device;
  std::size_t granularity;
  access_map rights;
  std::size_t committed = 0;
};

/// Chunks mapped in reserved addresses, and the steps its operations are made of.
struct region::mapped final : region::state {
  mapped(device_ref owner, std::size_t max_bytes, const region_options& chosen,
         const capability& found);
  ~mapped() override;

  void commit(std::size_t offset, std::size_t bytes) override;
  std::size_t decommit(std::size_t offset, std::size_t bytes) override;
  [[nodiscard]] bool can_move_chunks() const noexcept override {
    return !known.needs(quirk::no_aliases);
  }
  void move_chunk(std::size_t from, std::size_t to) override;
  void end_move(std::size_t from) override;
  void grant(device_ref to, access_right right) override;
  std::size_t trim(std::size_t bytes, stream_ref stream, straddling_chunk straddling) override;
  bool extend(std::size_t max_bytes, std::size_t commit_bytes) override;
  /// Takes a second reservation right behind the addresses; false, nothing done, where HIP gives
  /// other ones.
  [[nodiscard]] bool extend_in_place(std::size_t max_bytes, std::size_t commit_bytes);
  void prepare(std::size_t bytes, ahead how) override;
  void settle() noexcept override { preparation.settle(); }
  [[nodiscard]] std::size_t prepared_bytes() const noexcept override;
  [[nodiscard]] std::size_t failed_preparations() const noexcept override { return failures; }
  [[nodiscard]] bool retire_all() noexcept override;
  [[nodiscard]] bool is_address_stable() const noexcept override { return true; }
  [[nodiscard]] void* base() const noexcept override { return addresses->base(); }
  [[nodiscard]] std::size_t max_bytes() const noexcept override { return addresses->bytes(); }
  [[nodiscard]] std::size_t committed_from(std::size_t offset) const noexcept override;
  [[nodiscard]] std::size_t chunk_count() const noexcept override { return backings.size(); }

  [[nodiscard]] chunk_cache& cache() const noexcept {
    return options.cache != nullptr ? *options.cache : chunk_cache::shared();
  }

  /// What is mapped in a range: the backings that begin before `backed_end`, and `made`. In the
  /// region's own addresses also what is prepared and what chunks left behind.
  struct mapped_there {
    const address_range& range;
    std::size_t backed_end;
    const backing_map* made = nullptr;
  };
  [[nodiscard]] mapped_there mapped_here(const backing_map* made = nullptr) const noexcept {
    return {*addresses, addresses->bytes(), made};
  }
  /// Calls `change(address, bytes)`, which sets rights, for a range that HIP takes and that has the
  /// mapping of `bytes` bytes at `offset` in it.
  /// Throws: unsupported where HIP takes none, by quirk::access_from_base.
  template <class Change>
  void change_access(const mapped_there& there, std::size_t offset, std::size_t bytes,
                     Change change) const;
  /// Sets the rights in `chosen`, which differ in the right of `changed`, over the mapping at
  /// `offset`.
  void set_rights(std::size_t offset, std::size_t bytes, const access_map& chosen,
                  device_ref changed) const;

  [[nodiscard]] mapping map_with_rights(const mapped_there& there, std::size_t offset,
                                        const physical_chunk& chunk) const;
  /// The same in the region's addresses, which may hold memory after a failure.
  [[nodiscard]] mapping map_here(std::size_t offset, const physical_chunk& chunk);
  /// From when on all work finds what is mapped now.
  [[nodiscard]] detail::moment visible_if_mapped_now() const;
  /// Returns when all work finds what is mapped in [offset, offset + bytes).
  void await_visible(std::size_t offset, std::size_t bytes) const noexcept;
  /// New backings in `range` for all of [offset, offset + bytes) that has none, ready to be merged.
  [[nodiscard]] backing_map make_missing(const address_range& range, std::size_t offset,
                                         std::size_t bytes) const;
  /// make_missing, whose out_of_memory tells what the region holds.
  [[nodiscard]] backing_map make_missing_or_explain(const address_range& range, std::size_t offset,
                                                    std::size_t bytes) const;
  void merge(backing_map& made) noexcept;
  [[nodiscard]] bool is_backed_within(std::size_t offset, std::size_t bytes) const noexcept;
  /// Throws unless what chunks left behind lies outside [offset, offset + bytes).
  void require_none_left_behind(const char* function, std::size_t offset, std::size_t bytes) const;
  /// Maps a chunk again where it was; what HIP refuses is reported, and the bytes are then lost.
  void restore(backing_map::iterator entry) noexcept;

  /// Mappings of all backings in another range, in their order.
  using mapping_list = boost::container::small_vector<mapping, 8>;
  [[nodiscard]] mapping_list map_all_in(const address_range& range) const;
  /// Makes `range` the region's, where `moved` are the mappings; gives the old ones for both.
  void move_to(std::shared_ptr<address_range>& range, mapping_list& moved) noexcept;
  /// Whether the runtime may forget addresses only after they were freed and taken again.
  [[nodiscard]] static bool frees_late_records() noexcept;
  /// Waits for the devices with access where addresses that were used must not be freed before.
  void await_records() const noexcept;
  /// Whether addresses that held memory are to be renewed.
  [[nodiscard]] bool must_renew() const noexcept { return holds_memory && renews; }
  /// Frees the addresses and takes them again, so that memory which only they held goes back to the
  /// device. What is backed stays so, at other addresses where these are not to be had any more or
  /// refuse the mappings. Waits for the devices with access unless nothing is backed and
  /// await_records() would not wait. Pre: nothing is prepared.
  void renew_addresses() noexcept;

  /// End of the last backing.
  [[nodiscard]] std::size_t end() const noexcept;
  /// Whether the chunk that was prepared lies partly in [offset, offset + bytes), where nothing
  /// else can be mapped then. Pre, for all that follows: nothing is pending.
  [[nodiscard]] bool is_prepared_within(std::size_t offset, std::size_t bytes) const noexcept;
  /// New backings for [offset, offset + bytes) and an order that was taken back there; none when
  /// there is no such order or no memory for all of it. Voids the order.
  [[nodiscard]] backing_map make_ordered(std::size_t offset, std::size_t bytes);
  /// Gives back what is prepared or on its way, and allows to prepare again.
  void drop_prepared();
  void note_failed_preparation() noexcept;
  /// Takes the chunks behind `end` out, to be given back when `stream` has passed this point.
  /// Returns false, nothing done, where the caller must wait for the stream itself.
  [[nodiscard]] bool retire_behind(std::size_t end, stream_ref stream);
  /// The chunk that begins before `end` and reaches beyond makes place for one that ends there.
  void replace_straddler(std::size_t end, stream_ref stream);

  region_options options;
  // As it was when the region was made.
  capability known;
  bool renews;
  bool holds_memory = false;  // something was unmapped in `addresses`
  // The order of these two unmaps everything before the addresses are freed. Shared with chunks
  // that have left the backings and are still mapped.
  std::shared_ptr<address_range> addresses;
  backing_map backings;
  // What chunks left behind that moved: mappings without them, counted in no size. Nothing is
  // prepared while there are any.
  backing_map left_behind;

  /// What was prepared, as a part of the region while this lives, and for good once kept.
  class adoption;
  struct preparation_order {
    std::size_t offset;
    std::size_t bytes;
    ahead how;
  };
  /// The body of `preparation`. Reads what else the region owns: whoever changes that settles
  /// first.
  void make_prepared() noexcept;

  // Set while pending, and from the time when an order is taken back until it is filled or void.
  std::optional<preparation_order> ordered;
  // At most one chunk, not counted in `committed`, mapped or not. The node is what `backings` gets.
  backing_map prepared;
  bool may_prepare = true;  // not after a failure
  std::atomic<std::size_t> failures{0};
  // Last, for it is to be settled before anything it uses goes.
  detail::background_task preparation{[this] { make_prepared(); }};
};

class region::mapped::adoption {
 public:
  /// Settles, and maps the chunk if it is not yet.
  explicit adoption(mapped& owner);
  ~adoption();
  adoption(const adoption&) = delete;
  adoption& operator=(const adoption&) = delete;
  void keep() noexcept { offset_.reset(); }

 private:
  mapped& owner_;
  std::optional<std::size_t> offset_;
};

}  // namespace hipvmm
