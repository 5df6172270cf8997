// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/region/chunk_view.hpp>
#include <hipvmm/region/region_options.hpp>
#include <hipvmm/runtime/memory_location.hpp>
#include <hipvmm/runtime/stream.hpp>
#include <hipvmm/vmm/access.hpp>

namespace hipvmm {

namespace detail {
class storage_memory;
}  // namespace detail
namespace mr {
class memory_resource;
}  // namespace mr

enum class past_max_size {
  move,    ///< maps the chunks into a larger reservation: data() may change, no byte is copied
  refuse,  ///< throws std::length_error: only erase_front() changes data(). Without chunks the
           ///< first growth allocates all of growth_options::max_bytes, which must be set
};

/// A background thread prepares the next chunk before growth needs it. Until growth uses it, the
/// vector holds it in addition to capacity(). shrink_to_fit() releases it, and another object of
/// the process that lacks memory may get it (idle_memory()).
struct grow_ahead_policy {
  prefetch_level prepare = prefetch_level::off;
  /// A growth that leaves fewer unused bytes than this starts the preparation of a chunk. Zero:
  /// half of the budget. At most the budget.
  std::size_t watermark_bytes = 0;
  /// A prepared chunk raises the unused bytes to this number, which should be several of the
  /// program's growth steps. Zero: an eighth of the bytes backed, at most
  /// growth_options::step_limit, but at least 256 MiB or a 64th of max_bytes(), whichever is less,
  /// and at least the watermark.
  std::size_t budget_bytes = 0;
};

/// HIPVMM_CONF changes defaults of the C interface only.
struct growth_options {
  /// Bytes of addresses to reserve. Zero: the total memory of the device (with stripes: of all
  /// their devices), or a share of the process's remaining addresses if that is less, so that any
  /// number of vectors finds some.
  std::size_t max_bytes = 0;
  past_max_size past_max = past_max_size::move;
  /// A growth step adds an eighth of the bytes backed, or this many if that is less, or the
  /// request if that is more; without chunks, half of the bytes backed. Zero: no slack. No
  /// limit applies while chunks cost descriptors and half of the process's are used.
  std::size_t step_limit = GiB;
  /// Growth is in multiples of this, which must be a multiple of HIP's minimum granularity. Zero:
  /// 2 MiB, or the recommended granularity if that is more. A smaller value saves memory for small
  /// vectors on ROCm (minimum 4 KiB). Each chunk costs a file descriptor on ROCm 7.14.
  std::size_t granule_bytes = 0;
  grow_ahead_policy grow_ahead = {};
  region_options chunks = {};
  /// If not null, the memory is one allocation of this resource instead of chunks. Growth waits for
  /// the device and copies. For arrays far below a granule. `granule_bytes` is a multiple of 256,
  /// zero is 256. Other devices get no grants; those that can access the memory must be idle before
  /// growth. Pre: the resource outlives the vector.
  mr::memory_resource* resource = nullptr;
  without_vmm fallback = without_vmm::use_hip_malloc;
};

struct growth_statistics {
  std::size_t growth_steps;
  std::size_t base_moves;      ///< changes from one address to another, except by erase_front()
  std::size_t chunks;          ///< mapped now; without chunks: allocations
  std::size_t peak_bytes;      ///< most bytes held at one time: backed, prepared ahead, scratch,
                               ///< and old beside new during copies
  std::size_t ahead_bytes;     ///< prepared now
  std::size_t ahead_hits;      ///< growth steps that found all they needed ready
  std::size_t ahead_misses;    ///< growth steps that did not, though grow_ahead is on
  std::size_t ahead_failures;  ///< preparations that failed
  std::size_t copied_bytes;    ///< bytes that growth copied: without chunks only
  std::size_t scratch_bytes;   ///< held now for insert() and erase(), see move_within()
};

/// Returns the bytes to back: `needed_bytes`, or `committed_bytes` and the lesser of their
/// `share`-th part and `step_limit`, if that is more. A multiple of `granule` as far as `max_bytes`
/// allows. Pre: committed_bytes < needed_bytes <= max_bytes.
[[nodiscard]] std::size_t growth_target(std::size_t committed_bytes, std::size_t needed_bytes,
                                        std::size_t max_bytes, std::size_t granule,
                                        std::size_t step_limit, std::size_t share = 8);

/// Returns the bytes to prepare behind `committed_bytes`, of which `needed_bytes` are in use: as
/// many as raise the unused bytes to the budget, in multiples of `granule` as far as `max_bytes`
/// allows. Zero if nothing is in use, or the unused bytes reach the watermark.
/// Pre: needed_bytes <= committed_bytes <= max_bytes.
[[nodiscard]] std::size_t ahead_target(std::size_t committed_bytes, std::size_t needed_bytes,
                                       std::size_t max_bytes, std::size_t granule,
                                       std::size_t step_limit, const grow_ahead_policy& policy);

enum class growth_slack { none, allowed };  ///< see growth_options::step_limit

/// The untyped part of growable_device_vector. The memory is a region or, "without chunks", one
/// allocation of hipMalloc or of growth_options::resource. Sizes are bytes. Same thread rules as
/// std::vector.
class growable_storage {
 public:
  /// Throws: as region; std::invalid_argument for options that contradict each other; out_of_memory
  /// if options.max_bytes of addresses are not free; unsupported if the options need chunks, and
  /// the device has none.
  growable_storage(device_ref device, const growth_options& options);
  /// As region::retire().
  ~growable_storage();
  /// The moved-from storage is empty and may be used again: it reserves when it next grows.
  growable_storage(growable_storage&& other) noexcept;
  growable_storage& operator=(growable_storage&& other) noexcept;

