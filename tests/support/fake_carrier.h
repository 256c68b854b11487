// What carries requests, without a network: a connection with many streams, as HTTP/2 has them, and
// the I/O thread that serves it, which the test turns.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proxy/exchange/router.h"
#include "proxy/process/all_lanes.h"
#include "tests/support/seeded_random.h"

namespace recourse {

// What the connection has sent, in order: "3 head 200", "3 data abc", "3 end".
using Frames = std::vector<std::string>;

// A body that comes in pieces, whenever the test gives one.
class FakeBody final : public RequestBody {
 public:
  void Give(std::string data, bool ends) {
    given_.emplace_back(std::move(data), ends);
    if (waiter_ != nullptr) std::exchange(waiter_, nullptr)->Set(true);
  }

  void KeepHead() override {}  // nothing is read over it
  Piece Begin() override { return given_.empty() ? Piece{} : Next(); }
  void Skip() override {}
  Task<Piece> Read(MonoTime) override {
    if (given_.empty() && !is_stopped_) {
      Promise<bool> given;
      waiter_ = &given;
      co_await given.Wait();
    }
    if (is_stopped_) co_return Piece{{}, BodyDecoder::End::kBad, Error(ErrorCode::kRequestTimeout)};
    co_return Next();
  }
  std::uint64_t announced() const override { return 0; }
  void Stop() override {
    is_stopped_ = true;
    if (waiter_ != nullptr) std::exchange(waiter_, nullptr)->Set(false);
  }
  bool is_awaited() const override { return false; }
  Task<bool> Ask() override { co_return true; }
  std::span<char> FreeRoom() override { return {}; }
  BufferPool::Buffer Take() override { return {}; }
  void Drop() override {}

 private:
  Piece Next() {
    auto [data, ends] = std::move(given_.front());
    given_.pop_front();
    data_ = std::move(data);
    return {data_, ends ? BodyDecoder::End::kComplete : BodyDecoder::End::kMore};
  }

  std::deque<std::pair<std::string, bool>> given_;  // data, and whether it is the last
  std::string data_;
  bool is_stopped_ = false;
  Promise<bool>* waiter_ = nullptr;
};

// Framing is that of the carrier: lengths and chunks do not show.
class FakeReply final : public Reply {
 public:
  FakeReply(std::string stream, Frames& frames) : stream_(std::move(stream)), frames_(frames) {}

  Task<bool> Send(const HttpResponse& response, bool) override {
    Put("head " + std::to_string(response.status));
    Put("data " + response.body);
    Put("end");
    co_return true;
  }
  bool Begin(const PassedHead& head) override {
    keeps_ = true;
    head_ = "head " + std::to_string(head.head.status);
    return true;
  }
  bool Begin(const HttpResponse& head, std::optional<std::uint64_t>, bool) override {
    keeps_ = true;
    head_ = "head " + std::to_string(head.status);
    return true;
  }
  Task<bool> Send(const ReplyPiece& piece) override {
    if (!head_.empty()) Put(std::exchange(head_, {}));
    if (!piece.data.empty()) Put("data " + std::string(piece.data));
    if (piece.ends) Put("end");
    co_return true;
  }
  bool may_grow() const override { return true; }
  Task<Interim> SendInterim(const Head&, std::uint64_t, std::span<char>) override {
    co_return Interim::kSent;
  }
  void Cut() override {
    is_cut_ = true;
    Put("reset");
  }

 private:
  void Put(const std::string& what) { frames_.push_back(stream_ + " " + what); }

  const std::string stream_;
  Frames& frames_;
  std::string head_;
};

// A stream has no bytes of its own to give away.
class FakeClient final : public ClientSide {
 public:
  // From now on it is that; who waits for it hears so.
  void Become(State state) {
    state_ = state;
    if (waiter_ != nullptr) std::exchange(waiter_, nullptr)->Set(state);
  }

  State Look() override { return state_; }
  Task<State> Await() override {
    if (state_ != State::kSilent) co_return state_;
    Promise<State> heard;
    waiter_ = &heard;
    co_return co_await heard.Wait();
  }
  void StopAwaiting() override {
    if (waiter_ != nullptr) std::exchange(waiter_, nullptr)->Set(State::kSilent);
  }
  Task<bool> HasTaken() override { co_return true; }
  void MarkAnswered(AttemptId) override {}
  bool HasLeft() const override { return false; }
  bool MayHaveLeft() const override { return false; }
  Task<std::optional<RawConnection>> Upgrade(const Head&, std::uint64_t, std::string_view,
                                             std::span<char>) override {
    co_return std::nullopt;
  }
  Task<std::optional<RawConnection>> AcceptConnect() override { co_return std::nullopt; }
  std::optional<RawConnection> TakeOver() override { return std::nullopt; }
  void EnterTunnel(Authority) override {}
  void Drains(Drainable*) override {}

 private:
  State state_ = State::kSilent;
  Promise<State>* waiter_ = nullptr;
};

// One of the streams of a connection.
struct FakeStream {
  FakeStream(Worker& worker, const Ingress& ingress, const std::string& id, Frames& frames,
             std::string lines)
      : head(std::move(lines) + "\r\n"), request(worker, ingress), reply(id, frames) {
    EXPECT_EQ(ParseRequestHead(head, request.head).state, ParseState::kComplete);
  }

  Task<void> Serve(const Lanes& lanes) {
    request.Begin();
    const bool may_go_on = co_await ServeRequest(exchange, lanes);
    ended = request.Now();
    request.End();
    kept = may_go_on;
  }

  const std::string head;
  ServedRequest request;
  FakeBody body;
  FakeReply reply;
  FakeClient client;
  Exchange exchange{request, body, reply, client};
  MonoTime ended{};
  std::optional<bool> kept;  // set: it is answered
};

// One I/O thread, and all that exchanges on it share.
class FakeProcess {
 private:
  SeededRandom random_;
  Metrics metrics_{WallTime{}};
  AccessLog log_{"off"};
  AllLanes all_;
  const Lanes lanes_ = all_.lanes();
  const Ingress ingress_;

 public:
  FakeProcess(const Clock& clock, std::shared_ptr<const Policy> policy) : thread(clock) {
    services.access_log = &log_;
    services.metrics = &metrics_;
    services.clock = &clock;
    services.random = &random_;
    services.UseInstallSecret(std::string(32, 'x'));
    services.via = "1.1 recourse-test";
    worker.emplace(services, thread, std::move(policy), PolicyView::Earlier{});
  }

  std::unique_ptr<FakeStream> Open(const std::string& id, std::string lines) {
    return std::make_unique<FakeStream>(*worker, ingress_, id, frames, std::move(lines));
  }
  // `stream` outlives it.
  void Serve(FakeStream& stream) {
    Spawn(stream.Serve(lanes_), [] {});
  }

  IoThread thread;
  Services services{64 * 1024 * 1024};
  std::optional<Worker> worker;
  Frames frames;
};

}  // namespace recourse
