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

/// The action of a growable vector that needs more than it reserved at construction.
enum class past_max_size {
  move,    ///< map the chunks into a larger reservation: data() may change, no byte is copied
  refuse,  ///< throw std::length_error: data() never changes; on hipMalloc from the first growth
           ///< on, which allocates all of growth_options::max_bytes, which must be set then
};

/// Chunks that a background thread prepares, one at a time, before a growable vector needs them:
/// growth then costs its caller about a microsecond. Prepared memory belongs to the vector, in
/// addition to capacity(), until growth uses it, shrink_to_fit releases it, the vector ends, or
/// another object of the process that lacks memory gets it (idle_memory()).
struct grow_ahead_policy {
  prefetch_level prepare = prefetch_level::off;
  /// A growth that leaves fewer unused bytes than this starts the preparation of the next chunk,
  /// unless one is ready or in preparation. Zero: half of the budget. At most the budget.
  std::size_t watermark_bytes = 0;
  /// A prepared chunk raises the unused bytes to this number, which should be several of the
  /// program's growth steps. Zero: an eighth of the bytes backed, at most
  /// growth_options::step_limit, but at least 256 MiB or a 64th of max_size(), whichever is less.
  std::size_t budget_bytes = 0;
};

/// How a growable vector reserves and grows. HIPVMM_CONF changes defaults of the C interface only.
struct growth_options {
  /// Bytes of addresses to reserve. Zero: the total memory of the device (with stripes: of all
  /// their devices), or a share of the process's remaining addresses, so that any number of vectors
  /// finds some. A vector that spills may set more.
  std::size_t max_bytes = 0;
  past_max_size past_max = past_max_size::move;
  /// Most bytes that a growth step adds beyond the request; below this limit a step adds an eighth
  /// of the bytes backed.
  /// - Zero makes every step exact.
  /// - No limit applies while chunks cost descriptors and half of the process's are used.
  /// - On hipMalloc a step adds half of the bytes present for any limit but zero.
  std::size_t step_limit = GiB;
  /// Every step is a multiple of this many bytes. Zero: 2 MiB, or HIP's recommended granularity if
  /// that is more. A smaller value saves memory for many small vectors if the minimum is 4 KiB
  /// (ROCm), but makes more chunks, each of which costs a file descriptor on ROCm 7.14.
  std::size_t granule_bytes = 0;
  grow_ahead_policy grow_ahead = {};
  /// Kind, source and rights (chunks.access) of the chunks; on hipMalloc rights are as for grant().
  region_options chunks = {};
  /// The source of the memory instead of chunks, on every device: one allocation of this resource.
  /// Growth replaces it by a larger one, which waits for the device and copies, as on hipMalloc.
  /// For arrays far below a granule, or memory that must come from one pool.
  /// - The resource must outlive the vector. `granule_bytes` is a multiple of 256, zero is 256.
  /// - Other devices get no grants; those that can access the memory must be idle before growth.
  mr::memory_resource* resource = nullptr;
  /// The behaviour if capability::path() is memory_path::fallback; or hipMalloc on every device.
  without_vmm fallback = without_vmm::use_hip_malloc;
};

/// Statistics of growth since construction.
struct growth_statistics {
  std::size_t growth_steps;    ///< times memory was added
  std::size_t base_moves;      ///< times data() changed: past max_size, by growth that copies, by
                               ///< shrink(); not by erase_front()
  std::size_t chunks;          ///< chunks mapped now
  std::size_t peak_bytes;      ///< most bytes held at one time: backed, prepared ahead, scratch,
                               ///< and old beside new during copies
  std::size_t ahead_bytes;     ///< bytes ready now beyond those backed
  std::size_t ahead_hits;      ///< growth steps that found all they needed ready
  std::size_t ahead_misses;    ///< growth steps that did not, though grow_ahead is on
  std::size_t ahead_failures;  ///< preparations that failed; the next step made its own
  std::size_t copied_bytes;    ///< bytes copied to new addresses: without chunks only
  std::size_t scratch_bytes;   ///< held now for elements that insert and erase move over a short
                               ///< distance; shrink_to_fit releases it
};

