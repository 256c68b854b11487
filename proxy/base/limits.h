// Every bound of the product, in one place, each with its reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace recourse::limits {

using std::chrono::milliseconds;
using std::chrono::seconds;

// HTTP heads: bearer tokens and tool parameters fit, floods do not.
inline constexpr std::size_t kHeadBytesMax = 32 * 1024;
inline constexpr std::size_t kTargetBytesMax = 8 * 1024;
inline constexpr std::size_t kHeaderLineBytesMax = 16 * 1024;
inline constexpr std::size_t kFieldsMax = 100;
inline constexpr std::size_t kMethodBytesMax = 32;
inline constexpr std::size_t kHostBytesMax = 255 + 6;
inline constexpr std::size_t kPathSegmentsMax = 256;
// Ways in which servers may read one path. Real ones have two to eight.
inline constexpr std::size_t kPathReadingsMax = 48;
// A chunk-size line with its extension; trailers are dropped but must end.
inline constexpr std::size_t kChunkLineBytesMax = 256;
inline constexpr std::size_t kTrailerBytesMax = 8 * 1024;
// A ClientHello, whose bytes are kept until it is whole: with post-quantum keys some 2 KiB.
inline constexpr std::size_t kOpeningBytesMax = 16 * 1024;
// Interim answers (1xx) before the final one: early hints are a few lines, a flood is no answer.
inline constexpr int kInterimResponsesMax = 16;
inline constexpr std::size_t kInterimBytesMax = 64 * 1024;

// Bodies of writes are read whole: the key is made of them. Reads stream and have no cap.
inline constexpr std::size_t kWriteBodyBytesMax = 8 * 1024 * 1024;
inline constexpr std::size_t kJsonDepthMax = 64;
inline constexpr std::size_t kJsonNodesMax = 100'000;
inline constexpr std::size_t kJsonNumberDigitsMax = 64;
inline constexpr int kJsonExponentMax = 400;
// Of one form. Servers in use take 1,000 (PHP, Express, Django, Tomcat) or some thousands (Rack);
// a pair costs a hundred bytes and more, however short it is. A query has fewer by its size.
inline constexpr std::size_t kFormPairsMax = 10'000;

// Answers of writes are read whole and stored to be replayed. Over the first bound the caller is
// told that the call was executed and its answer not kept; over the second the answer is passed on
// once.
inline constexpr std::size_t kAnswerBytesMax = 8 * 1024 * 1024;
inline constexpr std::size_t kAnswerKeptBytesMax = 1024 * 1024;
inline constexpr std::size_t kProbeAnswerBytesMax = 1024 * 1024;

// An encoded answer that must be read is decoded up to these.
inline constexpr std::size_t kDecodedBytesMax = 1024 * 1024;
inline constexpr std::size_t kDecodedRatioMax = 100;

inline constexpr std::size_t kIdempotencyKeyBytesMax = 255;
inline constexpr std::size_t kExternalRefBytesMax = 1024;
// Of the body with which a backend refused a step or an undo: as much is kept of the latter, and
// shown of both.
inline constexpr std::size_t kSaidBytesMax = 1024;
inline constexpr std::size_t kRenderedRequestBytesMax = 64 * 1024;
// Requests that are stored to be sent later, or again. An agent's calls are a few KB; the commits
// of a ledger full of uploads would be paid by every other call.
inline constexpr std::size_t kStoredRequestBodyBytesMax = 256 * 1024;

// Of an answer that passes as it comes, what its client has not taken yet: then the backend waits.
inline constexpr std::size_t kRelayQueuedBytesMax = 1024 * 1024;

// Relay: at most this much of one body is in our memory at a time per direction. A 64 KiB body and
// its head come in one read.
inline constexpr std::size_t kRelayBufferBytes = 128 * 1024;

