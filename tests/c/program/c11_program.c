/* SPDX-License-Identifier: MIT */
/* A program in C: the promises of hipvmm.h to a compiler of C11 that knows no C++. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hipvmm/hipvmm.h>

static void require_ok(hipvmm_status status, int line) {
  if (status == HIPVMM_OK) return;
  fprintf(stderr, "line %d: %s: %s\n", line, hipvmm_status_name(status), hipvmm_last_error());
  exit(1);
}
#define OK(call) require_ok(call, __LINE__)
#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition); \
      exit(1);                                                        \
    }                                                                 \
  } while (0)

static int never(size_t bytes, void* argument) {
  ++*(int*)argument;
  return bytes == 0;
}

static void use_buffer(void) {
  hipvmm_buffer buffer;
  size_t bytes = 0;
  char read[4] = "";
  hipvmm_buffer_statistics statistics = {sizeof statistics, 0, 0, 0, 0, 0, 0, 0, 0};
  OK(hipvmm_buffer_create(0, "max=64MiB,step_limit=2MiB", &buffer));
  OK(hipvmm_buffer_append(buffer, "abc", 3, NULL));
  OK(hipvmm_buffer_resize(buffer, 10000000, NULL));
  OK(hipvmm_buffer_read(buffer, 0, read, 3, NULL));
  CHECK(strcmp(read, "abc") == 0);
  OK(hipvmm_buffer_size(buffer, &bytes));
  CHECK(bytes == 10000000);
  OK(hipvmm_buffer_get_statistics(buffer, &statistics));
  CHECK(statistics.growth_steps == 2);
  OK(hipvmm_buffer_destroy(buffer));
  CHECK(hipvmm_buffer_destroy(buffer) == HIPVMM_ERROR_INVALID_HANDLE);
  CHECK(strstr(hipvmm_last_error(), "was destroyed") != NULL);
}

static void use_pool(void) {
  hipvmm_resource pool, adaptor;
  void* memory = NULL;
  int calls = 0;
  char report[4096];
  size_t length = 0;
  OK(hipvmm_pool_create(0, "release_threshold=4GiB,maximum=25%", &pool));
  OK(hipvmm_failure_callback_create(pool, never, &calls, &adaptor));
  OK(hipvmm_allocate(adaptor, 1 << 20, 0, NULL, &memory));
  OK(hipvmm_deallocate(adaptor, memory, 1 << 20, 0, NULL));
  CHECK(hipvmm_allocate(adaptor, (size_t)1 << 40, 0, NULL, &memory) == HIPVMM_ERROR_OUT_OF_MEMORY);
  CHECK(calls == 1);
  OK(hipvmm_pool_report(pool, report, sizeof report, &length));
  CHECK(length == strlen(report));
  OK(hipvmm_resource_destroy(pool));
  OK(hipvmm_resource_destroy(adaptor));
}

int main(void) {
  size_t handles = 1;
  CHECK(hipvmm_version() == HIPVMM_C_VERSION);
  use_buffer();
  use_pool();
  OK(hipvmm_live_handles(&handles));
  CHECK(handles == 0);
  printf("hipvmm %s serves a program in C\n", hipvmm_version_text());
  return 0;
}
