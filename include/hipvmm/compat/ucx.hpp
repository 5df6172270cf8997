// SPDX-License-Identifier: MIT
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include <hipvmm/compat/registration.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/region/region_options.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/memory_registrar.hpp>

namespace hipvmm {

/// A peer passes `packed` to ucp_ep_rkey_unpack().
struct ucx_key {
  registered_bytes memory;
  std::string packed;
};

/// A registrar that maps each chunk for a context (ucp_mem_map) and packs its remote key.
/// - Threads of the library map and unmap chunks too: the context must be made with
///   ucp_params_t::mt_workers_shared.
/// - The program sends the keys, after growth. A peer destroys its unpacked key before the memory
///   goes, with no access under way, because UCX does not know of remote accesses.
class ucx_registration final : public library_registrar {
 public:
  /// Pre: `context` outlives the object, which outlives the memory.
  /// Throws: std::invalid_argument for nullptr; unsupported if UCX is older than 1.9, the
  /// context is for one thread, or it takes no memory of the device, and if that cannot be
  /// exported; std::runtime_error with UCX's text.
  ucx_registration(ucp_context_h context, device_ref device, const region_options& chunks = {})
      : context_{context} {
    if (context == nullptr) throw std::invalid_argument{"ucx_registration: no context"};
    unsigned major = 0;
    unsigned minor = 0;
    unsigned release = 0;
    ucp_get_version(&major, &minor, &release);
    if (major * 100 + minor < 109)
      throw unsupported{"ucx_registration: UCX " + std::to_string(major) + '.' +
                        std::to_string(minor) + '.' + std::to_string(release) +
                        " does not tell which memory it takes; 1.9 and newer do"};
    ucp_context_attr_t found{};
    found.field_mask = UCP_ATTR_FIELD_THREAD_MODE | UCP_ATTR_FIELD_MEMORY_TYPES;
    require(ucp_context_query(context, &found), "ucp_context_query");
    if (found.thread_mode != UCS_THREAD_MODE_MULTI)
      throw unsupported{
          "ucx_registration: the context is for one thread, and memory is unmapped in threads of "
          "hipvmm: make it with ucp_params_t::mt_workers_shared = 1"};
    constexpr auto of_devices = static_cast<decltype(found.memory_types)>(
        UCS_BIT(UCS_MEMORY_TYPE_CUDA) | UCS_BIT(UCS_MEMORY_TYPE_ROCM));
    const bool takes_device_memory = (found.memory_types & of_devices) != 0;
    require_reach("ucx_registration", device, takes_device_memory,
                  "use a UCX with the module for the device (cuda or rocm)");
    if (takes_device_memory) require_exportable("ucx_registration", chunks);
  }

  /// In the order of addresses. Any thread may call it.
  [[nodiscard]] std::vector<ucx_key> keys() const {
    const std::lock_guard lock{mutex()};
    std::vector<ucx_key> result;
    for (const auto& [address, one] : mapped_)
      result.push_back(
          {{reinterpret_cast<std::uintptr_t>(address), one.bytes, result.size()}, one.packed});
    return result;
  }

  /// The handle of the chunk that begins at `address`, for ucp_request_param_t::memh.
  /// Throws: std::out_of_range if none does.
  [[nodiscard]] ucp_mem_h handle_of(void* address) const {
    const std::lock_guard lock{mutex()};
    const auto at = mapped_.find(address);
    if (at == mapped_.end())
      throw std::out_of_range{"ucx_registration::handle_of: no chunk begins at " +
                              std::to_string(reinterpret_cast<std::uintptr_t>(address)) +
                              ": pass the address of one of keys()"};
    return at->second.handle;
  }

 private:
  struct mapped {
    std::size_t bytes;
    ucp_mem_h handle;
    std::string packed;
  };

  static void require(ucs_status_t result, const char* call) {
    if (result != UCS_OK)
      throw std::runtime_error{std::string{call} + ": " + ucs_status_string(result)};
  }

  void enter(const mapped_memory& memory) override {
    mapped& one =
        mapped_.try_emplace(memory.address, mapped{memory.bytes, nullptr, {}}).first->second;
    try {
      ucp_mem_map_params_t wanted{};
      wanted.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
      wanted.address = memory.address;
      wanted.length = memory.bytes;
      require(ucp_mem_map(context_, &wanted, &one.handle), "ucp_mem_map");
      void* packed = nullptr;
      std::size_t bytes = 0;
      require(ucp_rkey_pack(context_, one.handle, &packed, &bytes), "ucp_rkey_pack");
      try {
        one.packed.assign(static_cast<const char*>(packed), bytes);
      } catch (...) {
        ucp_rkey_buffer_release(packed);
        throw;
      }
      ucp_rkey_buffer_release(packed);
    } catch (...) {
      if (one.handle != nullptr) ucp_mem_unmap(context_, one.handle);
      mapped_.erase(memory.address);
      throw;
    }
  }
  void leave(const mapped_memory& memory) override {
    const auto at = mapped_.find(memory.address);
    const ucp_mem_h handle = at->second.handle;
    mapped_.erase(at);
    require(ucp_mem_unmap(context_, handle), "ucp_mem_unmap");
  }

  ucp_context_h context_;
  std::map<void*, mapped> mapped_;
};

}  // namespace hipvmm
