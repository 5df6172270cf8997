// SPDX-License-Identifier: MIT
// Answers of the functions that get information.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include <hsa/hsa.h>

namespace stand_in {

template <class Value>
hsa_status_t answer(void* to, const Value& value) {
  std::memcpy(to, &value, sizeof value);
  return HSA_STATUS_SUCCESS;
}

inline hsa_status_t answer_text(void* to, const std::string& value, std::size_t bytes) {
  std::memset(to, 0, bytes);
  std::memcpy(to, value.data(), std::min(value.size(), bytes - 1));
  return HSA_STATUS_SUCCESS;
}

inline hsa_status_t answer_zeros(void* to, std::size_t bytes) {
  std::memset(to, 0, bytes);
  return HSA_STATUS_SUCCESS;
}

}  // namespace stand_in
