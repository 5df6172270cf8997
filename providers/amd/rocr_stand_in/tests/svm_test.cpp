// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <sys/mman.h>

#include "support/system.hpp"

namespace {

using namespace test;

TEST_CASE("svm: attributes are kept by pages, and pages that differ are mixed") {
  const outcome got = in_child({}, [] {
    hsa_system on;
    char* const at = static_cast<char*>(
        mmap(nullptr, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    hsa_amd_svm_attribute_pair_t mostly{HSA_AMD_SVM_ATTRIB_READ_MOSTLY, 1};
    EXPECT(hsa_amd_svm_attributes_set(at + 4096, 1, &mostly, 1) == HSA_STATUS_SUCCESS);
    const auto read_mostly = [&](char* from, std::size_t bytes) {
      hsa_amd_svm_attribute_pair_t asked{HSA_AMD_SVM_ATTRIB_READ_MOSTLY, 77};
      EXPECT(hsa_amd_svm_attributes_get(from, bytes, &asked, 1) == HSA_STATUS_SUCCESS);
      return asked.value;
    };
    EXPECT(read_mostly(at + 4096, 4096) == 1);
    EXPECT(read_mostly(at, 4096) == 0);
    EXPECT(read_mostly(at, 8192) == 0);
    hsa_amd_svm_attribute_pair_t access{HSA_AMD_SVM_ATTRIB_AGENT_ACCESSIBLE, on.gpus[1].handle};
    EXPECT(hsa_amd_svm_attributes_set(at, 16384, &access, 1) == HSA_STATUS_SUCCESS);
    hsa_amd_svm_attribute_pair_t asked{HSA_AMD_SVM_ATTRIB_ACCESS_QUERY, on.gpus[1].handle};
    EXPECT(hsa_amd_svm_attributes_get(at, 16384, &asked, 1) == HSA_STATUS_SUCCESS);
    EXPECT(asked.attribute == HSA_AMD_SVM_ATTRIB_AGENT_ACCESSIBLE);
    hsa_amd_svm_attribute_pair_t unknown{999, 0};
    EXPECT(hsa_amd_svm_attributes_set(at, 4096, &unknown, 1) == HSA_STATUS_ERROR_INVALID_ARGUMENT);
    EXPECT(hsa_amd_svm_attributes_set(on.allocate(on.gpus[0], 4096), 4096, &mostly, 1) ==
           HSA_STATUS_ERROR);
    munmap(at + 8192, 4096);
    EXPECT(hsa_amd_svm_attributes_set(at, 16384, &mostly, 1) == HSA_STATUS_ERROR);
    EXPECT(hsa_amd_svm_attributes_set(at, 8192, &mostly, 1) == HSA_STATUS_SUCCESS);
    hsa_amd_svm_attribute_pair_t nobody{HSA_AMD_SVM_ATTRIB_AGENT_ACCESSIBLE, 4711};
    EXPECT(hsa_amd_svm_attributes_set(at, 4096, &nobody, 1) == HSA_STATUS_ERROR_INVALID_AGENT);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("svm: engines use pages with attributes, and a prefetch says where they are") {
  const outcome got = in_child({}, [] {
    hsa_system on;
    char* const at = static_cast<char*>(
        mmap(nullptr, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    hsa_amd_svm_attribute_pair_t access{HSA_AMD_SVM_ATTRIB_AGENT_ACCESSIBLE, on.gpus[0].handle};
    EXPECT(hsa_amd_svm_attributes_set(at, 16384, &access, 1) == HSA_STATUS_SUCCESS);
    const hsa_signal_t done = make_signal();
    EXPECT(hsa_amd_svm_prefetch_async(at, 16384, on.gpus[0], 0, nullptr, done) ==
           HSA_STATUS_SUCCESS);
    wait(done);
    hsa_amd_svm_attribute_pair_t where{HSA_AMD_SVM_ATTRIB_PREFETCH_LOCATION, 0};
    EXPECT(hsa_amd_svm_attributes_get(at, 16384, &where, 1) == HSA_STATUS_SUCCESS);
    EXPECT(where.value == on.gpus[0].handle);
    at[10000] = 3;
    char* const to = on.allocate(on.gpus[0], 16384);
    wait(start_copy(to, on.gpus[0], at, on.cpu, 16384));
    EXPECT(to[10000] == 3);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

}  // namespace
