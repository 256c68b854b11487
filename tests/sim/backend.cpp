#include "tests/sim/backend.h"

namespace recourse {
namespace {

std::string LastSegment(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string KindOf(const std::string& path) { return path.substr(1, path.find('/', 1) - 1); }

}  // namespace

// "POST /orders/REF" makes; "DELETE /orders/ID", "POST /refunds/ID" and "POST /voids/ID" undo.
SimBackend::Call SimBackend::Read(const HttpRequest& request) {
  Call call;
  call.kind = KindOf(request.target);
  const std::string* const key = FindHeader(request.headers, "Idempotency-Key");
  if (call.kind == "charges" || call.kind == "refunds") call.key = key == nullptr ? "" : *key;
  if (request.method == "DELETE" || call.kind == "refunds" || call.kind == "voids") {
    call.undoes = LastSegment(request.target);
  } else {
    call.ref = LastSegment(request.target);
    call.sent = loop_.now();
  }
  return call;
}

Step SimBackend::Receive(const HttpRequest& request) {
  const Call call = Read(request);
  if (dice_.Percent(fault_percent_)) return Fail(call);
  return After(dice_.Time(800), Execute(call));
}

Step SimBackend::Fail(const Call& call) {
  switch (dice_.Below(12)) {
    case 0:
      return Refuse(call, 422);
    case 1:
      return Respond(500, "oops");
    case 2:
      (void)Execute(call);
      return After(dice_.Time(500), Respond(500, "oops"));
    case 3:
      return Respond(429, "later", {{"Retry-After", std::to_string(dice_.Below(3))}});
    case 4:
      (void)Execute(call);
      return After(dice_.Time(500), CutAfterSend());
    case 5:
      return After(dice_.Time(500), CutAfterSend());
    case 6:
      loop_.Start(ExecuteLater(call, dice_.Time(kLatestMs)));
      return CutAfterSend();
    case 7:
      (void)Execute(call);
      return Hang();
    case 8:
      loop_.Start(ExecuteLater(call, dice_.Time(kLatestMs)));
      return Hang();
    case 9:
      return Refuse(call, 409);
    case 10:
      (void)Execute(call);
      return NotHttp();
    default:
      return After(dice_.Time(6'000), Execute(call));
  }
}

Task<void> SimBackend::ExecuteLater(Call call, Millis delay) {
  co_await loop_.timer().SleepUntil(loop_.now() + delay);
  (void)Execute(call);
}

Step SimBackend::Refuse(const Call& call, int status) {
  if (call.key.empty()) return Respond(status, R"({"error":"no"})");
  const auto [at, is_new] = decided_.emplace(call.key, std::string());
  return at->second.empty() ? Respond(status, R"({"error":"no"})") : Respond(200, at->second);
}

Step SimBackend::Execute(const Call& call) {
  if (!call.key.empty()) {
    const auto known = decided_.find(call.key);
    if (known != decided_.end()) {
      return known->second.empty() ? Respond(422, "{}") : Respond(200, known->second);
    }
  }
  Step step = call.undoes.empty() ? Make(call) : Undo(call);
  if (!call.key.empty() && step.answer.response.status < 300) {
    decided_[call.key] = step.answer.response.body;
  }
  return step;
}

Step SimBackend::Make(const Call& call) {
  SimEffect effect;
  effect.id = "e" + std::to_string(ref_of_.size() + 1);
  effect.kind = call.kind;
  effect.at = loop_.now();
  effect.sent = call.sent;
  ref_of_[effect.id] = call.ref;
  effects_[call.ref].push_back(effect);
  return Respond(201, R"({"id":")" + effect.id + "\"}");
}

Step SimBackend::Undo(const Call& call) {
  SimEffect* const effect = Find(call.undoes);
  if (effect == nullptr) {
    problems_.push_back("I9: an undo of " + call.undoes + ", which was never made");
    return Respond(404, "{}");
  }
  if (call.kind == "orders" && effect->undone > 0) return Respond(404, "{}");
  if (effect->undone++ == 0) {
    effect->undone_at = loop_.now();
    effect->undone_stamp = ++stamps_;
  } else {
    problems_.push_back("I8: " + effect->id + " was undone twice");
  }
  return Respond(200, "{}");
}

Step SimBackend::Probe(const HttpRequest& request) {
  if (dice_.Percent(fault_percent_)) return Respond(500, "");
  const auto at = effects_.find(LastSegment(request.target));
  if (at == effects_.end() || at->second.empty()) return Respond(404, "");
  return Respond(200, R"({"id":")" + at->second.front().id + "\"}");
}

void SimBackend::UndoByHand(const std::string& ref) {
  for (SimEffect& effect : effects_[ref]) {
    if (effect.undone++ > 0) continue;
    effect.undone_at = loop_.now();
    effect.undone_stamp = ++stamps_;
    effect.is_by_hand = true;
  }
}

SimEffect* SimBackend::Find(const std::string& id) {
  const auto ref = ref_of_.find(id);
  if (ref == ref_of_.end()) return nullptr;
  for (SimEffect& effect : effects_[ref->second]) {
    if (effect.id == id) return &effect;
  }
  return nullptr;
}

}  // namespace recourse
