// All backends of a policy, played from its script: what they do is written down, and nothing real
// is touched.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "proxy/base/http/http_message.h"
#include "proxy/drill/script.h"
#include "proxy/net/beast/http_server.h"

namespace recourse {

// What the backends did, in order.
struct Action {
  enum class Kind : std::uint8_t {
    kEffect,     // a write took effect
    kRefused,    // a write was refused
    kRepeat,     // a write that it knew by its key: no second effect
    kUndone,     // an effect was undone
    kUndoAgain,  // an undo that it knew, by its key or because the policy says that it may repeat
    kProbe,      // it was asked what became of a write
    kStrange,    // a request that no call of the script explains
  };
  Kind kind = Kind::kEffect;
  std::size_t call = 0;  // index into the script; of kStrange: none
  std::string what{};    // for people
};

// What the policy claims of its backends and the drill takes for false.
struct Ambiguities {
  bool key_header = false;    // a write that comes again under its key takes effect again
  bool key_lives = false;     // likewise: by then the key is forgotten
  bool repeatable = false;    // an undo that comes again acts again
  bool absent_after = false;  // a settle request finds an effect later than the policy allows for

  bool any() const { return forgets_keys() || repeatable || absent_after; }
  bool forgets_keys() const { return key_header || key_lives; }
};

// What goes wrong at the backends. Indexes into the script.
struct Mishaps {
  std::optional<std::size_t> refused;      // this call is refused
  std::optional<std::size_t> lost_answer;  // the first answer to this call gets lost
  Ambiguities doubts{};
};

// A backend does what its policy says of it and no more: it knows a repeat only by its key, tells
// of a write only who asks in a way that it can understand, and undoes twice whoever asks twice,
// unless the policy says that the undo may be repeated.
class ScriptedBackend {
 public:
  // `script` outlives it.
  ScriptedBackend(const std::vector<ScriptedCall>& script, Mishaps mishaps);

  // One request at a time; of an MCP server a message, which is answered with one.
  ServedAnswer Handle(const HttpRequest& request);
  const std::vector<Action>& deeds() const { return deeds_; }

 private:
  struct Effect {
    std::size_t call = 0;
    std::string key;  // that the write came with; empty: none
    bool is_undone = false;
    int asked = 0;  // settle requests that it was not found by
  };
  struct Known {
    std::size_t call = 0;
    HttpResponse answer;
    bool is_undo = false;
  };
  ServedAnswer Act(const HttpRequest& request);
  std::optional<HttpResponse> StateOf(const HttpRequest& request) const;
  bool IsQuestion(const HttpRequest& request) const;
  ServedAnswer Write(std::size_t call, const std::string& key);
  ServedAnswer Undo(Effect& effect, const std::string& key);
  ServedAnswer Ask(const HttpRequest& request);
  HttpResponse NothingFound(const HttpRequest& request) const;
  Effect* UndoneBy(const HttpRequest& request);
  std::optional<std::size_t> CallOf(const HttpRequest& request) const;
  bool IsFor(const HttpRequest& request, const Backend& backend) const;
  std::string KeyOf(const HttpRequest& request) const;

  const std::vector<ScriptedCall>& script_;
  const Mishaps mishaps_;
  bool has_lost_ = false;
  std::vector<Effect> effects_;
  std::map<std::string, Known> known_;  // by backend and key
  std::vector<Action> deeds_;
};

}  // namespace recourse
