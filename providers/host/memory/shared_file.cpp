// SPDX-License-Identifier: MIT
#include "memory/shared_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <string>

#include "base/failure.hpp"
#include "memory/process_memory.hpp"

namespace hipvmm::host_provider {
namespace {

constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// No pointer is this small, and no descriptor this large: the kernel's own limit is 2^20 unless
// raised.
constexpr std::uintptr_t descriptor_values_end = std::uintptr_t{65536} * 16;

std::string name_prefix(std::string_view kind) {
  return "hipvmm-" + std::string{kind} + "-of-device-";
}

int place_in_name(int file, std::string_view kind, hipError_t refusal) {
  std::array<char, 96> target{};
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  const ssize_t length = readlink(link.c_str(), target.data(), target.size());
  require(length > 0, refusal);
  std::string_view name{target.data(), static_cast<std::size_t>(length)};
  const std::string before = "/memfd:" + name_prefix(kind);
  constexpr std::string_view after = " (deleted)";
  require(name.starts_with(before) && name.ends_with(after), refusal);
  name.remove_prefix(before.size());
  name.remove_suffix(after.size());
  int place = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), place);
  require(error == std::errc{} && end == name.data() + name.size(), refusal);
  return place;
}

}  // namespace

descriptor shared_file::create(std::string_view kind, int place, std::size_t bytes) {
  const std::string name = name_prefix(kind) + std::to_string(place);
  descriptor file{memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  require(file.get() >= 0, error_of_errno(errno));
  require(ftruncate(file.get(), static_cast<off_t>(bytes)) == 0, error_of_errno(errno));
  require(fcntl(file.get(), F_ADD_SEALS, seals) == 0, error_of_errno(errno));
  return file;
}

shared_file shared_file::identify(int file, std::string_view kind, int places, hipError_t refusal) {
  const int place = place_in_name(file, kind, refusal);
  require(place >= 0 && place < places, refusal);
  require((fcntl(file, F_GET_SEALS) & seals) == seals, refusal);
  struct stat status {};
  require(fstat(file, &status) == 0, refusal);
  return {place, static_cast<std::size_t>(status.st_size), status.st_ino};
}

int descriptor_from(void* os_handle, import_form form, descriptor_zero zero) {
  require(os_handle != nullptr || zero == descriptor_zero::taken);
  const auto value = reinterpret_cast<std::uintptr_t>(os_handle);
  const bool is_value = value < descriptor_values_end;
  if (form == import_form::pointer && is_value) {
    throw crash{"follows the descriptor's value as a pointer to it", "ROCm/rocm-systems#11020"};
  }
  if (form == import_form::value || is_value) return static_cast<int>(value);
  int descriptor = -1;
  const bool is_readable = read_memory(value, &descriptor, sizeof(descriptor));
  if (form == import_form::pointer && !is_readable) {
    throw crash{"follows a pointer to the descriptor where there is no memory",
                "ROCm/clr to 7.0, hip_vm.cpp"};
  }
  require(is_readable);
  return descriptor;
}

descriptor duplicate(int file) {
  descriptor copy{fcntl(file, F_DUPFD_CLOEXEC, 0)};
  require(copy.get() >= 0, error_of_errno(errno));
  return copy;
}

}  // namespace hipvmm::host_provider
