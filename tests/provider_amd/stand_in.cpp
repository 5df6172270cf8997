// SPDX-License-Identifier: MIT
// Functions of the host provider's control header, served by the stand-in for ROCr.
#include "stand_in.hpp"

#include <dlfcn.h>
#include <hipvmm/provider/host_control.h>

#include <atomic>
#include <stdexcept>

namespace hipvmm::test {
namespace {

// The functions of rocr_stand_in.h. ROCr has none of them.
using gpu_function = int (*)(int);
using memory_function = int (*)(int, std::uint64_t*, std::uint64_t*);

constexpr int every_gpu = -1;

std::atomic<int> holds{0};

template <class Function>
Function find(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
}

template <class Function>
Function need(const char* name) {
  const auto found = find<Function>(name);
  if (found == nullptr) throw std::runtime_error{std::string{name} + lacks_control};
  return found;
}

}  // namespace

bool is_on_stand_in() { return find<gpu_function>("rocr_stand_in_hold") != nullptr; }

std::vector<std::string> stand_in_settings(int devices, const std::string& peers) {
  return {"HIPVMM_ROCR_GPUS=" + std::to_string(devices), "HIPVMM_ROCR_PEERS=" + peers};
}

}  // namespace hipvmm::test

using namespace hipvmm::test;

extern "C" {

std::size_t hipvmm_host_device_bytes(int device) {
  std::uint64_t used = 0;
  std::uint64_t peak = 0;
  if (need<memory_function>("rocr_stand_in_memory")(device, &used, &peak) != 0) return 0;
  return used;
}

void hipvmm_host_hold_streams() {
  if (holds++ == 0) need<gpu_function>("rocr_stand_in_hold")(every_gpu);
}

void hipvmm_host_release_streams() {
  if (--holds == 0) need<gpu_function>("rocr_stand_in_release")(every_gpu);
}

// The stand-in does not judge the order of work.
void hipvmm_host_suspend_order_check() {}
void hipvmm_host_resume_order_check() {}
void hipvmm_host_clear_order_reports() {}

void hipvmm_host_get_counters(hipvmm_host_counters*) {
  throw std::logic_error{"only the host provider counts its objects"};
}

std::uint64_t hipvmm_host_call_count(const char*) {
  throw std::logic_error{"only the host provider counts calls"};
}

}  // extern "C"
