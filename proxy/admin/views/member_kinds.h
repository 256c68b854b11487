// Members of the admin API's objects that are ids, times and hashes (json_shape.h).
#pragma once

#include "filters/ledger/model/row_id.h"
#include "proxy/admin/views/event_view.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/base/json/json_shape.h"

namespace recourse::member {

template <auto kGet>
constexpr auto Id(std::string_view name, std::string_view text = "") {
  return Make<kGet>({name, "Id", text}, [](JsonObject& json, std::string_view as, const auto& of) {
    Visit<kGet>(of, [&](std::uint64_t id) { json.Raw(as, RowIdJson(id)); });
  });
}
// Of milliseconds since 1970.
template <auto kGet>
constexpr auto Time(std::string_view name, std::string_view text = "") {
  return Make<kGet>({name, "Time", text},
                    [](JsonObject& json, std::string_view as, const auto& of) {
                      Visit<kGet>(of, [&](std::int64_t ms) { json.Text(as, Rfc3339Millis(ms)); });
                    });
}
template <auto kGet>
constexpr auto Hash(std::string_view name, std::string_view text = "",
                    std::string_view schema = kHashSchema) {
  return Make<kGet>({name, schema, text},
                    [](JsonObject& json, std::string_view as, const auto& of) {
                      Visit<kGet>(of, [&](const auto& bytes) { json.Text(as, ToHex(bytes)); });
                    });
}
// What NameOf() says of it.
template <auto kGet>
constexpr auto Named(std::string_view name, std::string_view schema, std::string_view text = "") {
  return Make<kGet>({name, schema, text},
                    [](JsonObject& json, std::string_view as, const auto& of) {
                      Visit<kGet>(of, [&](auto value) { json.Text(as, NameOf(value)); });
                    });
}

}  // namespace recourse::member
