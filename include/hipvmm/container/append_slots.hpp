// SPDX-License-Identifier: MIT
#pragma once

// Threads take slots from a counter: on the host, under nvcc and under hipcc. Device code uses
// builtins of the compilers only, so that this needs no vendor header.

#include <hipvmm/core/device_code.hpp>

namespace hipvmm {

/// Counters of a run of kernels; zero at its start.
struct append_counters {
  unsigned long long taken;   ///< slots requested, granted or not
  unsigned long long unused;  ///< slots at the end that were too few for a block
};

namespace detail {

using slot_count = unsigned long long;

#if defined(__CUDA_ARCH__)

using lane_mask = unsigned;

HIPVMM_DEVICE inline lane_mask active_lanes() { return __activemask(); }
HIPVMM_DEVICE inline lane_mask lanes_where(lane_mask active, bool predicate) {
  return __ballot_sync(active, predicate);
}
HIPVMM_DEVICE inline slot_count from_lane(lane_mask active, slot_count value, int lane) {
  return __shfl_sync(active, value, lane);
}
HIPVMM_DEVICE inline unsigned lanes_before(lane_mask lanes) {
  lane_mask lower;
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(lower));
  return __popc(lanes & lower);
}
HIPVMM_DEVICE inline int first_of(lane_mask lanes) { return __ffs(lanes) - 1; }
HIPVMM_DEVICE inline unsigned count_of(lane_mask lanes) { return __popc(lanes); }
HIPVMM_DEVICE inline slot_count add(slot_count* counter, slot_count value) {
  return atomicAdd(counter, value);
}

#elif defined(__HIP_DEVICE_COMPILE__)

using lane_mask = unsigned long long;

// 33 means "not equal". The builtin's successor, __builtin_amdgcn_ballot_w64, does not compile for
// waves of 32 with ROCm 5 and 6. The asm hides the value from the optimiser, which would replace a
// comparison that is always true by 64 bits of the execution mask: a wave of 32 has no upper half.
HIPVMM_DEVICE inline lane_mask lanes_where(lane_mask, bool predicate) {
  unsigned value = predicate ? 1U : 0U;
  asm("" : "+v"(value));
  return __builtin_amdgcn_uicmp(value, 0U, 33);
}
HIPVMM_DEVICE inline lane_mask active_lanes() { return lanes_where(0, true); }
HIPVMM_DEVICE inline slot_count from_lane(lane_mask, slot_count value, int lane) {
  const auto part = [lane](slot_count half) {
    return static_cast<unsigned>(
        __builtin_amdgcn_readlane(static_cast<int>(static_cast<unsigned>(half)), lane));
  };
  return slot_count{part(value >> 32)} << 32 | part(value);
}
HIPVMM_DEVICE inline unsigned lanes_before(lane_mask lanes) {
  return __builtin_amdgcn_mbcnt_hi(static_cast<unsigned>(lanes >> 32),
                                   __builtin_amdgcn_mbcnt_lo(static_cast<unsigned>(lanes), 0U));
}
HIPVMM_DEVICE inline int first_of(lane_mask lanes) { return __builtin_ctzll(lanes); }
HIPVMM_DEVICE inline unsigned count_of(lane_mask lanes) {
  return static_cast<unsigned>(__builtin_popcountll(lanes));
}
HIPVMM_DEVICE inline slot_count add(slot_count* counter, slot_count value) {
  return __hip_atomic_fetch_add(counter, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

#endif

#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)

/// Slots of the lower lanes, and of all lanes that take together.
struct share {
  slot_count before;
  slot_count all;
};

/// Takes slots for all active lanes, with one atomic for each distinct counter.
/// `share_among(lanes)` returns the caller's share when these lanes take together. All active lanes
/// run every round, so the result does not depend on the compiler's divergence points.
template <typename ShareAmong>
HIPVMM_DEVICE slot_count take_together(slot_count* counter, lane_mask active,
                                       ShareAmong share_among) {
  const auto own = reinterpret_cast<slot_count>(counter);
  slot_count result = 0;
  for (lane_mask left = active; left != 0;) {
    const int leader = first_of(left);
    const bool same = from_lane(active, own, leader) == own;
    const lane_mask lanes = lanes_where(active, same);
    const share mine = share_among(lanes);
    slot_count first = 0;
    if (same && lanes_before(lanes) == 0) first = add(counter, mine.all);
    first = from_lane(active, first, leader);
    if (same) result = first + mine.before;
    left &= ~lanes;
  }
  return result;
}

#endif

HIPVMM_HOST_DEVICE inline slot_count take_slot(slot_count* counter) {
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
  return take_together(counter, active_lanes(), [](lane_mask lanes) {
    return share{lanes_before(lanes), count_of(lanes)};
  });
#else
  return __atomic_fetch_add(counter, slot_count{1}, __ATOMIC_RELAXED);
#endif
}

HIPVMM_HOST_DEVICE inline slot_count take_slots(slot_count* counter, slot_count count) {
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
  const lane_mask active = active_lanes();
  return take_together(counter, active, [active, count](lane_mask lanes) {
    const unsigned rank = lanes_before(lanes);
    share sum{0, 0};
    unsigned passed = 0;
    for (lane_mask left = lanes; left != 0; left &= left - 1, ++passed) {
      const slot_count of_lane = from_lane(active, count, first_of(left));
      if (passed < rank) sum.before += of_lane;
      sum.all += of_lane;
    }
    return sum;
  });
#else
  return __atomic_fetch_add(counter, count, __ATOMIC_RELAXED);
#endif
}

}  // namespace detail
}  // namespace hipvmm
