#include "proxy/cli/row_export.h"

#include <ostream>

#include "filters/ledger/model/row_id.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/base/json/json_object.h"

namespace recourse {

RowExport::RowExport(std::ostream& out) : out_(out), context_(EVP_MD_CTX_new()) {
  EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr);
}

bool RowExport::Print(const Begin& begin) {
  return Print(ObjectText([&](JsonObject& json) {
                 json.Text("kind", "export");
                 json.Number("format", 1);
                 json.Text("ledger", begin.ledger);
                 json.Raw("row_format", begin.row_format);
                 json.Raw("after", RowIdJson(begin.after));
                 json.Text("base", begin.base);
                 if (begin.stream) json.Number("stream", *begin.stream);
               }) +
               "\n");
}

bool RowExport::Print(std::string_view lines) {
  EVP_DigestUpdate(context_.get(), lines.data(), lines.size());
  out_.write(lines.data(), static_cast<std::streamsize>(lines.size()));
  return static_cast<bool>(out_.flush());
}

bool RowExport::PrintEnd(std::uint64_t rows, const std::string& head) {
  Digest digest{};
  EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr);
  out_ << ObjectText([&](JsonObject& json) {
    json.Text("kind", "end");
    json.Number("rows", rows);
    json.Text("head", head);
    json.Text("sha256", ToHex(digest));
  }) << "\n";
  return static_cast<bool>(out_.flush());
}

bool PrintStreams(const std::string& ledger, const std::vector<ExportedStream>& streams,
                  std::ostream& out) {
  out << ObjectText([&](JsonObject& json) {
    json.Text("kind", "streams");
    json.Text("ledger", ledger);
    json.Objects("streams", streams, [](JsonObject& one, const ExportedStream& stream) {
      one.Number("stream", stream.stream);
      one.Number("rows", stream.rows);
      one.Text("head", stream.head);
    });
  }) << "\n";
  return static_cast<bool>(out.flush());
}

}  // namespace recourse
