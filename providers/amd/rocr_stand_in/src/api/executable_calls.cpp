// SPDX-License-Identifier: MIT
// HSA's functions for code objects and executables.
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <string>

#include <hsa/hsa_ext_amd.h>

#include "src/base/call.hpp"
#include "src/base/info.hpp"
#include "src/kernel/code_object.hpp"
#include "src/kernel/kernels.hpp"
#include "src/memory/address_space.hpp"
#include "src/memory/allocations.hpp"

namespace stand_in {
namespace {

struct code_reader {
  const void* file;
  std::size_t bytes;
};

struct loaded_symbol {
  std::string name;
  bool is_kernel;
  std::uint64_t address;
  std::uint64_t bytes;
  std::uint32_t group_bytes = 0;
  std::uint32_t private_bytes = 0;
  std::uint32_t kernarg_bytes = 0;
};

struct executable {
  std::list<loaded_symbol> symbols;
  std::list<std::uint64_t> images;
  std::map<std::string, void*> defined;
};

executable& executable_of(hsa_executable_t handle) {
  return *reinterpret_cast<executable*>(handle.handle);
}

loaded_symbol load_symbol(const code_symbol& from, char* image) {
  loaded_symbol made{from.name, from.is_kernel, address_of(image) + from.offset, from.bytes};
  if (from.is_kernel) {
    // The descriptor begins with these sizes.
    std::memcpy(&made.group_bytes, image + from.offset, 4);
    std::memcpy(&made.private_bytes, image + from.offset + 4, 4);
    std::memcpy(&made.kernarg_bytes, image + from.offset + 8, 4);
  }
  return made;
}

hsa_status_t load(executable& into, agent& on, const code_reader& from) {
  code_image image;
  if (!parse_code_object(from.file, from.bytes, image)) {
    return HSA_STATUS_ERROR_INVALID_CODE_OBJECT;
  }
  const std::uint64_t address = allocate(*on.pools.front(), image.bytes.size());
  if (address == 0) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  auto* const at = static_cast<char*>(pointer_to(address));
  std::memcpy(at, image.bytes.data(), image.bytes.size());
  for (const code_relocation& each : image.relocations) {
    const std::uint64_t value = address + each.addend;
    std::memcpy(at + each.offset, &value, sizeof value);
  }
  into.images.push_back(address);
  for (const code_symbol& each : image.symbols) {
    into.symbols.push_back(load_symbol(each, at));
    if (!each.is_kernel) continue;
    auto made = std::make_shared<kernel>();
    made->name = each.name.substr(0, each.name.size() - 3);
    for (kernel& described : image.kernels) {
      if (described.name == made->name) *made = described;
    }
    add_kernel(into.symbols.back().address, std::move(made));
  }
  return HSA_STATUS_SUCCESS;
}

}  // namespace
}  // namespace stand_in

using namespace stand_in;

extern "C" {

hsa_status_t hsa_code_object_reader_create_from_memory(
    const void* code_object, size_t size, hsa_code_object_reader_t* code_object_reader) {
  ROCR_CALL();
  if (code_object == nullptr || size == 0 || code_object_reader == nullptr) {
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  code_object_reader->handle = address_of(new code_reader{code_object, size});
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_code_object_reader_destroy(hsa_code_object_reader_t code_object_reader) {
  ROCR_CALL();
  delete reinterpret_cast<code_reader*>(code_object_reader.handle);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_executable_create_alt(hsa_profile_t, hsa_default_float_rounding_mode_t,
                                       const char*, hsa_executable_t* made) {
  ROCR_CALL();
  if (made == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  made->handle = address_of(new executable);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_executable_destroy(hsa_executable_t handle) {
  ROCR_CALL();
  const std::unique_ptr<executable> ended(&executable_of(handle));
  for (const std::uint64_t image : ended->images) deallocate(image);
  for (const loaded_symbol& each : ended->symbols) {
    if (each.is_kernel) remove_kernel(each.address);
  }
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_executable_agent_global_variable_define(hsa_executable_t handle, hsa_agent_t,
                                                         const char* variable_name, void* address) {
  ROCR_CALL();
  if (variable_name == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  if (!executable_of(handle).defined.emplace(variable_name, address).second) {
    return HSA_STATUS_ERROR_VARIABLE_ALREADY_DEFINED;
  }
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_executable_load_agent_code_object(hsa_executable_t handle, hsa_agent_t agent,
                                                   hsa_code_object_reader_t reader, const char*,
                                                   hsa_loaded_code_object_t*) {
  ROCR_CALL();
  stand_in::agent* const on = agent_of(agent);
  if (on == nullptr || !on->is_gpu) return HSA_STATUS_ERROR_INVALID_AGENT;
  return load(executable_of(handle), *on, *reinterpret_cast<code_reader*>(reader.handle));
}

hsa_status_t hsa_executable_freeze(hsa_executable_t, const char*) {
  ROCR_CALL();
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_executable_get_symbol_by_name(hsa_executable_t handle, const char* symbol_name,
                                               const hsa_agent_t*,
                                               hsa_executable_symbol_t* symbol) {
  ROCR_CALL();
  if (symbol_name == nullptr || symbol == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  for (loaded_symbol& each : executable_of(handle).symbols) {
    if (each.name != symbol_name) continue;
    symbol->handle = address_of(&each);
    return HSA_STATUS_SUCCESS;
  }
  return HSA_STATUS_ERROR_INVALID_SYMBOL_NAME;
}

hsa_status_t hsa_executable_iterate_symbols(
    hsa_executable_t handle,
    hsa_status_t (*callback)(hsa_executable_t, hsa_executable_symbol_t, void*), void* data) {
  ROCR_CALL();
  if (callback == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  for (loaded_symbol& each : executable_of(handle).symbols) {
    const hsa_status_t status = callback(handle, {address_of(&each)}, data);
    if (status != HSA_STATUS_SUCCESS) return status;
  }
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_executable_symbol_get_info(hsa_executable_symbol_t handle,
                                            hsa_executable_symbol_info_t attribute, void* value) {
  ROCR_CALL();
  if (handle.handle == 0 || value == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  const auto& symbol = *reinterpret_cast<const loaded_symbol*>(handle.handle);
  const bool is_kernel = symbol.is_kernel;
  switch (static_cast<int>(attribute)) {
    case HSA_EXECUTABLE_SYMBOL_INFO_TYPE:
      return answer(value, is_kernel ? HSA_SYMBOL_KIND_KERNEL : HSA_SYMBOL_KIND_VARIABLE);
    case HSA_EXECUTABLE_SYMBOL_INFO_NAME_LENGTH:
      return answer(value, static_cast<std::uint32_t>(symbol.name.size()));
    case HSA_EXECUTABLE_SYMBOL_INFO_NAME:
      std::memcpy(value, symbol.name.data(), symbol.name.size());
      return HSA_STATUS_SUCCESS;
    case HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_ADDRESS:
      return answer(value, symbol.address);
    case HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_SIZE:
      if (is_kernel) break;
      return answer(value, static_cast<std::uint32_t>(symbol.bytes));
    case HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_IS_CONST:
      if (is_kernel) break;
      return answer(value, false);
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT:
      if (!is_kernel) break;
      return answer(value, symbol.address);
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE:
      return answer(value, symbol.kernarg_bytes);
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_ALIGNMENT:
      return answer(value, std::uint32_t{16});
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE:
      return answer(value, symbol.group_bytes);
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE:
      return answer(value, symbol.private_bytes);
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_DYNAMIC_CALLSTACK:
      return answer(value, false);
    default:
      break;
  }
  return HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

}  // extern "C"
