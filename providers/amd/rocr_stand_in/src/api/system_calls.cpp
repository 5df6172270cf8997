// SPDX-License-Identifier: MIT
// Start and end, and the description of the system.
#include <hsa/hsa_ext_amd.h>

#include "src/base/call.hpp"
#include "src/base/clock.hpp"
#include "src/base/fault_plan.hpp"
#include "src/base/info.hpp"
#include "src/base/knobs.hpp"
#include "src/base/lifetime.hpp"
#include "src/base/report.hpp"
#include "src/base/text.hpp"
#include "src/memory/agents.hpp"
#include "src/memory/system_events.hpp"

using namespace stand_in;

extern "C" {

hsa_status_t hsa_init() {
  ROCR_CALL_ANY_TIME();
  if (const std::string& problem = read_knobs(); !problem.empty()) {
    note(problem);
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  // As ROCr answers if /dev/kfd is missing.
  if (knobs().gpus == 0) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  static const bool planned = [] {
    add_fault_plan(knobs().faults);
    return true;
  }();
  static_cast<void>(planned);
  agents();
  open_runtime();
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_shut_down() {
  ROCR_CALL();
  return close_runtime() ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_NOT_INITIALIZED;
}

hsa_status_t hsa_status_string(hsa_status_t status, const char** status_string) {
  ROCR_CALL();
  if (status_string == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  thread_local std::string described;
  described = text("HSA status 0x%x", static_cast<unsigned>(status));
  *status_string = described.c_str();
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_iterate_agents(hsa_status_t (*callback)(hsa_agent_t, void*), void* data) {
  ROCR_CALL();
  if (callback == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  for (const agent* each : visible_agents()) {
    const hsa_status_t status = callback(each->handle(), data);
    if (status != HSA_STATUS_SUCCESS) return status;
  }
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_system_extension_supported(uint16_t, uint16_t, uint16_t, bool* result) {
  ROCR_CALL();
  if (result == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  *result = false;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_agent_extension_supported(uint16_t, hsa_agent_t, uint16_t, uint16_t,
                                           bool* result) {
  ROCR_CALL();
  if (result == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  *result = false;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_system_get_info(hsa_system_info_t attribute, void* value) {
  ROCR_CALL();
  if (value == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  switch (static_cast<int>(attribute)) {
    case HSA_SYSTEM_INFO_VERSION_MAJOR:
    case HSA_SYSTEM_INFO_VERSION_MINOR:
    case HSA_AMD_SYSTEM_INFO_EXT_VERSION_MAJOR:
      return answer(value, std::uint16_t{1});
    case HSA_AMD_SYSTEM_INFO_EXT_VERSION_MINOR:
      return answer(value, std::uint16_t{HSA_AMD_INTERFACE_VERSION_MINOR});
    case HSA_SYSTEM_INFO_TIMESTAMP:
      return answer(value, now());
    case HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY:
      return answer(value, std::uint64_t{1000000000});
    case HSA_SYSTEM_INFO_SIGNAL_MAX_WAIT:
      return answer(value, ~std::uint64_t{0});
    case HSA_SYSTEM_INFO_EXTENSIONS:
      return answer_zeros(value, 128);
    case HSA_AMD_SYSTEM_INFO_SVM_SUPPORTED:
      return answer(value, knobs().svm);
    case HSA_AMD_SYSTEM_INFO_SVM_ACCESSIBLE_BY_DEFAULT:
    case HSA_AMD_SYSTEM_INFO_XNACK_ENABLED:
      return answer(value, knobs().xnack);
    case HSA_AMD_SYSTEM_INFO_DMABUF_SUPPORTED:
    case HSA_AMD_SYSTEM_INFO_VIRTUAL_MEM_API_SUPPORTED:
      return answer(value, true);
    default:
      log("hsa_system_get_info(0x%x) is not known", static_cast<unsigned>(attribute));
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
}

hsa_status_t hsa_amd_register_system_event_handler(hsa_amd_system_event_callback_t callback,
                                                   void* data) {
  ROCR_CALL();
  if (callback == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  add_event_handler(callback, data);
  return HSA_STATUS_SUCCESS;
}

}  // extern "C"
