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
  asleep,          ///< the memory was released to the devices, its addresses stay
  waking,          ///< resume() is under way, and may yet fail
};

/// Of all carriers together.
struct tag_statistics {
  bool is_asleep;
  std::size_t regions;        ///< regions, vectors, pools and arenas that carry the tag and live
  std::size_t bytes_asleep;   ///< bytes that resume() backs again; zero while awake
  std::size_t bytes_on_host;  ///< bytes of the host that hold contents, or are kept for them
  std::size_t bytes_on_disk;  ///< bytes of files that hold contents
  std::size_t bytes_mapped;   ///< of memory that stays mapped (keep::mapped); zero while awake
};

/// Names memory that sleeps and wakes together: memory made with region_options::tag, in a vector
/// growth_options::chunks.tag, pool_options::tag or slot_arena_options::tag.
/// - A copy is the same tag. The tag lives as long as a copy, or memory that carries it.
/// - Memory made while the tag sleeps can hold nothing before resume().
/// - Thread-safe, but see suspend().
class memory_tag {
 public:
  /// `name` is for messages. Throws: std::bad_alloc.
  explicit memory_tag(std::string name = {});
  // A move copies too, so that no tag is without its state.
  memory_tag(const memory_tag&) noexcept = default;
  memory_tag& operator=(const memory_tag&) noexcept = default;
  ~memory_tag() = default;

  [[nodiscard]] const std::string& name() const noexcept;
  /// Neither this nor statistics() waits for a suspend() or resume() under way.
  [[nodiscard]] tag_phase phase() const noexcept;
  /// Whether the phase is asleep or waking.
  [[nodiscard]] bool is_asleep() const noexcept;
  /// The bytes are those before a suspend() or resume() under way.
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

/// Releases all memory that carries the tag to the devices and keeps its addresses. Returns the
/// bytes; 0 if the tag sleeps already, but a tag that a failed call left asleep with memory on the
/// devices is woken first. Waits for work (suspend_options::stream). Releases chunks
/// made ahead too, and all chunks of these devices that the regions' chunk caches keep.
/// - Until resume() calls that need the memory throw std::logic_error, and work that uses its
///   addresses fails on the device, but for chunks that stay. Sizes count all that is backed after
///   resume(). Regions and vectors may be moved and destroyed.
/// - If memory returns only with its addresses (docs/reference/capability.md), frees these and
///   reserves the same again. If others took them in between, the error handler gets a report, and
///   resume() throws until they are free; if HIP has refused to free them and forgotten them, until
///   their object has ended.
/// - The error handler is called when the call is over: it may use the tag.
/// Pre: no other thread uses the memory that carries the tag, nor its regions, during the call.
/// Throws (all is awake and as before, without the chunks made ahead; but if HIP refuses to map
/// memory again that was unmapped already, the tag counts as asleep with all of its memory, and
/// resume() maps it):
/// - std::invalid_argument if a region has a chunk that others may use (exported, imported,
///   retained), or that is mapped at two addresses; if a chunk's device has no right to it, or
///   neither the chunk's own rights nor the region's give that device read_write (a chunk of
///   keep::nothing alone needs neither, one of keep::zeros alone not the first); while the stream
///   is captured; for a range that is null, empty, overlaps another, is not backed memory of one
///   object of the tag, or has a part of a chunk that is mapped at several addresses.
/// - unsupported if the memory would not return, or HIP could not map it again, as beside some
///   chunks that stay: "What is refused" of docs/reference/sleep.md.
/// - out_of_memory if the host has no room for the contents; std::system_error if the folder takes
///   no file or a write fails, and, before anything is copied, if its disk is full or a file of the
///   process may not be so long (ulimit -f).
/// - hip_error, among others if a capture forbids to wait for a device: name a stream.
std::size_t suspend(const memory_tag& tag, keep what, const suspend_options& options = {});
std::size_t suspend(const memory_tag& tag, keep what, stream_ref stream,
                    sleep_storage storage = sleep_storage::pinned);

/// Pins now the memory of the host that suspend() with the same arguments would pin. That call then
/// only copies; it pins more only for memory that was backed in between. Returns the bytes that the
/// tag has then (tag_statistics::bytes_on_host). A later call makes or frees the difference;
/// keep::nothing frees all. The next suspend() to pinned memory uses it, also after one that
/// failed, and resume() frees it unless the storage was sleep_storage::pinned_kept. Waits for no
/// work. Threads that make or destroy memory with the tag wait for the call. May pin more than
/// suspend() copies, because prefetched and idle blocks of an arena count.
/// Pre: no other thread uses the regions, vectors and arenas of the tag, nor, if ranges are named,
/// its pools. Work may use the memory.
/// Throws (the tag has the host memory that it had): std::invalid_argument for other storage, and
/// for a range that is null, empty, overlaps another, or is not in the addresses of one object of
/// the tag (suspend() checks the rest); std::logic_error while the tag sleeps; std::bad_alloc;
/// out_of_memory, hip_error, which name all bytes that were to be pinned.
std::size_t prepare_suspend(const memory_tag& tag, keep what, const suspend_options& options = {});

/// Backs all memory of the tag again by new chunks, at the same addresses, with the same sizes,
/// devices and rights, and copies kept contents back. Returns the bytes once all are there; 0 if
/// the tag is awake. Graphs that were captured before suspend() may be launched again. Chunks have
/// new serials (chunk_view::serial), except those that stayed. Frees contents of the host as they
/// are copied, once all memory is there.
/// Pre: as suspend().
/// Throws (all is asleep with its contents; but if a copy failed after others had ended, some are
/// on the device only, and the next call goes on): out_of_memory, also for addresses that others
/// hold, which it names; hip_error; std::system_error.
std::size_t resume(const memory_tag& tag);

}  // namespace hipvmm
