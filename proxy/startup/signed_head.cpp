#include "proxy/startup/signed_head.h"

#include "filters/ledger/model/row_id.h"
#include "proxy/base/crypto/base64url.h"
#include "proxy/base/json/json.h"
#include "proxy/base/json/json_object.h"

namespace recourse {

std::string TextOf(const SignedHead& head) {
  return "recourse-head-1 " + ToHex(head.ledger) + " " + PrintRowId(head.row) + " " +
         ToHex(head.hash) + " " + head.time;
}

bool Sign(EVP_PKEY& key, SignedHead& head) {
  head.signature = ToBase64Url(SignEd25519(key, TextOf(head)));
  return !head.signature.empty();
}

bool IsSignedBy(EVP_PKEY& key, const SignedHead& head) {
  const auto signature = FromBase64Url(head.signature);
  return signature && IsSignedEd25519(key, TextOf(head), *signature);
}

std::string ToJson(const SignedHead& head) {
  return ObjectText([&](JsonObject& json) {
    json.Text("type", "ledger.head");
    json.Text("ledger", ToHex(head.ledger));
    json.Raw("row", RowIdJson(head.row));
    json.Text("hash", ToHex(head.hash));
    json.Text("time", head.time);
    json.Text("signature", head.signature);
  });
}

std::expected<SignedHead, std::string> ParseSignedHead(std::string_view line) {
  const auto json = ParseJson(line);
  const auto text = [&](std::string_view name) {
    return json ? ScalarText(*json, name) : std::string();
  };
  SignedHead head{.time = text("time"), .signature = text("signature")};
  const auto ledger = DigestFromHex(text("ledger"));
  const auto hash = DigestFromHex(text("hash"));
  const auto row = ParseRowId(text("row"));
  if (!ledger || !hash || !row || *row == 0 || text("type") != "ledger.head") {
    return std::unexpected("holds no signed head as --ledger-head-file writes it");
  }
  head.ledger = *ledger;
  head.row = *row;
  head.hash = *hash;
  return head;
}

}  // namespace recourse
