// SPDX-License-Identifier: MIT
#include <hipvmm/runtime/device.hpp>

#include "runtime/device.hpp"
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

device_uuid uuid_of_text(std::string_view text) {
  device_uuid uuid;
  REQUIRE(text.size() <= uuid.bytes.size());
  std::copy(text.begin(), text.end(), uuid.bytes.begin());
  return uuid;
}

TEST_CASE("device_uuid: AMD's letters and digits are the text") {
  CHECK(to_string(uuid_of_text("9c5d1a0be6f73482")) == "GPU-9c5d1a0be6f73482");
}

TEST_CASE("device_uuid: other bytes are hexadecimal in five groups") {
  CHECK(to_string(device_uuid{{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x01, 0x23, 0x45,
                               0x67, 0x89, 0xab, 0xcd, 0xef}}) ==
        "GPU-01234567-89ab-cdef-0123-456789abcdef");
  // One byte that is neither a letter nor a digit.
  CHECK(to_string(uuid_of_text("9c5d1a0be6f7348-")) == "GPU-39633564-3161-3062-6536-66373334382d");
}

TEST_CASE("device_uuid: compares byte by byte") {
  const device_uuid one = uuid_of_text("a");
  CHECK(one == uuid_of_text("a"));
  CHECK(one != uuid_of_text("b"));
  CHECK(one < uuid_of_text("b"));
  CHECK_FALSE(one < one);
}

TEST_CASE("device_uuid: zeros and the XX of ROCr name no device") {
  CHECK_FALSE(detail::names_device(device_uuid{}));
  CHECK_FALSE(detail::names_device(uuid_of_text("XX")));
  CHECK(detail::names_device(uuid_of_text("XXY")));
  CHECK(detail::names_device(uuid_of_text("XX00000000000000")));
}

TEST_CASE("device_with_uuid: finds each device by its UUID and by the text of it") {
  for (int ordinal = 0; ordinal < device_count(); ++ordinal) {
    const device_ref device{ordinal};
    if (!detail::find_uuid(device)) continue;
    CHECK(device_with_uuid(device.uuid()) == device);
    CHECK(device_with_uuid(to_string(device.uuid())) == device);
  }
}

TEST_CASE("device_with_uuid: what no device has finds none") {
  CHECK(device_with_uuid(uuid_of_text("no device's id")) == std::nullopt);
  CHECK(device_with_uuid(device_uuid{}) == std::nullopt);
  for (const char* text : {"", "GPU-", "GPU-XX", "0"})
    CHECK(device_with_uuid(text) == std::nullopt);
}

TEST_CASE("device_ref: the UUID of an unknown device throws invalid_argument") {
  CHECK_THROWS_AS(static_cast<void>(device_ref{device_count()}.uuid()), std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(device_ref{-1}.uuid()), std::invalid_argument);
}

}  // namespace
}  // namespace hipvmm::test
