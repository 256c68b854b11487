// Reads stream both ways, piece by piece, through at most one buffer per direction.
#pragma once

#include "proxy/exchange/exchange.h"
#include "proxy/lanes/read_state.h"

namespace recourse {

class ReadLane final : public Lane {
 public:
  Task<bool> Run(Exchange& exchange) override { return Relay(exchange, nullptr); }
  // `tap` sees it pass. It may be null, and outlives the task.
  Task<bool> Relay(Exchange& exchange, ReadTap* tap);

 private:
  static bool RenderHead(ReadState& read);
  static Task<bool> RunUpgraded(ReadState& read);
  static Task<bool> EndUnanswered(ReadState& read, Error error);
  static bool EndAnswered(ReadState& read, bool relayed, bool whole);
  // Ends what runs beside the read; true when the client's whole body was read.
  static Task<bool> EndSides(ReadState& read);
  static Task<bool> StopUpload(ReadState& read);
};

}  // namespace recourse
