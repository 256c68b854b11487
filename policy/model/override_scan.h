// Looks for an override of the method in a body while it streams by. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "proxy/base/error.h"

namespace recourse {

// Each takes the next piece of a body. True once the name of an override has been seen: no byte of
// its value lies in an earlier piece, so a backend that is not sent this one never learns it.

class PairScan {
 public:
  bool Feed(std::string_view piece);

 private:
  std::string name_;    // that is being read; bounded
  bool counts_ = true;  // it may still become one; a value does not
};

class PartScan {
 public:
  bool Feed(std::string_view piece);

 private:
  bool EndsLine(char c);
  bool NamesOverride() const;
  bool TellsName() const;
  std::string line_;        // of a part's head; bounded
  bool counts_ = true;      // it may still be one
  bool line_ends_ = false;  // it is whole, unless a fold continues it
};

// Laravel takes a member of the outermost object for a field.
class MemberScan {
 public:
  bool Feed(std::string_view piece);

 private:
  const char* SkipStructure(const char* at, const char* end);
  std::size_t EndOfString(std::string_view text);
  bool TakeName(std::string_view text, bool ends);
  std::string name_;  // that is being read; bounded
  std::size_t depth_ = 0;
  bool is_object_ = false;  // the outermost value
  bool in_string_ = false, is_escaped_ = false, in_name_ = false;
  bool expects_name_ = false;  // the next string is the name of one of its members
};

class OverrideScan {
 public:
  // `content_type`: the field's value; a body of another type than JSON or a form is not looked at.
  explicit OverrideScan(std::string_view content_type);
  // As above; of a form or JSON that is not IsAsciiForm it is true at once.
  bool Feed(std::string_view piece);
  // What to say then.
  std::string_view reason() const;
  ErrorCode code() const;

 private:
  bool is_ascii_ = true;
  std::optional<PairScan> pairs_;
  std::optional<PartScan> parts_;
  std::optional<MemberScan> members_;
};

}  // namespace recourse
