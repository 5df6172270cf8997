// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace ingest {

/// Files and standard input, read one after the other as if they were one. One thread at a time.
class input {
 public:
  /// Takes the inputs in order; "-" is standard input. Opens none of them yet.
  /// Throws: std::system_error when one is not there, std::invalid_argument for a directory.
  explicit input(std::vector<std::string> names);
  ~input();
  input(const input&) = delete;
  input& operator=(const input&) = delete;

  /// Fills `block`, across the ends of files and however little a pipe gives at a time; returns the
  /// bytes read, fewer than `bytes` only at the end of the last input.
  /// Throws: std::system_error naming the input that cannot be opened or read.
  [[nodiscard]] std::size_t read(unsigned char* block, std::size_t bytes);

  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }
  /// All bytes to come when every input is a regular file, none when the length is not known.
  [[nodiscard]] std::optional<std::size_t> known_bytes() const noexcept { return known_bytes_; }

 private:
  bool open_next();
  void close() noexcept;

  std::vector<std::string> names_;
  std::optional<std::size_t> known_bytes_;
  std::size_t next_ = 0;
  int descriptor_ = -1;
};

}  // namespace ingest
