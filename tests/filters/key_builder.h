// Keys of calls that a test describes by what it varies.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "filters/key/key.h"

namespace recourse {

struct KeyCase {
  std::string method = "POST";
  std::string path = "/orders";
  std::string query;  // without '?'
  std::string type = "application/json";
  std::string body = R"({"item":"desk","amount":1})";
  Headers headers;
  std::string caller = "agent-1";
  std::string verified_field;
  std::vector<Caller::Earlier> earlier_callers;
  std::string backend = "shop";
  PrincipalRule principal;
  std::string tool_name = "orders.create";
  std::string trace_id = "0af7651916cd43dd8448eb211c80319c";
  bool has_client_trace = true;
  Tool tool;
  std::string secret = "secret";
};

inline Result<DerivedKey> TryDerive(const KeyCase& call) {
  HttpRequest request{call.method, call.path + (call.query.empty() ? "" : "?" + call.query),
                      call.headers, call.body};
  if (!call.type.empty()) request.headers.emplace_back("Content-Type", call.type);
  const auto body = ReadCallBody(request);
  if (!body) return std::unexpected(body.error());
  TraceContext trace;
  trace.trace_id = call.trace_id;
  trace.from_client = call.has_client_trace;
  const auto query = ParsePairs(call.query);
  const std::vector<std::pair<std::string, std::string>> captures;
  const HmacKey secret(call.secret);
  return DeriveKey({secret, call.tool, call.tool_name, call.caller, call.verified_field,
                    call.earlier_callers, call.backend, call.principal, trace, request, call.path,
                    captures, query, *body});
}

inline DerivedKey Derive(const KeyCase& call) {
  auto key = TryDerive(call);
  EXPECT_TRUE(key.has_value()) << (key ? "" : key.error().detail());
  return key ? *key : DerivedKey();
}

inline KeyCase JsonCall(std::string body) {
  KeyCase call;
  call.body = std::move(body);
  return call;
}

inline KeyCase FormCall(std::string body) {
  KeyCase call;
  call.type = "application/x-www-form-urlencoded";
  call.body = std::move(body);
  return call;
}

inline Selector At(std::string_view text) {
  auto selector = ParseSelector(text);
  EXPECT_TRUE(selector.has_value()) << text;
  return selector ? *selector : Selector();
}

}  // namespace recourse
