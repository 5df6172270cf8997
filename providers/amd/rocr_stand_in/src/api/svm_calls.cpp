// SPDX-License-Identifier: MIT
// HSA's functions for shared virtual memory.
#include <algorithm>
#include <shared_mutex>
#include <vector>

#include <sys/mman.h>

#include <hsa/hsa_ext_amd.h>

#include "src/base/call.hpp"
#include "src/base/knobs.hpp"
#include "src/memory/address_space.hpp"
#include "src/memory/svm.hpp"
#include "src/queue/copy_engine.hpp"

namespace stand_in {
namespace {

// nullptr if no field has the attribute.
std::uint64_t svm_attributes::*field_of(std::uint64_t attribute) {
  switch (attribute) {
    case HSA_AMD_SVM_ATTRIB_GLOBAL_FLAG:
      return &svm_attributes::flag;
    case HSA_AMD_SVM_ATTRIB_READ_ONLY:
      return &svm_attributes::read_only;
    case HSA_AMD_SVM_ATTRIB_HIVE_LOCAL:
      return &svm_attributes::hive_local;
    case HSA_AMD_SVM_ATTRIB_MIGRATION_GRANULARITY:
      return &svm_attributes::granularity;
    case HSA_AMD_SVM_ATTRIB_PREFERRED_LOCATION:
      return &svm_attributes::preferred;
    case HSA_AMD_SVM_ATTRIB_READ_MOSTLY:
      return &svm_attributes::read_mostly;
    case HSA_AMD_SVM_ATTRIB_PREFETCH_LOCATION:
      return &svm_attributes::prefetched;
    default:
      return nullptr;
  }
}

bool is_access(std::uint64_t attribute) {
  return attribute == HSA_AMD_SVM_ATTRIB_AGENT_ACCESSIBLE ||
         attribute == HSA_AMD_SVM_ATTRIB_AGENT_ACCESSIBLE_IN_PLACE ||
         attribute == HSA_AMD_SVM_ATTRIB_AGENT_NO_ACCESS;
}

hsa_status_t check_settable(const hsa_amd_svm_attribute_pair_t& pair) {
  if (is_access(pair.attribute)) {
    return agent_of({pair.value}) != nullptr ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_AGENT;
  }
  const bool known =
      pair.attribute != HSA_AMD_SVM_ATTRIB_PREFETCH_LOCATION &&
      (field_of(pair.attribute) != nullptr || pair.attribute == HSA_AMD_SVM_ATTRIB_GPU_EXEC);
  return known ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

// Kernel driver, svm_range_is_valid(): only pages of the host that belong to no buffer object.
bool is_plain_host_memory(const void* pointer, std::size_t bytes) {
  const std::uint64_t begin = round_down(address_of(pointer), page_bytes);
  const std::uint64_t end = round_up(address_of(pointer) + bytes, page_bytes);
  address_space& all = addresses();
  const auto touches = [&](auto& map, auto bytes_of) {
    auto at = map.lower_bound(end);
    return at != map.begin() && (--at, at->first + bytes_of(at->second) > begin);
  };
  std::shared_lock guard(all.lock);
  if (touches(all.allocations, [](const allocation& each) { return each.memory->bytes; }) ||
      touches(all.mappings, [](const mapping& each) { return each.size; })) {
    return false;
  }
  // mincore() fails if no page is mapped. In pieces, because it needs a byte for each page.
  constexpr std::uint64_t piece = std::uint64_t{1} << 30;
  std::vector<unsigned char> present(std::min(end - begin, piece) / page_bytes);
  for (std::uint64_t at = begin; at < end; at += piece) {
    if (mincore(pointer_to(at), std::min(end - at, piece), present.data()) != 0) return false;
  }
  return true;
}

// The kernel driver's answer for a range whose pieces differ.
std::uint64_t mixed_value(std::uint64_t attribute) {
  return attribute == HSA_AMD_SVM_ATTRIB_GLOBAL_FLAG ? HSA_AMD_SVM_GLOBAL_FLAG_INDETERMINATE : 0;
}

hsa_status_t get_access(const void* pointer, std::size_t bytes,
                        hsa_amd_svm_attribute_pair_t& pair) {
  if (agent_of({pair.value}) == nullptr) return HSA_STATUS_ERROR_INVALID_AGENT;
  const std::uint64_t none =
      knobs().xnack ? HSA_AMD_SVM_ATTRIB_AGENT_ACCESSIBLE : HSA_AMD_SVM_ATTRIB_AGENT_NO_ACCESS;
  bool first = true;
  for_each_svm_piece(pointer, bytes, [&](svm_attributes& piece) {
    const auto at = piece.access.find(pair.value);
    const std::uint64_t here = at == piece.access.end() ? none : at->second;
    pair.attribute =
        first || pair.attribute == here ? here : std::uint64_t{HSA_AMD_SVM_ATTRIB_AGENT_NO_ACCESS};
    first = false;
  });
  return HSA_STATUS_SUCCESS;
}

}  // namespace
}  // namespace stand_in

using namespace stand_in;

extern "C" {

hsa_status_t hsa_amd_svm_attributes_set(void* ptr, size_t size,
                                        hsa_amd_svm_attribute_pair_t* attribute_list,
                                        size_t attribute_count) {
  ROCR_CALL();
  for (std::size_t i = 0; i < attribute_count; ++i) {
    const hsa_status_t status = check_settable(attribute_list[i]);
    if (status != HSA_STATUS_SUCCESS) return status;
  }
  if (!is_plain_host_memory(ptr, size)) return HSA_STATUS_ERROR;
  for_each_svm_piece(ptr, size, [&](svm_attributes& piece) {
    piece.set = true;
    for (std::size_t i = 0; i < attribute_count; ++i) {
      const auto& [attribute, value] = attribute_list[i];
      if (is_access(attribute)) {
        piece.access[value] = attribute;
      } else if (const auto field = field_of(attribute)) {
        piece.*field = value;
      }
    }
  });
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_svm_attributes_get(void* ptr, size_t size,
                                        hsa_amd_svm_attribute_pair_t* attribute_list,
                                        size_t attribute_count) {
  ROCR_CALL();
  if (!is_plain_host_memory(ptr, size)) return HSA_STATUS_ERROR;
  for (std::size_t i = 0; i < attribute_count; ++i) {
    hsa_amd_svm_attribute_pair_t& pair = attribute_list[i];
    if (pair.attribute == HSA_AMD_SVM_ATTRIB_ACCESS_QUERY) {
      const hsa_status_t status = get_access(ptr, size, pair);
      if (status != HSA_STATUS_SUCCESS) return status;
      continue;
    }
    const auto field = field_of(pair.attribute);
    if (field == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    bool first = true;
    for_each_svm_piece(ptr, size, [&](svm_attributes& piece) {
      pair.value = first || pair.value == piece.*field ? piece.*field : mixed_value(pair.attribute);
      first = false;
    });
  }
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_svm_prefetch_async(void* ptr, size_t size, hsa_agent_t agent,
                                        uint32_t num_dep_signals, const hsa_signal_t* dep_signals,
                                        hsa_signal_t completion_signal) {
  ROCR_CALL();
  stand_in::agent* const where = agent_of(agent);
  if (where == nullptr) return HSA_STATUS_ERROR_INVALID_AGENT;
  // ROCr asserts only that the driver took it: a refused prefetch completes all the same.
  if (is_plain_host_memory(ptr, size)) {
    for_each_svm_piece(ptr, size, [&](svm_attributes& piece) { piece.prefetched = agent.handle; });
  }
  copy_job job;
  if (num_dep_signals != 0) job.after.assign(dep_signals, dep_signals + num_dep_signals);
  job.done = completion_signal;
  job.who = where;
  job.name = "prefetch";
  job.work = [](const device_view&) {};
  engine_of(where->is_gpu ? *where : gpu_agent(0), engine_other).push(std::move(job));
  return HSA_STATUS_SUCCESS;
}

}  // extern "C"
