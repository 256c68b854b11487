// A backend without a network: says what the script says, and records what reached it.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "filters/upstream.h"
#include "tests/support/test_loop.h"

namespace recourse {

// What happens to one attempt.
struct Step {
  enum class End { kAnswer, kRefuse, kCut, kBadAnswer };
  End end = End::kAnswer;
  Answer answer;
  Millis delay{0};  // until the answer, or until the connection is cut
  Error refusal{ErrorCode::kNotSent, "connection refused", Delivery::kNotSent};
};

inline Step Respond(int status, std::string body, Headers headers = {}) {
  Step step;
  step.answer.response.status = status;
  step.answer.response.reason = "Scripted";
  step.answer.response.headers = std::move(headers);
  if (FindHeader(step.answer.response.headers, "Content-Type") == nullptr) {
    step.answer.response.headers.emplace_back("Content-Type", "application/json");
  }
  step.answer.response.body = std::move(body);
  return step;
}
inline Step RefuseConnection() {
  Step step;
  step.end = Step::End::kRefuse;
  return step;
}
inline Step CutAfterSend() {
  Step step;
  step.end = Step::End::kCut;
  return step;
}
inline Step NotHttp() {
  Step step;
  step.end = Step::End::kBadAnswer;
  return step;
}
inline Step After(Millis delay, Step step) {
  step.delay = delay;
  return step;
}
// Longer than every deadline.
inline Step Hang() { return After(Millis(3'600'000), Respond(200, "{}")); }

class ScriptedUpstream final : public Upstream {
 public:
  struct Call {
    std::string backend;
    HttpRequest request;
    MonoTime at{};
  };

  explicit ScriptedUpstream(TestLoop& loop) : loop_(loop) {}

  // Writes take the next step of the script, then `otherwise`; probes ask `probe`.
  std::deque<Step> script;
  Step otherwise = Respond(201, R"({"id":"ord_1"})");
  std::function<Step(const HttpRequest&)> decide;  // instead of script and otherwise
  std::function<Step(const HttpRequest&)> probe = [](const HttpRequest&) {
    return Respond(200, R"({"items":[]})");
  };

  std::vector<Call> writes;  // requests of which at least one byte was sent
  std::vector<Call> probes;
  std::size_t opened = 0;

  std::unique_ptr<UpstreamConnection> Open(const Backend& backend) override {
    ++opened;
    return std::make_unique<Connection>(*this, backend.name);
  }

 private:
  class Connection final : public UpstreamConnection {
   public:
    Connection(ScriptedUpstream& upstream, std::string backend)
        : upstream_(upstream), backend_(std::move(backend)) {}

    Task<Result<void>> Connected() override {
      if (!upstream_.script.empty() && upstream_.script.front().end == Step::End::kRefuse) {
        const Step step = upstream_.Take();
        co_return std::unexpected(step.refusal);
      }
      co_return Result<void>();
    }
    void GiveBodyTo(BodySink* sink) override { sink_ = sink; }
    void AddFields(Headers fields) override { added_ = std::move(fields); }
    void SendOnlyWith(SendPermit* permit) override { permit_ = permit; }
    Task<Result<Answer>> Exchange(const HttpRequest& request, MonoTime deadline,
                                  std::size_t answer_bytes_max) override {
      TestLoop& loop = upstream_.loop_;
      if (permit_ != nullptr) {
        if (!permit_->Enter()) {
          co_return std::unexpected(
              Error(ErrorCode::kLedgerUnavailable, "no permit", Delivery::kNotSent));
        }
        permit_->Leave();
      }
      const bool is_probe = request.method == "GET" || request.method == "HEAD";
      HttpRequest sent = request;
      for (const auto& [name, value] : added_) SetHeader(sent.headers, name, value);
      (is_probe ? upstream_.probes : upstream_.writes)
          .push_back({backend_, std::move(sent), loop.now()});
      const Step step = is_probe ? upstream_.probe(request) : upstream_.StepFor(request);
      const MonoTime answered = loop.now() + step.delay;
      if (step.delay > Millis(0)) co_await loop.timer().SleepUntil(std::min(answered, deadline));
      if (answered > deadline) co_return Lost(ErrorCode::kBackendTimeout);
      if (step.end == Step::End::kCut) co_return Lost(ErrorCode::kBackendReset);
      if (step.end == Step::End::kBadAnswer) co_return Lost(ErrorCode::kBackendProtocol);
      if (step.end == Step::End::kRefuse) co_return std::unexpected(step.refusal);
      Answer answer = step.answer;
      if (sink_ != nullptr) co_return co_await GiveBody(std::move(answer));
      if (answer.response.body.size() > answer_bytes_max) {
        answer.response.body.resize(answer_bytes_max);
        answer.over_cap = true;
      }
      co_return answer;
    }

   private:
    // In two pieces, as a network might cut it.
    Task<Result<Answer>> GiveBody(Answer answer) {
      const std::string body = std::exchange(answer.response.body, {});
      for (const std::string& piece :
           {body.substr(0, body.size() / 2), body.substr(body.size() / 2)}) {
        if (piece.empty() || co_await sink_->Take(answer.response, piece)) continue;
        answer.body_complete = false;
        break;
      }
      co_return answer;
    }
    static Result<Answer> Lost(ErrorCode code) {
      return std::unexpected(Error(code, {}, Delivery::kUncertain));
    }

    ScriptedUpstream& upstream_;
    const std::string backend_;
    BodySink* sink_ = nullptr;
    Headers added_;
    SendPermit* permit_ = nullptr;
  };

  Step StepFor(const HttpRequest& request) { return decide ? decide(request) : Take(); }
  Step Take() {
    if (script.empty()) return otherwise;
    Step step = std::move(script.front());
    script.pop_front();
    return step;
  }

  TestLoop& loop_;
};

}  // namespace recourse
