#include <charconv>
#include <cstdint>
#include <cstring>

#include "proxy/base/http/http_message.h"
#include "proxy/net/http1/character_classes.h"
#include "proxy/net/http1/message_head.h"

namespace recourse {
namespace {

constexpr std::uint64_t kFraming = Bit(FieldId::kContentLength) | Bit(FieldId::kTransferEncoding);

std::uintptr_t AddressOf(const char* byte) { return reinterpret_cast<std::uintptr_t>(byte); }

}  // namespace

FieldLine::FieldLine(std::string_view name, std::string_view value) {
  if (!IsToken(name) || !IsFieldValue(value) || (Bit(FieldIdOf(name)) & kFraming) != 0) return;
  text_.append(name).append(": ").append(value).append("\r\n");
}

void HeadWriter::StartRequest(std::string_view method, std::string_view target) {
  Require(IsToken(method) && method.size() <= limits::kMethodBytesMax);
  Require(!target.empty() && EachCharIs(target, kCharTarget));
  Raw(method);
  Raw(" ");
  Raw(target);
  Raw(" HTTP/1.1\r\n");
}

void HeadWriter::StartResponse(int status, std::string_view reason) {
  Require(status >= 100 && status <= 999);
  Require(IsFieldValue(reason));
  if (!ok_) return;
  const char digits[] = {static_cast<char>('0' + status / 100),
                         static_cast<char>('0' + status / 10 % 10),
                         static_cast<char>('0' + status % 10), ' '};
  Raw("HTTP/1.1 ");
  Raw({digits, sizeof digits});
  Raw(reason);
  Raw("\r\n");
}

// What the parser has accepted needs no second look: method, blank and target lie side by side, and
// so do status, blank and reason.
void HeadWriter::StartRequest(const Head& head) {
  const char* const end = head.target.data() + head.target.size();
  Raw({head.method.data(), static_cast<std::size_t>(end - head.method.data())});
  Raw(" HTTP/1.1\r\n");
}

void HeadWriter::StartResponse(const Head& head) {
  if (head.reason.empty()) return StartResponse(head.status, head.reason);  // perhaps without blank
  static constexpr std::size_t kStatusBytes = 4;
  Raw("HTTP/1.1 ");
  Raw({head.reason.data() - kStatusBytes, kStatusBytes + head.reason.size()});
  Raw("\r\n");
}

void HeadWriter::Add(const FieldLine& line) {
  Require(!line.text().empty());
  Raw(line.text());
}

void HeadWriter::Add(std::string_view name, std::string_view value) {
  Require(IsToken(name) && IsFieldValue(value));
  if (ok_) Require((Bit(FieldIdOf(name)) & kFraming) == 0);
  Line(name, value);
}

void HeadWriter::CopyFields(const Head& head, std::uint64_t drop) {
  drop |= kFraming;
  // Lines that follow each other in the input and all go on are copied as one run, each as it was
  // read: with a colon and at most one blank between name and value.
  std::string_view run;
  const auto flush = [&] {
    if (run.empty()) return;
    Raw(run);
    Raw("\r\n");
    run = {};
  };
  for (std::size_t i = 0; i < head.field_count; ++i) {
    const Field& field = head.fields[i];
    if (field.hop || (Bit(field.id) & drop) != 0) continue;
    const char* const line = field.name.data();
    const std::uintptr_t between =
        AddressOf(field.value.data()) - AddressOf(line) - field.name.size();
    if (between - 1 > 1) [[unlikely]] {
      flush();
      Add(field.name, field.value);
      continue;
    }
    const std::size_t size = field.name.size() + between + field.value.size();
    // Behind the CRLF of the run's last line.
    if (!run.empty() && line == run.data() + run.size() + 2) {
      run = {run.data(), run.size() + 2 + size};
    } else {
      flush();
      run = {line, size};
    }
  }
  flush();
}

void HeadWriter::ContentLength(std::uint64_t length) {
  Require(!is_framed_);
  is_framed_ = true;
  static constexpr std::string_view kName = "Content-Length: ";
  char line[kName.size() + 20 + 2] = {};
  std::memcpy(line, kName.data(), kName.size());
  char* const end = std::to_chars(line + kName.size(), line + sizeof line - 2, length).ptr;
  end[0] = '\r';
  end[1] = '\n';
  const auto size = static_cast<std::size_t>(end + 2 - line);
  // All of it, where there is room: a copy whose size is known calls nothing.
  if (ok_ && capacity_ - size_ >= sizeof line) {
    std::memcpy(out_ + size_, line, sizeof line);
    size_ += size;
  } else {
    Raw({line, size});
  }
}

void HeadWriter::Chunked() {
  Require(!is_framed_);
  is_framed_ = true;
  Line("Transfer-Encoding", "chunked");
}

void HeadWriter::ConnectionClose() { Line("Connection", "close"); }

void HeadWriter::Upgrade(std::string_view protocol) {
  Require(IsToken(protocol));
  Line("Connection", "Upgrade");
  Line("Upgrade", protocol);
}

void HeadWriter::End() { Raw("\r\n"); }

void HeadWriter::Line(std::string_view name, std::string_view value) {
  Raw(name);
  Raw(": ");
  Raw(value);
  Raw("\r\n");
}

}  // namespace recourse
