// SPDX-License-Identifier: MIT
#include <stdexcept>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "region/sleep/memory_tag.hpp"
#include "runtime/runtime_rules.hpp"

namespace hipvmm::detail {

template <class Copy>
void tag_state::member::cut(Copy copy) const {
  std::size_t offset = bytes_of(contents);
  for (auto one = contents.rbegin(); one != contents.rend(); ++one) {
    for (std::size_t left = one->bytes; left != 0;) {
      const std::size_t part =
          std::min({left, parallel_copies::piece_bytes, saved.longest_before(offset)});
      left -= part;
      offset -= part;
      copy(one->device, static_cast<const std::byte*>(one->address) + left, part, offset);
    }
  }
}

void tag_state::member::submit(parallel_copies& copies) {
  // For fewer bytes an event costs more than the earlier unmap gains.
  constexpr std::size_t least_bytes = 8 * MiB;
  const std::byte* marked_end = nullptr;
  std::size_t unmarked = 0;
  const bool events_cover = rules_of_runtime().events_cover_copies;
  const auto mark = [&] {
    if (unmarked != 0 && events_cover) marks.push_back({marked_end, copies.mark()});
    unmarked = 0;
  };
  cut([&](device_ref device, const std::byte* from, std::size_t bytes, std::size_t offset) {
    if (unmarked == 0) marked_end = from + bytes;
    copies.add(device, saved.at(offset), from, bytes);
    unmarked += bytes;
    if (unmarked >= least_bytes) mark();
  });
  mark();
}

void tag_state::member::wait_for_copies(const void* address, copy_jobs& jobs) {
  for (; !marks.empty() && marks.front().end > address; marks.pop_front()) {
    for (const event& each : marks.front().events) each.synchronize();
    jobs.wait_for(marks.front().jobs);
  }
}

void tag_state::require_members_have(const std::vector<suspend_range>& ranges) const {
  for (const suspend_range& each : ranges) {
    const auto* const last = static_cast<const std::byte*>(each.address) + each.bytes - 1;
    if (std::ranges::none_of(members_, [&](const member& one) {
          const auto all = one.who->addresses_of();
          return has_address(all, each.address) && has_address(all, last);
        }))
      throw std::invalid_argument{
          "suspend_options::ranges: the range of " + format_bytes(each.bytes) + " at " +
          address_text(each.address) + " is not memory of one region, vector, pool or arena" +
          " that carries the tag" + (name_.empty() ? "" : " \"" + name_ + "\"")};
  }
}

template <class Found>
void tag_state::each_content(member& one, const sleep_plan& plan,
                             const chunks_that_stay_mapped& staying, Found found) {
  if (plan.restores_nothing()) return;
  const sleep_plan released{keep::contents, staying.ranges};
  for (const sleeping_range& all : one.who->contents())
    released.cut(all.address, all.bytes, [&](void* from, std::size_t length, keep kept) {
      if (kept == keep::nothing) return;
      plan.cut(from, length, [&](void* address, std::size_t bytes, keep what) {
        if (what != keep::nothing) found(sleeping_range{address, bytes, all.device}, what);
      });
    });
}

void tag_state::choose_contents(const sleep_plan& plan) {
  for (member& each : members_) {
    chunks_that_stay_mapped staying = each.who->staying(plan);
    each_content(each, plan, staying, [&](const sleeping_range& part, keep what) {
      (what == keep::zeros ? each.zeros : each.contents).push_back(part);
    });
    const std::lock_guard lock{mutex_};
    std::swap(each.staying, staying);
  }
}

std::size_t tag_state::pin_host_memory(const sleep_plan& plan) {
  std::vector<sleeping_range> needed;  // one for each member, without an address
  std::size_t all = 0;
  for (member& each : members_) {
    sleeping_range& sum = needed.emplace_back(sleeping_range{nullptr, 0, device_ref{0}});
    each_content(each, plan, each.who->staying(plan), [&](const sleeping_range& part, keep kept) {
      if (kept != keep::zeros) sum = {nullptr, sum.bytes + part.bytes, part.device};
    });
    all += sum.bytes;
    each.copied.clear();
    each.bytes_kept = each.saved.bytes();
  }
  auto next = needed.begin();
  try {
    for (member& each : members_) {
      each.saved.grow(next->bytes, next->device);
      ++next;
    }
  } catch (const std::exception& failure) {
    for (member& each : members_) each.forget();
    const bool names_bytes = dynamic_cast<const out_of_memory*>(&failure) != nullptr ||
                             dynamic_cast<const hip_error*>(&failure) != nullptr;
    if (!names_bytes) throw;  // std::bad_alloc
    throw_with_context(
        "prepare_suspend: " + format_bytes(all) + " of the host were to be pinned for the tag" +
        (name_.empty() ? "" : " \"" + name_ + "\"") +
        ", which has as much as before: free memory of the host, or suspend without it to "
        "sleep_storage::pageable or file");
  }
  next = needed.begin();
  std::size_t pinned_bytes = 0;
  for (member& each : members_) {
    each.saved.shrink(next++->bytes);
    pinned_bytes += each.saved.bytes();
  }
  return pinned_bytes;
}

void tag_state::save_contents(sleep_storage storage, bool is_unchanged, copy_jobs& jobs) {
  const bool is_pinned = storage != sleep_storage::pageable;
  for (member& each : members_) {
    if (!is_pinned) {
      each.saved = {};  // before there is more
      each.copied.clear();
      each.bytes_kept = 0;
    }
    if (each.contents.empty()) continue;
    std::optional<device_ref> user;
    if (is_pinned) user = each.contents.front().device;
    each.saved.grow(bytes_of(each.contents), user);
  }
  for (member& each : members_) {
    if (is_pinned) {
      if (!is_unchanged || !each.has_copy()) each.submit(copies_);
      each.copied.clear();
      continue;
    }
    each.cut([&](device_ref device, const std::byte* from, std::size_t bytes, std::size_t offset) {
      jobs.add([this, device, to = each.saved.at(offset), from, bytes] {
        copies_.add(device, to, from, bytes);
        for (const event& behind : copies_.mark()) behind.synchronize();
      });
      each.marks.push_back({from + bytes, {}, jobs.added()});
    });
  }
  if (rules_of_runtime().events_cover_copies) return;
  jobs.wait_for(jobs.added());
  copies_.finish();
  for (member& each : members_) each.marks.clear();
}

void tag_state::save_to_files(const std::string& folder, slow_copies& slow) {
  // First, to find a full disk before anything is copied.
  for (member& each : members_) {
    each.file = backup_file{folder, bytes_of(each.contents)};
  }
  for (member& each : members_) {
    each.cut([&](device_ref device, const std::byte* from, std::size_t bytes, std::size_t offset) {
      slow.jobs.add([&to = slow.files, &file = each.file, device, from, bytes, offset] {
        to.save(device, from, bytes, file, offset);
      });
      // There are two buffers: the job after the next takes this one, and writes this piece before.
      each.marks.push_back({from + bytes, {}, slow.jobs.added() + 2});
    });
  }
  slow.jobs.add([&to = slow.files] { to.finish(); });
}

}  // namespace hipvmm::detail
