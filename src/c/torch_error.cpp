// SPDX-License-Identifier: MIT
#include "c/torch_error.hpp"

#include <cxxabi.h>
#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <typeinfo>

namespace hipvmm::c {
namespace {

struct torch_location {
  const char* function;
  const char* file;
  std::uint32_t line;
};
// c10::Error::Error(c10::SourceLocation, std::string message): all releases of PyTorch 2 have it.
using constructor = void (*)(void* self, torch_location where, std::string message);
constexpr const char* constructor_name =
    "_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";
constexpr const char* table_name = "_ZTVN3c1016OutOfMemoryErrorE";
constexpr const char* type_name = "_ZTIN3c1016OutOfMemoryErrorE";
// c10::Error is 200 bytes in PyTorch 2.11 and OutOfMemoryError adds none.
constexpr std::size_t room_for_error = 1024;

/// PyTorch has loaded its libraries already.
void* find_in_torch(const char* symbol) noexcept {
  for (const char* const name :
       {"libc10.so", "libc10_cuda.so", "libc10_hip.so", "libtorch_cpu.so", "libtorch_python.so"}) {
    void* const library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) continue;
    void* const found = dlsym(library, symbol);
    dlclose(library);
    if (found != nullptr) return found;
  }
  return nullptr;
}

template <typename Function>
Function as_function(void* symbol) noexcept {
  static_assert(sizeof(Function) == sizeof symbol);
  Function result{};
  std::memcpy(&result, &symbol, sizeof result);
  return result;
}

}  // namespace

// Throws without PyTorch's headers, which are for one release and need its library to link with.
// The object is made as a compiler would make it: the base by its constructor, then the derived
// class's table of virtual functions. The first entry of that is the destructor.
void throw_torch_out_of_memory(const std::string& text) {
  const auto construct = as_function<constructor>(find_in_torch(constructor_name));
  auto* const table = static_cast<void**>(find_in_torch(table_name));
  auto* const type = static_cast<std::type_info*>(find_in_torch(type_name));
  if (construct == nullptr || table == nullptr || type == nullptr) return;
  void** const functions = table + 2;  // past the offset to the top and the type
  void* const error = abi::__cxa_allocate_exception(room_for_error);
  try {
    construct(error, {"hipvmm_torch_alloc", __FILE__, __LINE__}, text);
  } catch (...) {
    abi::__cxa_free_exception(error);
    throw;
  }
  std::memcpy(error, &functions, sizeof functions);
  abi::__cxa_throw(error, type, as_function<void (*)(void*)>(functions[0]));
}

}  // namespace hipvmm::c
