// What every call pays before anything else happens: reading its head, and for writes the canonical
// arguments and their hash.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "proxy/base/crypto/hash.h"
#include "proxy/base/json/json.h"
#include "proxy/net/http1/message_head.h"

namespace recourse {
namespace {

const std::string kRequest =
    "POST /orders/7?expand=items HTTP/1.1\r\n"
    "Host: orders.shop.svc:8080\r\n"
    "User-Agent: python-requests/2.31.0\r\n"
    "Accept-Encoding: gzip, deflate\r\n"
    "Accept: application/json\r\n"
    "Connection: keep-alive\r\n"
    "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n"
    "Content-Type: application/json\r\n"
    "Content-Length: 1024\r\n\r\n";

const std::string kResponse =
    "HTTP/1.1 200 OK\r\n"
    "Date: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
    "Content-Type: application/json\r\n"
    "Content-Length: 1024\r\n"
    "Keep-Alive: timeout=5\r\n"
    "Connection: keep-alive\r\n\r\n";

// About 1 KiB, like the arguments of an order.
std::string Arguments() {
  std::string text =
      R"({"customer_id":"c-4711","cart_id":"7f3e","note":"deliver after six","items":[)";
  for (int i = 0; i < 14; ++i) {
    text += R"({"sku":"SKU-)" + std::to_string(1000 + i) +
            R"(","count":2,"price":19.90,"gift":false},)";
  }
  text.back() = ']';
  return text + R"(,"currency":"EUR","total":278.6})";
}

void BM_RequestHead(benchmark::State& state) {
  const auto head = std::make_unique<Head>();
  for (auto _ : state) {
    benchmark::DoNotOptimize(ParseRequestHead(kRequest, *head).state);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(BM_RequestHead);

void BM_RequestHeadOf24CustomFields(benchmark::State& state) {
  std::string bytes = "GET / HTTP/1.1\r\nHost: a\r\n";
  for (int i = 0; i < 24; ++i) {
    bytes += "X-Custom-Header-" + std::to_string(i) + ": " + std::string(48, 'v') + "\r\n";
  }
  bytes += "\r\n";
  const auto head = std::make_unique<Head>();
  for (auto _ : state) {
    benchmark::DoNotOptimize(ParseRequestHead(bytes, *head).state);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(BM_RequestHeadOf24CustomFields);

void BM_ResponseHead(benchmark::State& state) {
  const auto head = std::make_unique<Head>();
  for (auto _ : state) {
    benchmark::DoNotOptimize(ParseResponseHead(kResponse, "POST", *head).state);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(BM_ResponseHead);

void BM_RequestHeadReadAndRewritten(benchmark::State& state) {
  const auto head = std::make_unique<Head>();
  std::vector<char> out(limits::kHeadBytesMax);
  for (auto _ : state) {
    benchmark::DoNotOptimize(ParseRequestHead(kRequest, *head).state);
    HeadWriter writer(out.data(), out.size());
    writer.StartRequest(head->method, head->target);
    writer.CopyFields(*head, 0);
    writer.Add("Via", "1.1 recourse-0123abcd");
    writer.ContentLength(head->content_length);
    writer.End();
    benchmark::DoNotOptimize(writer.ok());
    benchmark::ClobberMemory();
  }
}
BENCHMARK(BM_RequestHeadReadAndRewritten);

void BM_CanonicalJson1KiB(benchmark::State& state) {
  const std::string text = Arguments();
  for (auto _ : state) {
    const Result<Json> json = ParseJson(text);
    std::string canonical = CanonicalJson(*json);
    benchmark::DoNotOptimize(canonical.data());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(text.size()) * state.iterations());
}
BENCHMARK(BM_CanonicalJson1KiB);

void BM_Sha256Of1KiB(benchmark::State& state) {
  const std::string text(1024, 'x');
  for (auto _ : state) benchmark::DoNotOptimize(Sha256(text));
}
BENCHMARK(BM_Sha256Of1KiB);

}  // namespace
}  // namespace recourse
