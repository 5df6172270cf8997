// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <array>
#include <cstring>

#include "call.hpp"
#include "shared_event.hpp"
#include "thread_state.hpp"

namespace hipvmm::host_provider {
namespace {

struct exported_event {
  std::array<char, 8> tag;
  shared_event::address_of_file where;
  int place;  // of the event's device in the machine
};
static_assert(sizeof(exported_event) <= sizeof(hipIpcEventHandle_t));

constexpr std::array<char, 8> event_tag{'h', 'i', 'p', 'v', 'm', 'e', 'i', '1'};

}  // namespace
}  // namespace hipvmm::host_provider

using namespace hipvmm::host_provider;

hipError_t hipIpcGetEventHandle(hipIpcEventHandle_t* handle, hipEvent_t event) {
  return call(__func__, [&](runtime& machine) {
    require(handle != nullptr && event != nullptr);
    const std::shared_ptr<event_state> given = machine.event(event);
    require(given->shared() != nullptr && !given->is_opened(), machine.rules().unshared_event);
    const exported_event exported{event_tag, given->shared()->exported(),
                                  machine.place_of(given->device())};
    *handle = {};
    std::memcpy(handle, &exported, sizeof(exported));
    return hipSuccess;
  });
}

hipError_t hipIpcOpenEventHandle(hipEvent_t* event, hipIpcEventHandle_t handle) {
  return call(__func__, [&](runtime& machine) {
    require(event != nullptr);
    exported_event exported{};
    std::memcpy(&exported, &handle, sizeof(exported));
    require(exported.tag == event_tag);
    const int device = machine.device_at(exported.place);
    require(machine.has_device(device), hipErrorInvalidDevice);
    require(exported.where.process != getpid(), hipErrorInvalidContext);
    auto opened = std::make_shared<event_state>(
        device, false, std::make_shared<shared_event>(exported.where), true);
    *event = to_handle<hipEvent_t>(machine.events().insert(std::move(opened)));
    return hipSuccess;
  });
}
