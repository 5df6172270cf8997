// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <hipvmm/region/sleep/suspend_options.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace hipvmm {

namespace detail {
class tag_state;
}  // namespace detail

enum class tag_phase {
  awake,           ///< the memory is there
  falling_asleep,  ///< suspend() is under way, and may yet fail
  asleep,          ///< the devices have the memory back; its addresses stay
  waking,          ///< resume() is under way, and may yet fail
};

struct tag_statistics {
  bool is_asleep;
  std::size_t regions;        ///< regions, vectors, pools and arenas that carry the tag
  std::size_t bytes_asleep;   ///< resume() backs these again; zero while awake
  std::size_t bytes_on_host;  ///< of host memory that holds contents, or is kept for them
  std::size_t bytes_on_disk;
  std::size_t bytes_mapped;  ///< of memory that stays mapped (keep::mapped); zero while awake
};

/// Marks memory that sleeps and wakes together. Objects get it by region_options::tag,
/// growth_options::chunks.tag, pool_options::tag or slot_arena_options::tag, and then carry it.
/// - A copy is the same tag. It lives as long as a copy or a carrier.
/// - An object made while the tag sleeps can hold nothing before resume().
/// - Thread-safe, but see suspend().
class memory_tag {
 public:
  /// `name` is for messages. Throws: std::bad_alloc.
  explicit memory_tag(std::string name = {});
  // No move operations: a moved-from tag would have no state.
  memory_tag(const memory_tag&) noexcept = default;
  memory_tag& operator=(const memory_tag&) noexcept = default;
  ~memory_tag() = default;

  [[nodiscard]] const std::string& name() const noexcept;
  [[nodiscard]] tag_phase phase() const noexcept;  ///< waits for no suspend() or resume()
  /// Whether the phase is asleep or waking.
  [[nodiscard]] bool is_asleep() const noexcept;
  /// During a suspend() or resume() returns at once, with the bytes before it.
  [[nodiscard]] tag_statistics statistics() const;

  friend bool operator==(const memory_tag& a, const memory_tag& b) noexcept {
    return a.state_ == b.state_;
  }
  friend bool operator!=(const memory_tag& a, const memory_tag& b) noexcept { return !(a == b); }

  /// For the library.
  [[nodiscard]] const std::shared_ptr<detail::tag_state>& state() const noexcept { return state_; }

 private:
  std::shared_ptr<detail::tag_state> state_;
};

/// Releases all memory of the tag to its devices and keeps the addresses. Returns the bytes; 0 if
/// the tag sleeps already. Waits for work (suspend_options::stream). Also releases prepared chunks,
/// and the chunks of these devices in the regions' chunk caches.
/// - Until resume(), calls that need the memory throw std::logic_error, and work on its addresses
///   fails on the device, except on chunks that stay mapped. committed_bytes() and other sizes
///   stay. Regions and vectors may be moved and destroyed.
/// - Addresses that pin memory (docs/reference/capability.md) are freed and reserved again. If
///   others take them in between, the error handler gets a report, and resume() throws until they
///   are free. If HIP has lost its record of them, resume() throws until their object is destroyed.
/// - The error handler runs at the end of the call and may use the tag.
/// Pre: no other thread uses memory or regions of the tag during the call.
/// Throws (the tag is awake as before, without prepared chunks; but if HIP refuses to map a chunk
/// again, the tag counts as asleep, all chunks keep their memory and contents, and resume() or
/// suspend() tries again):
/// - std::invalid_argument while the stream is captured; for a range that is null, empty, overlaps
///   another, is not backed memory of one object of the tag, or names a chunk mapped at several
///   addresses; for a chunk that is exported, imported, retained or moved without end_move(); for a
///   chunk to which its device has no right, or read_write neither by the chunk's own rights nor by
///   the region's (keep::nothing needs neither, keep::zeros not the first).
/// - unsupported if the memory would not return, or HIP could not map it again, as beside some
///   chunks that stay: "What is refused" of docs/reference/sleep.md.
/// - out_of_memory if the host has no room for the contents; std::system_error for failures of the
///   file; a full disk or a limit on file sizes (ulimit -f) is found before anything is copied.
/// - hip_error, among others if a capture forbids to wait for a device: name a stream.
std::size_t suspend(const memory_tag& tag, keep what, const suspend_options& options = {});
std::size_t suspend(const memory_tag& tag, keep what, stream_ref stream,
                    sleep_storage storage = sleep_storage::pinned);

/// Pins the host memory for a later suspend() with the same arguments, which then pins only for
/// memory backed in between. Returns tag_statistics::bytes_on_host. Another call pins or frees the
/// difference; keep::nothing frees all. A suspend() to pinned memory that fails leaves it
/// pinned. resume() frees it unless the storage was sleep_storage::pinned_kept. Waits for no work
/// on devices. Threads that make or destroy objects with the tag wait for the call. May pin more
/// than suspend() copies, because prefetched and idle blocks of an arena count.
/// Pre: no other thread uses the regions, vectors and arenas of the tag, nor, if ranges are named,
/// its pools. Work may use the memory.
/// Throws (the pinned memory is as before): std::invalid_argument for other storage, and for a
/// range that is null, empty, overlaps another, or is not in the addresses of one object of the
/// tag; std::logic_error while the tag sleeps; std::bad_alloc; out_of_memory, hip_error, which name
/// all bytes that were to be pinned.
std::size_t prepare_suspend(const memory_tag& tag, keep what, const suspend_options& options = {});

/// Backs all memory of the tag again by new chunks, with the same addresses, sizes, devices and
/// rights, and copies kept contents back. Returns the bytes once all are there; 0 if the tag is
/// awake. Graphs captured before suspend() may be launched again. New chunks have new serials
/// (chunk_view::serial). Once all memory is backed, frees host memory as it is copied.
/// Pre: as suspend().
/// Throws (the tag sleeps with all contents; if the host has freed some of them already, all memory
/// is backed, and the next call goes on): out_of_memory, also for addresses that others hold, which
/// it names; hip_error; std::system_error.
std::size_t resume(const memory_tag& tag);

}  // namespace hipvmm
