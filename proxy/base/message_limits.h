// Bounds of what MCP clients and servers send. Apart from limits.h, which everything includes.
#pragma once

#include "proxy/base/limits.h"

namespace recourse::limits {

// Batches are gone from the protocol since 2025-06-18; clients of before sent a handful.
inline constexpr std::size_t kBatchMax = 64;
// The protocol advises up to 128 characters; who does not follow is still to be told apart.
inline constexpr std::size_t kCalledNameBytesMax = 512;
inline constexpr std::size_t kFailureBytesMax = 512;

// What an event of a stream has around its message.
inline constexpr std::size_t kEventFramingBytesMax = 64 * 1024;
// What a server may send before its answer. Progress comes a few times a second at most.
inline constexpr std::size_t kInterimMessagesMax = 100'000;
inline constexpr std::size_t kMcpInterimBytesMax = 64 * 1024 * 1024;

// A stream that was cut is taken up again at most that often, and never sooner than that: servers
// that close their streams to be polled say how long to wait.
inline constexpr int kResumesMax = 32;
inline constexpr milliseconds kResumePause{1'000};
inline constexpr milliseconds kResumePauseMax{30'000};
// A session of our own is ended after its one call; the call's answer waits for that.
inline constexpr milliseconds kSessionEndTimeout{2'000};

// Tasks. Longer ids are not asked about; the fields are those of the call's session and
// credentials.
inline constexpr std::size_t kTaskIdBytesMax = 1'024;
inline constexpr std::size_t kTaskRequestBytesMax = 16 * 1024;
// A server that wants to be asked more seldom is asked all the same.
inline constexpr milliseconds kTaskPollMax{5 * 60'000};
inline constexpr milliseconds kTaskLifeMax{30LL * 24 * 3'600'000};
// Whoever asks by himself is believed to go on asking this long.
inline constexpr milliseconds kTaskAskedFor{10'000};
// How long a flow that broke waits for a task that its server is at work on.
inline constexpr milliseconds kTaskAwaitedFor{3'600'000};
// What agents are told about tasks, and late answers, that has not been looked at.
inline constexpr std::size_t kNewsMax = 256;

inline constexpr std::size_t kLateCallsMax = 1'024;

// A client that gives a call up and repeats it sends both at once, on two connections: how long the
// repeat of a call whose client seems to wait is held for the other; and how long after an answer
// the other still says that it came too late.
inline constexpr milliseconds kRepeatOvertakes{100};
inline constexpr milliseconds kCancelCrosses{2'000};
// No client gives a call up sooner: the shortest patience known is 5 s.
inline constexpr milliseconds kPatienceMin{4'000};

// What is told to a client while its write runs, and not taken yet: then it counts as gone.
inline constexpr std::size_t kQueuedBytesMax = 1024 * 1024;
// Of an answer that passes, for looking at one message of it: an event, or a list of tools.
inline constexpr std::size_t kTapBytesMax = kAnswerBytesMax;
// What servers have said about their tools: for each backend and caller, and of one of them.
inline constexpr std::size_t kBooksMax = 256;
inline constexpr std::size_t kBookToolsMax = 1'024;
inline constexpr std::size_t kParamFieldsMax = 32;  // of one tool
// A client is asked to come back at most this often; official SDKs give up at the tenth round.
inline constexpr int kRoundsMax = 9;
// How long it may take to, beyond the time that a human has.
inline constexpr milliseconds kStateLife{3'600'000};
// A client may listen for hours without anything happening.
inline constexpr milliseconds kListenQuiet{24LL * 3'600'000};

}  // namespace recourse::limits
