// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/idle/pressure_subscription.hpp>

#include <stdexcept>
#include <string>
#include <utility>

#include "core/owner_process.hpp"
#include "vmm/idle/memory_changes.hpp"
#include "vmm/idle/pressure_watch.hpp"
#include "vmm/idle/pressure_watches.hpp"

namespace hipvmm {
namespace {

void require_valid(const pressure_options& options) {
  const auto is_fraction = [](double value) { return value >= 0 && value <= 1; };
  for (const double each :
       {options.low.fraction, options.high.fraction, options.critical.fraction, options.hysteresis})
    if (!is_fraction(each))
      throw std::invalid_argument{"pressure_options: a fraction is " + std::to_string(each) +
                                  ", and is to be from 0 to 1"};
  if (options.interval < options.interval.zero() || options.interval > std::chrono::hours{24})
    throw std::invalid_argument{"pressure_options::interval is " +
                                std::to_string(options.interval.count()) +
                                " ms, and is to be from 0 to a day"};
}

void deliver_later(detail::pressure_watch& watch) {
  if (!watch.has_notes()) return;
  watch.is_for_thread = true;
  detail::only<detail::pressure_watches>().wake();
}

}  // namespace

pressure_subscription::pressure_subscription(device_ref device, const pressure_options& options)
    : pressure_subscription{device, callback{}, options} {}

pressure_subscription::pressure_subscription(device_ref device, callback receiver,
                                             const pressure_options& options) {
  require_valid(options);
  auto& all = detail::only<detail::pressure_watches>();
  all.require_own();
  require_device(device);
  watch_ = std::make_shared<detail::pressure_watch>(device, std::move(receiver), options);
  all.add(watch_);
  try {
    watch_->look(true);
  } catch (...) {
    end();
    throw;
  }
  deliver_later(*watch_);
  all.wake();  // which learns of the interval
}

pressure_subscription::~pressure_subscription() { end(); }
pressure_subscription::pressure_subscription(pressure_subscription&& other) noexcept = default;

void pressure_subscription::end() noexcept {
  if (!watch_ || watch_->process.is_of_parent()) return;
  detail::only<detail::pressure_watches>().remove(watch_.get());
  watch_->end();
}

detail::pressure_watch& pressure_subscription::live() const {
  if (!watch_) throw std::invalid_argument{"the pressure_subscription is empty: it was moved from"};
  watch_->process.require_own();
  return *watch_;
}

pressure_note pressure_subscription::now() {
  detail::pressure_watch& watch = live();
  const pressure_note made = watch.now();
  deliver_later(watch);
  return made;
}

std::optional<pressure_note> pressure_subscription::wait(std::chrono::milliseconds timeout) {
  return live().take(timeout);
}

std::vector<memory_event> pressure_subscription::reasons() const {
  return detail::only<detail::memory_change_ring>().all_of(live().device);
}

}  // namespace hipvmm
