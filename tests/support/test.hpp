// SPDX-License-Identifier: MIT
// The includes of a test of the library: doctest, HIP, the standard library as far as most tests
// need it, sizes, errors and their handler, devices, threads, children, waits and thrown_by().
#pragma once

// IWYU pragma: begin_exports
#include <doctest/doctest.h>
#ifndef __VECTOR_TYPES_H__  // CUDA's headers, which NCCL's include, declare types of HIP's names
#include <hip/hip_runtime_api.h>
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <future>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include "support/devices.hpp"
#include "support/error_recorder.hpp"
#include "support/happens.hpp"
#include "support/in_threads.hpp"
#include "support/process/child_process.hpp"
#include "support/thrown.hpp"
// IWYU pragma: end_exports
