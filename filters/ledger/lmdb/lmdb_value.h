// Texts as LMDB takes them and gives them back.
#pragma once

#include <lmdb.h>

#include <string_view>

namespace recourse {

// LMDB does not write through it.
inline MDB_val ValueOf(std::string_view text) {
  return {text.size(), const_cast<char*>(text.data())};
}

inline std::string_view TextOf(const MDB_val& value) {
  return {static_cast<const char*>(value.mv_data), value.mv_size};
}

}  // namespace recourse
