// Calls of agents under kShopPolicy.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/filters/shop_policy.h"
#include "tests/support/world.h"

namespace recourse {

using Phases = std::vector<Phase>;
inline constexpr Phase kDispatching = Phase::kDispatching;

inline CallSpec Order() { return {}; }
inline CallSpec UnderTrace(const std::string& trace) {
  CallSpec call;
  call.trace = trace;
  return call;
}
inline CallSpec Keyed(std::string key, std::string body = R"({"item":"desk"})") {
  CallSpec call;
  call.headers.emplace_back("Idempotency-Key", std::move(key));
  call.body = std::move(body);
  return call;
}
inline CallSpec To(std::string host, std::string target) {
  CallSpec call;
  call.host = std::move(host);
  call.target = std::move(target);
  return call;
}
inline CallSpec Note(std::string text) {
  CallSpec call;
  call.target = "/notes";
  call.body = R"({"order":"o1","text":")" + std::move(text) + "\"}";
  return call;
}

// Everything that a repeat must tell again; what may differ is named here.
inline Headers Comparable(Headers headers) {
  RemoveHeader(headers, "Idempotent-Replayed");
  RemoveHeader(headers, "Set-Cookie");
  return headers;
}

}  // namespace recourse
