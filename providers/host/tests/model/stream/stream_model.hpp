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

/// What the releases answer differently.
struct stream_rules {
  bool waits_cost_captures = true;       ///< waiting for a device while any stream is captured
  bool questions_cost_captures = true;   ///< in relaxed mode, asking its stream; all refuse that
  bool waits_are_of_device = false;      ///< only captures of the device forbid it
  bool switches_by_lowest_bit = true;    ///< ways of reuse; else any number but 0
  bool resets_reserved_mark = true;      ///< hipMemPoolAttrReservedMemHigh, by 0
  bool follows_null_properties = false;  ///< hipMemPoolCreate without any crashes
};
[[nodiscard]] stream_rules stream_rules_of(std::string_view profile);

enum class capture_state { none, active, lost };

/// What is known of streams, events, pools and blocks. The codes that calls must give are in
/// stream_sequence.cpp, beside the calls.
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
  std::array<capture_state, stream_slots> captures = {};
  std::array<event_state, event_slots> events;
  std::array<pool_state, pool_slots> pools;
  std::array<block_state, block_slots> blocks;

  [[nodiscard]] bool is_any_captured() const;
  /// Whether the stream of the event's last record is captured now.
  [[nodiscard]] bool is_of_captured(const event_state& event) const;
  void lose_captures();
};

}  // namespace hipvmm::test::model
