/* SPDX-License-Identifier: MIT */
/* Lines of unknown number in memory of a device, by C: lines [FILE]. Reads the file, or its own
 * text, into a buffer that grows in place, and shows bytes copied back and the refusal by a pool.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hipvmm/hipvmm.h>

static void require(hipvmm_status status) {
  if (status == HIPVMM_OK) return;
  fprintf(stderr, "%s: %s\n", hipvmm_status_name(status), hipvmm_last_error());
  exit(1);
}

static size_t read_lines(FILE* file, hipvmm_buffer buffer) {
  char line[4096];
  size_t bytes = 0;
  while (fgets(line, sizeof line, file) != NULL)
    require(hipvmm_buffer_append(buffer, line, strlen(line), NULL));
  require(hipvmm_buffer_size(buffer, &bytes));
  return bytes;
}

static void show_refusal(void) {
  hipvmm_resource pool;
  void* memory;
  require(hipvmm_pool_create(0, "maximum=64MiB,release_threshold=16MiB", &pool));
  if (hipvmm_allocate(pool, 128u << 20, 0, NULL, &memory) == HIPVMM_ERROR_OUT_OF_MEMORY)
    printf("no 128 MiB: %s\n", hipvmm_last_error());
  require(hipvmm_resource_destroy(pool));
}

int main(int argc, char** argv) {
  hipvmm_buffer buffer;
  char first[80] = "";
  size_t bytes;
  FILE* const file = fopen(argc > 1 ? argv[1] : __FILE__, "r");
  if (file == NULL) {
    perror(argc > 1 ? argv[1] : __FILE__);
    return 1;
  }
  require(hipvmm_buffer_create(0, "max=1GiB", &buffer));
  bytes = read_lines(file, buffer);
  fclose(file);
  require(hipvmm_buffer_read(buffer, 0, first, bytes < 40 ? bytes : 40, NULL));
  printf("%zu bytes, which begin with: %.40s\n", bytes, strtok(first, "\n"));
  require(hipvmm_buffer_destroy(buffer));
  show_refusal();
  return 0;
}
