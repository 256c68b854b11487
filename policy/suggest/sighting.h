// What observe mode has seen of one call: words of its path, and of every value a keyed hash, by
// which values can be told to be equal and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "policy/model/tool_names.h"

namespace recourse {

// What a value looks like, which its hash does not tell. Stored as letters: never change one.
enum class ValueKind : char {
  kComposite = 'c',  // an array, or an object deeper than one looks
  kFlag = 'b',       // true, false, null, or empty
  kNumber = 'n',
  kTime = 't',    // a date, or about now in seconds or milliseconds
  kOpaque = 'u',  // a UUID, or as long and as random as one
  kText = 'x',    // several words
  kWord = 'w',
};

struct SeenValue {
  std::string place;  // as a policy names it: "query.page", "body#/cart_id", "answer.body#/id"
  std::uint64_t hash = 0;
  ValueKind kind = ValueKind::kWord;
};

inline constexpr std::size_t kSeenItemsMax = 8;  // of a list in an answer

struct SeenSegment {
  std::string word;        // empty: it looks like the name of one thing
  std::uint64_t hash = 0;  // of the value; equal to that of an equal value elsewhere
};

enum class SeenBody : char { kNone = '-', kJson = 'j', kForm = 'f', kOther = 'o' };

// What an MCP server says of one of its tools.
struct SeenHint {
  std::string tool;
  bool is_read_only = false;
};

struct Sighting {
  std::int64_t wall_ms = 0, took_ms = 0;
  // Of an MCP server: the method of the message; the path is the name of the tool, and bodies are
  // its arguments and its result.
  std::string backend, method;
  std::string tool;  // of the policy in force; empty: unlisted
  // Hashes; 0: none.
  std::uint64_t caller = 0, trace = 0;
  std::uint64_t agent_key = 0;  // what the agent sent as its idempotency key
  std::vector<SeenSegment> path;
  std::vector<SeenValue> query;
  SeenBody form = SeenBody::kNone;
  std::vector<SeenValue> body;
  int status = 0;             // 0: no answer came
  bool is_delivered = false;  // the client had it whole
  std::vector<SeenValue> answer;
  std::vector<SeenHint> hints;  // of an MCP server's list, which is no call

  bool IsMcpCall() const { return method == kToolsCall; }
  bool Succeeded() const { return status >= 200 && status < 300; }
  // Its client may well have called again.
  bool InvitesRepeat() const {
    return status < 100 || status >= 500 || !is_delivered || status == 408 || status == 425 ||
           status == 429;
  }
};

}  // namespace recourse
