// SPDX-License-Identifier: MIT
// The table of AMD's loader extension, by which clr finds the code.
#include <algorithm>
#include <cstring>

#include <hsa/hsa_ven_amd_loader.h>

#include "src/base/call.hpp"

namespace stand_in {
namespace {

hsa_status_t query_host_address(const void* device_address, const void** host_address) {
  *host_address = device_address;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t query_segment_descriptors(hsa_ven_amd_loader_segment_descriptor_t*,
                                       size_t* num_segment_descriptors) {
  *num_segment_descriptors = 0;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t query_executable(const void*, hsa_executable_t*) {
  return HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

hsa_status_t iterate_loaded_code_objects(
    hsa_executable_t, hsa_status_t (*)(hsa_executable_t, hsa_loaded_code_object_t, void*), void*) {
  return HSA_STATUS_SUCCESS;
}

hsa_status_t loaded_code_object_get_info(hsa_loaded_code_object_t,
                                         hsa_ven_amd_loader_loaded_code_object_info_t, void*) {
  return HSA_STATUS_ERROR_INVALID_CODE_OBJECT;
}

hsa_status_t code_object_reader_create_from_file(hsa_file_t, size_t, size_t,
                                                 hsa_code_object_reader_t*) {
  return HSA_STATUS_ERROR_INVALID_FILE;
}

hsa_status_t iterate_executables(hsa_status_t (*)(hsa_executable_t, void*), void*) {
  return HSA_STATUS_SUCCESS;
}

}  // namespace
}  // namespace stand_in

using namespace stand_in;

extern "C" {

hsa_status_t hsa_system_get_major_extension_table(uint16_t extension, uint16_t, size_t table_length,
                                                  void* table) {
  ROCR_CALL();
  if (table == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  if (extension != HSA_EXTENSION_AMD_LOADER) return HSA_STATUS_ERROR;
  const hsa_ven_amd_loader_1_03_pfn_t functions{
      query_host_address,          query_segment_descriptors,   query_executable,
      iterate_loaded_code_objects, loaded_code_object_get_info, code_object_reader_create_from_file,
      iterate_executables};
  std::memcpy(table, &functions, std::min(table_length, sizeof functions));
  return HSA_STATUS_SUCCESS;
}

}  // extern "C"
