// Room for one request whose body is read whole, while that is read and worked on.
#pragma once

#include <cstddef>

#include "proxy/net/http_head.h"
#include "proxy/server/services.h"

namespace recourse {

class Held {
 public:
  Held(Services& services, std::size_t bytes) : services_(services), bytes_(bytes) {
    ++services_.write_flows;
    services_.write_bytes += bytes_;
    services_.metrics->write_flows.Increment();
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    EndFlow();
    services_.write_bytes -= bytes_;
  }

  // How much a request whose head says so may need.
  static std::size_t RoomFor(const Head& head) {
    return head.body == BodyKind::kChunked ? limits::kWriteBodyBytesMax
                                           : static_cast<std::size_t>(head.content_length);
  }
  static bool Fits(const Services& services, std::size_t bytes) {
    return services.write_flows < services.bounds.writes_max &&
           services.write_bytes + bytes <= limits::kWriteBytesHeldMax;
  }

  // Gives back what was reserved and turned out not to be needed.
  void ShrinkTo(std::size_t bytes) {
    services_.write_bytes -= bytes_ - bytes;
    bytes_ = bytes;
  }
  // It is no write: only its bytes are held from now on.
  void EndFlow() {
    if (!is_flow_) return;
    is_flow_ = false;
    --services_.write_flows;
    services_.metrics->write_flows.Decrement();
  }

 private:
  Services& services_;
  std::size_t bytes_;
  bool is_flow_ = true;
};

}  // namespace recourse
