// SPDX-License-Identifier: MIT
// The includes of a test of the C interface, and its shorthands.
#pragma once

// IWYU pragma: begin_exports
#include <hipvmm/hipvmm.h>
#include <hipvmm/serving.h>
#include "support/asserts/discarded_values.hpp"
#include "support/asserts/skip_if.hpp"
#include "support/test.hpp"
// IWYU pragma: end_exports

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

/// The result that `function` writes behind its other arguments. A call that fails ends the case.
template <typename... Parameters, typename... Arguments>
auto result_of(hipvmm_status (*function)(Parameters...), Arguments&&... others) {
  using all = std::tuple<std::remove_pointer_t<Parameters>...>;
  std::tuple_element_t<sizeof...(Arguments), all> result;
  // So that a function which writes nothing is seen. NOLINTNEXTLINE(bugprone-sizeof-expression)
  std::memset(&result, 0x4d, sizeof result);
  if constexpr (requires { result.struct_size; }) result.struct_size = sizeof result;
  require_ok(function(std::forward<Arguments>(others)..., &result));
  return result;
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
  return owned_buffer{result_of(hipvmm_buffer_create, device, options)};
}

inline owned_resource make_pool(const char* options = nullptr, int device = 0) {
  return owned_resource{result_of(hipvmm_pool_create, device, options)};
}

inline std::size_t size_of(hipvmm_buffer buffer) { return result_of(hipvmm_buffer_size, buffer); }

/// The first three bytes of a buffer.
inline std::string first_bytes(hipvmm_buffer buffer) {
  std::string bytes(3, '\0');
  require_ok(hipvmm_buffer_read(buffer, 0, bytes.data(), 3, nullptr));
  return bytes;
}

inline std::size_t live_handles() { return result_of(hipvmm_live_handles); }

/// The text that a function copies behind its other arguments.
template <typename Function, typename... Arguments>
std::string text_of(Function function, const Arguments&... others) {
  std::size_t length = 0;
  require_ok(function(others..., nullptr, 0, &length));
  std::string text(length + 1, '\0');
  require_ok(function(others..., text.data(), text.size(), &length));
  text.resize(length);
  return text;
}

}  // namespace hipvmm::test
