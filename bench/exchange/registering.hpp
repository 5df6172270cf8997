// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <hipvmm/container/growable_storage.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/memory_registrar.hpp>

#ifdef BENCH_MPI
#include <mpi.h>
#endif
#ifdef BENCH_NCCL
#include <nccl.h>
#endif

namespace bench {

/// A library's registration of memory, of one rank: by hipvmm's registrar and by its own calls.
class registering {
 public:
  registering() = default;
  virtual ~registering() = default;
  registering(const registering&) = delete;
  registering& operator=(const registering&) = delete;

  [[nodiscard]] virtual std::string library() const = 0;
  /// Collective: to be called once, before the others. Returns the registrar for the chunks of such
  /// a vector on `device`; nullptr if hipvmm has none for this. Throws: std::exception with the
  /// reason if it cannot be used.
  virtual std::shared_ptr<hipvmm::memory_registrar> start(hipvmm::device_ref device,
                                                          const hipvmm::growth_options& growth) = 0;
  /// Registers memory by the library's own calls; collective if those are. Throws.
  [[nodiscard]] virtual void* add(void* address, std::size_t bytes) = 0;
  /// Ends a registration of add(). Throws.
  virtual void remove(void* handle, void* address) = 0;
  /// Whether send and receive use registered memory, and register_range() is there.
  [[nodiscard]] virtual bool serves_messages() const { return false; }
  /// Registers mapped chunks of the registrar as one buffer, until they go.
  virtual void register_range(void* /*address*/, std::size_t /*bytes*/) {}
};

/// UCX, if this build has it.
[[nodiscard]] std::vector<std::shared_ptr<registering>> register_with_ucx();
#ifdef BENCH_NCCL
/// ncclCommRegister, and windows if NCCL has them.
[[nodiscard]] std::vector<std::shared_ptr<registering>> register_with_nccl(ncclComm_t ranks);
#endif
#ifdef BENCH_MPI
[[nodiscard]] std::vector<std::shared_ptr<registering>> register_with_mpi(MPI_Comm ranks);
#endif

}  // namespace bench
