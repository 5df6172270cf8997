// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace hipvmm::test {

/// The release that the host provider imitates (HIPVMM_HOST_PROFILE).
inline std::string_view host_profile() {
  const char* const value = std::getenv("HIPVMM_HOST_PROFILE");
  return value == nullptr ? "strict" : value;
}

/// A rule by which some profiles differ from strict, in words, and which they are. One for each
/// line of providers/host/docs/profile_answers.md that a test has to know of.
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
inline constexpr profile_quirk alignment_ignored{
    "reservations ignore the alignment",
    {"rocm-6.2", "rocm-6.4", "rocm-7.1", "rocm-7.2", "rocm-7.14", "rocm-10"}};
inline constexpr profile_quirk addresses_forgotten_late{
    "addresses are forgotten some time after they are freed", {"rocm-6.2", "rocm-6.4"}};
inline constexpr profile_quirk chunks_take_descriptors{"every chunk takes a descriptor",
                                                       {"rocm-7.14"}};
inline constexpr profile_quirk map_reports_success{
    "hipMemMap reports success when it fails", {"rocm-6.2", "rocm-6.4", "rocm-7.1", "rocm-7.2"}};
inline constexpr profile_quirk null_stream_is_waited_for{
    "hipMemMap and hipMemUnmap wait for the null stream",
    {"rocm-6.2", "rocm-6.4", "rocm-7.1", "rocm-7.2"}};
inline constexpr profile_quirk unmap_waits{"hipMemUnmap waits for all streams",
                                           {"rocm-7.14", "rocm-10"}};
inline constexpr profile_quirk memory_kept{"memory goes back only with the addresses",
                                           {"rocm-6.2", "rocm-6.4", "rocm-7.1", "rocm-7.2"}};
inline constexpr profile_quirk no_tail_access{"a mapping behind another cannot be granted alone",
                                              {"rocm-7.1", "rocm-7.2"}};
inline constexpr profile_quirk host_may_not_touch{
    "host code may not touch mapped memory",
    {"rocm-6.2", "rocm-6.4", "rocm-7.1", "rocm-7.2", "rocm-7.14", "rocm-10", "cuda-13"}};
inline constexpr profile_quirk early_pool_access{
    "a pool's rights cannot be taken away, its own may be reduced, "
    "and entries before a bad one are applied",
    {"rocm-5.7", "rocm-6.2", "rocm-6.4", "rocm-7.2"}};
inline constexpr profile_quirk unmap_passes_holes{"hipMemUnmap takes ranges with holes",
                                                  {"cuda-13"}};
inline constexpr profile_quirk no_peer_read_only{"a pool cannot be opened for reading only",
                                                 {"cuda-13"}};
inline constexpr profile_quirk captures_allow_waits{
    "a capture does not forbid to wait for a device", {"rocm-5.7"}};
inline constexpr profile_quirk ending_streams_overlooked{
    "a wait for a device overlooks streams that another thread is destroying",
    {"rocm-5.7", "rocm-6.2", "rocm-6.4", "rocm-7.1", "rocm-7.2", "rocm-7.14", "rocm-10"}};
inline constexpr profile_quirk grants_move_pages{"a right for a peer after the owner's moves pages",
                                                 {"rocm-7.14", "rocm-10"}};
inline constexpr profile_quirk owner_copies{
    "copies between the host and a chunk go by the rights of its owner", {"rocm-6.2", "rocm-6.4"}};
inline constexpr profile_quirk copies_need_no_right{
    "a copy between devices needs no right, nor the right name of a device",
    {"rocm-7.1", "rocm-7.2", "rocm-7.14", "rocm-10"}};
inline constexpr profile_quirk success_clears_error{"success clears the last error",
                                                    {"rocm-5.7", "rocm-6.2", "rocm-6.4"}};

}  // namespace quirks

/// The result of a call if the quirk holds, and elsewhere.
template <class Code>
Code under(const profile_quirk& which, Code there, Code elsewhere) {
  return which.holds() ? there : elsewhere;
}

/// The environment of a case that copies many chunks, with a process of its own: smaller ones if
/// the profile has 2 MiB, because most of its time is the kernel's, which clears them.
inline std::vector<std::string> with_small_chunks(std::string_view profile = host_profile()) {
  if (profile != "strict" && profile != "cuda-13") return {};
  return {"HIPVMM_HOST_GRANULARITY=64KiB"};
}

/// Whether the host provider judges the order of work (HIPVMM_HOST_CHECK).
inline bool order_checker_is_on() {
  const char* const value = std::getenv("HIPVMM_HOST_CHECK");
  return value != nullptr && std::string_view{value} == "1";
}

}  // namespace hipvmm::test

/// Ends the case if the order checker is on, saying why.
#define HIPVMM_SKIP_UNDER_ORDER_CHECKER(why)             \
  do {                                                   \
    if (::hipvmm::test::order_checker_is_on()) {         \
      MESSAGE("skipped under the order checker: ", why); \
      return;                                            \
    }                                                    \
  } while (false)

/// Ends the case, saying why in the quirk's words and by its name, if the profile has it.
#define HIPVMM_SKIP_UNDER(name)                                                    \
  do {                                                                             \
    if (::hipvmm::test::quirks::name.holds()) {                                    \
      MESSAGE("skipped under ", std::string{::hipvmm::test::host_profile()}, ": ", \
              std::string{::hipvmm::test::quirks::name.what}, " (" #name ")");     \
      return;                                                                      \
    }                                                                              \
  } while (false)
