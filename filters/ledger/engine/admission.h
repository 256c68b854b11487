// What may still begin, so that everything that has begun can end.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "filters/ledger/engine/ledger_state.h"
#include "filters/ledger/rules/known.h"
#include "filters/ledger/rules/quotas.h"
#include "proxy/base/error.h"

namespace recourse {

// One thread at a time.
class Admission {
 public:
  explicit Admission(LedgerState& state) : state_(state) {}

  std::optional<Error> Refusal(const AdmissionOf& asked);
  // The attempt has begun.
  void Count(const Event& event, bool is_new);
  const std::array<std::uint64_t, kQuotaKindCount>& quota_refusals() const {
    return quota_refusals_;
  }

 private:
  std::optional<Error> RefusalToAsk(const AdmissionOf& asked);
  Error Exceeds(QuotaKind quota);

  LedgerState& state_;
  std::array<std::uint64_t, kQuotaKindCount> quota_refusals_{};
};

}  // namespace recourse