  /// Backs at least `bytes`, with slack, and starts the preparation of the next chunk.
  /// Throws (nothing changed): std::length_error (past_max); out_of_memory; unsupported; hip_error;
  /// std::logic_error while the memory sleeps.
  void grow(std::size_t bytes);
  /// Backs at least `bytes` in whole granules. Uses a chunk that is in preparation whole; orders no
  /// other one. Throws: as grow().
  void reserve(std::size_t bytes, growth_slack slack = growth_slack::none);
  /// Releases the memory behind the first `bytes`; nothing without chunks. Pre: no work has used
  /// it, and `bytes` were capacity_bytes() earlier. Throws: as region::decommit().
  void undo_growth(std::size_t bytes);
  /// Checks that HIP can copy from `source`, and notes the copy as copy_peer_async() does.
  /// Throws: unsupported, which names the devices, if `source` is memory of another device and
  /// - the engine of one of the two devices would copy, and has no right to the other's memory;
  /// - AMD's runtime needs a link between two devices that is missing (copy_async()).
  void require_copies_from(const void* source, stream_ref stream);
  /// Copies `bytes` bytes from offset `from` to offset `to` in the order of `stream`. The ranges
  /// are backed and may overlap.
  /// - A distance below 2 MiB and a 16th of `bytes` may need scratch memory of the same kind, up to
  ///   32 MiB. shrink() releases it unless a graph uses it.
  /// - Cost: some 20 copies and one for each MiB; if memory is short, up to some 2000 more.
  /// Throws: out_of_memory if scratch memory is missing; unsupported if an owner of chunks has no
  /// link to the device of `stream` (copy_async()), or the device that copies between chunks on the
  /// host has no right; hip_error: then a part of the target may be overwritten.
  void move_within(std::size_t to, std::size_t from, std::size_t bytes, stream_ref stream);
  /// Releases memory behind the first `bytes` as region::trim(), and scratch memory that no graph
  /// uses. Returns their bytes. Throws: as region::trim().
  /// - Without chunks it releases all memory if `bytes` is 0, and copies to a smaller allocation if
  ///   `tail` is replace. Otherwise, and if past_max is refuse, it releases only scratch memory.
  /// - If memory returns to the device only with its addresses (docs/reference/capability.md),
  ///   data() may change if nothing is left or `tail` is replace, unless past_max is refuse.
  std::size_t shrink(std::size_t bytes, stream_ref stream, tail_chunk tail = tail_chunk::keep);

  /// is_all: the vector becomes empty. Pre: bytes <= capacity_bytes().
  void erase_front(std::size_t bytes, stream_ref stream, bool is_all = false);

  /// As region::grant(). Memory of hipMalloc takes only read_write, which HIP never revokes.
  void grant(device_ref device, access_right right = access_right::read_write);
  /// Pre: no work of `device` in flight uses the memory.
  void revoke(device_ref device) { grant(device, access_right::none); }
  /// As region::set_access(). Pre: no work in flight needs a right that its device loses.
  void set_access(const access_list& rights);
  [[nodiscard]] access_right access(device_ref device) const noexcept;

