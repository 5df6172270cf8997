// SPDX-License-Identifier: MIT
// Calls nothing of the C++ library: a program may bring one of its own, which is loaded later.
#include "preload/core_loader.hpp"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <hipvmm/version.hpp>
#include "core/environment.hpp"
#include "core/owner_process.hpp"

namespace hipvmm::preload {
namespace {

std::atomic<const core_calls*> loaded{nullptr};
std::atomic<bool> is_known{false};  // whether `loaded` is final
using loading = detail::thread_mark<struct loading_kind>;

link_map* library_of(const void* address) noexcept {
  Dl_info info{};
  void* map = nullptr;
  if (dladdr1(address, &info, &map, RTLD_DL_LINKMAP) == 0) return nullptr;
  return static_cast<link_map*>(map);
}

bool is_off() noexcept {
  const char* const text = detail::environment("HIPVMM_PRELOAD");
  return text != nullptr && std::strcmp(text, "off") == 0;
}

void say_once(const char* what, const char* why) noexcept {
  static std::atomic<bool> is_said{false};
  if (!is_said.exchange(true)) say(what, why);
}

char own_path[PATH_MAX];  // empty if the loader found the library in its own folders

// The name may be relative, and the program may be in another folder at its first call.
[[gnu::constructor]] void note_own_path() noexcept {
  const link_map* const own = library_of(reinterpret_cast<const void*>(&load_core));
  if (own == nullptr || std::strchr(own->l_name, '/') == nullptr) return;
  if (::realpath(own->l_name, own_path) == nullptr) own_path[0] = 0;
}

const core_calls* load() noexcept {
  if (is_off()) return nullptr;
  if (own_path[0] == 0) note_own_path();  // a call before the constructor
  char path[PATH_MAX + 32];
  const char* const slash = std::strrchr(own_path, '/');
  const int folder = slash == nullptr ? 0 : static_cast<int>(slash - own_path) + 1;
  std::snprintf(path, sizeof path, "%.*slibhipvmm_preload_core.so", folder, own_path);
  void* const core = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (core == nullptr) {
    say_once("nothing is replaced", dlerror());
    return nullptr;
  }
  const auto entry = reinterpret_cast<core_entry>(dlsym(core, core_entry_name));
  if (entry != nullptr) return entry(HIPVMM_VERSION_STRING);
  say_once("nothing is replaced: it is another version's", path);
  return nullptr;
}

}  // namespace

const core_calls* load_core() noexcept {
  if (is_known.load(std::memory_order_acquire)) return loaded.load(std::memory_order_relaxed);
  if (loading::is_set()) return nullptr;
  const loading mark;
  const core_calls* const found = load();
  loaded.store(found, std::memory_order_relaxed);
  is_known.store(true, std::memory_order_release);
  return found;
}

bool is_loading_core() noexcept { return loading::is_set(); }

void say(const char* what, const char* why) noexcept {
  char line[4608];
  const int length = std::snprintf(line, sizeof line, "hipvmm_preload: %s: %s\n", what, why);
  if (length > 0)
    static_cast<void>(!write(STDERR_FILENO, line,
                             static_cast<std::size_t>(length) < sizeof line
                                 ? static_cast<std::size_t>(length)
                                 : sizeof line - 1));
}

void* find_real(const char* name, const void* caller) noexcept {
  if (void* const next = dlsym(RTLD_NEXT, name)) return next;
  const link_map* const calling = library_of(caller);
  // The program itself has no name, and sees this library first.
  if (calling == nullptr || *calling->l_name == '\0') return nullptr;
  void* const handle = dlopen(calling->l_name, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return nullptr;
  void* const found = dlsym(handle, name);
  dlclose(handle);
  return found;
}

void keep_library_of(const void* address) noexcept {
  const link_map* const found = library_of(address);
  if (found != nullptr && *found->l_name != '\0')
    static_cast<void>(dlopen(found->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE));
}

}  // namespace hipvmm::preload

extern "C" const char* hipvmm_preload_version() { return HIPVMM_VERSION_STRING; }
