// SPDX-License-Identifier: MIT
#include "base/enum_value.hpp"
#include "machine/call.hpp"
#include "pool/mem_pool_set.hpp"

namespace hipvmm::host_provider {
namespace {

access_change change_of(const hipMemAccessDesc& wanted, const runtime& machine, int owner) {
  require(value_of(wanted.location.type) == hipMemLocationTypeDevice);
  const int id = wanted.location.id;
  require(machine.has_device(id), machine.rules().bad_pool_device);
  const device_set device = only(id);
  const auto gains = [&](device_set writers) -> access_change {
    require(id == owner || machine.linked(owner, id), hipErrorInvalidDevice);
    return {device, device, writers};
  };
  switch (value_of(wanted.flags)) {
    case hipMemAccessFlagsProtNone:
      require(id != owner && machine.rules().revoke != pool_revoke::refused, hipErrorInvalidDevice);
      return {device, 0, 0};
    case hipMemAccessFlagsProtRead:
      require(id != owner || machine.rules().own_right == own_read_only::noted,
              hipErrorNotSupported);
      require(id == owner || machine.rules().peer_read_only == hipSuccess,
              machine.rules().peer_read_only);
      return gains(0);
    case hipMemAccessFlagsProtReadWrite:
      return gains(device);
    default:
      throw failure{hipErrorInvalidValue};
  }
}

bool pool_policy::*switch_of(int attribute) {
  switch (attribute) {
    case hipMemPoolReuseFollowEventDependencies:
      return &pool_policy::follow_events;
    case hipMemPoolReuseAllowOpportunistic:
      return &pool_policy::opportunistic;
    case hipMemPoolReuseAllowInternalDependencies:
      return &pool_policy::internal_dependencies;
    default:
      return nullptr;
  }
}

std::uint64_t counted(const mem_pool& pool, int attribute) {
  switch (attribute) {
    case hipMemPoolAttrReleaseThreshold:
      return pool.policy().release_threshold;
    case hipMemPoolAttrReservedMemCurrent:
      return pool.usage().reserved;
    case hipMemPoolAttrReservedMemHigh:
      return pool.usage().reserved_high;
    case hipMemPoolAttrUsedMemCurrent:
      return pool.usage().used;
    case hipMemPoolAttrUsedMemHigh:
      return pool.usage().used_high;
    default:
      throw failure{hipErrorInvalidValue};
  }
}

void count_from(mem_pool& pool, high_mark reset, int attribute, std::uint64_t value) {
  if (attribute == hipMemPoolAttrReleaseThreshold) {
    pool.change_policy([value](pool_policy& policy) { policy.release_threshold = value; });
    return;
  }
  const bool is_reserved = attribute == hipMemPoolAttrReservedMemHigh;
  require(!is_reserved || reset != high_mark::zero_of_used);
  require((is_reserved || attribute == hipMemPoolAttrUsedMemHigh) && value == 0);
  pool.change_usage([is_reserved, reset](pool_usage& usage) {
    const std::uint64_t now = is_reserved ? usage.reserved : usage.used;
    (is_reserved ? usage.reserved_high : usage.used_high) = reset == high_mark::as_in_use ? now : 0;
    if (is_reserved) usage.own_high = 0;
  });
}

}  // namespace
}  // namespace hipvmm::host_provider

using namespace hipvmm::host_provider;

hipError_t hipMemPoolSetAttribute(hipMemPool_t pool, hipMemPoolAttr attribute, void* value) {
  return call(__func__, [&](runtime& machine) {
    const std::shared_ptr<mem_pool> changed = machine.pools().find(pool);
    require(value != nullptr);
    if (bool pool_policy::*const each = switch_of(value_of(attribute))) {
      const bool is_bit = machine.rules().switched_by == reuse_value::lowest_bit;
      const bool on = (*static_cast<const int*>(value) & (is_bit ? 1 : ~0)) != 0;
      changed->change_policy([each, on](pool_policy& policy) { policy.*each = on; });
    } else {
      count_from(*changed, machine.rules().reset_mark, value_of(attribute),
                 *static_cast<const std::uint64_t*>(value));
    }
    return hipSuccess;
  });
}

hipError_t hipMemPoolGetAttribute(hipMemPool_t pool, hipMemPoolAttr attribute, void* value) {
  return call(__func__, [&](runtime& machine) {
    const std::shared_ptr<mem_pool> asked = machine.pools().find(pool);
    require(value != nullptr);
    if (bool pool_policy::*const each = switch_of(value_of(attribute))) {
      *static_cast<int*>(value) = asked->policy().*each ? 1 : 0;
    } else {
      *static_cast<std::uint64_t*>(value) = counted(*asked, value_of(attribute));
    }
    return hipSuccess;
  });
}

hipError_t hipMemPoolSetAccess(hipMemPool_t pool, const hipMemAccessDesc* wanted, size_t count) {
  return call(__func__, [&](runtime& machine) {
    const std::shared_ptr<mem_pool> changed = machine.pools().find(pool);
    require(wanted != nullptr);
    require(count <= static_cast<std::size_t>(machine.device_count()), hipErrorInvalidDevice);
    const bool one_by_one = machine.rules().pool_entries == access_order::one_by_one;
    access_change all;
    for (size_t i = 0; i < count; ++i) {
      all.then(change_of(wanted[i], machine, changed->device()));
      if (one_by_one) changed->change_rights(all);
    }
    changed->change_rights(all);
    if (race_checker* const checker = machine.checker()) checker->revoke(changed.get(), all);
    return hipSuccess;
  });
}

hipError_t hipMemPoolGetAccess(hipMemAccessFlags* flags, hipMemPool_t pool,
                               hipMemLocation* location) {
  return call(__func__, [&](runtime& machine) {
    require(flags != nullptr && location != nullptr);
    const std::shared_ptr<mem_pool> asked = machine.pools().find(pool);
    require(value_of(location->type) == hipMemLocationTypeDevice);
    require(machine.has_device(location->id));
    const device_set device = only(location->id);
    *flags = hipMemAccessFlagsProtNone;
    if ((asked->rights().readers & device) != 0) *flags = hipMemAccessFlagsProtRead;
    if ((asked->rights().writers & device) != 0) *flags = hipMemAccessFlagsProtReadWrite;
    return hipSuccess;
  });
}
