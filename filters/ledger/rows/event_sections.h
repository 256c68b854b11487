// What stands behind the clear front of an event's row: details, extension, answer. Each is sealed
// as one part where the ledger has keys.
#pragma once

#include <cstdint>

#include "filters/ledger/model/event.h"
#include "proxy/base/bytes.h"

namespace recourse {

// Flags of an event that say what its details hold.
inline constexpr std::uint8_t kEventHasSettle = 2;
inline constexpr std::uint8_t kEventHasUndo = 4;
inline constexpr std::uint8_t kEventHasDedupeDomain = 32;

void WriteDetails(ByteWriter& writer, const Event& event);
// Too few bytes show in reader.ok().
void ReadDetails(ByteReader& reader, std::uint8_t flags, bool has_key_field, Event& event);

enum class AnswerBody : std::uint8_t { kRead, kSkip };
void WriteAnswer(ByteWriter& writer, const HttpResponse& answer);
void ReadAnswer(ByteReader& reader, AnswerBody body, HttpResponse& answer);

// The extension: a count of one byte, then records of kind 1, length 4 and bytes. Kinds are never
// renumbered, and stand in ascending order. An event without any of them has no extension.
bool HasExtension(const Event& event);
void WriteExtension(ByteWriter& writer, const Event& event);
// False when it is empty, a kind is not known or stands there twice, or a record is not what its
// kind says.
bool ReadExtension(ByteReader& reader, Event& event);

}  // namespace recourse
