// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hipvmm::test::model {

inline constexpr std::size_t stream_slots = 3;  ///< of device 0, 0 and 1
inline constexpr std::size_t event_slots = 4;
inline constexpr std::size_t pool_slots = 2;
inline constexpr std::size_t block_slots = 6;

[[nodiscard]] constexpr int device_of_stream(std::size_t slot) { return slot == 2 ? 1 : 0; }

inline constexpr std::size_t threads = 2;

/// The captures that refuse a call, by their mode and by that of the calling thread.
enum class capture_check {
  by_mode,       ///< of this thread but relaxed ones; global ones of others for a global thread
  global_too,    ///< the same, but global ones of others for a thread-local thread too
  global_first,  ///< as by_mode; if global ones refuse, others are not lost
  any_thread,    ///< in any mode of the thread: its captures but relaxed ones, and global ones
  own,           ///< of this thread but relaxed ones, for a thread that is not relaxed
  global,        ///< global ones
  all,
  none
};

struct stream_rules {
  bool waits_cost_captures = true;  ///< waiting for a device while any stream is captured
  bool refusals_cost_captures = true;
  bool refusals_cost_own_first = false;  ///< and captures of other threads only if none is own
  bool lost_captures_refuse = true;      ///< until their end
  bool foreign_end_costs = false;        ///< an end in another thread ends the capture
  bool calls_back_at_once = false;  ///< hipStreamAddCallback in a captured stream; else refused
  bool refuses_managed_at_random = false;
  bool looks_at_event_streams = false;  ///< questions and waits of events beside captures
  bool looks_at_last_mode = false;      ///< of the stream that is asked, though it is not captured
  capture_check waits = capture_check::by_mode;  ///< for streams and events, questions of streams
  capture_check unrecorded_waits = capture_check::by_mode;  ///< for events without a record
  capture_check event_questions = capture_check::by_mode;
  capture_check waiting_copies = capture_check::by_mode;
  capture_check managed_memory = capture_check::by_mode;
  bool waits_are_of_device = false;      ///< only captures of the device forbid it
  bool switches_by_lowest_bit = true;    ///< ways of reuse; else any number but 0
  bool resets_reserved_mark = true;      ///< hipMemPoolAttrReservedMemHigh, by 0
  bool follows_null_properties = false;  ///< hipMemPoolCreate without any crashes
};
[[nodiscard]] stream_rules stream_rules_of(std::string_view profile);

enum class capture_state { none, active, lost };

struct stream_capture {
  capture_state state = capture_state::none;
  hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
  std::size_t thread = 0;
  int recorded = 0;  ///< host functions
};

/// The state of streams, events, pools and blocks. stream_sequence.cpp has the codes that calls
/// must return, beside the calls.
struct stream_model {
  struct event_state {
    hipEvent_t handle = nullptr;
    unsigned flags = 0;
    int device = 0;
    bool is_recorded = false;
    std::size_t stream = stream_slots;  ///< of its last record, or none
  };
  struct pool_state {
    hipMemPool_t handle = nullptr;
    std::array<int, 3> reuse = {-1, -1, -1};  ///< -1: as it began, which releases choose
    std::uint64_t threshold = 0;
  };
  struct block_state {
    void* pointer = nullptr;
    std::size_t stream = 0;
  };

  stream_rules rules;
  std::array<hipStream_t, stream_slots> streams = {};
  std::array<stream_capture, stream_slots> captures;
  std::array<hipStreamCaptureMode, stream_slots> last_modes = {};  ///< of captures that are over
  std::array<hipStreamCaptureMode, threads> thread_modes = {};     ///< global
  std::array<event_state, event_slots> events;
  std::array<pool_state, pool_slots> pools;
  std::array<block_state, block_slots> blocks;

  [[nodiscard]] bool is_any_captured() const;
  [[nodiscard]] bool is_of_captured(const event_state& event) const;
  /// Whether captures refuse a call of the thread. Those that do are lost, if that costs them.
  bool refuses(capture_check check, std::size_t thread);
  /// Whether the stream of the event's last record was destroyed, which the release still reads.
  [[nodiscard]] bool is_followed(const event_state& event) const;
  void lose(stream_capture& refusing) const;
};

}  // namespace hipvmm::test::model
