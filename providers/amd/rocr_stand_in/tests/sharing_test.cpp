// SPDX-License-Identifier: MIT
// Memory of one process used by another: descriptors of handles, and IPC of allocations.
#include <doctest/doctest.h>

#include <cstring>

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/system.hpp"

namespace {

using namespace test;

// Runs `importer` in a process that has never called HSA, with the data written to the pipe.
template <class Importer>
struct other_process {
  explicit other_process(Importer importer) {
    EXPECT(pipe(to_child) == 0);
    EXPECT(pipe(to_parent) == 0);
    child = fork();
    if (child == 0) {
      importer(to_child[0], to_parent[1]);
      _exit(0);
    }
  }
  void write_all(const void* from, std::size_t bytes) const {
    EXPECT(write(to_child[1], from, bytes) == static_cast<ssize_t>(bytes));
  }
  void wait_for_answer() const {
    char answer = 0;
    EXPECT(read(to_parent[0], &answer, 1) == 1);
  }
  [[nodiscard]] bool succeeded() const {
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  int to_child[2];
  int to_parent[2];
  pid_t child;
};

TEST_CASE("sharing: an exported handle is the same memory in another process") {
  const outcome got = in_child({}, [] {
    // The descriptor is opened by its number in the exporter, as a socket would pass it.
    const pid_t exporter = getpid();
    const other_process other([exporter](int in, int out) {
      int number = 0;
      EXPECT(read(in, &number, sizeof number) == sizeof number);
      const int file = static_cast<int>(
          syscall(SYS_pidfd_getfd, syscall(SYS_pidfd_open, exporter, 0), number, 0));
      EXPECT(file >= 0);
      hsa_system on;
      hsa_amd_vmem_alloc_handle_t handle{};
      EXPECT(hsa_amd_vmem_import_shareable_handle(file, &handle) == HSA_STATUS_SUCCESS);
      close(file);
      char* const at = reserve(2 * MiB);
      EXPECT(hsa_amd_vmem_map(at, 2 * MiB, 0, handle, 0) == HSA_STATUS_SUCCESS);
      EXPECT(grant(at, 2 * MiB, on.cpu) == HSA_STATUS_SUCCESS);
      EXPECT(grant(at, 2 * MiB, on.gpus[1]) == HSA_STATUS_SUCCESS);
      EXPECT(std::strcmp(at, "from the exporter") == 0);
      std::strcpy(at, "from the importer");
      EXPECT(write(out, "x", 1) == 1);
    });
    hsa_system on;
    const mapped_memory memory(on, on.gpus[1], 2 * MiB);
    const mapped_memory before(on, on.gpus[1], 2 * MiB);
    std::strcpy(memory.at, "from the exporter");
    int file = -1;
    EXPECT(hsa_amd_vmem_export_shareable_handle(&file, memory.handle, 0) == HSA_STATUS_SUCCESS);
    other.write_all(&file, sizeof file);
    other.wait_for_answer();
    EXPECT(std::strcmp(memory.at, "from the importer") == 0);
    EXPECT(other.succeeded());
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("sharing: an import in the exporter is the same memory under a handle of its own") {
  const outcome got = in_child({}, [] {
    hsa_system on;
    const mapped_memory memory(on, on.gpus[0], 2 * MiB);
    int file = -1;
    EXPECT(hsa_amd_vmem_export_shareable_handle(&file, memory.handle, 0) == HSA_STATUS_SUCCESS);
    hsa_amd_vmem_alloc_handle_t handle{};
    EXPECT(hsa_amd_vmem_import_shareable_handle(file, &handle) == HSA_STATUS_SUCCESS);
    EXPECT(handle.handle != memory.handle.handle);
    char* const at = reserve(2 * MiB);
    EXPECT(hsa_amd_vmem_map(at, 2 * MiB, 0, handle, 0) == HSA_STATUS_SUCCESS);
    EXPECT(grant(at, 2 * MiB, on.cpu) == HSA_STATUS_SUCCESS);
    memory.at[9] = 8;
    EXPECT(at[9] == 8);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("sharing: what is no exported handle is refused") {
  const outcome got = in_child({}, [] {
    hsa_system on;
    hsa_amd_vmem_alloc_handle_t handle{};
    int ends[2];
    EXPECT(pipe(ends) == 0);
    EXPECT(hsa_amd_vmem_import_shareable_handle(ends[0], &handle) ==
           HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS);
    EXPECT(hsa_amd_vmem_import_shareable_handle(999, &handle) == HSA_STATUS_ERROR_INVALID_ARGUMENT);
    int file = -1;
    EXPECT(hsa_amd_vmem_export_shareable_handle(&file, {4711}, 0) ==
           HSA_STATUS_ERROR_INVALID_ALLOCATION);
    EXPECT(file == -1);
    hsa_amd_ipc_memory_t none{};
    void* mapped = nullptr;
    EXPECT(hsa_amd_ipc_memory_attach(&none, 4096, 0, nullptr, &mapped) ==
           HSA_STATUS_ERROR_INVALID_ARGUMENT);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("sharing: an allocation attached by IPC is the same memory in another process") {
  const outcome got = in_child({}, [] {
    const other_process other([](int in, int out) {
      hsa_amd_ipc_memory_t handle{};
      EXPECT(read(in, &handle, sizeof handle) == sizeof handle);
      hsa_system on;
      void* at = nullptr;
      EXPECT(hsa_amd_ipc_memory_attach(&handle, 4096, 0, nullptr, &at) == HSA_STATUS_SUCCESS);
      hsa_amd_pointer_info_t info{};
      info.size = sizeof info;
      EXPECT(hsa_amd_pointer_info(at, &info, nullptr, nullptr, nullptr) == HSA_STATUS_SUCCESS);
      EXPECT(info.type == HSA_EXT_POINTER_TYPE_IPC);
      char* const copied = on.allocate(on.cpu, 4096);
      wait(start_copy(copied, on.cpu, at, on.gpus[0], 4096));
      EXPECT(copied[11] == 12);
      EXPECT(hsa_amd_ipc_memory_detach(at) == HSA_STATUS_SUCCESS);
      EXPECT(hsa_amd_ipc_memory_detach(at) == HSA_STATUS_ERROR_INVALID_ARGUMENT);
      EXPECT(write(out, "x", 1) == 1);
    });
    hsa_system on;
    char* const data = on.allocate(on.gpus[0], 4096);
    data[11] = 12;
    hsa_amd_ipc_memory_t handle{};
    EXPECT(hsa_amd_ipc_memory_create(data, 4096, &handle) == HSA_STATUS_SUCCESS);
    other.write_all(&handle, sizeof handle);
    other.wait_for_answer();
    EXPECT(other.succeeded());
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

}  // namespace
