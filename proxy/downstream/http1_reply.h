// An answer by the framing of HTTP/1.1, or of HTTP/1.0 to a client that speaks no more.
#pragma once

#include <string_view>

#include "proxy/downstream/http1_wire.h"
#include "proxy/exchange/reply.h"
#include "proxy/exchange/served_request.h"

namespace recourse {

class Http1Reply final : public Reply {
 public:
  // Both outlive it.
  Http1Reply(Http1Wire& wire, ServedRequest& request) : wire_(wire), request_(request) {}

  Task<bool> Send(const HttpResponse& response, bool may_keep) override;
  bool Begin(const PassedHead& head) override;
  bool Begin(const HttpResponse& head, std::optional<std::uint64_t> length, bool may_keep) override;
  Task<bool> Send(const ReplyPiece& piece) override;
  bool may_grow() const override {
    return framing_ == Framing::kChunked || framing_ == Framing::kUntilClose;
  }
  Task<Interim> SendInterim(const Head& head, std::uint64_t dropped, std::span<char> room) override;
  void Cut() override;
  // A word before it did, or did not, come to the client whole.
  void MarkCut(bool is_cut) { is_cut_ = is_cut; }

 private:
  // For a body whose length nobody knows.
  void FrameStream(HeadWriter& writer);
  bool EndHead(HeadWriter& writer);

  Http1Wire& wire_;
  ServedRequest& request_;
  enum class Framing : std::uint8_t { kNone, kLength, kChunked, kUntilClose };
  Framing framing_ = Framing::kNone;
  std::string_view head_;           // rendered, and not sent yet
  BufferPool::Buffer head_memory_;  // where it is one of ours
};

}  // namespace recourse
