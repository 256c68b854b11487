// The answer of a read on its way to the client.
#pragma once

#include "proxy/exchange/client_side.h"
#include "proxy/lanes/read_state.h"

namespace recourse {

class ReadAnswer final : Drainable {
 public:
  // The head of the answer is here. `read` outlives this object.
  explicit ReadAnswer(ReadState& read)
      : read_(read), request_(read.request), reply_(read.exchange.reply) {}

  // True: the response went out whole.
  Task<bool> Relay();

 private:
  // The process is to stop, and a stream may have nothing to say for hours.
  void Drain() override;
  bool BeginReply();
  ReplyPiece Meet(BodyDecoder::Piece piece);
  std::string_view ShowTap(const BodyDecoder::Piece& piece, bool ends);
  void NoteUnsent(const BodyDecoder::Piece& piece);
  void ArmWait();
  BodyDecoder::Piece TakeMore(std::size_t size, BodyDecoder& decoder);
  bool MendsBreak();
  Task<bool> Replace(std::string_view detail);
  void MeetListening();
  void MeetEvents();
  void AwaitEvents(MonoTime now);
  BodyDecoder::Piece EndOf(const BodyDecoder& decoder);

  ReadState& read_;
  ServedRequest& request_;
  Reply& reply_;
  bool streams_ = false;
};

// Takes the policy's credentials out of the backend's head, which stands in the buffer that it was
// read into.
void CleanHead(ReadState& read);

// What the client is told when there is no answer to pass on.
HttpResponse AnswerFailure(const ReadState& read, const Error& error);

}  // namespace recourse
