#include "proxy/notify/cloud_event.h"

#include "proxy/base/check.h"
#include "proxy/base/json/json.h"
#include "proxy/base/json/json_object.h"

namespace recourse {
namespace {

// What it is about, and since when: a call waits, a flow changed, a head was signed.
std::string FirstOf(const Json& news, std::string_view name, std::string_view other,
                    std::string_view third = {}) {
  for (const std::string_view one : {name, other, third}) {
    if (std::string text = ScalarText(news, one); !text.empty()) return text;
  }
  return {};
}

}  // namespace

std::string CloudEvent(std::string_view news, std::string_view ledger) {
  const auto data = ParseJson(news);
  RC_CHECK(data.has_value());
  const std::string type = ScalarText(*data, "type");
  const std::string number = FirstOf(*data, "number", "row");
  const std::string time = FirstOf(*data, "since", "changed", "time");
  return ObjectText([&](JsonObject& json) {
    json.Text("specversion", "1.0");
    json.Text("id", type + "/" + number + "/" + time);
    json.Text("source", "/recourse/ledgers/" + std::string(ledger));
    json.Text("type", "recourse." + type);
    json.Text("subject", number);
    json.Text("time", time);
    json.Text("datacontenttype", "application/json");
    json.Raw("data", news);
  });
}

}  // namespace recourse
