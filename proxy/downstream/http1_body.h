// A request's body by the framing of HTTP/1.1 (RFC 9112 section 6).
#pragma once

#include <optional>
#include <string>

#include "proxy/downstream/http1_reply.h"
#include "proxy/downstream/http1_wire.h"
#include "proxy/exchange/request_body.h"
#include "proxy/exchange/served_request.h"
#include "proxy/net/message/transfer_pace.h"

namespace recourse {

class Http1Body final : public RequestBody {
 public:
  // All outlive it. `reply` is told when the client has not taken the word that it may send.
  Http1Body(Http1Wire& wire, ServedRequest& request, Http1Reply& reply)
      : wire_(wire), request_(request), reply_(reply) {}

  // Of the next request.
  void Prepare() { has_begun_ = is_awaited_ = false; }

  void KeepHead() override;
  Piece Begin() override;
  void Skip() override;
  Task<Piece> Read(MonoTime latest) override;
  std::uint64_t announced() const override { return decoder_->announced(); }
  void Stop() override { wire_.client.deadline.Arm(wire_.Now()); }
  bool is_awaited() const override { return is_awaited_; }
  Task<bool> Ask() override;
  std::span<char> FreeRoom() override;
  BufferPool::Buffer Take() override { return std::move(wire_.in.memory); }
  void Drop() override {
    if (wire_.in.begin == wire_.in.end) wire_.in.memory.reset();
  }

 private:
  Error WhyBroken() const;

  Http1Wire& wire_;
  ServedRequest& request_;
  Http1Reply& reply_;
  std::string head_copy_;
  std::optional<BodyDecoder> decoder_;
  std::optional<TransferPace> pace_;
  bool has_begun_ = false;
  bool is_awaited_ = false;
};

}  // namespace recourse
