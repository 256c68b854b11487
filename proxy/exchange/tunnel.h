// An upgraded connection (WebSocket): bytes both ways that nobody looks into.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "filters/credentials/frame_scrubber.h"
#include "proxy/exchange/client_side.h"
#include "proxy/net/loop/io_thread.h"
#include "proxy/net/message/body_decoder.h"

namespace recourse {

// The protocol of `accepted` that a request asks to switch to, or "". Asking is a GET of HTTP/1.1
// without a body, one Upgrade field with that name alone, "upgrade" in Connection, and one
// Sec-WebSocket-Key (RFC 6455 4.1); anything less is a plain request.
std::string_view AskedUpgrade(const Head& request, const std::vector<std::string>& accepted);

// Whether a 101 agrees to `protocol`, which must not be empty for that.
bool SwitchedTo(const Head& response, std::string_view protocol);

// Lives on one I/O thread. The buffers may hold bytes that came early; an idle tunnel holds none.
class Tunnel final : public Drainable {
 public:
  struct End {
    Connection& connection;
    ReadBuffer& buffer;
  };

  // Judges all that the client has sent so far. What it says first is held back until it is let
  // through, for at most `wait` once it has begun; the backend may speak meanwhile.
  enum class Verdict : std::uint8_t { kNeedMore, kPass, kRefuse };
  struct Gate {
    std::function<Verdict(std::string_view)> judge;  // empty: everything passes
    Millis wait{};
  };

  // Everything named outlives it. It ends when nothing has passed either way for `idle`.
  Tunnel(IoThread& thread, End client, End backend, Millis idle, Gate gate)
      : thread_(thread), client_(client), backend_(backend), idle_(idle), gate_(std::move(gate)) {}

  // Before Run(): the backend's frames are looked through for those.
  void TakeOut(const EchoScrubber& scrubber) { frames_.emplace(scrubber); }

  // Returns when nothing uses the connections any more; neither can serve anything else then.
  Task<void> Run();
  // From now on kDrainQuiet of silence is enough.
  void Drain() override;

  // It has ended because of what could not be looked through.
  bool is_opaque() const { return is_opaque_; }
  std::uint64_t bytes_to_backend() const { return bytes_to_backend_; }
  std::uint64_t bytes_to_client() const { return bytes_to_client_; }

 private:
  Task<void> Pump(End& from, Connection& to, std::uint64_t& count);
  Task<bool> Fill(End& from);
  Task<void> PumpToBackend();
  Task<bool> Admit();
  // Something passed: both ends may be silent for that long again.
  void Touch();

  IoThread& thread_;
  End client_, backend_;
  Millis idle_;
  Gate gate_;
  std::optional<MonoTime> admit_by_;     // while the gate needs more of what has begun
  std::optional<FrameScrubber> frames_;  // of the backend
  bool is_opaque_ = false;
  bool draining_ = false;
  bool broken_ = false;
  Promise<bool> pumped_;
  std::uint64_t bytes_to_backend_ = 0, bytes_to_client_ = 0;
};

}  // namespace recourse