/// Returns the bytes to back: `needed_bytes`, or if that is more, `committed_bytes` and one part in
/// `share` of them, at most `step_limit`. A multiple of `granule` as far as `max_bytes` allows.
/// Pre: committed_bytes < needed_bytes <= max_bytes.
[[nodiscard]] std::size_t growth_target(std::size_t committed_bytes, std::size_t needed_bytes,
                                        std::size_t max_bytes, std::size_t granule,
                                        std::size_t step_limit, std::size_t share = 8);

/// Returns the bytes to prepare behind `committed_bytes`, of which `needed_bytes` are in use: zero
/// for an empty vector and while the watermark is unused, otherwise as many as raise the unused
/// bytes to the budget, in multiples of `granule` as far as `max_bytes` allows.
/// Pre: needed_bytes <= committed_bytes <= max_bytes.
[[nodiscard]] std::size_t ahead_target(std::size_t committed_bytes, std::size_t needed_bytes,
                                       std::size_t max_bytes, std::size_t granule,
                                       std::size_t step_limit, const grow_ahead_policy& policy);

/// Whether a growth may back more than the request, as growth_options::step_limit says.
enum class growth_slack { none, allowed };

/// The untyped part of growable_device_vector: memory backed from data() on, and the policy of its
/// growth. The memory is a region or, without chunks, one allocation of hipMalloc or of
/// growth_options::resource. Sizes are bytes. Same thread rules as std::vector.
class growable_storage {
 public:
  /// Throws: std::invalid_argument for options that contradict themselves; as region.
  growable_storage(device_ref device, const growth_options& options);
  /// Releases the memory as region::retire.
  ~growable_storage();
  /// The moved-from storage is empty and may be used again: it reserves anew when it next grows.
  growable_storage(growable_storage&& other) noexcept;
  growable_storage& operator=(growable_storage&& other) noexcept;

  /// Backs at least `bytes`, with the slack that the options allow, and starts the preparation of
  /// the next chunk as they specify. Prepared memory is used first and whole.
  /// Throws (nothing changed): std::length_error (past_max), out_of_memory, unsupported, hip_error.
  void grow(std::size_t bytes);
  /// Backs at least `bytes`, in whole granules, without slack unless that is allowed. A chunk
  /// already requested ahead is used whole; no new one is requested. Throws: as grow.
  void reserve(std::size_t bytes, growth_slack slack = growth_slack::none);
  /// Releases at once the memory behind the first `bytes`, which no work has used yet; nothing if
  /// growth copies. Pre: `bytes` were capacity_bytes() earlier. Throws: as region::decommit.
  void undo_growth(std::size_t bytes);
  /// Throws: unsupported, naming the devices, if `source` is memory of another device and
  /// - the engine of one of the two devices would copy, and has no right to the other's memory;
  /// - AMD's runtime needs a link between two devices that is missing (copy_async()).
  void require_copies_from(const void* source, stream_ref stream) const;
  /// Copies `bytes` bytes from offset `from` to offset `to` in the order of `stream`. The ranges
  /// are backed and may overlap. data() and the capacity stay.
  /// - A distance below 2 MiB and below a 16th of `bytes` needs scratch memory of the same kind: a
  ///   16th of the backed bytes, at least 2 MiB (or all of them) and at most 32 MiB. It is kept for
  ///   the next call until shrink(), or until the end if a graph uses it.
  /// - Cost: at most one copy for each MiB and 1024 more; 2048 if memory is short.
  /// Throws: out_of_memory without scratch memory; unsupported if one of several owners has no link
  /// to the device of `stream` (copy_async()), or if HIP has another device, without a right, copy
  /// chunks on the host; hip_error: then a part of the target may be overwritten.
  void move_within(std::size_t to, std::size_t from, std::size_t bytes, stream_ref stream);
  /// Releases memory behind the first `bytes` as region::trim does, and scratch memory that no
  /// graph uses. Returns their bytes. Throws: as region::trim.
  /// - On hipMalloc with past_max_size::refuse only scratch memory, because the address must stay.
  /// - If memory returns to the device only with its addresses (docs/reference/capability.md),
  ///   data() may change when nothing is left or `tail` is replace, unless past_max is refuse.
  ///   growth_statistics::base_moves counts that.
  std::size_t shrink(std::size_t bytes, stream_ref stream, tail_chunk tail = tail_chunk::keep);

