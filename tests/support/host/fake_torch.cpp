// SPDX-License-Identifier: MIT
// Stands in for PyTorch's libc10: its error for a lack of memory, by the names and the layout that
// the library finds there.
#include <cstdint>
#include <exception>
#include <string>
#include <utility>

namespace {

int alive = 0;

}  // namespace

namespace c10 {

struct SourceLocation {
  const char* function;
  const char* file;
  std::uint32_t line;
};

class Error : public std::exception {
 public:
  Error(SourceLocation where, std::string message);
  ~Error() override;
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
  // PyTorch's has more, and less than the library has room for.
  [[maybe_unused]] char rest_[150] = {};
};

Error::Error(SourceLocation where, std::string message)
    : text_{std::move(message) + " (" + where.function + ")"} {
  ++alive;
}
Error::~Error() { --alive; }

class OutOfMemoryError : public Error {
 public:
  using Error::Error;
  ~OutOfMemoryError() override;
};

OutOfMemoryError::~OutOfMemoryError() = default;

}  // namespace c10

/// Errors that have not ended.
extern "C" int fake_torch_errors() { return alive; }
