// SPDX-License-Identifier: MIT
#include <dlfcn.h>

#include <string>

#include "machine/call.hpp"

namespace hipvmm::host_provider {
namespace {

// hipDriverProcAddressQueryResult, which headers have since 6.
constexpr int found_symbol = 0;
constexpr int symbol_not_found = 1;

// From this version on functions of hipDeviceProp_t are others.
constexpr int version_of_new_properties = 600;

/// This library, even if the process has loaded another one of the same name.
void* own_library() {
  static void* const library = [] {
    Dl_info info{};
    if (dladdr(reinterpret_cast<const void*>(&hipInit), &info) == 0)
      return static_cast<void*>(nullptr);
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  return library;
}

void* find_function(const std::string& name, int version) {
  // Functions of the control header are not HIP's.
  if (!name.starts_with("hip") || name.size() < 4 || name[3] < 'A' || name[3] > 'Z') return nullptr;
  if (version >= version_of_new_properties) {
    if (void* const newer = dlsym(own_library(), (name + "R0600").c_str())) return newer;
  }
  return dlsym(own_library(), name.c_str());
}

}  // namespace
}  // namespace hipvmm::host_provider

using namespace hipvmm::host_provider;

// Declared by its symbol, because headers before 6 lack it, and later ones declare the last
// parameter as a pointer to an enumeration.
extern "C" [[gnu::visibility("default")]] hipError_t get_proc_address(
    const char* symbol, void** function, int version, uint64_t flags,
    int* status) __asm__("hipGetProcAddress");

hipError_t get_proc_address(const char* symbol, void** function, int version, uint64_t /*flags*/,
                            int* status) {
  return call("hipGetProcAddress", device_need::none, [&](runtime&) {
    require(symbol != nullptr && function != nullptr);
    *function = find_function(symbol, version);
    if (status != nullptr) *status = *function != nullptr ? found_symbol : symbol_not_found;
    require(*function != nullptr);
    return hipSuccess;
  });
}
