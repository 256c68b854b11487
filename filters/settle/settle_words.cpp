// The part of SettleWorker that takes a human's word.
#include <utility>

#include "filters/settle/human_word.h"
#include "filters/settle/reply.h"
#include "filters/settle/settle_worker.h"

namespace recourse {

Task<std::expected<Event, std::string>> SettleWorker::SettleBy(
    HumanWord word, std::optional<Transition::FlowEffect> effect, Executor& executor) {
  using Answer = std::expected<Event, std::string>;
  const auto told = std::make_shared<Promise<Answer>>();
  loop_.Post([this, told, on = &executor, word = std::move(word),
              effect = std::move(effect)]() mutable {
    if (loop_.is_stopping()) {
      Reply(*on, told, Answer(std::unexpected(kShuttingDown)));
      return;
    }
    loop_.Spawn([](SettleWorker& self, HumanWord said, std::optional<Transition::FlowEffect> moves,
                   Executor& waiter, std::shared_ptr<Promise<Answer>> answer) -> Task<void> {
      Reply(waiter, std::move(answer), co_await self.TakeWord(std::move(said), std::move(moves)));
    }(*this, std::move(word), std::move(effect), *on, told));
  });
  co_return co_await told->Wait();
}

Task<std::expected<Event, std::string>> SettleWorker::TakeWord(
    HumanWord word, std::optional<Transition::FlowEffect> effect) {
  using Answer = std::expected<Event, std::string>;
  auto last = co_await parts_.ledger.Read(word.operation, parts_.executor);
  if (!last) co_return Answer(std::unexpected(std::string(last.error().detail())));
  if (IsSettledBy(word, *last)) co_return Answer(std::move(*last));
  const auto policy = parts_.policy(last->policy_version);
  const std::uint64_t operation = word.operation;
  Answer recorded =
      co_await recorder_.RecordWord(std::move(word), std::move(*last), policy, std::move(effect));
  if (recorded) queue_.Forget(operation, Settled::kYes);
  co_return recorded;
}

}  // namespace recourse
