// SPDX-License-Identifier: MIT
// A program that knows nothing of HIP and loads a library that does: late_program [TASK].
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace {

std::atomic<int> step{0};

void reach(int next) { step = next; }
void wait_for(int wanted) {
  while (step < wanted) std::this_thread::sleep_for(std::chrono::milliseconds{1});
}

void* load() {
  void* const library = ::dlopen(HIPVMM_TEST_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  std::printf("%s\n", ::dlerror());
  std::exit(1);
}

using plugin = int (*)();

plugin find(void* library) {
  return reinterpret_cast<plugin>(::dlsym(library, "hipvmm_test_plugin"));
}
int use(void* library) { return find(library)(); }

/// Whether HIP is there is asked before it is.
int ask_before() {
  const auto free = reinterpret_cast<int (*)(void*)>(::dlsym(RTLD_DEFAULT, "hipFree"));
  if (free != nullptr) static_cast<void>(free(nullptr));
  return use(load());
}

/// The library goes and comes again.
int load_again() {
  void* const first = load();
  const int result = use(first);
  ::dlclose(first);
  return result == 0 ? use(load()) : result;
}

/// One thread's first call comes while another thread loads a library, whose constructor calls too.
int load_beside_a_call() {
  const plugin body = find(load());
  ::alarm(30);
  int result = -1;
  std::thread calling{[&] {
    wait_for(1);
    reach(2);
    result = body();
  }};
  void* const other = ::dlopen(HIPVMM_TEST_OTHER_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  calling.join();
  return other == nullptr ? -1 : result;
}

}  // namespace

/// For the constructor of the other library, which has the loader's lock.
extern "C" [[gnu::visibility("default")]] void hipvmm_test_meet() {
  reach(1);
  wait_for(2);
  // The other thread's call gets as far as it can without that lock.
  std::this_thread::sleep_for(std::chrono::milliseconds{50});
}

int main(int argc, char** argv) {
  const char* const task = argc == 2 ? argv[1] : "";
  const int result = std::strcmp(task, "asks") == 0     ? ask_before()
                     : std::strcmp(task, "again") == 0  ? load_again()
                     : std::strcmp(task, "beside") == 0 ? load_beside_a_call()
                                                        : use(load());
  std::printf("plugin: %d\n", result);
  return result;
}
