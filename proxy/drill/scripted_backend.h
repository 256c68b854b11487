// All backends of a policy, played from its script: what they do is written down, and nothing real
// is touched.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
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
  // The answer that proves the effect, or the undo, is given, and there is none.
  bool key_hit = false, happened_if = false, settled_by = false, done = false;
  bool key_after_failure = false;  // what failed had its effect all the same

  bool any() const {
    return forgets_keys() || repeatable || absent_after || key_hit || happened_if || settled_by ||
           done || key_after_failure;
  }
  bool forgets_keys() const { return key_header || key_lives; }
};

// What --doubt names, and what is played then.
struct Doubt {
  std::string_view name;
  bool Ambiguities::* of;
  std::string_view means;
};
inline constexpr Doubt kDoubts[] = {
    {"key_header", &Ambiguities::key_header, "Backends do again what comes again under its key."},
    {"key_lives", &Ambiguities::key_lives,
     "Backends have forgotten a key by the time it comes again."},
    {"key_hit", &Ambiguities::key_hit, "It holds of a repeat, and the first one had no effect."},
    {"key_after_failure", &Ambiguities::key_after_failure,
     "What failed, so that another key is needed, had its effect."},
    {"happened_if", &Ambiguities::happened_if,
     "It tells of a stranger's twin, which the settle request takes for ours."},
    {"settled_by", &Ambiguities::settled_by, "It says done of what never took effect."},
    {"repeatable", &Ambiguities::repeatable, "An undo that comes again acts again."},
    {"done", &Ambiguities::done, "An undo is answered as done, and undoes nothing."},
    {"absent_after", &Ambiguities::absent_after,
     "A settle request finds an effect later than that."}};

// What goes wrong at the backends. Indexes into the script.
struct Mishaps {
  std::optional<std::size_t> refused;      // this call is refused
  std::optional<std::size_t> lost_answer;  // the first answer to this call gets lost
  Ambiguities doubts{};
};

// A backend does what its policy says of it and no more: it knows a repeat only by its key, which
// it reads where the policy has it, tells of a write only who asks in a way that it can understand,
// and undoes twice whoever asks twice, unless the policy says that the undo may be repeated.
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
    std::string key;   // that the write came with; empty: none
    std::string mark;  // likewise
    bool is_undone = false;
    int asked = 0;  // settle requests that it was not found by
    bool was_asked_later = false, was_undo_asked_later = false;  // `settled_by`: once in vain
    bool is_none = false;  // a doubted claim tells of it, and nothing happened
  };
  struct Known {
    std::size_t call = 0;
    HttpResponse answer;
    bool is_undo = false;
  };
  // A request as one of the script's calls, or as the undo of an effect.
  struct Heard {
    std::size_t call = 0;
    std::string key, mark;
  };
  struct HeardUndo {
    Effect* effect = nullptr;
    std::string key;
  };
  ServedAnswer Act(const HttpRequest& request);
  std::optional<HttpResponse> StateOf(const HttpRequest& request);
  std::optional<HttpResponse> Later(const HttpRequest& request);
  bool IsWithoutEffect(std::size_t call) const;
  bool IsQuestion(const HttpRequest& request) const;
  bool IsSearch(const HttpRequest& request) const;
  ServedAnswer Write(const Heard& heard);
  ServedAnswer Undo(Effect& effect, const std::string& key);
  ServedAnswer Ask(const HttpRequest& request);
  HttpResponse NothingFound(const HttpRequest& request) const;
  std::optional<HeardUndo> UndoneBy(const HttpRequest& request);
  std::optional<std::string> KeyOfUndo(const Effect& effect, const HttpRequest& request) const;
  std::optional<Heard> CallOf(const HttpRequest& request) const;
  bool IsFor(const HttpRequest& request, const Backend& backend) const;

  const std::vector<ScriptedCall>& script_;
  const Mishaps mishaps_;
  bool has_lost_ = false;
  std::vector<Effect> effects_;
  std::map<std::string, Known> known_;  // by backend and key
  std::vector<Action> deeds_;
};

}  // namespace recourse
