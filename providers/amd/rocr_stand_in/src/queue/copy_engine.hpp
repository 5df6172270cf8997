// SPDX-License-Identifier: MIT
// Copy engines (SDMA): each does its copies in order, behind the signals they depend on.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <vector>

#include "src/memory/device_view.hpp"
#include "src/memory/pending_work.hpp"

namespace stand_in {

struct copy_job {
  std::vector<hsa_signal_t> after;
  hsa_signal_t done{0};
  agent* who = nullptr;  // the engine has this agent's view of memory
  std::string name;
  std::vector<byte_range> ranges;
  std::function<void(const device_view& memory)> work;
  int queued_by = 0;  // thread
  std::uint64_t queued_at = 0;
};

class copy_engine final : public work_source {
 public:
  copy_engine(unsigned gpu, unsigned number);
  void push(copy_job job);
  void visit_unfinished(const visitor& visit) override;

 private:
  [[nodiscard]] operation describe_job(const copy_job& job) const;
  void serve();

  unsigned gpu_;
  unsigned number_;
  std::mutex lock_;
  std::condition_variable wake_;
  std::list<copy_job> jobs_;  // the first is being done
  bool started_ = false;
};

/// Engines of a GPU, by ROCr's use of them if the call names no number.
enum engine_number : unsigned {
  engine_to_host,
  engine_to_device,
  engine_between_devices,
  engine_other,
  engine_count
};

/// Made at the first use, for as long as the process runs.
copy_engine& engine_of(const agent& gpu, unsigned number);

}  // namespace stand_in
