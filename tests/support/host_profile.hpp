// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

namespace hipvmm::test {

/// The release that the host provider imitates (HIPVMM_HOST_PROFILE).
inline std::string_view host_profile() {
  const char* const value = std::getenv("HIPVMM_HOST_PROFILE");
  return value == nullptr ? "strict" : value;
}

/// A rule by which some profiles differ from strict, in words, and which they are. One for each
/// line of docs/reference/providers.md, "Profiles", that a test has to know of.
struct profile_quirk {
  const char* what;
  std::array<std::string_view, 7> profiles;  // empty names beyond the last

  [[nodiscard]] bool holds() const {
    for (const std::string_view each : profiles) {
      if (each == host_profile()) return true;
    }
    return false;
  }
};

namespace quirks {

inline constexpr profile_quirk no_virtual_memory{"there is no virtual memory management",
                                                 {"rocm-5.7"}};
inline constexpr profile_quirk no_sharing{"chunks cannot be shared", {"rocm-5.7"}};
inline constexpr profile_quirk alignment_ignored{
    "reservations ignore the alignment",
    {"rocm-6.2", "rocm-6.4", "rocm-7.1", "rocm-7.2", "rocm-7.14"}};
inline constexpr profile_quirk reserve_out_of_memory{
    "bad sizes of reservations are hipErrorOutOfMemory", {"rocm-5.7", "rocm-6.2", "rocm-6.4"}};
inline constexpr profile_quirk free_ignores_size{
    "hipMemAddressFree ignores the size",
    {"rocm-6.2", "rocm-6.4", "rocm-7.1", "rocm-7.2", "rocm-7.14"}};
inline constexpr profile_quirk addresses_forgotten_late{
    "addresses are forgotten some time after they are freed", {"rocm-6.2", "rocm-6.4"}};
inline constexpr profile_quirk mapped_addresses_are_lost{
    "hipMemAddressFree gives up addresses that are mapped", {"rocm-6.2"}};
inline constexpr profile_quirk mapped_addresses_are_unknown{
    "hipMemAddressFree calls mapped addresses hipErrorUnknown",
    {"rocm-6.4", "rocm-7.1", "rocm-7.2", "rocm-7.14"}};
inline constexpr profile_quirk unknown_addresses_crash{
    "addresses that HIP does not know are followed", {"rocm-6.2", "rocm-6.4", "rocm-7.2"}};
inline constexpr profile_quirk stale_handles_crash{
    "handles that are not alive are followed",
    {"rocm-5.7", "rocm-6.2", "rocm-6.4", "rocm-7.1", "rocm-7.2", "rocm-7.14"}};
inline constexpr profile_quirk bad_device_is_value{
    "hipMemCreate on no device is hipErrorInvalidValue", {"rocm-5.7", "rocm-6.2", "rocm-6.4"}};
inline constexpr profile_quirk chunks_take_descriptors{"every chunk takes a descriptor",
                                                       {"rocm-7.14"}};
inline constexpr profile_quirk map_reports_success{
    "hipMemMap reports success when it fails", {"rocm-6.2", "rocm-6.4", "rocm-7.1", "rocm-7.2"}};
inline constexpr profile_quirk whole_chunks_only{"a chunk can only be mapped whole", {"cuda-13"}};
inline constexpr profile_quirk one_unmap_each{
    "each mapping must be unmapped alone, and no size is checked", {"rocm-6.2", "rocm-6.4"}};
inline constexpr profile_quirk null_stream_is_waited_for{
    "hipMemMap and hipMemUnmap wait for the null stream",
    {"rocm-6.2", "rocm-6.4", "rocm-7.1", "rocm-7.2"}};
inline constexpr profile_quirk unmap_waits{"hipMemUnmap waits for all streams", {"rocm-7.14"}};
inline constexpr profile_quirk memory_kept{"memory goes back only with the addresses",
                                           {"rocm-6.2", "rocm-6.4", "rocm-7.1", "rocm-7.2"}};
inline constexpr profile_quirk no_tail_access{"a mapping behind another cannot be granted alone",
                                              {"rocm-7.1", "rocm-7.2"}};
inline constexpr profile_quirk lax_access{
    "hipMemSetAccess looks at no place and not at the end of the range", {"rocm-6.2", "rocm-6.4"}};
inline constexpr profile_quirk access_one_by_one{
    "entries before a bad one are applied",
    {"rocm-6.2", "rocm-6.4", "rocm-7.1", "rocm-7.2", "rocm-7.14"}};
inline constexpr profile_quirk unlinked_is_value{
    "access without a link is hipErrorInvalidValue",
    {"rocm-6.2", "rocm-6.4", "rocm-7.1", "rocm-7.2", "rocm-7.14"}};
inline constexpr profile_quirk host_may_not_touch{"host code may not touch mapped memory",
                                                  {"cuda-13"}};
inline constexpr profile_quirk host_has_memory{"the host is a place for chunks",
                                               {"rocm-7.2", "rocm-7.14", "cuda-13"}};
inline constexpr profile_quirk retain_adds_nothing{
    "hipMemRetainAllocationHandle takes no reference", {"rocm-6.2", "rocm-6.4", "rocm-7.2"}};
inline constexpr profile_quirk descriptor_by_address{
    "chunks are imported by a pointer to the descriptor", {"rocm-6.2", "rocm-6.4"}};
inline constexpr profile_quirk one_import_form{
    "descriptors are taken in one form only",
    {"rocm-5.7", "rocm-6.2", "rocm-6.4", "rocm-7.1", "rocm-7.2", "rocm-7.14", "cuda-13"}};
inline constexpr profile_quirk null_is_a_descriptor{"null is descriptor 0", {"cuda-13"}};
inline constexpr profile_quirk imports_to_current{
    "an imported chunk is said to be of the current device",
    {"rocm-6.2", "rocm-6.4", "rocm-7.1", "rocm-7.2"}};
inline constexpr profile_quirk stream_is_value{"pools call a bad stream hipErrorInvalidValue",
                                               {"rocm-5.7"}};
inline constexpr profile_quirk null_free_passes{"hipFreeAsync takes null",
                                                {"rocm-7.1", "rocm-7.2", "rocm-7.14"}};
inline constexpr profile_quirk threshold_ignored{
    "a pool that is mostly idle gives memory back at once",
    {"rocm-6.2", "rocm-6.4", "rocm-7.1", "rocm-7.2", "rocm-7.14"}};
inline constexpr profile_quirk any_reuse{"a stream gets its own memory again, however large",
                                         {"rocm-6.2", "rocm-6.4"}};
inline constexpr profile_quirk never_waits_for_memory{
    "no stream is made to wait for another's free",
    {"rocm-5.7", "rocm-6.2", "rocm-6.4", "rocm-7.1", "rocm-7.2", "rocm-7.14"}};
inline constexpr profile_quirk one_pool_descriptor{
    "every export of a pool is the same descriptor",
    {"rocm-5.7", "rocm-6.2", "rocm-6.4", "rocm-7.1", "rocm-7.2", "rocm-7.14"}};
inline constexpr profile_quirk pool_rights_noted{
    "rights to a pool are noted, not enforced",
    {"rocm-5.7", "rocm-6.2", "rocm-6.4", "rocm-7.1", "rocm-7.2", "rocm-7.14"}};
inline constexpr profile_quirk early_pool_access{
    "a pool's rights cannot be taken away, its own may be reduced, "
    "and entries before a bad one are applied",
    {"rocm-5.7", "rocm-6.2", "rocm-6.4", "rocm-7.2"}};
inline constexpr profile_quirk unknown_pointer_is_memory{
    "an unknown pointer is hipErrorOutOfMemory",
    {"rocm-5.7", "rocm-6.2", "rocm-6.4", "rocm-7.1", "rocm-7.2", "rocm-7.14"}};
inline constexpr profile_quirk stream_is_context{
    "managed memory calls a bad stream "
    "hipErrorContextIsDestroyed",
    {"rocm-5.7", "rocm-6.2", "rocm-6.4", "rocm-7.1", "rocm-7.2", "rocm-7.14"}};
inline constexpr profile_quirk itself_unchecked{
    "a device is not its own peer, whether it exists or not",
    {"rocm-5.7", "rocm-6.2", "rocm-6.4", "rocm-7.1", "rocm-7.2", "rocm-7.14"}};
inline constexpr profile_quirk unmap_passes_holes{"hipMemUnmap takes ranges with holes",
                                                  {"cuda-13"}};
inline constexpr profile_quirk foreign_is_unknown{
    "a descriptor of something else is hipErrorUnknown", {"cuda-13"}};
inline constexpr profile_quirk no_peer_read_only{"a pool cannot be opened for reading only",
                                                 {"cuda-13"}};
inline constexpr profile_quirk other_pool_is_value{
    "a pool of another device is hipErrorInvalidValue", {"cuda-13"}};
inline constexpr profile_quirk mark_is_use{"a high mark that is reset is what is in use",
                                           {"cuda-13"}};
inline constexpr profile_quirk tells_mapped{
    "pinned memory is told as mapped, without flags of no effect", {"cuda-13"}};
inline constexpr profile_quirk exports_from_inside{
    "hipIpcGetMemHandle takes any address",
    {"rocm-5.7", "rocm-6.2", "rocm-6.4", "rocm-7.1", "rocm-7.2", "rocm-7.14", "cuda-13"}};
inline constexpr profile_quirk end_costs_capture{
    "an end by another stream or thread costs the capture", {"cuda-13"}};
inline constexpr profile_quirk captured_frees_refused{
    "what waits for all devices is not freed while a stream is captured", {"cuda-13"}};
inline constexpr profile_quirk waits_look_at_one_device{
    "a capture on another device does not forbid to wait, nor does one that is lost", {"cuda-13"}};
inline constexpr profile_quirk captures_allow_waits{
    "a capture does not forbid to wait for a device", {"rocm-5.7"}};
inline constexpr profile_quirk ending_streams_overlooked{
    "a wait for a device overlooks streams that another thread is destroying",
    {"rocm-5.7", "rocm-6.2", "rocm-6.4", "rocm-7.1", "rocm-7.2", "rocm-7.14"}};
inline constexpr profile_quirk ranks_in_order{"links are ranked in order", {"cuda-13"}};
inline constexpr profile_quirk owner_copies{
    "copies between the host and a chunk go by the rights of its owner", {"rocm-6.2", "rocm-6.4"}};
inline constexpr profile_quirk unknown_pointer_is_error{
    "memory that HIP does not know has no attributes", {"rocm-5.7"}};
inline constexpr profile_quirk success_clears_error{"success clears the last error",
                                                    {"rocm-5.7", "rocm-6.2", "rocm-6.4"}};
inline constexpr profile_quirk imports_lend_nothing{
    "an imported pool gives no memory and no rights", {"cuda-13"}};
inline constexpr profile_quirk version_of_its_own{
    "the version is that of the release",
    {"rocm-5.7", "rocm-6.2", "rocm-6.4", "rocm-7.1", "rocm-7.2", "rocm-7.14", "cuda-13"}};

}  // namespace quirks

/// What a call gives where the quirk holds, and elsewhere.
template <class Code>
Code under(const profile_quirk& which, Code there, Code elsewhere) {
  return which.holds() ? there : elsewhere;
}

/// Whether the host provider judges the order of work (HIPVMM_HOST_CHECK).
inline bool order_checker_is_on() {
  const char* const value = std::getenv("HIPVMM_HOST_CHECK");
  return value != nullptr && std::string_view{value} == "1";
}

}  // namespace hipvmm::test

/// Ends the case where the order checker is on, saying what of it the case cannot bear.
#define HIPVMM_SKIP_UNDER_ORDER_CHECKER(why)             \
  do {                                                   \
    if (::hipvmm::test::order_checker_is_on()) {         \
      MESSAGE("skipped under the order checker: ", why); \
      return;                                            \
    }                                                    \
  } while (false)

/// Ends the case, saying why in the quirk's words and by its name, where the profile has it.
#define HIPVMM_SKIP_UNDER(name)                                                    \
  do {                                                                             \
    if (::hipvmm::test::quirks::name.holds()) {                                    \
      MESSAGE("skipped under ", std::string{::hipvmm::test::host_profile()}, ": ", \
              std::string{::hipvmm::test::quirks::name.what}, " (" #name ")");     \
      return;                                                                      \
    }                                                                              \
  } while (false)
