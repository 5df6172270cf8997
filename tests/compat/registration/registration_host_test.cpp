// SPDX-License-Identifier: MIT
#include <hipvmm/compat/registration.hpp>

#include <hipvmm/vmm/memory_registrar.hpp>
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

/// "address+bytes@chunk" of each piece.
std::string cut(std::uint64_t address, std::size_t bytes) {
  static const std::vector<registered_bytes> chunks{{100, 50, 0}, {150, 10, 1}, {200, 20, 2}};
  std::string result;
  for (const registered_bytes& each : cut_by_chunk(chunks, address, bytes))
    result += std::to_string(each.address) + '+' + std::to_string(each.bytes) + '@' +
              std::to_string(each.chunk) + ' ';
  return result;
}

TEST_CASE("cut_by_chunk: a piece for each chunk, and no byte that is in none") {
  CHECK(cut(100, 50) == "100+50@0 ");
  CHECK(cut(149, 2) == "149+1@0 150+1@1 ");
  CHECK(cut(120, 40) == "120+30@0 150+10@1 ");
  CHECK(cut(219, 1) == "219+1@2 ");
  CHECK(cut(500, 0).empty());
  for (const std::uint64_t address : {99, 160, 199, 220})
    CHECK_THROWS_WITH_AS(cut(address, 1),
                         doctest::Contains(("address " + std::to_string(address) + ",").c_str()),
                         std::out_of_range);
  CHECK_THROWS_WITH_AS(cut(150, 60), doctest::Contains("at address 160, 50 bytes before"),
                       std::out_of_range);
  CHECK_THROWS_AS(static_cast<void>(cut_by_chunk({}, 0, 1)), std::out_of_range);
}

/// A library that refuses now and then.
class refusing final : public library_registrar {
 public:
  bool refuses = false;

 private:
  void enter(const mapped_memory& /*memory*/) override {
    if (refuses) throw std::runtime_error{"refused"};
  }
  void leave(const mapped_memory& /*memory*/) override {
    if (refuses) throw std::runtime_error{"not let go"};
  }
};

TEST_CASE("library_registrar: what is refused is not listed") {
  refusing registrar;
  char bytes[2] = {};
  const auto memory = [&](std::size_t at) {
    return mapped_memory{&bytes[at], 1, first_device, first_device, nullptr, handle_type::none};
  };
  registrar.add(memory(1));
  registrar.add(memory(0));
  CHECK(registrar.chunks().front().address == reinterpret_cast<std::uintptr_t>(&bytes[0]));
  registrar.remove(memory(0));
  registrar.refuses = true;
  CHECK_THROWS_WITH_AS(registrar.add(memory(0)), "refused", std::runtime_error);
  CHECK(registrar.memory().size() == 1);
  error_recorder reported;
  registrar.remove(memory(1));
  CHECK(reported.count() == 1);
  CHECK(registrar.memory().empty());
}

TEST_CASE("library_registrar: what is told of a failure may ask what is registered") {
  static refusing* asked = nullptr;
  static std::size_t found = 0;
  refusing registrar;
  char bytes[2] = {};
  const auto memory = [&](std::size_t at) {
    return mapped_memory{&bytes[at], 1, first_device, first_device, nullptr, handle_type::none};
  };
  registrar.add(memory(0));
  registrar.add(memory(1));
  registrar.refuses = true;
  asked = &registrar;
  const error_handler before = set_error_handler(
      [](const char*, int, const char*) noexcept { found = asked->memory().size(); });
  registrar.remove(memory(1));
  set_error_handler(before);
  CHECK(found == 1);
}

}  // namespace
}  // namespace hipvmm::test
