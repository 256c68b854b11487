// What the measuring clients share: their options, the published request, and how they report.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "bench/histogram.h"

namespace recourse::bench {

enum class Mode {
  kAsk,     // ask, read the answer, ask again
  kIdle,    // ask once, then keep the connection until the input of the program ends
  kHeld,    // ask once and wait for an answer that does not come, until the input ends
  kEvents,  // read a stream of events that carry the time at which they were sent
};

struct Options {
  std::uint16_t port = 0;
  int connections = 64;
  double seconds = 1.5;
  std::string method = "GET";
  std::string path = "/1k";
  std::size_t body_bytes = 0;
  std::string key_header{};    // not empty: a header that carries the fresh id
  std::uint64_t seed = 0;      // not 0: fresh keys
  double rate = 0;             // not 0: requests per second in all
  std::uint64_t requests = 0;  // not 0: how many in all, in place of a time
  std::string host{}, text{};  // not empty: the Host field; the body
  Mode mode = Mode::kAsk;
  int at_once = 64;    // of connections that ask once
  double warm_up = 0;  // not 0: seconds of the same load before what is measured
};

inline std::uint64_t NowNs() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

// The bytes of a request, and where its fresh parts stand.
class Request {
 public:
  explicit Request(const Options& options) : next_id_(options.seed << 32U) {
    const std::string zeros(kIdDigits, '0');
    std::string body = options.text;
    if (body.empty() && options.body_bytes > 0) {
      const std::string opening = "{\"order_id\":\"" + zeros + "\",\"text\":\"", closing = "\"}";
      const std::size_t frame = opening.size() + closing.size();
      const std::size_t filling = options.body_bytes > frame ? options.body_bytes - frame : 0;
      body = opening + std::string(filling, 'x') + closing;
    }
    bytes_ = options.method + " " + options.path + " HTTP/1.1\r\nHost: " +
             (options.host.empty() ? "127.0.0.1:" + std::to_string(options.port) : options.host) +
             "\r\nUser-Agent: agent/1.0\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate\r\n"
             "Authorization: Bearer 0123456789abcdef0123456789abcdef\r\ntraceparent: 00-";
    trace_at_ = bytes_.size() + kIdDigits;
    bytes_ += std::string(kIdDigits, '7') + "0000000000000001-00f067aa0ba902b7-01\r\n";
    if (!options.key_header.empty()) {
      bytes_ += options.key_header + ": ";
      key_at_ = bytes_.size();
      bytes_ += zeros + "\r\n";
    }
    if (!body.empty()) {
      bytes_ += "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
                "\r\n";
    }
    bytes_ += "\r\n";
    const std::size_t order = body.find(zeros);
    order_at_ = order == std::string::npos ? 0 : bytes_.size() + order;
    bytes_ += body;
  }

  std::string_view Bytes() const { return bytes_; }

  // The id of the fresh parts, in as many digits as they have.
  std::string_view Id() const { return std::string_view(bytes_).substr(trace_at_, kIdDigits); }

  void MakeFresh() { MakeFresh(++next_id_); }

  void MakeFresh(std::uint64_t id) {
    constexpr std::string_view kHex = "0123456789abcdef";
    for (std::size_t i = kIdDigits; i-- > 0; id >>= 4U) {
      const char digit = kHex[id & 15U];
      bytes_[trace_at_ + i] = digit;
      if (key_at_ != 0) bytes_[key_at_ + i] = digit;
      if (order_at_ != 0) bytes_[order_at_ + i] = digit;
    }
  }

 private:
  static constexpr std::size_t kIdDigits = 16;

  std::string bytes_;
  std::size_t trace_at_ = 0, key_at_ = 0, order_at_ = 0;
  std::uint64_t next_id_;
};

// Status and length of an answer; status 0 when the head cannot be used.
struct AnswerHead {
  int status = 0;
  std::size_t length = 0;
};

inline AnswerHead ReadHead(const std::string& head) {
  AnswerHead answer;
  if (head.size() < 12 || head.compare(0, 7, "HTTP/1.") != 0) return answer;
  const char* length = ::strcasestr(head.c_str(), "\r\ncontent-length:");
  if (length == nullptr) return answer;
  answer.length = std::strtoul(length + 17, nullptr, 10);
  answer.status = std::atoi(head.c_str() + 9);
  return answer;
}

// What one run counted; printed as one JSON object on a line of its own.
struct Tally {
  Histogram histogram{};
  std::uint64_t failed = 0;
  int last_bad_status = 0;
  std::uint64_t elapsed_ns = 0;

  void Print() const {
    const auto micros = [this](double share) {
      return static_cast<double>(histogram.Percentile(share)) / 1e3;
    };
    std::printf(
        "{\"requests\":%llu,\"failed\":%llu,\"seconds\":%.4f,\"p50_us\":%.1f,\"p90_us\":%.1f,"
        "\"p99_us\":%.1f,\"p999_us\":%.1f,\"last_bad_status\":%d}\n",
        static_cast<unsigned long long>(histogram.total()), static_cast<unsigned long long>(failed),
        static_cast<double>(elapsed_ns) / 1e9, micros(0.5), micros(0.9), micros(0.99),
        micros(0.999), last_bad_status);
    std::fflush(stdout);
  }
};

// Tells whoever measures that everything is warm, and returns when it lets the run begin.
inline void WaitForStart() {
  std::puts("ready");
  std::fflush(stdout);
  for (int c = std::getchar(); c != '\n'; c = std::getchar()) {
    if (c == EOF) std::exit(1);
  }
}

inline void WaitForEndOfInput() {
  while (std::getchar() != EOF) {
  }
}

// Reads streams of events from every connection until the time is over (Mode::kEvents), and prints
// what it counted.
void ReadEvents(const Options& options);

}  // namespace recourse::bench
