// SPDX-License-Identifier: MIT
// The includes of a test that needs the host provider: those of support/test.hpp, the provider's
// controls and profiles, sweeps of its failures, and captures.
#pragma once

// IWYU pragma: begin_exports
#include "support/captures.hpp"
#include "support/host/fault_sweep.hpp"
#include "support/host/host_profile.hpp"
#include "support/host/host_provider.hpp"
#include "support/host/under_profile.hpp"
#include "support/test.hpp"
// IWYU pragma: end_exports
