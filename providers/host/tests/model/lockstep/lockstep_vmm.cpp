// SPDX-License-Identifier: MIT
// The calls of virtual memory management in lockstep.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lockstep.hpp"
#include "provider_calls.hpp"

namespace hipvmm::test::model {
namespace {

bool are_free(address start, std::size_t bytes) {
  void* const got =
      ::mmap(pointer_to(start), bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (got == MAP_FAILED) return false;
  ::munmap(got, bytes);
  return got == pointer_to(start);
}

}  // namespace

address lockstep::wish_of(const operation& each) {
  const address wish = slots_.resolve(each.at);
  if (use_ != provider_use::runtime || wish != 0 || !model_.rules().has_virtual_memory) return wish;
  arena_end_ += 2 * arena_step;
  return arena_end_ - arena_step;
}

void lockstep::reserve(const operation& each) {
  const address wish = wish_of(each);
  const verdict expected =
      model_.reserve(each.has_result, each.bytes, each.offset, each.flags, wish);
  const std::size_t unit = std::max(model_.of().granularity, std::size_t{each.offset});
  // Below this the system decides, which keeps some of it from ordinary mappings.
  constexpr address lowest = address{1} << 20U;
  const bool is_granted = use_ != provider_use::shared && expected.takes_effect() &&
                          wish >= lowest && wish % unit == 0 && are_free(wish, each.bytes);
  void* start = nullptr;
  if (!judge(expected, hipMemAddressReserve(each.has_result ? &start : nullptr, each.bytes,
                                            each.offset, pointer_to(wish), each.flags)))
    return;
  const address given = address_of(start);
  if (given % model_.of().granularity != 0) differ("addresses that start inside a granule");
  if (model_.rules().reserve_honours_alignment && each.offset != 0 && given % each.offset != 0)
    differ("addresses without the alignment");
  if (model_.overlaps_anything(given, each.bytes)) differ("addresses that are taken");
  if (is_granted && given != wish) differ("addresses other than those wished for, which are free");
  model_.reserved(given, each.bytes);
  slots_.reservations[each.slot] = {given, each.bytes};
}

void lockstep::address_free(const operation& each) {
  const address at = slots_.resolve(each.at);
  const verdict expected = model_.free_addresses(at, each.bytes);
  if (use_ == provider_use::runtime) outlast_commands();
  const hipError_t given = hipMemAddressFree(pointer_to(at), each.bytes);
  if (judge(expected, given)) {
    model_.addresses_freed(at);
  } else if (given == hipSuccess && !difference_ && model_.is_reservation(at)) {
    model_.addresses_lost(at);
  }
}

void lockstep::create(const operation& each) {
  // Threads beside each other share a budget, which is made for memory of the devices that are
  // named.
  const int chosen = use_ == provider_use::shared ? each.device : each.peer;
  const int current = exists(chosen) ? chosen : 0;
  use_device(current);
  const create_arguments wanted{each.has_result,  each.has_argument,  each.bytes,
                                each.type,        each.location_type, each.device,
                                each.handle_type, each.flags};
  const verdict expected = model_.create(wanted, current);
  handle made = nullptr;
  if (!judge(expected, create_chunk(wanted, made))) return;
  if (model_.find(made) != nullptr) return differ("a handle that names another chunk");
  model_.created(made, wanted, current);
  slots_.handles[each.slot] = made;
}

void lockstep::release(const operation& each) {
  const handle of = handle_of(each.slot);
  if (judge(model_.release(of), hipMemRelease(of))) model_.released(of);
}

void lockstep::map(const operation& each) {
  const address at = slots_.resolve(each.at);
  const handle of = handle_of(each.slot);
  if (judge(model_.map(at, each.bytes, each.offset, of, each.flags),
            hipMemMap(pointer_to(at), each.bytes, each.offset, of, each.flags)))
    model_.mapped(at, each.bytes, of);
}

void lockstep::unmap(address at, std::size_t bytes) {
  if (judge(model_.unmap(at, bytes), hipMemUnmap(pointer_to(at), bytes)))
    model_.unmapped(at, bytes);
}

void lockstep::set_access(address at, std::size_t bytes, const access_entry* entries,
                          std::size_t count) {
  const bool has_effect =
      judge(model_.set_access(at, bytes, entries, count), give_access(at, bytes, entries, count));
  const bool is_part = model_.rules().access_applies_until_bad && entries != nullptr;
  if (has_effect || is_part) model_.access_set(at, bytes, entries, count);
}

void lockstep::get_access(const operation& each) {
  const address at = slots_.resolve(each.at);
  const access_entry location{each.location_type, each.device, 0};
  const verdict expected =
      model_.get_access(each.has_result, each.has_argument ? &location : nullptr, at);
  unsigned long long flags = 99;
  if (!judge(expected, ask_access(each.has_result ? &flags : nullptr,
                                  each.has_argument ? &location : nullptr, at)))
    return;
  const mapping* const asked = model_.mapping_at(at);
  if (!model_.rules().has_virtual_memory) {
    if (flags != 99) differ("a right");
    return;
  }
  const int right =
      asked == nullptr ? hipMemAccessFlagsProtNone : model_.right_of(*asked, each.device);
  if (flags != static_cast<unsigned long long>(right))
    differ("the right " + std::to_string(flags) + ", the model says " + std::to_string(right));
}

void lockstep::retain(const operation& each) {
  const address at = slots_.resolve(each.at);
  handle given = nullptr;
  if (!judge(model_.retain(each.has_result, at),
             hipMemRetainAllocationHandle(each.has_result ? &given : nullptr, pointer_to(at))))
    return;
  if (given != model_.retained(at)) differ("a handle of another chunk");
  slots_.handles[each.slot] = given;
}

void lockstep::properties(const operation& each) {
  const handle of = handle_of(each.slot);
  hipMemAllocationProp given{};
  if (!judge(model_.properties(each.has_result, of),
             hipMemGetAllocationPropertiesFromHandle(each.has_result ? &given : nullptr, of)))
    return;
  const chunk& made = *model_.find(of);
  if (static_cast<int>(given.type) != made.told.type ||
      static_cast<int>(given.requestedHandleType) != made.told.handle_type ||
      static_cast<int>(given.location.type) != made.told.location_type ||
      given.location.id != made.told.device)
    differ("properties other than those the chunk was made with");
}

void lockstep::export_handle(const operation& each) {
  const handle of = handle_of(each.source);
  int given = -1;
  if (!judge(model_.export_handle(each.has_result, of, each.handle_type, each.flags),
             export_chunk(each.has_result ? &given : nullptr, of, each.handle_type, each.flags)))
    return;
  close_descriptor(each.slot);
  if (use_ != provider_use::runtime && (::fcntl(given, F_GETFD) & FD_CLOEXEC) == 0)
    differ("a descriptor that is not closed on exec");
  model_.exported(of, given);
  slots_.descriptors[each.slot] = given;
}

void lockstep::import_handle(const operation& each) {
  constexpr int never_open = 987654;
  int number = slots_.descriptors[each.source];
  if (each.how == passed::not_open || number < 0) number = never_open;
  if (each.how == passed::another_file) number = null_file_;
  using convention = model_rules::convention;
  const model_rules& rules = model_.rules();
  const bool is_null = each.how == passed::as_null;
  const bool is_pointer =
      each.how == passed::as_pointer ||
      (rules.descriptors == convention::pointer && each.how != passed::as_value && !is_null);
  void* os_handle = pointer_to(static_cast<address>(number));
  if (is_pointer) os_handle = &number;
  if (is_null) os_handle = nullptr;
  std::optional<int> named = number;
  if (is_null) named = rules.null_is_descriptor_zero ? std::optional{0} : std::nullopt;
  // The address of a variable is no descriptor.
  if (is_pointer && rules.descriptors == convention::value) named.reset();
  use_device(each.device);
  const verdict expected = model_.import_handle(each.has_result, named, each.handle_type);
  handle made = nullptr;
  if (!judge(expected,
             import_chunk(each.has_result ? &made : nullptr, os_handle, each.handle_type)))
    return;
  if (model_.find(made) != nullptr) return differ("a handle that names another chunk");
  model_.imported(made, *named, each.handle_type, each.device);
  slots_.handles[each.slot] = made;
}

void lockstep::close_descriptor(std::uint8_t slot) {
  int& number = slots_.descriptors[slot];
  if (number < 0) return;
  model_.closed(number);
  ::close(number);
  number = -1;
}

}  // namespace hipvmm::test::model