// Connections and flows of one process. A pod has a few agents; 10,000 idle ones stay cheap.
inline constexpr std::size_t kConnectionsMax = 16'384;
// One address (of IPv6 one /64) leaves a quarter of the connections to the others.
inline constexpr std::size_t kConnectionsPerPeerMax = kConnectionsMax / 4 * 3;
// Idle connections that are looked at for one that can make room for a new one.
inline constexpr std::size_t kIdleLooksMax = 64;
inline constexpr std::size_t kWriteFlowsMax = 4'096;
// What is held for all calls together (call_budget.h): three eighths of the memory that the process
// may use, and this much where nobody says how much that is. The rest is for the ledger, for what
// one call at a time of each thread takes while it is read, and for what the allocator keeps. With
// less than the minimum a call of the largest size would never be served.
inline constexpr std::size_t kCallMemoryBytes = 256 * 1024 * 1024;
inline constexpr std::size_t kCallMemoryBytesMin = 64 * 1024 * 1024;
// A write at work: its coroutines, fields and rows. Its answer has room for what most answers need
// before anything is sent; more is taken as it arrives, and waited for that long if need be.
inline constexpr std::size_t kCallBytes = 16 * 1024;
inline constexpr std::size_t kAnswerFirstBytes = 16 * 1024;
inline constexpr milliseconds kAnswerRoomFor{30'000};
inline constexpr milliseconds kAnswerRoomLook{20};
inline constexpr std::size_t kIdleCallersKept = 64;
// A body from here on is judged on another thread: one call may hold up the others of its I/O
// thread for 50 ms, and the costliest body of this size takes 20. So many may wait for that, as far
// as the memory for calls reaches.
inline constexpr std::size_t kLargeBodyBytes = 128 * 1024;
inline constexpr std::size_t kLargeBodiesMax = 1'024;
// How late a call that waits for another one notices that its own client has left.
inline constexpr milliseconds kWaitLook{500};
// Blocks from here on are pages of their own and go back to the system when they are let go.
inline constexpr std::size_t kOwnPagesFromBytes = 256 * 1024;
// A crowd's turn uses as many connections to a backend as there are clients: whatever is closed
// behind it has to be opened again, and the backend's queue of new connections is short.
inline constexpr std::size_t kIdleUpstreamMax = kConnectionsMax;    // of one I/O thread
inline constexpr std::size_t kIdleUpstreamClosedAtOnceMax = 1'024;  // some 10 us each
// Names being looked up at once per I/O thread; a slow name server takes one of them per name.
inline constexpr std::size_t kLookupThreads = 4;
inline constexpr std::size_t kAddressesPerNameMax = 16;
// TLS: sessions to resume towards one backend, and for how long one is believed: a certificate that
// is not trusted any more must not live on in them.
inline constexpr std::size_t kTlsSessionsPerBackendMax = 8;
inline constexpr milliseconds kTlsSessionAgeMax{60 * 60'000};
// A handshake costs us about a millisecond of CPU and some 50 KiB, so that many at once are shed,
// not queued. One address leaves a quarter of them to the others.
inline constexpr std::size_t kTlsHandshakesMax = 256;
inline constexpr std::size_t kTlsHandshakesPerPeerMax = kTlsHandshakesMax / 4 * 3;
inline constexpr std::size_t kTlsFileBytesMax = 1024 * 1024;  // looked at for changes
inline constexpr int kTlsChainMax = 10;                       // certificates above the peer's own
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
// Answers of one page of an export; one answer more may go over it.
inline constexpr std::size_t kAdminPageBytesMax = 4 * 1024 * 1024;
inline constexpr std::size_t kLedgerTailRows = 1'000;  // rows of the hash chain checked at start
inline constexpr std::size_t kRecoveryBatchRows = 256;
inline constexpr std::size_t kScanChunkRows = 1'000;  // rows read in one LMDB read transaction
// One index transaction dirties a page per entry in the worst case: 2,048 keep it under 16 MiB.
inline constexpr std::size_t kIndexWriteChunk = 2'048;
// Entries that a checkpoint looks at for some that name removed rows: several times as many as it
// adds, so that the index stays within a small factor of what is alive.
inline constexpr std::size_t kIndexSweepSteps = 4 * kHotIndexEntriesMax;
inline constexpr std::size_t kDetailBytesMax = 1'024;
// Keys that seal stored answers: a rotation a week for years; key files are read whole.
inline constexpr std::size_t kLedgerKeysMax = 256;
inline constexpr std::size_t kKeyIdBytesMax = 32;
inline constexpr std::size_t kKeyFileBytesMax = 64 * 1024;
inline constexpr std::size_t kReadySaltsMax = 8;  // one per start of the process that wrote rows
// Admission: what an open operation may still write besides an answer, which is kept only if there
// is room (settle and undo request, and texts); what commits and retention need for themselves; and
// how much must be free before nobody looks for free pages.
inline constexpr std::size_t kOpenReserveBytes = 2 * kRenderedRequestBytesMax + 16 * 1024;
inline constexpr std::size_t kSpaceSlackBytes = 512 * 1024;
inline constexpr std::size_t kSpacePlenty = 64 * 1024 * 1024;
inline constexpr std::size_t kSmallRowBytes = 16 * 1024;
inline constexpr std::size_t kCallersMax = 4'096;  // counted one by one; the rest together
// One step of retention: what leaves in one commit, and how long it then rests.
inline constexpr std::size_t kRetireRows = 1'024;
inline constexpr std::size_t kRetireBytes = 2 * 1024 * 1024;
inline constexpr std::size_t kRetireTombstones = 1'024;  // in one row, which a 410 reads whole
inline constexpr int kRetirePauses = 9;                  // of the length of a step
inline constexpr int kRetireLatePauses = 1;
// Ages of rows are known to within a part of the retention.
inline constexpr int kAgeMarksPerRetention = 64;
inline constexpr std::size_t kAgeMarksMax = 1'024;
inline constexpr milliseconds kAgeSpacingMin{50};
inline constexpr milliseconds kAgeSpacingMax{3'600'000};
// Pages whose structure is checked at a start, newest first: 64 MiB, read in well under a second.
inline constexpr std::size_t kLedgerCheckPages = 16'384;
// A backup leaves disk and processor to the calls; 10 GB take about five minutes.
inline constexpr std::uint64_t kServedBytesPerSecond = 32 * 1024 * 1024;

// Flows. What may still have to be undone is promised its rows: the undo operation's beginning and
// outcome, and the step's COMPENSATED. A flow of so many steps, or so many flows, are not an
// agent's work but a leak of trace ids.
inline constexpr std::size_t kUndoReserveBytes = 8 * 1024;
inline constexpr std::size_t kFlowStepsMax = 10'000;
inline constexpr std::size_t kFlowsMax = 100'000;
inline constexpr std::size_t kFlowsClosedAtOnce = 4;  // idle ones, for every write
inline constexpr std::size_t kFlowReasonBytesMax = 512;
// Approvals. People read what they approve: more than a few dozen at once are not read any more.
inline constexpr std::uint64_t kPendingApprovalsPerCaller = 20;
inline constexpr std::size_t kPendingApprovalsMax = 1'000;
inline constexpr std::size_t kApprovalDecisionsMax = 64;  // about one operation, late ones too
inline constexpr int kApproversMax = 20;                  // that one call may need
inline constexpr std::size_t kApprovedAtOnceMax = 32;     // being sent
inline constexpr std::size_t kClaimsPage = 32;            // read at once, with their requests
inline constexpr milliseconds kApprovalTick{100};         // how late its end or Stop() may be
inline constexpr milliseconds kApprovalAgain{1'000};      // when the ledger refused
inline constexpr milliseconds kApprovalExpires{15 * 60'000};
// What was decided in time is sent within that, also behind its end: another process may have to
// take it over.
inline constexpr milliseconds kApprovalSentWithin{30'000};
inline constexpr std::size_t kBodyChangesMax = 1'000;  // shown of one edit
inline constexpr std::uint64_t kEarlierRows = 5'000;   // looked through for a caller's calls
inline constexpr std::size_t kEarlierCallsMax = 20;
inline constexpr int kPollSeconds = 5;  // told to agents that wait for a human
// Replays of one answer from which on it seems that the call asks for a state, and how many
// operations they are counted of.
inline constexpr int kReplaysOfState = 3;
inline constexpr std::size_t kReplaysCounted = 4'096;
// Undo: a mass break must not become a storm. Tries reach over some minutes, then a human is asked.
inline constexpr int kUndoAttemptsMax = 10;  // unless the policy says otherwise, up to the cap
inline constexpr int kUndoAttemptsCap = 100;
inline constexpr int kUndosPerSecond = 5;  // likewise
inline constexpr int kUndosPerSecondCap = 1'000;
inline constexpr std::size_t kUndosAtOnceMax = 32;
// To one backend: a quarter, so that three that hang leave a share to the others.
inline constexpr std::size_t kUndosPerBackendMax = kUndosAtOnceMax / 4;
inline constexpr std::size_t kFlowsScanMax = 256;  // looked at in one tick
inline constexpr milliseconds kFlowTick{100};      // how late a deadline or Stop() may be
inline constexpr milliseconds kUndoBackoffFirst{1'000};
inline constexpr milliseconds kUndoBackoffMax{5 * 60'000};
// A step of unknown outcome is given this long to be settled, beyond its probe's absent_after.
inline constexpr milliseconds kFlowSettleFor{60'000};
// A deadline that passed while the process was down is not before this long after its start.
inline constexpr milliseconds kFlowGrace{5'000};
// A flow that the policy gives no deadline is complete after this long without a write.
inline constexpr milliseconds kFlowIdle{60 * 60'000};
// The webhook that tells of parked flows; it is tried again with the pauses of undo requests.
inline constexpr milliseconds kWebhookTimeout{10'000};
inline constexpr std::size_t kWebhookAnswerBytesMax = 64 * 1024;
inline constexpr std::size_t kWebhookStepsMax = 100;

// Times.
inline constexpr milliseconds kConnectTimeout{1'000};
inline constexpr milliseconds kHeadTimeout{10'000};
inline constexpr milliseconds kTlsHandshakeTimeout{5'000};  // of an agent
// A body that arrives slower than this uses up kBodyTimeout. A phone on a bad line is ten times
// faster.
inline constexpr milliseconds kBodyTimeout{30'000};
inline constexpr std::size_t kBodyBytesPerSecondMin = 512;
// An answer of a write is sent whole while its place is held: a second more for each MB.
inline constexpr std::size_t kAnswerBytesPerMilliMin = 1'000;
inline constexpr milliseconds kWriteBodyTotalTimeout{300'000};
inline constexpr milliseconds kReadFirstByteTimeout{30'000};
inline constexpr milliseconds kWriteTimeout{60'000};
inline constexpr milliseconds kStreamIdleTimeout{300'000};
// How long an answer is awaited before somebody looks whether the client is still there.
inline constexpr milliseconds kClientLook{1'000};
// A client that closed its side may be gone; a stream that is silent this long then ends.
inline constexpr milliseconds kHalfClosedIdleTimeout{10'000};
// Likewise for how long a call of such a client waits for another one, and for how long it has to
// acknowledge its answer: what it does not is taken for lost.
inline constexpr milliseconds kHalfClosedWait{30'000};
inline constexpr milliseconds kHalfClosedTaking{1'000};
inline constexpr milliseconds kClientIdleTimeout{120'000};
inline constexpr milliseconds kClientWriteTimeout{30'000};
inline constexpr milliseconds kUpstreamIdleTimeout{1'500};
// Of a connection that is kept for writes: half of the shortest timeout that servers in use have by
// default (gunicorn's 2 s), so that they never close it while a request is on its way.
inline constexpr milliseconds kWriteReuseIdle{1'000};
// After an early error answer the client may go on sending for this long and this much, so that a
// reset does not take the answer away (RFC 9112 9.6). A body a little over the cap is read to its
// end.
inline constexpr milliseconds kLingerTimeout{1'000};
inline constexpr std::size_t kLingerBytesMax = 8 * 1024 * 1024;
// Tunnels and streams of events have no end of their own: when the process is to stop, each ends
// once it is quiet.
inline constexpr milliseconds kDrainQuiet{1'000};
inline constexpr milliseconds kDrainTimeout{25'000};
// A ledger that latched writes nothing until a restart; reads are served this long before it.
inline constexpr milliseconds kLatchedFor{60'000};
inline constexpr milliseconds kLatchLook{250};  // how late that is noticed
inline constexpr milliseconds kHold{3'000};
inline constexpr milliseconds kFailedTtl{0};
inline constexpr milliseconds kDedupeWindow{10 * 60'000};
// How long after an outcome a retry that shares no scope with its call is still known as one.
inline constexpr milliseconds kAcrossWindow{30 * 60'000};
// Half of what the shortest-lived keys of known APIs are kept for.
inline constexpr milliseconds kKeyLives{12 * 3'600'000};
inline constexpr milliseconds kProbeTimeout{5'000};
inline constexpr milliseconds kProbeBackoffFirst{500};
inline constexpr milliseconds kProbeBackoffMax{60'000};
inline constexpr milliseconds kAnsweredFlush{1'000};
// How long answers and, after them, keys are kept where the policy does not say.
inline constexpr milliseconds kRetention{7LL * 86'400'000};
inline constexpr milliseconds kTombstones{90LL * 86'400'000};
inline constexpr milliseconds kRetentionMin{1'000};  // shorter than any write takes: for tests
inline constexpr milliseconds kRetentionShort{3'600'000};  // below it the policy is warned about

inline constexpr int kReadAttemptsMax = 2;
inline constexpr int kUnsentAttemptsMax = 3;
inline constexpr int kProbesAbsentMin = 2;

// Observe mode. What does not fit is forwarded all the same and not, or not wholly, written down.
inline constexpr std::size_t kObservedCallsMax = 4'096;
// Where the policy names no timeout nothing of ours cuts a slow backend off.
inline constexpr milliseconds kObservedPatience{300'000};
// Calls that no tool matches, by method and shape of the path, for each I/O thread.
inline constexpr std::size_t kUnlistedShapesMax = 256;
inline constexpr std::size_t kUnlistedShapeBytesMax = 160;
// The same of calls that enforce would refuse, with their reasons.
inline constexpr std::size_t kRefusedShapesMax = 64;
inline constexpr std::size_t kRefusalReasonBytesMax = 512;
// Hashes of what calls carried, to compare repeats with: of the calls that were sent last.
inline constexpr std::size_t kObservedFieldsBytesMax = 4 * 1024 * 1024;
inline constexpr std::size_t kObservedFieldsMax = 256;    // of one call; the rest is one
inline constexpr std::size_t kObservedNameBytesMax = 64;  // longer names are cut

// `recourse report`: what it keeps in memory while it reads the ledger, some 40 MiB in all.
inline constexpr std::size_t kReportOperationsMax = 100'000;
inline constexpr std::size_t kReportLinesMax = 1'000;  // per list
inline constexpr std::size_t kReportGapsMax = 1'000;   // per tool, for the median
inline constexpr std::size_t kReportExamplesMax = 3;   // per tool

// Policy file.
inline constexpr std::size_t kPolicyFileBytesMax = 10 * 1024 * 1024;
inline constexpr std::size_t kPolicyRoutesMax = 100'000;
inline constexpr std::size_t kTunnelRulesMax = 1'000;     // looked through for each CONNECT
inline constexpr std::size_t kMcpToolNameBytesMax = 128;  // as the protocol advises
inline constexpr std::size_t kMcpGlobsMax = 256;          // of one backend; looked through per call
inline constexpr int kMcpGlobStarsMax = 4;
inline constexpr std::size_t kPolicyProblemsMax = 1'000;  // listed; errors and warnings each
inline constexpr std::size_t kPolicyProblemsTold = 50;    // of a refused reload: log, admin port
// Changes of the policy's files: how soon after a notice they are looked at, how long they must
// stay the same, and how often they are looked at without a notice.
inline constexpr milliseconds kPolicyNotice{50};
inline constexpr milliseconds kPolicySettle{100};
inline constexpr milliseconds kPolicyPoll{5'000};
// How often a policy that was refused is tried again: a file that it names may be there by then.
inline constexpr milliseconds kPolicyRetry{2'000};
// How often operations that a reload left without their route are counted again.
inline constexpr milliseconds kOrphansCounted{10'000};
// How often a process asks which policies the others of its group have in force, and how long one
// that it brings is announced before it is in force: others may fail to ask twice.
inline constexpr milliseconds kOthersLearned{7'500}, kPolicyLearned{18'000};
static_assert(kPolicyLearned > kOthersLearned + kPolicyPoll + 2 * kPolicyRetry);
// Old policies kept beside the ledger, besides those that open operations began under.
inline constexpr std::size_t kPoliciesArchived = 16;
// Operations of one export that are held in memory at a time (policy replay).
inline constexpr std::size_t kReplayCallsMax = 1'000'000;
// What is written for one API description (policy import).
inline constexpr std::size_t kImportedBytesMax = 64 * 1024 * 1024;
inline constexpr std::size_t kImportedToolsMax = 2'000;
inline constexpr int kImportedDepthMax = 32;
// What is asked of a running MCP server (policy import mcp).
inline constexpr int kImportedPagesMax = 100;
inline constexpr milliseconds kImportPatience{
    30'000};  // all of it, unless --timeout says otherwise
inline constexpr std::size_t kSecretFileBytesMax = 4'096;
inline constexpr std::uint64_t kPolicyCountMax = 1'000'000'000;
inline constexpr std::uint64_t kPolicyBytesMax = std::uint64_t{16} << 40;
inline constexpr std::size_t kCallerBytesMax = 256;

// `recourse drill`. Its proxies' clock runs so much faster, so that pauses between tries take part
// of a second; what ends a call is far from what a slow machine needs even so.
inline constexpr int kDrillSpeed = 10;
inline constexpr milliseconds kDrillPatience{600'000};
inline constexpr milliseconds kDrillDeadline{10'000};
inline constexpr milliseconds kDrillAbsentAfter{1'000};
// By a real clock: one run, and how long a call's unknown outcome is awaited before an operator
// cancels its flow.
inline constexpr milliseconds kDrillRunFor{120'000};
inline constexpr milliseconds kDrillSettleFor{1'000};
inline constexpr milliseconds kDrillFor{10 * 60'000};  // all runs, unless --timeout says otherwise
inline constexpr milliseconds kDrillLook{10};          // how often a run looks for its end
inline constexpr std::size_t kDrillRunsAtOnce = 24;    // they wait more than they work
// Tools of one flow that nobody declared: each step adds some twenty runs to a scenario.
inline constexpr std::size_t kDrillStepsMax = 6;
// Its journal is a part of it, which each start of a run reads or writes.
inline constexpr std::uint64_t kDrillLedgerBytes = 16 * 1024 * 1024;

// One JSON text: a write's body or an answer that is read, whichever may be larger.
inline constexpr std::size_t kJsonBytesMax = kWriteBodyBytesMax;

// Filters.
inline constexpr std::size_t kMultipartPartsMax = 1'000;
// Of a part: a field, and how often "name" may stand in what says its name, as each may be one.
inline constexpr std::size_t kPartLineBytesMax = 1'024;
inline constexpr std::size_t kPartNamesMax = 16;
inline constexpr std::size_t kFlowNameBytesMax = 128;
// A repeat looks at the ledger again after a join or a probe; each look may find another state.
inline constexpr int kLedgerLooksMax = 4;
// A backend may be away for days while an agent repeats a call that was never sent.
inline constexpr int kAttemptsPerOperationMax = 1'000;
// Attempts that were refused use none of those up: after so many a key goes on with another
// operation. What is repeated faster than a backend may like is held back.
inline constexpr int kRefusedAttemptsMax = 500;
inline constexpr int kRefusedPerMinute = 1'000;
inline constexpr std::size_t kRefusedCounted = 65'536;  // keys; more are not counted
// Answers to approved calls that nobody has fetched yet.
inline constexpr std::size_t kFirstAnswersBytesMax = 4 * 1024 * 1024;
inline constexpr milliseconds kUnsentBackoffFirst{50};
inline constexpr std::size_t kProbesAtOnceMax = 8;
inline constexpr std::size_t kProbesPerBackendMax = 2;
inline constexpr std::size_t kSettleScanMax = 256;
inline constexpr milliseconds kSettleTick{100};  // how late a probe, a deadline or Stop() may be
inline constexpr std::size_t kSettleAnswersBytesMax = 8 * 1024 * 1024;

// Operators: who may use the admin port (--operators).
inline constexpr std::size_t kOperatorFileBytesMax = 1024 * 1024;
inline constexpr std::size_t kOperatorTokensMax = 1'000;  // each is looked at for every request
inline constexpr std::size_t kOperatorGroupsMax = 512;  // of one person; directories reach some 200
inline constexpr std::size_t kOperatorNameBytesMax = 256;
inline constexpr std::size_t kOperatorTokenBytes = 32;  // random, of `recourse operators token`
// Tokens of issuers: a head of the admin port has 16 KiB. Keys: what JWKS hold in practice is a
// handful; RSA keys beyond 8192 bits only cost time.
inline constexpr std::size_t kJwtBytesMax = 12 * 1024;
inline constexpr std::size_t kJwksBytesMax = 256 * 1024;
inline constexpr std::size_t kJwksKeysMax = 64;
inline constexpr int kJwksRsaBitsMin = 2'048;
inline constexpr int kJwksRsaBitsMax = 8'192;
inline constexpr milliseconds kJwtSkew{60'000};  // between our clock and the issuer's
// Keys from a URL: read again this often, for a key that is not known at most this often, and after
// a failure; how long one reading may take, and how long a request waits for it.
inline constexpr milliseconds kJwksRefresh{3'600'000};
inline constexpr milliseconds kJwksSpacing{60'000};
inline constexpr milliseconds kJwksRetry{5'000};
inline constexpr milliseconds kJwksTimeout{10'000};
inline constexpr milliseconds kJwksWait{3'000};
// Sessions of browsers.
inline constexpr std::size_t kSessionsMax = 1'024;
inline constexpr std::size_t kSessionsPerOperatorMax = 16;
inline constexpr milliseconds kSessionIdle{30LL * 60'000};
inline constexpr milliseconds kSessionLife{12LL * 3'600'000};
// Failed logins: so many at once, then one per so long; from one address and from all together.
inline constexpr int kLoginFailuresOfPeer = 10;
inline constexpr int kLoginFailuresOfAll = 100;
inline constexpr milliseconds kLoginFailureOfPeerEvery{6'000};
inline constexpr milliseconds kLoginFailureOfAllEvery{200};
inline constexpr std::size_t kLoginPeersMax = 4'096;  // counted one by one
// What is at least as long cannot be guessed, and is looked at however many guesses there were.
inline constexpr std::size_t kUnguessableBytes = 32;

static_assert(kHeaderLineBytesMax <= kHeadBytesMax);
static_assert(kTargetBytesMax / 2 <= kFormPairsMax);
static_assert(kAnswerKeptBytesMax <= kEventBytesMax);
static_assert(kRenderedRequestBytesMax * 6 + kStoredRequestBodyBytesMax + kAnswerKeptBytesMax <
              kEventBytesMax);

}  // namespace recourse::limits
