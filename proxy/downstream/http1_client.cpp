#include "proxy/downstream/http1_client.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

namespace recourse {

ClientSide::State Http1Client::Look() {
  Connection& client = wire_.client;
  if (client.tls != nullptr) {
    const TlsStep step = client.PeekTls();
    if (!step.error) return step.size > 0 ? State::kSpeaks : State::kSilent;
    return step.error == boost::asio::error::eof ? State::kClosed : State::kReset;
  }
  char byte;
  const ssize_t got = ::recv(client.socket(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got == 0) return State::kClosed;
  if (got > 0) return State::kSpeaks;
  return errno == EAGAIN || errno == EWOULDBLOCK ? State::kSilent : State::kReset;
}

Task<ClientSide::State> Http1Client::Await() {
  const bool readable = co_await WaitReadable(wire_.client);
  co_return readable ? Look() : State::kSilent;
}

bool Http1Client::HasHungUp(int how) const {
  pollfd socket{wire_.client.socket(), POLLRDHUP, 0};
  return ::poll(&socket, 1, 0) > 0 && (socket.revents & how) != 0;
}

// Of a client that has closed its side only its kernel tells whether anybody still reads: what
// comes for somebody it acknowledges, all else it answers with a reset.
Task<bool> Http1Client::HasTaken() {
  const MonoTime end = wire_.Now() + limits::kHalfClosedTaking;
  for (Millis pause{1}; MayHaveLeft(); pause *= 2) {
    if (HasLeft()) co_return false;
    int unacknowledged = 0;
    if (::ioctl(wire_.client.socket(), SIOCOUTQ, &unacknowledged) != 0) co_return false;
    if (unacknowledged == 0) co_return true;
    const MonoTime next = wire_.Now() + pause;
    if (next >= end) co_return false;
    co_await wire_.worker.thread.SleepUntil(next);
  }
  co_return true;
}

// A kernel acknowledges for a client that dies before it reads. What it has of an answer then it
// answers with a reset, where one that has read all ends with a FIN or asks for more: a reset takes
// the mark back, so that who is started anew in its place gets the answer. Waiting with the mark
// instead would take the next equal call of a living client for a retry.
void Http1Client::MarkAnswered(AttemptId answered) {
  wire_.worker.services.ledger->MarkAnswered(answered);
  wire_.unread = answered;
}

Task<std::optional<RawConnection>> Http1Client::Upgrade(const Head& head, std::uint64_t dropped,
                                                        std::string_view protocol,
                                                        std::span<char> room) {
  HeadWriter writer(room.data(), room.size());
  writer.StartResponse(head.status, head.reason);
  writer.CopyFields(head, dropped);
  writer.Upgrade(protocol);
  writer.End();
  if (!writer.ok()) co_return std::nullopt;
  wire_.client.deadline.Arm(wire_.Now() + request_.services.bounds.send_timeout);
  request_.record.client_gone = !co_await WriteAll(wire_.client, {writer.view()});
  if (request_.record.client_gone) co_return std::nullopt;
  co_return Raw();
}

Task<std::optional<RawConnection>> Http1Client::AcceptConnect() {
  body_.Skip();
  request_.record.status = 200;
  wire_.client.deadline.Arm(wire_.Now() + request_.services.bounds.send_timeout);
  request_.record.client_gone =
      !co_await WriteAll(wire_.client, {"HTTP/1.1 200 Connection established\r\n\r\n"});
  wire_.client.deadline.Disarm();
  if (request_.record.client_gone) co_return std::nullopt;
  co_return Raw();
}

void Http1Client::EnterTunnel(Authority target) {
  wire_.ingress.inside = {std::move(target), 80};
  wire_.meets_opening = true;
}

}  // namespace recourse
