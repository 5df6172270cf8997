// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <unordered_map>

#include "race/race_clock.hpp"
#include "stream/stream_queue.hpp"

namespace hipvmm::host_provider {

/// A stream as reports name it, because it may have ended by then.
struct race_stream {
  int device;
  stream_order order;
  std::uint64_t handle;  ///< 0 for null and per-thread streams
  stream_number number;  ///< streams may have one handle after the other
};

/// The order of work: each stream's clock, and the work that the host knows to have finished. All
/// threads of the host count as one with successive calls, because the locks and joins that order
/// threads are not visible here. Not thread-safe.
class race_streams {
 public:
  void name(const stream_queue& stream, std::uint64_t handle);
  void retire(const stream_queue& stream);
  void overlook(const stream_queue& stream);

  /// The predecessors of work submitted now: earlier work of the stream and its predecessors, by
  /// waits for events and by the null stream's rules.
  const race_clock& place(const stream_queue& stream);
  std::uint64_t advance(const stream_queue& stream);
  void follow(const stream_queue& stream, const race_clock& earlier);

  /// The work that a wait for the stream, or the device, covers.
  [[nodiscard]] race_clock end_of(const stream_queue& stream);
  [[nodiscard]] race_clock end_of_device(int device) const;
  void learn(const race_clock& finished);
  [[nodiscard]] bool is_known(stream_number stream, std::uint64_t count) const noexcept;

  [[nodiscard]] race_stream describe(const stream_queue& stream);

 private:
  struct record {
    race_stream what;
    race_clock clock;  // of the stream's end, the stream itself included
    std::uint64_t submitted = 0;
    std::uint64_t known = 0;
    bool retired = false;
    bool overlooked = false;

    [[nodiscard]] bool is_over() const noexcept { return retired && known >= submitted; }
  };
  record& record_of(const stream_queue& stream);
  void include_all(race_clock& clock, int device, stream_order order) const;

  // A stream that is not here has no work that the host does not know to have finished.
  std::unordered_map<stream_number, record> records_;
};

}  // namespace hipvmm::host_provider
