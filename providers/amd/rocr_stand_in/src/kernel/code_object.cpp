// SPDX-License-Identifier: MIT
#include "src/kernel/code_object.hpp"

#include <algorithm>
#include <cstring>

#include <elf.h>

#include "src/base/text.hpp"
#include "src/kernel/kernel_metadata.hpp"

namespace stand_in {
namespace {

constexpr int machine_amdgpu = 224;
constexpr int symbol_kernel = 10;       // STT_AMDGPU_HSA_KERNEL
constexpr int relative_64 = 13;         // R_AMDGPU_RELATIVE64
constexpr std::uint32_t metadata = 32;  // NT_AMDGPU_METADATA
constexpr std::uint64_t most_image_bytes = std::uint64_t{1} << 32;

class elf_file {
 public:
  elf_file(const void* file, std::size_t bytes)
      : at_(static_cast<const char*>(file)), bytes_(bytes) {}

  // nullptr if `count` objects at `offset` are not all in the file
  template <class Object>
  const Object* objects(std::uint64_t offset, std::uint64_t count) const {
    if (offset > bytes_ || count > (bytes_ - offset) / sizeof(Object)) return nullptr;
    return reinterpret_cast<const Object*>(at_ + offset);
  }

 private:
  const char* at_;
  std::size_t bytes_;
};

bool load_segments(const elf_file& file, const Elf64_Phdr* segments, int count, code_image& into) {
  std::uint64_t end = 0;
  for (int i = 0; i < count; ++i) {
    if (segments[i].p_type != PT_LOAD) continue;
    if (segments[i].p_vaddr > most_image_bytes || segments[i].p_memsz > most_image_bytes) {
      return false;
    }
    end = std::max(end, segments[i].p_vaddr + segments[i].p_memsz);
  }
  into.bytes.assign(end, 0);
  for (int i = 0; i < count; ++i) {
    const Elf64_Phdr& each = segments[i];
    if (each.p_type != PT_LOAD) continue;
    const char* from = file.objects<char>(each.p_offset, each.p_filesz);
    if (from == nullptr || each.p_filesz > each.p_memsz) return false;
    std::copy_n(from, each.p_filesz, into.bytes.begin() + static_cast<long>(each.p_vaddr));
  }
  return true;
}

void read_notes(const elf_file& file, const Elf64_Phdr& segment, code_image& into) {
  std::uint64_t at = segment.p_offset;
  const std::uint64_t end = segment.p_offset + segment.p_filesz;
  while (at + sizeof(Elf64_Nhdr) <= end) {
    const auto* head = file.objects<Elf64_Nhdr>(at, 1);
    if (head == nullptr) return;
    const std::uint64_t content = at + sizeof *head + round_up(head->n_namesz, 4);
    const auto* bytes = file.objects<unsigned char>(content, head->n_descsz);
    if (bytes == nullptr) return;
    if (head->n_type == metadata) into.kernels = parse_kernel_metadata(bytes, head->n_descsz);
    at = content + round_up(head->n_descsz, 4);
  }
}

bool read_symbols(const elf_file& file, const Elf64_Shdr& table, const Elf64_Shdr& names,
                  code_image& into) {
  const std::uint64_t count = table.sh_size / sizeof(Elf64_Sym);
  const auto* symbols = file.objects<Elf64_Sym>(table.sh_offset, count);
  const char* strings = file.objects<char>(names.sh_offset, names.sh_size);
  if (symbols == nullptr || strings == nullptr) return false;
  for (std::uint64_t i = 0; i < count; ++i) {
    const int type = ELF64_ST_TYPE(symbols[i].st_info);
    if (type != STT_OBJECT && type != symbol_kernel) continue;
    if (symbols[i].st_name >= names.sh_size || symbols[i].st_value >= into.bytes.size()) continue;
    const char* name = strings + symbols[i].st_name;
    const std::string whole(name, strnlen(name, names.sh_size - symbols[i].st_name));
    const bool is_kernel = whole.size() > 3 && whole.compare(whole.size() - 3, 3, ".kd") == 0;
    into.symbols.push_back({whole, is_kernel, symbols[i].st_value, symbols[i].st_size});
  }
  return true;
}

bool read_relocations(const elf_file& file, const Elf64_Shdr& table, code_image& into) {
  const std::uint64_t count = table.sh_size / sizeof(Elf64_Rela);
  const auto* all = file.objects<Elf64_Rela>(table.sh_offset, count);
  if (all == nullptr) return false;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (ELF64_R_TYPE(all[i].r_info) != relative_64) continue;
    if (all[i].r_offset + 8 > into.bytes.size()) return false;
    into.relocations.push_back({all[i].r_offset, static_cast<std::uint64_t>(all[i].r_addend)});
  }
  return true;
}

}  // namespace

bool parse_code_object(const void* bytes, std::size_t size, code_image& into) {
  const elf_file file(bytes, size);
  const auto* head = file.objects<Elf64_Ehdr>(0, 1);
  if (head == nullptr || std::memcmp(head->e_ident, ELFMAG, SELFMAG) != 0) return false;
  if (head->e_machine != machine_amdgpu) return false;
  const auto* segments = file.objects<Elf64_Phdr>(head->e_phoff, head->e_phnum);
  const auto* sections = file.objects<Elf64_Shdr>(head->e_shoff, head->e_shnum);
  if (segments == nullptr || sections == nullptr) return false;
  if (!load_segments(file, segments, head->e_phnum, into)) return false;
  for (int i = 0; i < head->e_phnum; ++i) {
    if (segments[i].p_type == PT_NOTE) read_notes(file, segments[i], into);
  }
  for (int i = 0; i < head->e_shnum; ++i) {
    const Elf64_Shdr& each = sections[i];
    if (each.sh_type == SHT_RELA && !read_relocations(file, each, into)) return false;
    if (each.sh_type != SHT_DYNSYM) continue;
    if (each.sh_link >= head->e_shnum) return false;
    if (!read_symbols(file, each, sections[each.sh_link], into)) return false;
  }
  return true;
}

}  // namespace stand_in
