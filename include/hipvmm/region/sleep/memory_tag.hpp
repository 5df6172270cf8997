// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include <hipvmm/runtime/stream.hpp>

namespace hipvmm {

namespace detail {
class tag_state;
}  // namespace detail

/// What suspend() does with the bytes of the memory that it releases.
enum class keep {
  contents,  ///< copies them to the host; resume() copies them back
  nothing,   ///< drops them: after resume() the bytes are undefined
};

/// Where bytes are while their memory sleeps.
enum class sleep_storage {
  pinned,    ///< memory of hipHostMalloc: copies run at the speed of the link. On CUDA resume(),
             ///< which frees it, ends a stream capture under way with an error
  pageable,  ///< memory of operator new, which the system may swap out: copies are slower
  /// As pinned, but resume() leaves it, and the streams of the copies, to the next suspend(), for
  /// HIP takes longer to pin memory than to copy it. Both end with the memory that carries the tag,
  /// or with a suspend() that keeps nothing or has other storage; `pinned` uses them once more.
  pinned_kept,
  /// A file in suspend_options::folder, which has no name and ends with its last use, also where
  /// the process is killed. Copies go through 64 MiB of pinned memory.
  file,
};

struct suspend_options {
  sleep_storage storage = sleep_storage::pinned;
  /// All work that uses the memory is ordered before the call in this stream, which is waited for.
  /// Empty: waits for all work of every device with access.
  std::optional<stream_ref> stream = {};
  /// For sleep_storage::file: a folder of a local disk in which the process may write.
  std::string folder = {};
};

/// Where a tag is between suspend() and resume().
enum class tag_phase {
  awake,           ///< the memory is there
  falling_asleep,  ///< suspend() is under way, and may yet fail
  asleep,          ///< the memory is the devices', its addresses stay
  waking,          ///< resume() is under way, and may yet fail
};

/// What a tag's memory is like now, all that carries it together.
struct tag_statistics {
  bool is_asleep;
  std::size_t regions;        ///< regions, vectors, pools and arenas that carry the tag and live
  std::size_t bytes_asleep;   ///< bytes that resume() backs again; zero while awake
  std::size_t bytes_on_host;  ///< bytes of the host that hold contents, or are kept for them
  std::size_t bytes_on_disk;  ///< bytes of files that hold contents
};

/// Names memory that sleeps and wakes together: what is made with region_options::tag, in a vector
/// growth_options::chunks.tag, pool_options::tag or slot_arena_options::tag.
/// - A copy is the same tag. The tag lives as long as a copy, or memory that carries it.
/// - What is made while the tag sleeps carries it too, and can hold nothing before resume().
/// - Thread-safe, but see suspend().
class memory_tag {
 public:
  /// Makes a tag that no memory carries yet. `name` is for messages.
  /// Throws: std::bad_alloc.
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
/// bytes; 0 where the tag sleeps already.
/// - Waits for work: see suspend_options::stream. Chunks made ahead, and those that the regions'
///   chunk caches keep of their devices, are released too.
/// - Until resume() everything that needs the memory throws std::logic_error, work that uses its
///   addresses fails on the device, and committed_bytes(), capacity() and size() say what resume()
///   backs again. Regions and vectors may be moved and destroyed.
/// - Where memory returns only with its addresses (quirk::re_reserve), frees these and reserves the
///   same again. Where others took them in between, the error handler is told, and resume() throws
///   until they are free.
/// - What cannot be thrown is told to the error handler when the call is over: it may use the tag.
/// Pre: no other thread uses the memory that carries the tag, nor its regions, during the call.
/// Throws (on any exception all is awake and as before, but for chunks made ahead, which are gone):
/// - std::invalid_argument where a region has a chunk that others may use (exported, imported,
///   retained), or that is mapped at two addresses; where contents are kept and the device of a
///   chunk has read_write neither to it nor by the region's rights; in a stream that is being
///   captured.
/// - unsupported where the device never returns memory (ROCm 6.4.0 and 6.4.1); where
///   quirk::access_from_base is in force and a region has chunks of several sizes beside a hole,
///   which could not be mapped again.
/// - out_of_memory where the host has no room for the contents.
/// - std::system_error where the folder takes no file, its disk is full or a file of the process
///   may not be so long (ulimit -f), which is found out before anything is copied; and as reads
///   and writes of files.
/// - hip_error, among others where a capture forbids to wait for a device: name a stream.
std::size_t suspend(const memory_tag& tag, keep what, const suspend_options& options = {});
std::size_t suspend(const memory_tag& tag, keep what, stream_ref stream,
                    sleep_storage storage = sleep_storage::pinned);

/// Backs all memory of the tag again by new chunks, at the same addresses, with the same sizes,
/// devices and rights, and copies kept contents back in several streams. Returns the bytes once all
/// are there; 0 where the tag is awake.
/// - Graphs that were captured before suspend() may be launched again.
/// - Where others got addresses that suspend() had to free, it reserves these first.
/// - Chunks have new serials (chunk_view::serial).
/// Pre: as suspend().
/// Throws (on any exception all is asleep as before, and the contents are kept): out_of_memory,
/// also where others hold the addresses, which names them; hip_error; std::system_error.
std::size_t resume(const memory_tag& tag);

}  // namespace hipvmm
