// How a policy treats a call of which only hashes of its values are kept. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "policy/model/policy.h"
#include "policy/suggest/sighting.h"

namespace recourse {

// The hash of a value, as the sightings have them.
using SeenHash = std::function<std::uint64_t(std::string_view)>;

struct SeenWrite {
  enum class Kind : std::uint8_t {
    kRead,
    kRefused,  // `why`: a slug, and what it means here
    kUntold,   // `why`
    kLogged,   // sent, whatever it repeats
    kKeyed,
  };
  Kind kind = Kind::kRead;
  std::string why;
  const Tool* tool = nullptr;  // null: unlisted
  std::string name;            // of the tool: "unlisted.shop"
  bool asks = false;           // a human, each time

  // Of a keyed one.
  std::string intent;  // equal for calls of equal intent, whatever their scope
  std::string scope;   // the trace, or the value that the policy names; empty: all calls
  bool is_named = false, has_identity = false;
  std::string arguments;  // equal where the fingerprint is
  std::string place;      // backend and path
};

class SeenWriteReader {
 public:
  // Both outlive it.
  SeenWriteReader(const Policy& policy, const SeenHash& hash);

  SeenWrite Read(const Sighting& seen) const;

 private:
  std::string PathOf(const Sighting& seen) const;

  const Policy& policy_;
  std::map<std::uint64_t, std::string> literals_;  // of paths, by their hash
};

}  // namespace recourse
