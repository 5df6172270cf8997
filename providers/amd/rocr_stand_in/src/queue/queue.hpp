// SPDX-License-Identifier: MIT
// A hardware queue of AQL packets and the thread that processes them in order.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include <hsa/amd_hsa_queue.h>
#include <hsa/hsa.h>

#include "src/memory/agents.hpp"
#include "src/memory/operation.hpp"
#include "src/memory/pending_work.hpp"

namespace stand_in {

class queue;

/// The target of a queue's handle: libamdhip64 reads `shared`.
struct queue_block {
  amd_queue_v2_t shared;
  queue* self;
};

/// Owns the ring, the doorbell and the thread. Packets are processed one after the other, each as
/// if its barrier bit were set, which AQL allows.
class queue final : public work_source {
 public:
  queue(agent& on, std::uint32_t packets, hsa_queue_type32_t type);
  /// Stops after the present packet.
  ~queue();

  [[nodiscard]] hsa_queue_t* handle() { return &block_->shared.hsa_queue; }
  static queue* of(const hsa_queue_t* handle);
  static queue* of_doorbell(hsa_signal_t doorbell);

  [[nodiscard]] std::uint64_t read_index() const;
  [[nodiscard]] std::uint64_t write_index() const;
  std::uint64_t add_write_index(std::uint64_t packets);
  void ring();

  void visit_unfinished(const visitor& visit) override;

 private:
  using packet = unsigned char*;
  [[nodiscard]] packet slot(std::uint64_t index) const;
  [[nodiscard]] operation describe_packet(std::uint64_t index, std::string name) const;
  bool wait_for_packet(packet at);
  // False if the queue was stopped meanwhile.
  bool process(std::uint64_t index, packet at, hsa_signal_t& done);
  void dispatch(std::uint64_t index, const hsa_kernel_dispatch_packet_t& kernel);
  void serve();

  agent& on_;
  queue_block* block_;
  hsa_signal_t doorbell_;
  std::mutex wake_lock_;
  std::condition_variable wake_;
  std::mutex progress_;  // held while a packet is marked as finished
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace stand_in
