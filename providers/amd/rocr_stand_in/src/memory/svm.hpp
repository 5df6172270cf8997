// SPDX-License-Identifier: MIT
// Shared virtual memory: pages of the host with attributes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include <hsa/hsa_ext_amd.h>

namespace stand_in {

struct svm_attributes {
  bool set = false;  // by hsa_amd_svm_attributes_set(), so that agents may use the pages
  std::uint64_t flag = HSA_AMD_SVM_GLOBAL_FLAG_FINE_GRAINED;
  std::uint64_t preferred = 0;
  std::uint64_t prefetched = 0;
  std::uint64_t read_mostly = 0;
  std::uint64_t read_only = 0;
  std::uint64_t hive_local = 0;
  std::uint64_t granularity = 9;
  std::map<std::uint64_t, std::uint64_t> access;  // agent -> attribute
};

void for_each_svm_piece(const void* pointer, std::uint64_t bytes,
                        const std::function<void(svm_attributes&)>& each);

/// The end of the range with attributes from `address` on; `address` if it has none.
std::uint64_t svm_end(std::uint64_t address, std::uint64_t most);

}  // namespace stand_in
