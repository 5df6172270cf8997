// SPDX-License-Identifier: MIT
// A program that loads CUDA's driver, or the fake one, as the CUDA runtime does: driver_program
// symbols|addresses|old|context|new_context.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr std::size_t bytes = std::size_t{3} << 20;

void require(bool is_right, const char* what) {
  if (is_right) return;
  std::printf("wrong: %s\n", what);
  std::exit(1);
}
#define REQUIRE(what) require(what, #what)

void* library = nullptr;

template <typename Function>
Function symbol(const char* name) {
  return reinterpret_cast<Function>(::dlsym(library, name));
}

/// As each program on CUDA does. The fake driver needs none of it, and has none of it.
void begin_driver() {
  const auto begin = symbol<int (*)(unsigned)>("cuInit");
  if (begin == nullptr) return;
  int device = 0;
  void* context = nullptr;
  REQUIRE(begin(0) == 0);
  REQUIRE(symbol<int (*)(int*, int)>("cuDeviceGet")(&device, 0) == 0);
  REQUIRE(symbol<int (*)(void**, int)>("cuDevicePrimaryCtxRetain")(&context, device) == 0);
  REQUIRE(symbol<int (*)(void*)>("cuCtxSetCurrent")(context) == 0);
}

using allocate_function = int (*)(void**, std::size_t);
using free_function = int (*)(void*);
using allocate_async_function = int (*)(void**, std::size_t, void*);
using free_async_function = int (*)(void*, void*);
using info_function = int (*)(std::size_t*, std::size_t*);

void use(allocate_function allocate, free_function free, allocate_async_function allocate_async,
         free_async_function free_async, info_function info) {
  void* memory = nullptr;
  REQUIRE(allocate(&memory, bytes) == 0);
  std::size_t left = 0;
  std::size_t total = 0;
  REQUIRE(info(&left, &total) == 0 && left < total);
  REQUIRE(free(memory) == 0);
  REQUIRE(free(memory) == 1);
  REQUIRE(allocate_async(&memory, bytes, nullptr) == 0);
  REQUIRE(free_async(memory, nullptr) == 0);
  REQUIRE(allocate(&memory, std::size_t{1} << 50) == 2);
}

void by_symbols() {
  use(symbol<allocate_function>("cuMemAlloc_v2"), symbol<free_function>("cuMemFree_v2"),
      symbol<allocate_async_function>("cuMemAllocAsync"),
      symbol<free_async_function>("cuMemFreeAsync"), symbol<info_function>("cuMemGetInfo_v2"));
  // Functions that are not replaced are unchanged, also from the next libraries.
  const auto version = symbol<int (*)(int*)>("cuDriverGetVersion");
  int number = 0;
  REQUIRE(version(&number) == 0 && number >= 12000);
  // The function of the days of 32 bits.
  REQUIRE(::dlsym(library, "cuMemAlloc") != ::dlsym(library, "cuMemAlloc_v2"));
  REQUIRE(::dlsym(library, "cuNoSuchFunction") == nullptr);
  REQUIRE(::dlsym(RTLD_DEFAULT, "printf") == reinterpret_cast<void*>(&std::printf));
  REQUIRE(::dlsym(RTLD_NEXT, "printf") != nullptr);
}

/// As toolkits since 12, which look up cuGetProcAddress by itself once more.
void by_addresses() {
  using get_address = int (*)(const char*, void**, int, std::uint64_t, void*);
  const auto first = symbol<get_address>("cuGetProcAddress_v2");
  void* found = nullptr;
  REQUIRE(first("cuGetProcAddress", &found, 12000, 0, nullptr) == 0);
  const auto get = reinterpret_cast<get_address>(found);
  const auto address = [&](const char* name, std::uint64_t flags) {
    void* function = nullptr;
    REQUIRE(get(name, &function, 12000, flags, nullptr) == 0);
    return function;
  };
  for (std::uint64_t flags = 0; flags <= 2; ++flags)
    use(reinterpret_cast<allocate_function>(address("cuMemAlloc", flags)),
        reinterpret_cast<free_function>(address("cuMemFree", flags)),
        reinterpret_cast<allocate_async_function>(address("cuMemAllocAsync", flags)),
        reinterpret_cast<free_async_function>(address("cuMemFreeAsync", flags)),
        reinterpret_cast<info_function>(address("cuMemGetInfo", flags)));
  // The real driver may succeed with null.
  void* none = nullptr;
  static_cast<void>(get("cuNoSuchFunction", &none, 12000, 0, nullptr));
  REQUIRE(none == nullptr);
  REQUIRE(reinterpret_cast<int (*)(int)>(address("cuDevicePrimaryCtxReset", 0))(0) == 0);
}

/// As toolkits of 11.3 and later.
void by_old_addresses() {
  using get_address = int (*)(const char*, void**, int, std::uint64_t);
  const auto get = symbol<get_address>("cuGetProcAddress");
  void* of_32_bits = nullptr;
  void* function = nullptr;
  REQUIRE(get("cuMemAlloc", &of_32_bits, 3010, 0) == 0);
  REQUIRE(get("cuMemAlloc", &function, 11030, 0) == 0);
  REQUIRE(of_32_bits != function);
  const auto allocate = reinterpret_cast<allocate_function>(function);
  REQUIRE(get("cuMemFree", &function, 11030, 0) == 0);
  void* memory = nullptr;
  REQUIRE(allocate(&memory, bytes) == 0);
  REQUIRE(reinterpret_cast<free_function>(function)(memory) == 0);
}

/// In a context of its own, as programs without the CUDA runtime have one.
void in_own_context(bool is_new) {
  void* context = nullptr;
  if (is_new) {
    using get_address = int (*)(const char*, void**, int, std::uint64_t, void*);
    void* create = nullptr;
    REQUIRE(symbol<get_address>("cuGetProcAddress_v2")("cuCtxCreate", &create, 12050, 0, nullptr) ==
            0);
    REQUIRE(reinterpret_cast<int (*)(void**, void*, unsigned, int)>(create)(&context, nullptr, 0,
                                                                            0) == 0);
  } else {
    REQUIRE(symbol<int (*)(void**, unsigned, int)>("cuCtxCreate_v2")(&context, 0, 0) == 0);
  }
  REQUIRE(context != nullptr);
  void* memory = nullptr;
  REQUIRE(symbol<allocate_function>("cuMemAlloc_v2")(&memory, bytes) == 0);
  REQUIRE(symbol<free_function>("cuMemFree_v2")(memory) == 0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  library = ::dlopen(HIPVMM_TEST_DRIVER, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  begin_driver();
  if (std::strcmp(argv[1], "symbols") == 0)
    by_symbols();
  else if (std::strcmp(argv[1], "addresses") == 0)
    by_addresses();
  else if (std::strstr(argv[1], "context") != nullptr)
    in_own_context(std::strcmp(argv[1], "new_context") == 0);
  else
    by_old_addresses();
  std::printf("right\n");
  return 0;
}
