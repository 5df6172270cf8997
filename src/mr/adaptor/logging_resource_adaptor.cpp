// SPDX-License-Identifier: MIT
#include <hipvmm/mr/adaptor/logging_resource_adaptor.hpp>

#include <stdlib.h>

#include <ostream>
#include <stdexcept>
#include <utility>

#include "core/environment.hpp"
#include "mr/adaptor/csv_log.hpp"

namespace hipvmm::mr {
namespace {

/// Logs the result or exception of `allocate`. The row of an allocation follows it, and the row of
/// a free precedes the upstream's, so that no row overtakes the one that it depends on.
template <typename Allocate>
void* logged(csv_log& log, Allocate allocate, stream_ref stream, std::size_t bytes) {
  void* result = nullptr;
  try {
    result = allocate();
  } catch (...) {
    log.add("allocate failure", nullptr, bytes, stream);
    throw;
  }
  log.add("allocate", result, bytes, stream);
  return result;
}

}  // namespace

logging_resource_adaptor::logging_resource_adaptor(memory_resource* upstream,
                                                   const std::string& filename, bool auto_flush)
    : resource_adaptor{"logging_resource_adaptor", upstream},
      log_{std::make_unique<csv_log>(header(), filename, auto_flush)} {}

logging_resource_adaptor::logging_resource_adaptor(memory_resource* upstream, std::ostream& stream,
                                                   bool auto_flush)
    : resource_adaptor{"logging_resource_adaptor", upstream},
      log_{std::make_unique<csv_log>(header(), stream, auto_flush)} {}

logging_resource_adaptor::~logging_resource_adaptor() = default;

void logging_resource_adaptor::flush() { log_->flush(); }

std::string logging_resource_adaptor::header() const {
  return "Thread,Time,Action,Pointer,Size,Stream";
}

std::string logging_resource_adaptor::get_default_filename() {
  for (const char* const variable : {"HIPVMM_LOG_FILE", "RMM_LOG_FILE"})
    if (const char* const name = detail::environment(variable); name != nullptr && *name != '\0')
      return name;
  throw std::invalid_argument{
      "logging_resource_adaptor: no file to log to: pass its name, or set HIPVMM_LOG_FILE (or "
      "RMM_LOG_FILE) in the environment"};
}

void* logging_resource_adaptor::do_allocate(stream_ref stream, std::size_t bytes,
                                            std::size_t alignment) {
  return logged(
      *log_, [&] { return resource_adaptor::do_allocate(stream, bytes, alignment); }, stream,
      bytes);
}

void logging_resource_adaptor::do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                                             std::size_t alignment) noexcept {
  log_->add("free", pointer, bytes, stream);
  resource_adaptor::do_deallocate(stream, pointer, bytes, alignment);
}

void* logging_resource_adaptor::do_allocate_sync(std::size_t bytes, std::size_t alignment) {
  return logged(
      *log_, [&] { return resource_adaptor::do_allocate_sync(bytes, alignment); },
      stream_ref::legacy_default(), bytes);
}

void logging_resource_adaptor::do_deallocate_sync(void* pointer, std::size_t bytes,
                                                  std::size_t alignment) noexcept {
  log_->add("free", pointer, bytes, stream_ref::legacy_default());
  resource_adaptor::do_deallocate_sync(pointer, bytes, alignment);
}

}  // namespace hipvmm::mr