  /// Moves data() on by `bytes`, as growable_device_vector::erase_front(). is_all: nothing is left;
  /// if past_max is refuse, data() is the first address again. Pre: bytes <= capacity_bytes().
  void erase_front(std::size_t bytes, stream_ref stream, bool is_all = false);

  /// Rights to the memory, present and future. Throws: as region::grant.
  void grant(device_ref device, access_right right = access_right::read_write);
  /// Pre: no work of `device` in flight uses the memory.
  void revoke(device_ref device) { grant(device, access_right::none); }
  /// Replaces the rights of all devices at once, as region::set_access: a device that `rights` does
  /// not name has the default then. Pre: no work in flight needs a right that its device loses.
  void set_access(const access_list& rights);
  [[nodiscard]] access_right access(device_ref device) const noexcept;

  /// As region::chunks(), export_chunks() and export_fabric_chunks(). Nothing while no addresses
  /// are reserved. Offsets count from the start of the addresses, `chunk_view::address -
  /// chunk_view::offset`, which is data() until erase_front().
  /// - Growth adds chunks with greater serials. If data() moves for lack of room, the chunks and
  ///   their serials stay; after an erase_front() all are listed anew with other offsets.
  /// Throws: unsupported on hipMalloc or growth_options::resource; as region::export_chunks().
  [[nodiscard]] std::vector<chunk_view> chunks() const;
  [[nodiscard]] std::vector<exported_chunk> export_chunks(std::uint64_t since = 0);
  [[nodiscard]] std::vector<exported_fabric_chunk> export_fabric_chunks(std::uint64_t since = 0);
  /// As region::move_range(), with the offsets of chunks(). data() may change as by shrink().
  std::size_t move_range(std::size_t offset, std::size_t bytes, memory_location to,
                         stream_ref stream);
  /// As region::effective_access, of all chunks. Throws: as chunks(); hip_error.
  [[nodiscard]] std::vector<chunk_access> effective_access() const;

  /// Whether suspend() of chunks.tag released the memory. Sizes stay; calls that need memory throw.
  [[nodiscard]] bool is_asleep() const noexcept;
  /// Throws: std::logic_error, which names `function`, while the memory sleeps; out_of_memory,
  /// hip_error if a call that failed left bytes without a mapping, which cannot be mapped yet.
  void require_awake(const char* function) const;

  [[nodiscard]] void* data() const noexcept;
  /// Backed, and reserved, bytes from data() on.
  [[nodiscard]] std::size_t capacity_bytes() const noexcept;
  [[nodiscard]] std::size_t max_bytes() const noexcept;
  [[nodiscard]] device_ref device() const noexcept { return device_; }
  /// This object's number in memory_event::object. It does not move with the memory.
  [[nodiscard]] std::uint64_t event_id() const noexcept { return event_id_; }
  [[nodiscard]] const growth_options& options() const noexcept { return options_; }
  [[nodiscard]] growth_statistics statistics() const noexcept;
  /// Returns whether data() stays the same while memory is added within max_bytes(). False after a
  /// move from this storage, and on hipMalloc unless past_max is refuse.
  [[nodiscard]] bool is_address_stable() const noexcept;
  /// Explains in a few lines: the use of the device's memory and its reason, the work-arounds in
  /// force, reserved and backed bytes, consequences for data(). Throws: as capability_of.
  [[nodiscard]] std::string explain() const;
  /// Makes an empty storage with these options; devices with chunks of this one may write to it.
  [[nodiscard]] growable_storage empty_copy() const;
  /// Gives `copy` the same rights. If one of these devices may not write there then, waits for
  /// `stream`, which fills the copy. Throws: as set_access; hip_error.
  void share_rights(growable_storage& copy, stream_ref stream) const;

 private:
  // Sizes in private functions are counted from the first backed byte, erased bytes included.
  [[nodiscard]] std::size_t erased_bytes() const noexcept;
  [[nodiscard]] std::size_t held_bytes() const noexcept;
  [[nodiscard]] std::size_t limit_bytes() const noexcept;
  [[nodiscard]] std::size_t exact_for(std::size_t bytes) const;
  [[nodiscard]] bool has_fixed_address() const noexcept;
  [[nodiscard]] std::vector<device_ref> owners() const;
  /// The device other than device() that HIP has copy between chunks on the host, if there is one.
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
