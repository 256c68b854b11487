// The rows of a group's streams in the order in which they were written, whoever wrote them; read
// only. A place is a number that grows over all streams.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "filters/ledger/model/news_place.h"
#include "filters/ledger/postgres/reader.h"
#include "filters/ledger/queries/log_queries.h"
#include "filters/ledger/queries/operation_queries.h"
#include "filters/ledger/shared_view.h"

namespace recourse {

class PgPlacedLog final : public EventLog {
 public:
  PgPlacedLog(PgReader& reader, std::string group) : look_(reader), group_(std::move(group)) {}

  std::expected<void, AppendError> Append(const RowBatch& batch) override;
  std::unique_ptr<Reader> NewReader() override;
  std::uint64_t last_seq() override;  // a place
  LogBase base() override { return {}; }
  std::string LoadAges() override { return {}; }
  LogSizes sizes() override { return {}; }
  LogSpace Space(std::uint64_t need) override { return {need, 0}; }
  std::uint64_t PlaceOf(std::uint64_t id) override;
  Placed Before(std::uint64_t place, std::size_t rows) override;
  std::optional<Error> away() const override;

 private:
  PgLook look_;
  const std::string group_;
};

// What they write, as it comes, for whoever follows them. No order over streams is relied on, as a
// row with a lower place may be committed later; within a stream each row comes after the one
// before. Blocks; thread-safe.
class PgNews {
 public:
  PgNews(PgReader& reader, std::string group, SharedKeys keys)
      : reader_(reader), group_(std::move(group)), keys_(std::move(keys)) {}

  // As SharedLedgerView's.
  Result<NewsPlace> End();
  Result<SharedLedgerView::News> After(const NewsPlace& place, EventFilter filter);

 private:
  struct Stream {
    std::uint32_t stream = 0;
    std::uint64_t head = 0;
    std::int64_t wrote_ms = 0;  // its last row
  };
  struct Look {
    std::int64_t now_ms = 0;
    std::vector<Stream> streams{};  // ascending
  };
  struct Rows {
    std::vector<std::string> bytes{};
    std::uint64_t up_to = 0;  // number of the last row that was looked at
  };
  Result<Look> LookAt(std::int64_t since_ms);
  static NewsPlace EndOf(const Look& look);
  Result<std::optional<std::vector<std::uint64_t>>> Begins(const NewsPlace& place,
                                                           const Look& look);
  // Where that stream goes on; nullopt: too far back.
  Result<std::optional<std::uint64_t>> BeginOf(const NewsPlace& place, const Stream& stream);
  Result<Rows> Read(const Stream& stream, std::uint64_t after, std::size_t limit);

  PgReader& reader_;
  const std::string group_;
  const SharedKeys keys_;
};

// As OperatorsView::List, of the whole group. Of one operation its own rows alone are read.
Result<EventPage> ListPgEvents(PgReader& reader, const std::string& group, const SharedKeys& keys,
                               const EventFilter& filter);

// As OperationLister::Operations, of the whole group.
Result<OperationPage> ListPgOperations(PgReader& reader, const std::string& group,
                                       const SharedKeys& keys, const OperationFilter& filter);

}  // namespace recourse
