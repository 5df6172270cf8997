// SPDX-License-Identifier: MIT
// Waiting for signals. Every change of a value passes signal_changed(), so that nobody has to poll.
#pragma once

#include <functional>

#include "src/signal/signal.hpp"

namespace stand_in {

/// Wakes the threads that wait for the signal, and its handlers.
void signal_changed(hsa_signal_t handle);
/// As signal_changed() of each signal: an engine wrote to memory of signals.
void signal_memory_changed();

/// Waits until `ready()`, which reads the signal's value. False at `deadline` (0: none), in
/// nanoseconds of now(), or if `stop` is true; the thread that sets it calls wake_waiters().
bool wait_for_signal(hsa_signal_t handle, const std::function<bool()>& ready,
                     std::uint64_t deadline, const std::atomic<bool>* stop);
/// Null handles are left out; without any the call does not wait.
bool wait_for_any_zero(const hsa_signal_t* handles, std::size_t count,
                       const std::atomic<bool>* stop);
/// Each signal may be 0 at another time.
bool wait_for_all_zero(const hsa_signal_t* handles, std::size_t count,
                       const std::atomic<bool>* stop);
void wake_waiters();

/// Stores the times of finished work and subtracts 1 from the signal's value.
void complete_signal(hsa_signal_t handle, std::uint64_t start, std::uint64_t end);

}  // namespace stand_in
