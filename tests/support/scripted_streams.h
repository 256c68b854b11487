// A backend without sockets, in virtual time: it says the bytes that its script says, and what it
// was sent is recorded. Below ScriptedUpstream, which speaks of whole answers.
#pragma once

#include <algorithm>
#include <coroutine>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proxy/net/message/upstream_stream.h"
#include "tests/support/test_loop.h"

namespace recourse {

// What becomes of one exchange.
struct StreamScript {
  struct Said {
    Millis after{0};  // what came before it; the first one: after the head of the request
    std::string bytes;
  };
  enum class Then : std::uint8_t { kSilent, kClosed, kBroken };

  std::vector<Said> says{};
  Then then = Then::kSilent;
  Millis then_after{0};
  std::optional<Error> refuses{};         // to be connected to
  std::size_t takes = std::string::npos;  // bytes of the request; the rest has to wait
  UpstreamStream::Sight sight = UpstreamStream::Sight::kQuiet;  // before anything is sent
};

class ScriptedStreams final : public UpstreamStreams {
 public:
  struct Exchanged {
    std::string sent;
    bool on_kept = false;
    bool is_cut = false;
  };

  explicit ScriptedStreams(TestLoop& loop) : loop_(loop) {}

  std::deque<StreamScript> script;  // of the exchanges to come
  std::vector<std::unique_ptr<Exchanged>> exchanges;
  std::vector<Millis> kept;  // for how long, each that was given back

  std::unique_ptr<UpstreamStream> Open(const Backend&, Terms terms, MonoTime,
                                       std::shared_ptr<const Backend>) override {
    const bool on_kept = terms.takes_kept && idle_ > 0;
    if (on_kept) --idle_;
    exchanges.push_back(std::make_unique<Exchanged>());
    exchanges.back()->on_kept = on_kept;
    RC_CHECK(!script.empty());
    auto stream = std::make_unique<Stream>(loop_, std::move(script.front()), *exchanges.back());
    script.pop_front();
    return stream;
  }
  void Give(std::unique_ptr<UpstreamStream>, Millis idle, MonoTime) override {
    kept.push_back(idle);
    ++idle_;
  }

 private:
  // What sleeping tasks share with the stream.
  struct State : std::enable_shared_from_this<State> {
    State(TestLoop& on, StreamScript of, Exchanged& in)
        : loop(on), script(std::move(of)), exchanged(in) {}

    void WakeAt(MonoTime when) { loop.Start(Sleep(shared_from_this(), when)); }
    static Task<void> Sleep(std::shared_ptr<State> self, MonoTime when) {
      co_await self->loop.timer().SleepUntil(when);
      self->Look();
    }
    void Look() {
      expired = expired || loop.now() >= deadline;
      if (sender && (expired || exchanged.is_cut)) std::exchange(sender, nullptr).resume();
      if (reader && TryRead()) std::exchange(reader, nullptr).resume();
    }
    // False: nothing is there yet, and it is looked at again when there is.
    bool TryRead() {
      size = 0;
      is_clean = false;
      if (expired || exchanged.is_cut) return true;
      if (!began) return false;
      const bool is_over = said == script.says.size();
      if (is_over && script.then == StreamScript::Then::kSilent) return false;
      const MonoTime due = *began + (is_over ? script.then_after : script.says[said].after);
      if (loop.now() < due) {
        WakeAt(due);
        return false;
      }
      if (!is_over) return TakeSaid(due);
      is_clean = script.then == StreamScript::Then::kClosed;
      return true;
    }
    bool TakeSaid(MonoTime due) {
      std::string& bytes = script.says[said].bytes;
      if (!buffer->memory) buffer->memory = buffer->pool->Take();
      size = std::min({bytes.size(), most, buffer->free_size()});
      std::memcpy(buffer->free_space(), bytes.data(), size);
      bytes.erase(0, size);
      if (bytes.empty()) {
        ++said;
        began = due;
      }
      return true;
    }

    TestLoop& loop;
    StreamScript script;
    Exchanged& exchanged;
    std::optional<MonoTime> began;  // when what was said last was, or the request came
    std::size_t said = 0;
    MonoTime deadline = MonoTime::max();
    bool expired = false;
    std::coroutine_handle<> sender, reader;
    ReadBuffer* buffer = nullptr;
    std::size_t most = 0, size = 0;
    bool is_clean = false;
  };

  class Stream final : public UpstreamStream {
   public:
    Stream(TestLoop& loop, StreamScript script, Exchanged& exchanged)
        : state_(std::make_shared<State>(loop, std::move(script), exchanged)) {
      is_reused_ = exchanged.on_kept;
    }
    ~Stream() override { RC_CHECK(!state_->sender && !state_->reader); }

    Task<Result<void>> Connected(MonoTime) override {
      if (state_->script.refuses) co_return std::unexpected(*state_->script.refuses);
      co_return Result<void>();
    }
    const PeerText& peer() const override { return peer_; }
    Sight Look() override { return state_->script.sight; }
    std::optional<Error> Refusal() const override { return std::nullopt; }
    void Arm(MonoTime until) override {
      state_->deadline = until;
      state_->expired = false;
      state_->WakeAt(until);
    }
    bool expired() const override { return state_->expired; }
    bool BeginSend(Parts parts, SendPermit*) override {
      sent_ = {};
      if (state_->expired || state_->exchanged.is_cut) return true;
      if (!state_->began) state_->began = state_->loop.now();
      std::string& sent = state_->exchanged.sent;
      for (const std::string_view part : parts) sent.append(part);
      const std::size_t takes = state_->script.takes;
      sent_ = {.whole = sent.size() <= takes, .any = takes > 0};
      sent.resize(std::min(sent.size(), takes));
      return sent_.whole;
    }
    Sent EndSend() override { return sent_; }
    bool HasEndedCleanly() const override { return state_->is_clean; }
    void Cut() override {
      state_->exchanged.is_cut = true;
      state_->WakeAt(state_->loop.now());
    }
    void Close(bool) override { Cut(); }
    void DropUnacknowledged(Millis) override {}
    Progress Arrived() const override { return {}; }
    void DropNow() override { Cut(); }
    void KeepAlive() override {}
    Connection* raw() override { return nullptr; }

   protected:
    void AwaitSend(std::coroutine_handle<> then) override { state_->sender = then; }
    bool BeginRead(ReadBuffer& buffer, std::size_t most, std::coroutine_handle<> then) override {
      state_->buffer = &buffer;
      state_->most = most;
      if (state_->TryRead()) return false;
      if (buffer.begin == buffer.end) buffer.memory.reset();
      state_->reader = then;
      return true;
    }
    std::size_t EndRead() override { return state_->size; }

   private:
    const std::shared_ptr<State> state_;
    PeerText peer_;
    Sent sent_;
  };

  TestLoop& loop_;
  std::size_t idle_ = 0;
};

}  // namespace recourse
