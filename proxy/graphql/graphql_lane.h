// The endpoint of a GraphQL server: the document says what a call is. Queries take the read lane
// with their body at hand, mutations the write lane.
#pragma once

#include "proxy/lanes/read_lane.h"
#include "proxy/lanes/write_lane.h"

namespace recourse {

class GraphqlLane final : public EndpointLane {
 public:
  // Both outlive it.
  GraphqlLane(ReadLane& read, WriteLane& write) : read_(read), write_(write) {}

  Task<bool> Run(Exchange& exchange) override;
  // A GET may carry a mutation.
  bool MayBeCall(const Head& head, std::string_view query) const override {
    return head.method == "POST" || (head.method == "GET" && !query.empty());
  }
  Task<void> JudgeObserved(ServedRequest& request) override;

 private:
  Task<bool> Post(Exchange& exchange);
  // Once its body is here.
  Task<bool> Execute(Exchange& exchange, BodyReservation& room, std::string body);

  ReadLane& read_;
  WriteLane& write_;
};

}  // namespace recourse
