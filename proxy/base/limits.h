// Every bound of the product, in one place, each with its reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace recourse::limits {

using std::chrono::milliseconds;
using std::chrono::seconds;

// HTTP heads (http.md row 27): bearer tokens and tool parameters fit, floods do not.
inline constexpr std::size_t kHeadBytesMax = 32 * 1024;
inline constexpr std::size_t kTargetBytesMax = 8 * 1024;
inline constexpr std::size_t kHeaderLineBytesMax = 16 * 1024;
inline constexpr std::size_t kFieldsMax = 100;
inline constexpr std::size_t kMethodBytesMax = 32;
inline constexpr std::size_t kHostBytesMax = 255 + 6;
inline constexpr std::size_t kPathSegmentsMax = 256;
// A chunk-size line with its extension (F12); trailers are dropped but must end (F13).
inline constexpr std::size_t kChunkLineBytesMax = 256;
inline constexpr std::size_t kTrailerBytesMax = 8 * 1024;

// Bodies of writes are read whole: the key is made of them. Reads stream and have no cap.
inline constexpr std::size_t kWriteBodyBytesMax = 8 * 1024 * 1024;
inline constexpr std::size_t kJsonDepthMax = 64;
inline constexpr std::size_t kJsonNodesMax = 100'000;
inline constexpr std::size_t kJsonNumberDigitsMax = 64;
inline constexpr int kJsonExponentMax = 400;

// Answers of writes are read whole and stored to be replayed. Over the first bound the caller is
// told that the call was executed and its answer not kept; over the second the answer is passed on
// once.
inline constexpr std::size_t kAnswerBytesMax = 8 * 1024 * 1024;
inline constexpr std::size_t kAnswerKeptBytesMax = 1024 * 1024;
inline constexpr std::size_t kProbeAnswerBytesMax = 1024 * 1024;

inline constexpr std::size_t kIdempotencyKeyBytesMax = 255;
inline constexpr std::size_t kExternalRefBytesMax = 1024;
inline constexpr std::size_t kRenderedRequestBytesMax = 64 * 1024;

// Relay: at most this much of one body is in our memory at a time per direction. A 64 KiB body and
// its head come in one read.
inline constexpr std::size_t kRelayBufferBytes = 128 * 1024;

// Connections and flows of one process. A pod has a few agents; 10,000 idle ones stay cheap.
inline constexpr std::size_t kConnectionsMax = 16'384;
inline constexpr std::size_t kWriteFlowsMax = 4'096;
inline constexpr std::size_t kWriteBytesHeldMax = 256 * 1024 * 1024;
inline constexpr std::size_t kIdleUpstreamPerBackendMax = 256;
inline constexpr std::size_t kRequestsPerConnectionMax = 1'000'000;

// Ledger.
inline constexpr std::size_t kLedgerQueueMax = 16'384;
inline constexpr std::size_t kCommitBatchMax = 1'024;
inline constexpr std::size_t kCommitBatchBytesMax = 8 * 1024 * 1024;
inline constexpr std::size_t kEventBytesMax = 4 * 1024 * 1024;
inline constexpr std::size_t kJoinersPerOperationMax = 1'024;
inline constexpr std::size_t kOpenOperationsMax = 100'000;
inline constexpr std::size_t kHotIndexEntriesMax = 65'536;
inline constexpr std::size_t kAdminPageMax = 1'000;
inline constexpr std::size_t kLedgerTailRows = 1'000;  // rows of the hash chain checked at start
inline constexpr std::size_t kRecoveryBatchRows = 256;
inline constexpr std::size_t kScanChunkRows = 1'000;  // rows read in one LMDB read transaction
// One index transaction dirties a page per entry in the worst case: 2,048 keep it under 16 MiB.
inline constexpr std::size_t kIndexWriteChunk = 2'048;
inline constexpr std::size_t kDetailBytesMax = 1'024;

// Times (kubernetes.md e.3).
inline constexpr milliseconds kConnectTimeout{1'000};
inline constexpr milliseconds kHeadTimeout{10'000};
inline constexpr milliseconds kBodyProgressTimeout{30'000};
inline constexpr milliseconds kWriteBodyTotalTimeout{300'000};
inline constexpr milliseconds kReadFirstByteTimeout{30'000};
inline constexpr milliseconds kWriteTimeout{60'000};
inline constexpr milliseconds kStreamIdleTimeout{300'000};
// A client that closed its side may be gone; a stream that is silent this long then ends.
inline constexpr milliseconds kHalfClosedIdleTimeout{10'000};
inline constexpr milliseconds kClientIdleTimeout{120'000};
inline constexpr milliseconds kClientWriteTimeout{30'000};
inline constexpr milliseconds kUpstreamIdleTimeout{1'500};
inline constexpr milliseconds kLingerTimeout{1'000};
inline constexpr milliseconds kDrainTimeout{25'000};
inline constexpr milliseconds kHold{3'000};
inline constexpr milliseconds kFailedTtl{60'000};
inline constexpr milliseconds kDedupeWindow{10 * 60'000};
inline constexpr milliseconds kProbeTimeout{5'000};
inline constexpr milliseconds kProbeBackoffFirst{500};
inline constexpr milliseconds kProbeBackoffMax{60'000};
inline constexpr milliseconds kAnsweredFlush{1'000};

inline constexpr int kReadAttemptsMax = 2;
inline constexpr int kUnsentAttemptsMax = 3;
inline constexpr int kProbesAbsentMin = 2;
inline constexpr int kInterimResponsesMax = 16;

// Policy file (4-Y13).
inline constexpr std::size_t kPolicyFileBytesMax = 10 * 1024 * 1024;
inline constexpr std::size_t kPolicyRoutesMax = 100'000;

// One JSON text: a write's body or an answer that is read, whichever may be larger.
inline constexpr std::size_t kJsonBytesMax = kWriteBodyBytesMax;

// Filters.
inline constexpr std::size_t kMultipartPartsMax = 1'000;
inline constexpr std::size_t kFlowNameBytesMax = 128;
// A repeat looks at the ledger again after a join or a probe; each look may find another state.
inline constexpr int kLedgerLooksMax = 4;
// A backend may be away for days while an agent repeats a call that was never sent.
inline constexpr int kAttemptsPerOperationMax = 1'000;
inline constexpr milliseconds kUnsentBackoffFirst{50};
inline constexpr std::size_t kProbesAtOnceMax = 8;
inline constexpr std::size_t kProbesPerBackendMax = 2;
inline constexpr std::size_t kSettleScanMax = 256;
inline constexpr milliseconds kSettleTick{100};  // how late a probe, a deadline or Stop() may be
inline constexpr std::size_t kSettleAnswersBytesMax = 8 * 1024 * 1024;

static_assert(kHeaderLineBytesMax <= kHeadBytesMax);
static_assert(kAnswerKeptBytesMax <= kEventBytesMax);
static_assert(kRenderedRequestBytesMax * 2 + kAnswerKeptBytesMax < kEventBytesMax);

}  // namespace recourse::limits
