// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hipvmm::tool {

/// The file for one result, written when all work is done.
/// - A regular file is replaced whole, by a temporary file beside it and a rename: a failure before
///   or during the write leaves the old file. Symbolic links are followed; owner, group and mode
///   stay. If it cannot be replaced (the folder takes no file, the owner would change, it is a
///   mount of its own), it is overwritten in place, once there is room for the new text.
/// - Devices, pipes and descriptors (/dev/stdout, /dev/fd/3) are written directly.
class output_file {
 public:
  /// Checks that it can be written, before work whose result would be lost. Changes and creates no
  /// file. Throws: std::system_error that names `path`.
  explicit output_file(std::string path);
  ~output_file();
  output_file& operator=(output_file&&) = delete;

  /// Call it once. Throws: std::system_error that names the path.
  void write(std::string_view text);

 private:
  [[nodiscard]] bool replace(std::string_view text) const;

  std::string path_;
  std::string target_;   ///< path_ behind symbolic links; empty if descriptor_ is written to
  int descriptor_ = -1;  ///< of anything but a regular file
};

struct named_file {
  std::string option;  ///< as messages name it: "--json", "TRACE"
  std::string path;    ///< "-" is standard input or output
};

/// Returns a message if an output is by any name the same regular file or pipe as an input or
/// another output; else an empty string. Standard output counts as an output. Opens nothing.
[[nodiscard]] std::string clash_of(const std::vector<named_file>& inputs,
                                   const std::vector<named_file>& outputs);

}  // namespace hipvmm::tool
