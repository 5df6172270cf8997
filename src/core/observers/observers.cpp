// SPDX-License-Identifier: MIT
#include "core/observers/observers.hpp"

namespace hipvmm::detail {

constinit std::atomic<unsigned> observers{0};

}  // namespace hipvmm::detail
