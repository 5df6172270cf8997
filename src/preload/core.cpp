// SPDX-License-Identifier: MIT
#include <pthread.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include <hipvmm/version.hpp>
#include "c/guard.hpp"
#include "c/settings.hpp"
#include "core/environment.hpp"
#include "preload/calls.hpp"
#include "preload/real_hip.hpp"
#include "preload/replacement.hpp"
#include "preload/settings.hpp"

namespace hipvmm::preload {
namespace {

/// An atomic in place of a static variable: see core_loader.hpp.
std::atomic<replacement*> shared{nullptr};

/// Pre: hipvmm_preload_core() has returned.
replacement& active() noexcept { return *shared.load(std::memory_order_acquire); }

stream_ref as_stream(void* stream) noexcept {
  return stream_ref{static_cast<ihipStream_t*>(stream)};
}

constexpr core_calls calls{
    .allocate = [](const real_calls& real, void** pointer,
                   std::size_t bytes) { return active().allocate(real, pointer, bytes); },
    .free = [](const real_calls& real, void* pointer) { return active().free(real, pointer); },
    .allocate_async =
        [](const real_calls& real, void** pointer, std::size_t bytes, void* stream) {
          return active().allocate_async(real, pointer, bytes, as_stream(stream));
        },
    .free_async =
        [](const real_calls& real, void* pointer, void* stream) {
          return active().free_async(real, pointer, as_stream(stream));
        },
    .memory_info = [](const real_calls& real, std::size_t* free,
                      std::size_t* total) { return active().memory_info(real, free, total); },
    .address_range =
        [](const real_calls& real, void** base, std::size_t* bytes, void* pointer) {
          return active().address_range(real, base, bytes, pointer);
        },
    .ipc_handle = [](const real_calls& real, void* handle,
                     void* pointer) { return active().ipc_handle(real, handle, pointer); },
    .end_stream = [](void* stream) { active().end_stream(as_stream(stream)); },
    .reset_device =
        [](int device) {
          active().reset_device(device < 0 ? std::nullopt : std::optional{device_ref{device}});
        },
    .note_pool = [](int device) { active().note_pool(device_ref{device}); },
    .note_context = [] { active().note_context(); },
    .own_free = own_free,
};

[[gnu::destructor]] void end() {
  if (replacement* const made = shared.load()) made->write_statistics();
}

}  // namespace
}  // namespace hipvmm::preload

extern "C" const hipvmm::preload::core_calls* hipvmm_preload_core(const char* version) {
  using namespace hipvmm::preload;
  try {
    if (std::strcmp(version, HIPVMM_VERSION_STRING) != 0) {
      std::fprintf(stderr, "hipvmm_preload: nothing is replaced: %s was loaded by %s\n",
                   HIPVMM_VERSION_STRING, version);
      return nullptr;
    }
    const char* const text = hipvmm::detail::environment("HIPVMM_PRELOAD");
    auto made = std::make_unique<replacement>(parse_settings(text == nullptr ? "" : text));
    replacement* before = nullptr;
    if (!shared.compare_exchange_strong(before, made.get())) return &calls;
    static_cast<void>(made.release());
    pthread_atfork(nullptr, nullptr, [] { active().become_child(); });
    return &calls;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hipvmm_preload: nothing is replaced: %s\n", error.what());
    return nullptr;
  }
}

/// Null if HIPVMM_PRELOAD and HIPVMM_CONF can be obeyed on device 0, or if that cannot be used.
/// hipvmm-run calls it before the program starts.
extern "C" const char* hipvmm_preload_problem() {
  using namespace hipvmm;
  static std::string why;
  try {
    const char* const text = detail::environment("HIPVMM_PRELOAD");
    if (text != nullptr && std::string_view{text} == "off") return nullptr;
    static_cast<void>(preload::parse_settings(text == nullptr ? "" : text));
    if (detail::environment("HIPVMM_CONF") == nullptr) return nullptr;
    const device_ref device{0};
    const mr::pool_options options = c::pool_settings(device, nullptr);
    try {
      const mr::vmm_pool_resource pool{device, options};
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument{"HIPVMM_CONF: " + c::with_option_names(error.what(), "pool.")};
    }
    static_cast<void>(c::configured_budget(device));
  } catch (const std::invalid_argument& error) {
    why = error.what();
    return why.c_str();
  } catch (const std::exception&) {
    // The program meets the failure itself, and may have a device.
  }
  return nullptr;
}
