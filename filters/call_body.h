// The body of a call as filters read it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/base/http/http_message.h"
#include "proxy/base/json/json.h"

namespace recourse {

enum class BodyForm : std::uint8_t { kNone, kJson, kForm, kMultipart, kRaw };

struct BodyPart {
  Headers headers;  // names in lower case
  std::string content;
  std::vector<std::string> names;  // each that some reader takes for its name, once
  // It has one name, and its content is its value: no file, no other type than text, and UTF-8.
  bool is_text = false;
};

struct CallBody {
  BodyForm form = BodyForm::kNone;
  // kJson: the body; of a form: an object of strings, of the names that occur once, and of
  // multipart of the parts that are text.
  Json json;
  std::vector<std::pair<std::string, std::string>> pairs;  // kForm: decoded, in order
  std::vector<BodyPart> parts;                             // kMultipart
  std::string raw_type;  // kRaw: Content-Type and Content-Encoding, which give the bytes meaning
  // Of a call by name, whose arguments are its body: that of a server's tool (or the method, when
  // the message calls none) or of a mutation's field; empty: it is none.
  std::string call_name;
  std::string_view call_method;  // kToolsCall, kMutation; empty: it calls nothing
  std::string selection;         // of a mutation: what it selects of its answer
  // Of a message with an id: that as it came, and what it says itself of intent and trace.
  std::string message_id, message_intent, message_traceparent;
  // What the agent wrote into the body or the query where the backend takes its key; empty:
  // nothing.
  std::string placed_key;

  // What selectors on the body read; nullptr when it has no readable values.
  const Json* values() const { return form == BodyForm::kJson || is_form() ? &json : nullptr; }
  bool calls_tool() const { return !call_method.empty(); }
  bool is_form() const { return form == BodyForm::kForm || form == BodyForm::kMultipart; }
  // It says more than those selectors can read.
  bool is_partial() const {
    return form == BodyForm::kRaw ||
           (is_form() && json.members.size() != pairs.size() + parts.size());
  }
};

}  // namespace recourse
