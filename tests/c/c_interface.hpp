// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/hipvmm.h>
#include <hipvmm/serving.h>
#include "support/test.hpp"

namespace hipvmm::test {

/// Destroys a handle at the end.
template <typename Handle, hipvmm_status (*Destroy)(Handle)>
class owned_handle {
 public:
  owned_handle() = default;
  explicit owned_handle(Handle handle) noexcept : handle_{handle} {}
  owned_handle(owned_handle&& other) noexcept : handle_{std::exchange(other.handle_, nullptr)} {}
  owned_handle& operator=(owned_handle&&) = delete;
  ~owned_handle() { reset(); }

  void reset() {
    if (handle_ != nullptr) CHECK(Destroy(std::exchange(handle_, nullptr)) == HIPVMM_OK);
  }
  [[nodiscard]] Handle get() const noexcept { return handle_; }
  // NOLINTNEXTLINE(google-explicit-constructor): as the C functions take it
  operator Handle() const noexcept { return handle_; }
  [[nodiscard]] Handle* out() noexcept { return &handle_; }

 private:
  Handle handle_ = nullptr;
};

using owned_buffer = owned_handle<hipvmm_buffer, hipvmm_buffer_destroy>;
using owned_resource = owned_handle<hipvmm_resource, hipvmm_resource_destroy>;
using owned_stream = owned_handle<hipvmm_stream, hipvmm_stream_destroy>;
using owned_event = owned_handle<hipvmm_event, hipvmm_event_destroy>;
using owned_publication = owned_handle<hipvmm_publication, hipvmm_publication_destroy>;
using owned_slot_arena = owned_handle<hipvmm_slot_arena, hipvmm_slot_arena_destroy>;
using owned_budget = owned_handle<hipvmm_budget, hipvmm_budget_leave>;
using owned_attachment = owned_handle<hipvmm_attachment, hipvmm_attachment_destroy>;

/// Fails the case, with the sentence of the library.
inline void require_ok(hipvmm_status status) {
  REQUIRE_MESSAGE(status == HIPVMM_OK, std::string{hipvmm_last_error()});
}

/// Whether a call failed so, with a sentence that has `text`.
inline bool fails(hipvmm_status status, hipvmm_status expected, const std::string& text) {
  const std::string message = hipvmm_last_error();
  const bool as_expected = status == expected && message.find(text) != std::string::npos;
  if (!as_expected)
    MESSAGE("status ", std::string{hipvmm_status_name(status)}, ", sentence: ", message);
  return as_expected;
}

inline owned_buffer make_buffer(const char* options = "max=64MiB", int device = 0) {
  owned_buffer made;
  require_ok(hipvmm_buffer_create(device, options, made.out()));
  return made;
}

inline owned_resource make_pool(const char* options = nullptr, int device = 0) {
  owned_resource made;
  require_ok(hipvmm_pool_create(device, options, made.out()));
  return made;
}

inline std::size_t size_of(hipvmm_buffer buffer) {
  std::size_t bytes = 0;
  require_ok(hipvmm_buffer_size(buffer, &bytes));
  return bytes;
}

/// The first three bytes of a buffer.
inline std::string first_bytes(hipvmm_buffer buffer) {
  std::string bytes(3, '\0');
  require_ok(hipvmm_buffer_read(buffer, 0, bytes.data(), 3, nullptr));
  return bytes;
}

inline std::size_t live_handles() {
  std::size_t count = 0;
  require_ok(hipvmm_live_handles(&count));
  return count;
}

/// The text from a function that copies one.
template <typename Function>
std::string text_of(Function function) {
  std::size_t length = 0;
  require_ok(function(nullptr, std::size_t{0}, &length));
  std::string text(length + 1, '\0');
  require_ok(function(text.data(), text.size(), &length));
  text.resize(length);
  return text;
}

}  // namespace hipvmm::test
