// SPDX-License-Identifier: MIT
#include <chrono>

#include <hipvmm/ipc/attached_region.hpp>
#include "c/c_interface.hpp"
#include "support/process/temporary_folder.hpp"

namespace hipvmm::test {
namespace {

constexpr const char* path_variable = "HIPVMM_TEST_PATH";
constexpr const char* shareable = "max=64MiB,past_max=refuse,shareable=posix_fd";

/// Reads the publication at a path, once it has that many bytes.
std::string read_published(const std::string& path, std::size_t bytes) {
  const owned_attachment attached{result_of(hipvmm_attach, path.c_str(), "right=read")};
  CHECK(result_of(hipvmm_attachment_wait, attached, bytes, 5000, nullptr) == 1);
  const std::size_t size = result_of(hipvmm_attachment_size, attached);
  void* const data = result_of(hipvmm_attachment_data, attached);
  std::string content(size, '\0');
  require_ok(hipvmm_copy(content.data(), data, size, nullptr));
  return content;
}

HIPVMM_CHILD("reads a C publication") {
  CHECK(read_published(std::getenv(path_variable), 6) == "abcdef");
}

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("C sharing: another process reads what is announced") {
  const temporary_folder folder;
  const std::string path = (folder.path() / "memory").string();
  const owned_buffer buffer = make_buffer(shareable);
  const owned_publication published{
      result_of(hipvmm_buffer_publish, buffer, path.c_str(), "max_importers=4")};
  require_ok(hipvmm_buffer_append(buffer, "abcdef", 6, nullptr));
  require_ok(hipvmm_publication_announce(published, buffer, nullptr));
  check_child("reads a C publication", {std::string{path_variable} + "=" + path});
}

TEST_CASE("C sharing: an attachment follows its owner, and outlives it") {
  const temporary_folder folder;
  const std::string path = (folder.path() / "memory").string();
  owned_buffer buffer = make_buffer(shareable);
  owned_publication published{result_of(hipvmm_buffer_publish, buffer, path.c_str(), nullptr)};
  const owned_attachment attached{result_of(hipvmm_attach, path.c_str(), nullptr)};
  CHECK(result_of(hipvmm_attachment_refresh, attached, nullptr) == 0);
  CHECK(result_of(hipvmm_publication_importers, published) == 1);
  require_ok(hipvmm_buffer_append(buffer, "abc", 3, nullptr));
  require_ok(hipvmm_publication_announce(published, buffer, nullptr));
  CHECK(result_of(hipvmm_attachment_wait, attached, 3, 5000, nullptr) == 1);
  CHECK(result_of(hipvmm_attachment_wait, attached, 4, 1, nullptr) == 0);
  CHECK(result_of(hipvmm_attachment_device, attached) == 0);
  CHECK(result_of(hipvmm_attachment_is_open, attached) == 1);
  CHECK(hipvmm_publication_announce(published, nullptr, nullptr) == HIPVMM_ERROR_INVALID_HANDLE);
  published.reset();
  buffer.reset();
  void* const data = result_of(hipvmm_attachment_data, attached);
  char read[3];
  require_ok(hipvmm_copy(read, data, 3, nullptr));
  CHECK(std::string(read, 3) == "abc");
}

TEST_CASE("C sharing: kept memory outlives its buffer and its publication") {
  const temporary_folder folder;
  const std::string path = (folder.path() / "memory").string();
  const std::string kept_at = (folder.path() / "kept").string();
  owned_publication kept;
  CHECK(fails(hipvmm_publication_keep(path.c_str(), kept_at.c_str(), nullptr, kept.out()),
              HIPVMM_ERROR_IPC, path));
  owned_buffer buffer = make_buffer(shareable);
  owned_publication published{result_of(hipvmm_buffer_publish, buffer, path.c_str(), "tag=5")};
  require_ok(hipvmm_buffer_append(buffer, "abc", 3, nullptr));
  require_ok(hipvmm_publication_announce(published, buffer, nullptr));
  require_ok(hipvmm_synchronize(nullptr));
  for (const char* const wrong : {"tag=5", "patience=soon", "right=read"})
    CHECK(hipvmm_publication_keep(path.c_str(), kept_at.c_str(), wrong, kept.out()) ==
          HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_publication_keep(nullptr, kept_at.c_str(), nullptr, kept.out()) ==
        HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_publication_keep(path.c_str(), nullptr, nullptr, kept.out()) ==
        HIPVMM_ERROR_INVALID_ARGUMENT);
  require_ok(hipvmm_publication_keep(path.c_str(), kept_at.c_str(), "max_importers=1", kept.out()));
  CHECK(hipvmm_publication_announce(kept, buffer, nullptr) == HIPVMM_ERROR_INVALID_ARGUMENT);
  published.reset();
  buffer.reset();
  const owned_attachment attached{result_of(hipvmm_attach, kept_at.c_str(), "tag=5")};
  CHECK(result_of(hipvmm_publication_importers, kept) == 1);
  owned_attachment second;
  CHECK(hipvmm_attach(kept_at.c_str(), "tag=5", second.out()) == HIPVMM_ERROR_IPC);
  void* const data = result_of(hipvmm_attachment_data, attached);
  char read[3];
  require_ok(hipvmm_copy(read, data, 3, nullptr));
  CHECK(std::string(read, 3) == "abc");
}

TEST_CASE("C sharing: a C++ program attaches to the elements that C names") {
  const temporary_folder folder;
  const std::string path = (folder.path() / "floats").string();
  const owned_buffer buffer = make_buffer(shareable);
  const float values[]{1, 2, 3};
  require_ok(hipvmm_buffer_append(buffer, values, sizeof values, nullptr));
  owned_publication published;
  require_ok(hipvmm_buffer_publish(buffer, path.c_str(), "element_size=4,element_align=4",
                                   published.out()));
  require_ok(hipvmm_publication_announce(published, buffer, nullptr));
  const stream stream;
  attached_vector<float> attached{path};
  CHECK(attached.wait_for(3, std::chrono::seconds{10}, stream));
  CHECK(attached.size() == 3);
  owned_attachment bytes;
  CHECK(hipvmm_attach(path.c_str(), nullptr, bytes.out()) == HIPVMM_ERROR_IPC);
}

TEST_CASE("C sharing: wrong paths, buffers and elements are refused with a sentence") {
  const temporary_folder folder;
  const std::string path = (folder.path() / "max_bytes").string();
  owned_attachment attached;
  CHECK(fails(hipvmm_attach(path.c_str(), nullptr, attached.out()), HIPVMM_ERROR_IPC, path));
  CHECK(hipvmm_attach(nullptr, nullptr, attached.out()) == HIPVMM_ERROR_INVALID_ARGUMENT);
  const owned_buffer buffer = make_buffer(shareable);
  owned_publication published;
  CHECK(hipvmm_buffer_publish(buffer, nullptr, nullptr, published.out()) ==
        HIPVMM_ERROR_INVALID_ARGUMENT);
  require_ok(hipvmm_buffer_publish(buffer, path.c_str(), "tag=5", published.out()));
  owned_publication second;
  CHECK(hipvmm_buffer_publish(buffer, path.c_str(), nullptr, second.out()) == HIPVMM_ERROR_IPC);
  CHECK(hipvmm_attach(path.c_str(), "tag=6", attached.out()) == HIPVMM_ERROR_IPC);
  CHECK(hipvmm_attach(path.c_str(), "tag=5,element_size=4,element_align=4", attached.out()) ==
        HIPVMM_ERROR_IPC);
  require_ok(hipvmm_attach(path.c_str(), "tag=5", attached.out()));
  const owned_buffer other = make_buffer();
  require_ok(hipvmm_buffer_append(other, "abc", 3, nullptr));
  CHECK(hipvmm_publication_announce(published, other, nullptr) == HIPVMM_ERROR_INVALID_ARGUMENT);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
