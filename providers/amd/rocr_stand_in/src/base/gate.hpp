// SPDX-License-Identifier: MIT
// Holding GPUs back, and delaying their work.
#pragma once

#include <atomic>
#include <cstdint>

namespace stand_in {

/// Holds or releases a GPU, or all if `gpu` is negative.
void hold_gpu(int gpu);
void release_gpu(int gpu);

void set_delay(std::uint64_t microseconds);

/// Waits while the GPU is held, then for the delay. Returns false if `stop` became true; the thread
/// that sets `stop` calls wake_gates().
bool pass_gate(unsigned gpu, const std::atomic<bool>* stop);
void wake_gates();

}  // namespace stand_in
