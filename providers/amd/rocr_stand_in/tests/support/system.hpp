// SPDX-License-Identifier: MIT
// HSA in the child process of a test: agents, pools, mapped memory, dispatches and copies.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include "support/child.hpp"
#include "support/code_object_builder.hpp"

namespace test {

constexpr std::uint64_t MiB = 1 << 20;

/// Calls hsa_init() and ends with the process. One a process.
class hsa_system {
 public:
  hsa_system();
  hsa_agent_t cpu{};
  std::vector<hsa_agent_t> gpus;

  /// The coarse-grained pool of a GPU, the fine-grained one of the host.
  [[nodiscard]] hsa_amd_memory_pool_t pool(hsa_agent_t agent) const;
  /// Allocates from the agent's pool and lets every agent use it.
  [[nodiscard]] char* allocate(hsa_agent_t agent, std::uint64_t bytes) const;
  [[nodiscard]] hsa_amd_vmem_alloc_handle_t create(hsa_agent_t agent, std::uint64_t bytes) const;
};

char* reserve(std::uint64_t bytes);
hsa_status_t grant(void* at, std::uint64_t bytes, hsa_agent_t who,
                   hsa_access_permission_t right = HSA_ACCESS_PERMISSION_RW);

/// A reservation with one mapping of its size, granted to its owner and to the CPU.
struct mapped_memory {
  mapped_memory(const hsa_system& on, hsa_agent_t owner, std::uint64_t size);
  char* at;
  std::uint64_t bytes;
  hsa_amd_vmem_alloc_handle_t handle;
};

hsa_signal_t make_signal(hsa_signal_value_t value = 1);
void wait(hsa_signal_t signal);

/// Returns the signal of its end.
hsa_signal_t start_copy(void* to, hsa_agent_t to_agent, const void* from, hsa_agent_t from_agent,
                        std::uint64_t bytes, const std::vector<hsa_signal_t>& after = {});

class launcher {
 public:
  launcher(const hsa_system& on, hsa_agent_t gpu, const std::vector<kernel_description>& kernels);
  ~launcher();
  /// Arguments by name; missing ones are 0. Returns the signal of its end.
  hsa_signal_t launch(const std::string& kernel, const std::map<std::string, std::uint64_t>& with,
                      const std::map<std::string, std::vector<std::uint64_t>>& vectors = {});
  hsa_signal_t barrier(const std::vector<hsa_signal_t>& after, bool all = true);

 private:
  template <class Packet>
  void submit(Packet& packet, std::uint16_t type);
  std::vector<kernel_description> kernels_;
  std::vector<char> code_;
  hsa_executable_t executable_{};
  hsa_queue_t* queue_ = nullptr;
  char* segments_;
  std::uint64_t used_ = 0;
};

/// The fill kernel as clr 6 and clr 5 have it, and a kernel of a program.
kernel_description fill_kernel();
kernel_description fill_kernel_of_clr_5();
kernel_description program_kernel();

/// Fills by clr 6's kernel; the pattern stays allocated.
hsa_signal_t start_fill(launcher& by, const hsa_system& on, void* to, std::uint64_t bytes,
                        unsigned char value);

}  // namespace test
