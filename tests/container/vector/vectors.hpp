// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/container/growable_device_vector.hpp>
#include "support/element.hpp"

namespace hipvmm::test {

using vector_of_4 = growable_device_vector<element<4>>;
using vector_of_8 = growable_device_vector<element8>;
using vector_of_12 = growable_device_vector<element12>;
using vector_of_granules = growable_device_vector<granule_element>;

}  // namespace hipvmm::test
