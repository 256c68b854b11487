// Requests that ask the backend to take another method than the one that the policy judged.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace recourse {

// True when the query (with or without its '?') has such a parameter: _method,
// X-HTTP-Method-Override and their relatives, in any spelling.
bool HasMethodOverride(std::string_view query);

// Looks for such a field in the body of a form while it streams by.
class FormOverrideScan {
 public:
  // `content_type`: the field's value; a body of another type than a form is not looked at.
  explicit FormOverrideScan(std::string_view content_type);
  bool is_form() const { return kind_ != Kind::kOther; }
  // Takes the next piece of the body. True once the name of an override has been seen: no byte of
  // its value lies in an earlier piece, so a backend that is not sent this one never learns it.
  bool Feed(std::string_view piece);

 private:
  enum class Kind : std::uint8_t { kOther, kUrlEncoded, kMultipart };
  bool FeedPairs(std::string_view piece);
  bool FeedParts(std::string_view piece);

  Kind kind_ = Kind::kOther;
  std::string text_;        // the name, or the line of a part's head, that is being read; bounded
  bool counts_ = true;      // text_ may still become a name; values and long lines do not
  bool line_ends_ = false;  // multipart: text_ is a whole line, which a fold may still continue
};

}  // namespace recourse
