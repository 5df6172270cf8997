// SPDX-License-Identifier: MIT
#include "support/code_object_builder.hpp"

#include <algorithm>
#include <cstring>

#include <elf.h>

#include <nlohmann/json.hpp>

namespace test {
namespace {

constexpr std::uint64_t descriptor_bytes = 64;

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

std::uint64_t kernarg_bytes(const kernel_description& kernel) {
  const auto offsets = argument_offsets(kernel);
  return offsets.empty() ? 0 : offsets.back() + kernel.arguments.back().bytes;
}

std::vector<std::uint8_t> metadata_of(const std::vector<kernel_description>& kernels) {
  nlohmann::json root;
  root["amdhsa.kernels"] = nlohmann::json::array();
  for (const kernel_description& kernel : kernels) {
    nlohmann::json described{{".name", kernel.name}, {".symbol", kernel.name + ".kd"}};
    const auto offsets = argument_offsets(kernel);
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      const argument_description& each = kernel.arguments[i];
      described[".args"].push_back({{".name", each.name},
                                    {".offset", offsets[i]},
                                    {".size", each.bytes},
                                    {".value_kind", each.pointer ? "global_buffer" : "by_value"}});
    }
    described[".args"].push_back({{".offset", round_up(kernarg_bytes(kernel), 8)},
                                  {".size", 8},
                                  {".value_kind", "hidden_none"}});
    root["amdhsa.kernels"].push_back(described);
  }
  return nlohmann::json::to_msgpack(root);
}

class image {
 public:
  template <class Object>
  std::uint64_t append(const Object& object) {
    return append(&object, sizeof object);
  }
  std::uint64_t append(const void* from, std::uint64_t bytes) {
    bytes_.resize(round_up(bytes_.size(), 8));
    const std::uint64_t at = bytes_.size();
    const auto* begin = static_cast<const char*>(from);
    bytes_.insert(bytes_.end(), begin, begin + bytes);
    return at;
  }
  template <class Object>
  Object& at(std::uint64_t offset) {
    return *reinterpret_cast<Object*>(bytes_.data() + offset);
  }
  std::vector<char> take() { return std::move(bytes_); }

 private:
  std::vector<char> bytes_;
};

std::uint64_t append_note(image& into, const std::vector<kernel_description>& kernels,
                          std::uint64_t& bytes) {
  const auto metadata = metadata_of(kernels);
  const Elf64_Nhdr head{7, static_cast<Elf64_Word>(metadata.size()), 32};
  std::vector<char> note(sizeof head + 8 + round_up(metadata.size(), 4));
  std::memcpy(note.data(), &head, sizeof head);
  std::memcpy(note.data() + sizeof head, "AMDGPU", 7);
  std::memcpy(note.data() + sizeof head + 8, metadata.data(), metadata.size());
  bytes = note.size();
  return into.append(note.data(), note.size());
}

}  // namespace

std::vector<std::uint64_t> argument_offsets(const kernel_description& kernel) {
  std::vector<std::uint64_t> offsets;
  std::uint64_t end = 0;
  for (const argument_description& each : kernel.arguments) {
    offsets.push_back(round_up(end, std::min<std::uint64_t>(each.bytes, 32)));
    end = offsets.back() + each.bytes;
  }
  return offsets;
}

std::vector<char> build_code_object(const std::vector<kernel_description>& kernels) {
  image file;
  const std::uint64_t head = file.append(Elf64_Ehdr{});
  const std::uint64_t segments = file.append(Elf64_Phdr{});
  file.append(Elf64_Phdr{});
  std::uint64_t note_bytes = 0;
  const std::uint64_t note = append_note(file, kernels, note_bytes);
  std::string names(1, '\0');
  std::vector<Elf64_Sym> symbols(1);
  std::vector<char> descriptors(kernels.size() * descriptor_bytes);
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const auto bytes = static_cast<std::uint32_t>(kernarg_bytes(kernels[i]));
    std::memcpy(descriptors.data() + i * descriptor_bytes + 8, &bytes, sizeof bytes);
    Elf64_Sym symbol{};
    symbol.st_name = static_cast<Elf64_Word>(names.size());
    symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
    symbol.st_value = i * descriptor_bytes;
    symbol.st_size = descriptor_bytes;
    symbols.push_back(symbol);
    names += kernels[i].name + ".kd" + '\0';
  }
  const std::uint64_t load = file.append(descriptors.data(), descriptors.size());
  const std::uint64_t table = file.append(symbols.data(), symbols.size() * sizeof(Elf64_Sym));
  const std::uint64_t strings = file.append(names.data(), names.size());
  Elf64_Shdr sections[3]{};
  sections[1].sh_type = SHT_DYNSYM;
  sections[1].sh_offset = table;
  sections[1].sh_size = symbols.size() * sizeof(Elf64_Sym);
  sections[1].sh_link = 2;
  sections[2].sh_type = SHT_STRTAB;
  sections[2].sh_offset = strings;
  sections[2].sh_size = names.size();
  const std::uint64_t section_table = file.append(sections, sizeof sections);
  auto& elf = file.at<Elf64_Ehdr>(head);
  std::memcpy(elf.e_ident, ELFMAG, SELFMAG);
  elf.e_ident[EI_CLASS] = ELFCLASS64;
  elf.e_machine = 224;
  elf.e_phoff = segments;
  elf.e_phnum = 2;
  elf.e_shoff = section_table;
  elf.e_shnum = 3;
  auto& load_segment = file.at<Elf64_Phdr>(segments);
  load_segment.p_type = PT_LOAD;
  load_segment.p_offset = load;
  load_segment.p_filesz = load_segment.p_memsz = descriptors.size();
  auto& note_segment = file.at<Elf64_Phdr>(segments + sizeof(Elf64_Phdr));
  note_segment.p_type = PT_NOTE;
  note_segment.p_offset = note;
  note_segment.p_filesz = note_segment.p_memsz = note_bytes;
  return file.take();
}

}  // namespace test
