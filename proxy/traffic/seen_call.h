// One call of observe mode, and the sighting that is kept of it. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "policy/suggest/sighting.h"
#include "proxy/base/crypto/sha256.h"

namespace recourse {

// Larger bodies are not looked into.
inline constexpr std::size_t kSeenBodyBytesMax = 64 * 1024;
inline constexpr std::size_t kSeenListBytesMax = 512 * 1024;  // of an MCP server's answers

struct SeenCall {
  std::int64_t wall_ms = 0, took_ms = 0;
  std::string backend, method, tool, caller, trace_id, agent_key;
  std::string path, query;  // as they came; `query` begins with "?", or is empty
  std::string content_type, body;
  bool has_body = false;  // `body` is missing where it is too large or encoded
  std::string answer;     // JSON; empty: it is none, or too large
  std::string answer_type;
  bool is_message = false;  // to an MCP server, whose answer may be a stream of events
  int status = 0;           // of the backend; 0: none came
  bool is_delivered = false;
};

// Values are hashed under `key`, which is of this use alone. nullopt: a message to an MCP server
// that tells nothing.
std::optional<Sighting> SightingOf(const SeenCall& call, const HmacKey& key);

// The hash that a value has in a sighting.
std::uint64_t HashSeen(std::string_view value, const HmacKey& key);

// One line of JSON, without its end.
std::string TextOf(const Sighting& sighting);
// False: `text` is none.
bool ReadSighting(std::string_view text, Sighting& sighting);

}  // namespace recourse
