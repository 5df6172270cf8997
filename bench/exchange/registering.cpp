// SPDX-License-Identifier: MIT
#include "registering.hpp"

#include <stdexcept>
#include <utility>

#ifdef BENCH_MPI
#include <hipvmm/compat/mpi_window.hpp>
#endif
#ifdef BENCH_NCCL
#include <hipvmm/compat/nccl_registration.hpp>
#endif
#ifdef BENCH_UCX
#include <hipvmm/compat/ucx.hpp>
#endif

namespace bench {
namespace {

#ifdef BENCH_UCX
class with_ucx final : public registering {
 public:
  ~with_ucx() override {
    registrar_.reset();
    if (context_ != nullptr) ucp_cleanup(context_);
  }

  [[nodiscard]] std::string library() const override { return "UCX"; }
  std::shared_ptr<hipvmm::memory_registrar> start(hipvmm::device_ref device,
                                                  const hipvmm::growth_options& growth) override {
    ucp_params_t wanted{};
    wanted.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
    wanted.features = UCP_FEATURE_RMA;
    wanted.mt_workers_shared = 1;
    ucp_config_t* config = nullptr;
    require(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
    const ucs_status_t made = ucp_init(&wanted, config, &context_);
    ucp_config_release(config);
    require(made, "ucp_init");
    registrar_ = std::make_shared<hipvmm::ucx_registration>(context_, device, growth.chunks);
    return registrar_;
  }
  void* add(void* address, std::size_t bytes) override {
    ucp_mem_map_params_t wanted{};
    wanted.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    wanted.address = address;
    wanted.length = bytes;
    ucp_mem_h handle = nullptr;
    require(ucp_mem_map(context_, &wanted, &handle), "ucp_mem_map");
    // Nobody reaches the memory without its key.
    void* packed = nullptr;
    std::size_t size = 0;
    require(ucp_rkey_pack(context_, handle, &packed, &size), "ucp_rkey_pack");
    ucp_rkey_buffer_release(packed);
    return handle;
  }
  void remove(void* handle, void* /*address*/) override {
    require(ucp_mem_unmap(context_, static_cast<ucp_mem_h>(handle)), "ucp_mem_unmap");
  }

 private:
  static void require(ucs_status_t result, const char* call) {
    if (result != UCS_OK)
      throw std::runtime_error{std::string{call} + ": " + ucs_status_string(result)};
  }

  ucp_context_h context_ = nullptr;
  std::shared_ptr<hipvmm::ucx_registration> registrar_;
};
#endif

#ifdef BENCH_NCCL
[[maybe_unused]] void require(ncclResult_t result, const char* call) {
  if (result != ncclSuccess)
    throw std::runtime_error{std::string{call} + ": " + ncclGetErrorString(result)};
}

#if HIPVMM_NCCL_DECLARES_REGISTER
class with_nccl final : public registering {
 public:
  explicit with_nccl(ncclComm_t ranks) : ranks_{ranks} {}
  ~with_nccl() override {
    if (registrar_ != nullptr) registrar_->remove_communicator(ranks_);
  }

  [[nodiscard]] std::string library() const override { return "NCCL"; }
  std::shared_ptr<hipvmm::memory_registrar> start(hipvmm::device_ref device,
                                                  const hipvmm::growth_options& growth) override {
    registrar_ = std::make_shared<hipvmm::nccl_registration>(device, growth);
    registrar_->add_communicator(ranks_);
    return registrar_;
  }
  void* add(void* address, std::size_t bytes) override {
    void* handle = nullptr;
    require(ncclCommRegister(ranks_, address, bytes, &handle), "ncclCommRegister");
    return handle;
  }
  void remove(void* handle, void* /*address*/) override {
    // nullptr if NCCL_LOCAL_REGISTER=0.
    if (handle != nullptr) require(ncclCommDeregister(ranks_, handle), "ncclCommDeregister");
  }
  [[nodiscard]] bool serves_messages() const override { return true; }
  void register_range(void* address, std::size_t bytes) override {
    registrar_->register_range(ranks_, address, bytes);
  }

 private:
  ncclComm_t ranks_;
  std::shared_ptr<hipvmm::nccl_registration> registrar_;
};
#endif

#if HIPVMM_NCCL_DECLARES_WINDOWS
/// The raw calls alone: hipvmm has windows for ranges that are there.
class with_nccl_windows final : public registering {
 public:
  explicit with_nccl_windows(ncclComm_t ranks) : ranks_{ranks} {}

  [[nodiscard]] std::string library() const override { return "NCCL window"; }
  std::shared_ptr<hipvmm::memory_registrar> start(hipvmm::device_ref,
                                                  const hipvmm::growth_options&) override {
    return nullptr;
  }
  void* add(void* address, std::size_t bytes) override {
    ncclWindow_t made{};
    require(ncclCommWindowRegister(ranks_, address, bytes, &made, 0), "ncclCommWindowRegister");
    if (made == nullptr) throw std::runtime_error{"NCCL offers no windows here"};
    return made;
  }
  void remove(void* handle, void* /*address*/) override {
    require(ncclCommWindowDeregister(ranks_, static_cast<ncclWindow_t>(handle)),
            "ncclCommWindowDeregister");
  }

 private:
  ncclComm_t ranks_;
};
#endif
#endif

#ifdef BENCH_MPI
class with_mpi final : public registering {
 public:
  explicit with_mpi(MPI_Comm ranks) : ranks_{ranks} {}

  [[nodiscard]] std::string library() const override { return "MPI window"; }
  std::shared_ptr<hipvmm::memory_registrar> start(hipvmm::device_ref device,
                                                  const hipvmm::growth_options&) override {
    window_ = std::make_shared<hipvmm::mpi_window>(ranks_, device);
    return window_;
  }
  void* add(void* address, std::size_t bytes) override {
    require(MPI_Win_attach(window_->get(), address, static_cast<MPI_Aint>(bytes)),
            "MPI_Win_attach");
    return address;
  }
  void remove(void* /*handle*/, void* address) override {
    require(MPI_Win_detach(window_->get(), address), "MPI_Win_detach");
  }

 private:
  static void require(int result, const char* call) {
    if (result != MPI_SUCCESS)
      throw std::runtime_error{std::string{call} + " returned " + std::to_string(result)};
  }

  MPI_Comm ranks_;
  std::shared_ptr<hipvmm::mpi_window> window_;
};
#endif

}  // namespace

std::vector<std::shared_ptr<registering>> register_with_ucx() {
  std::vector<std::shared_ptr<registering>> result;
#ifdef BENCH_UCX
  result.push_back(std::make_shared<with_ucx>());
#endif
  return result;
}

#ifdef BENCH_NCCL
std::vector<std::shared_ptr<registering>> register_with_nccl([[maybe_unused]] ncclComm_t ranks) {
  std::vector<std::shared_ptr<registering>> result;
#if HIPVMM_NCCL_DECLARES_REGISTER
  result.push_back(std::make_shared<with_nccl>(ranks));
#endif
#if HIPVMM_NCCL_DECLARES_WINDOWS
  result.push_back(std::make_shared<with_nccl_windows>(ranks));
#endif
  return result;
}
#endif

#ifdef BENCH_MPI
std::vector<std::shared_ptr<registering>> register_with_mpi(MPI_Comm ranks) {
  return {std::make_shared<with_mpi>(ranks)};
}
#endif

}  // namespace bench
