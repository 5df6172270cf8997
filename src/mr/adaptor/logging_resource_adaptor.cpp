// SPDX-License-Identifier: MIT
#include <hipvmm/mr/adaptor/logging_resource_adaptor.hpp>

#include <stdlib.h>

#include <ostream>
#include <stdexcept>

#include "core/environment.hpp"
#include "mr/adaptor/csv_log.hpp"

namespace hipvmm::mr {

logging_resource_adaptor::logging_resource_adaptor(memory_resource* upstream,
                                                   const std::string& filename, bool auto_flush)
    : resource_adaptor{"logging_resource_adaptor", upstream},
      log_{std::make_unique<csv_log>(filename, auto_flush)} {}

logging_resource_adaptor::logging_resource_adaptor(memory_resource* upstream, std::ostream& stream,
                                                   bool auto_flush)
    : resource_adaptor{"logging_resource_adaptor", upstream},
      log_{std::make_unique<csv_log>(stream, auto_flush)} {}

logging_resource_adaptor::~logging_resource_adaptor() {
  if (is_of_parent()) static_cast<void>(log_.release());  // the parent writes its rows
}

void logging_resource_adaptor::flush() {
  require_own_process();
  log_->flush();
}

std::string logging_resource_adaptor::header() const { return std::string{csv_log::header}; }

std::string logging_resource_adaptor::get_default_filename() {
  for (const char* const variable : {"HIPVMM_LOG_FILE", "RMM_LOG_FILE"})
    if (const char* const name = detail::environment(variable); name != nullptr && *name != '\0')
      return name;
  throw std::invalid_argument{
      "logging_resource_adaptor: no file to log to: pass its name, or set HIPVMM_LOG_FILE (or "
      "RMM_LOG_FILE) in the environment"};
}

// The row of an allocation follows it, and the row of a free precedes the upstream's, so that no
// row overtakes the one that it depends on.
void* logging_resource_adaptor::do_allocate_any(const request& wanted) {
  const stream_ref stream = wanted.stream.value_or(stream_ref::legacy_default());
  void* result = nullptr;
  try {
    result = resource_adaptor::do_allocate_any(wanted);
  } catch (...) {
    log_->add("allocate failure", nullptr, wanted.bytes, stream);
    throw;
  }
  log_->add("allocate", result, wanted.bytes, stream);
  return result;
}

void logging_resource_adaptor::do_deallocate_any(void* pointer, const request& freed) noexcept {
  log_->add("free", pointer, freed.bytes, freed.stream.value_or(stream_ref::legacy_default()));
  resource_adaptor::do_deallocate_any(pointer, freed);
}

}  // namespace hipvmm::mr
