// A request body that was read whole, for whoever reads one from its client.
#pragma once

#include <string>
#include <utility>

#include "proxy/exchange/request_body.h"

namespace recourse {

class HeldBody final : public RequestBody {
 public:
  explicit HeldBody(std::string body) : body_(std::move(body)) {}

  void KeepHead() override {}
  Piece Begin() override { return Whole(); }
  void Skip() override {}
  Task<Piece> Read(MonoTime) override { co_return Whole(); }
  std::uint64_t announced() const override { return 0; }
  void Stop() override {}
  bool is_awaited() const override { return false; }
  Task<bool> Ask() override { co_return true; }
  std::span<char> FreeRoom() override { return {}; }
  BufferPool::Buffer Take() override { return {}; }
  void Drop() override {}

 private:
  Piece Whole() const { return {.data = body_, .end = BodyDecoder::End::kComplete}; }

  const std::string body_;
};

}  // namespace recourse
