// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

namespace hipvmm::test {

/// How a child process ended and what it wrote to standard output and standard error.
struct child_result {
  int status;  ///< exit status, or 128 and the signal that killed it
  std::string output;
};

/// What a child finds as descriptor `number`.
struct inherited_descriptor {
  int descriptor;
  int number;
};

/// Runs this test program again, in a process of its own, for the one case named `test_case`, with
/// `environment` ("NAME=value") added to this process's, and waits for it. Cases that only make
/// sense as a child are marked skip: nobody but this function runs them.
child_result run_case_in_child(const std::string& test_case,
                               const std::vector<std::string>& environment = {},
                               const std::vector<inherited_descriptor>& descriptors = {});

/// Whether exactly one case ran in the child and passed.
bool passed(const child_result& result);

}  // namespace hipvmm::test