  /// As the functions of region. Offsets count from the start of the addresses, which is data()
  /// until erase_front(), and is always `chunk_view::address - chunk_view::offset`.
  /// - If data() moves for lack of room, the chunks and their serials stay; after an erase_front()
  ///   such a move lists all anew with other offsets.
  /// Throws: unsupported without chunks; as region::export_chunks().
  [[nodiscard]] std::vector<chunk_view> chunks() const;
  [[nodiscard]] std::vector<exported_chunk> export_chunks(std::uint64_t since = 0);
  [[nodiscard]] std::vector<exported_fabric_chunk> export_fabric_chunks(std::uint64_t since = 0);
  /// As region::move_range(), with the offsets of chunks().
  std::size_t move_range(std::size_t offset, std::size_t bytes, memory_location to,
                         stream_ref stream);
  /// For all chunks. Throws: as chunks(); hip_error.
  [[nodiscard]] std::vector<chunk_access> effective_access() const;

  /// Whether suspend() of chunks.tag released the memory. data() and sizes stay; calls that need
  /// the memory throw std::logic_error.
  [[nodiscard]] bool is_asleep() const noexcept;
  /// Throws: std::logic_error, which names `function`, while the memory sleeps. Maps bytes again
  /// that a failed call left without a mapping, or throws out_of_memory or hip_error.
  void require_awake(const char* function) const;

  [[nodiscard]] void* data() const noexcept;
  /// Backed bytes, and reserved ones, from data() on.
  [[nodiscard]] std::size_t capacity_bytes() const noexcept;
  [[nodiscard]] std::size_t max_bytes() const noexcept;
  [[nodiscard]] device_ref device() const noexcept { return device_; }
  /// This object's number in memory_event::object. It does not move with the memory.
  [[nodiscard]] std::uint64_t event_id() const noexcept { return event_id_; }
  [[nodiscard]] const growth_options& options() const noexcept { return options_; }
  [[nodiscard]] growth_statistics statistics() const noexcept;
  /// Whether data() stays while memory is added within max_bytes(). False if the storage was moved
  /// from, and without chunks unless past_max is refuse.
  [[nodiscard]] bool is_address_stable() const noexcept;
  /// Whether the memory is a region. False if the storage was moved from.
  /// Throws: unsupported in a child of fork().
  [[nodiscard]] bool has_chunks() const;
  /// Throws: as capability_of().
  [[nodiscard]] std::string explain() const;
  /// Makes an empty storage with these options. Devices with chunks of this one may write to it.
  [[nodiscard]] growable_storage empty_copy() const;
  /// Gives `copy` the same rights. Waits first for `stream`, which fills the copy, if a device with
  /// chunks of this storage then loses the right to write. Throws: as set_access(); hip_error.
  void share_rights(growable_storage& copy, stream_ref stream) const;

 private:
  // Sizes in private functions include erased bytes that are still backed.
  [[nodiscard]] std::size_t erased_bytes() const noexcept;
  [[nodiscard]] std::size_t held_bytes() const noexcept;
  [[nodiscard]] std::size_t limit_bytes() const noexcept;
  [[nodiscard]] std::size_t exact_for(std::size_t bytes) const;
  [[nodiscard]] bool has_fixed_address() const noexcept;
  [[nodiscard]] std::vector<device_ref> owners() const;
  /// The device that copies between chunks on the host, if it is not device().
  [[nodiscard]] std::optional<device_ref> carrier_of_host_chunks() const;
  void require_moves_in(stream_ref stream) const;
  void require_room(std::size_t bytes);
  struct size_before {
    const void* data;
    std::size_t held;
    std::size_t used;
  };
  [[nodiscard]] size_before sizes() const noexcept {
    return {data(), held_bytes(), capacity_bytes()};
  }
  void count_growth(const size_before& before, bool was_ready);
  void count_move(const size_before& before) noexcept;
  void move_to_fit(std::size_t bytes);
  void prepare_ahead(std::size_t bytes);
  [[nodiscard]] std::size_t step_limit() const;
  void retire_memory() noexcept;
  [[nodiscard]] std::size_t scratch_bytes() const noexcept;
  void back_scratch(std::size_t bytes);
  bool get_scratch(std::size_t bytes, std::size_t steps, stream_ref stream);
  std::size_t release_scratch(stream_ref stream);
  void retire_scratch() noexcept;

  std::uint64_t event_id_;
  device_ref device_;
  growth_options options_;
  std::size_t granule_;
  bool chunks_cost_descriptors_;
  std::unique_ptr<detail::storage_memory> memory_;
  growth_statistics counts_{};  // memory_ and scratch_ have the other counts
  std::unique_ptr<detail::storage_memory> scratch_;
  bool scratch_in_graph_ = false;
};

}  // namespace hipvmm
