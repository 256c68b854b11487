#include "tests/sim/fleet_pod.h"

#include <algorithm>
#include <cmath>

#include "proxy/base/lease_limits.h"

namespace recourse::fleet_sim {
namespace {

constexpr unsigned kArrivesWithin = 1'500;    // bytes that were sent
constexpr std::int64_t kAbsentAfter = 3'000;  // since the outcome became unknown
constexpr std::size_t kPlansMax = 16;

}  // namespace

class Pod::Kernel final : public Watchdog {
 public:
  Kernel(World& world, std::shared_ptr<Life> life) : world_(world), life_(std::move(life)) {}
  BootTime Now() const override {
    const double ms = static_cast<double>(world_.now) * life_->rate;
    return BootTime(std::chrono::microseconds(static_cast<std::int64_t>(ms * 1'000)));
  }
  void Arm(BootTime at) override {
    const auto armed = ++armed_;
    if (!world_.faults.has_watchdog) return;
    const double left = std::chrono::duration<double, std::milli>(at - Now()).count();
    const auto wait = std::max<std::int64_t>(0, std::llround(std::ceil(left / life_->rate)));
    world_.After(wait, nullptr, [this, armed, &world = world_, life = life_, alive = token_] {
      if (alive.expired() || armed != armed_ || !life->is_alive) return;
      life->is_alive = false;
      ++world.ended;
      world.Tell("pod {} ENDED by its watchdog", life->pod);
    });
  }
  void Disarm() override { ++armed_; }

 private:
  World& world_;
  const std::shared_ptr<Life> life_;
  int armed_ = 0;
  std::shared_ptr<int> owner_ = std::make_shared<int>();
  std::weak_ptr<int> token_ = owner_;
};

struct Pod::PodClock final : Clock {
  PodClock(World& of, std::shared_ptr<Life> at) : world(of), life(std::move(at)) {}
  MonoTime Now() const override {
    const double ms = static_cast<double>(world.now + in_call) * life->rate;
    return MonoTime(Millis(std::llround(ms)));
  }
  WallTime WallNow() const override { return {}; }
  World& world;
  const std::shared_ptr<Life> life;
  std::int64_t in_call = 0;
};

class Pod::Table final : public StreamTable {
 public:
  explicit Table(Pod& pod) : pod_(pod), db_(pod.world_.database) {}

  Result<Listed> List() override {
    if (!Reaches()) return Lost();
    Listed listed;
    for (const auto& [number, row] : db_.streams) {
      if (row.state == 1) ++listed.processes;
      if (row.state == 1 && row.has_open) listed.open.push_back({number, row.beat, true});
      if (row.state != 2) continue;
      const bool is_own = row.taken_by == pod_.stream_;
      if (is_own || db_.streams.at(row.taken_by).state != 1) {
        listed.abandoned.push_back({number, row.taken_by});
      }
    }
    return listed;
  }
  Result<std::vector<Watch::Beat>> Beats(std::span<const std::uint64_t> streams) override {
    if (!Reaches()) return Lost();
    std::vector<Watch::Beat> beats;
    for (const std::uint64_t number : streams) {
      const StreamRow& row = db_.streams.at(number);
      if (row.state == 1) beats.push_back({number, row.beat, row.has_open});
    }
    const bool is_slow = pod_.world_.dice.Percent(3);
    pod_.clock_->in_call = pod_.world_.dice.Below(is_slow ? 3'000 : 30);
    return beats;
  }
  Result<bool> Declare(Watch::Silent silent) override {
    if (!Reaches()) return Lost();
    StreamRow& row = db_.streams.at(silent.stream);
    if (row.state != 1 || row.beat != silent.beat) return false;
    row.state = 2;
    row.taken_by = pod_.stream_;
    ++db_.takeovers;
    Tell("declared dead: stream ", silent.stream);
    if (pod_.world_.LosesAnswer()) return Lost();
    return true;
  }
  Result<bool> Adopt(Abandoned abandoned) override {
    if (!Reaches()) return Lost();
    StreamRow& row = db_.streams.at(abandoned.stream);
    if (row.state != 2 || row.taken_by != abandoned.taken_by) return false;
    row.taken_by = pod_.stream_;
    Tell("adopted: stream ", abandoned.stream);
    return true;
  }
  Result<bool> TakeOverSome(std::uint64_t stream) override {
    if (!Reaches()) return Lost();
    auto done = db_.TakeOverSome(stream, pod_.stream_, pod_.world_.now);
    if (done && *done) Tell("taken over: stream ", stream);
    return done;
  }

 private:
  bool Reaches() const { return db_.is_up && pod_.life_->cut_until <= pod_.world_.now; }
  static std::unexpected<Error> Lost() {
    return std::unexpected(Error(ErrorCode::kLedgerUnavailable, "no answer"));
  }
  void Tell(std::string_view what, std::uint64_t stream) {
    pod_.world_.Tell("pod {} {}{}", pod_.number_, what, stream);
  }

  Pod& pod_;
  Database& db_;
};

Pod::Pod(World& world, int number)
    : world_(world), number_(number), random_(static_cast<std::uint64_t>(number) + 1) {}
Pod::~Pod() = default;

void Pod::Start() {
  life_ = std::make_shared<Life>();
  life_->pod = number_;
  life_->rate = 0.9 + 0.2 * world_.dice.Below(1'001) / 1'000;
  queue_.clear();
  in_flight_.reset();
  running_.clear();
  settling_.clear();
  OpenStream();
  Agent();
  Settle();
  Beat();
}

void Pod::Kill() {
  life_->is_alive = false;
  world_.Tell("pod {} KILLED, stream {}", number_, stream_);
}

// A process that begins, or was fenced. What it has sent under the old one it may testify.
void Pod::OpenStream() {
  if (guard_ != nullptr) guard_->End();
  stream_ = world_.database.OpenStream();
  head_ = 0;
  const auto kernel = std::make_shared<Kernel>(world_, life_);
  kernel_ = kernel;
  guard_ = std::shared_ptr<SendGuard>(new SendGuard(*kernel),
                                      [kernel](const SendGuard* guard) { delete guard; });
  clock_ = std::make_unique<PodClock>(world_, life_);
  table_ = std::make_unique<Table>(*this);
  keeper_ = std::make_unique<StreamKeeper>(stream_, *table_, *clock_, random_);
  world_.Tell("pod {} opens stream {}", number_, stream_);
  Keep(++epoch_);
}

void Pod::Keep(int epoch) {
  if (epoch != epoch_) return;
  const bool was_taking = keeper_->is_taking();
  const auto takeovers = keeper_->takeovers();
  const MonoTime next = keeper_->Step();
  // As the watch has the lane tell of it.
  if (keeper_->is_taking() != was_taking || keeper_->takeovers() != takeovers) {
    has_to_beat_ = true;
    Lane();
  }
  const auto wait = std::chrono::ceil<Millis>(next - clock_->Now()).count();
  const std::int64_t ms = std::max<std::int64_t>(wait, 0) + clock_->in_call + 1;
  clock_->in_call = 0;
  world_.After(ms, life_, [this, epoch] { Keep(epoch); });
}

bool Pod::HasOpen() const {
  if (!running_.empty() || keeper_->is_taking()) return true;
  return std::ranges::any_of(world_.database.operations, [this](const auto& entry) {
    return entry.second.phase == OpPhase::kUnknown && entry.second.owner == stream_;
  });
}

void Pod::Beat() {
  Lane();
  world_.After(100, life_, [this] { Beat(); });
}

void Pod::Submit(BatchPlan plan, std::function<void(bool, int)> told) {
  queue_.push_back({plan, std::move(told)});
  Lane();
}

void Pod::Lane() {
  if (in_flight_) return;
  const auto beat = BeatDue(HasOpen() || said_open_, last_sent_);
  if (queue_.empty() && !has_to_beat_ && (!beat || *beat > kernel_->Now())) return;
  has_to_beat_ = false;
  InFlight& next = in_flight_.emplace();
  while (!queue_.empty() && next.waiting.size() < kPlansMax) {
    next.batch.plans.push_back(queue_.front().plan);
    next.waiting.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  next.batch.stream = stream_;
  next.batch.head = head_;
  said_open_ = next.batch.has_open = HasOpen();
  next.first_sent = last_sent_ = kernel_->Now();
  Transmit();
}

// Once more, with the same rows, whenever no answer has come.
void Pod::Transmit() {
  const auto delay = [this] { return 1 + world_.dice.Below(world_.LosesAnswer() ? 5'000 : 20); };
  const int tried = ++tries_;
  world_.After(delay(), nullptr, [this, tried, batch = in_flight_->batch, life = life_, delay] {
    if (!world_.database.is_up || life->cut_until > world_.now) return;
    Batch copy = batch;
    const Database::Answer answer = world_.database.Write(copy, world_.now);
    if (world_.LosesAnswer()) return;
    world_.After(delay(), life, [this, tried, answer, copy] {
      if (in_flight_ && tried == tries_) Answered(answer, copy);
    });
  });
  const Millis pause = ReconnectPause(++failures_, Jitter(random_));
  world_.After(3'000 + pause.count(), life_, [this, tried] {
    if (in_flight_ && tried == tries_) Transmit();
  });
}

void Pod::Answered(Database::Answer answer, const Batch& batch) {
  InFlight done = std::move(*in_flight_);
  in_flight_.reset();
  failures_ = 0;
  if (answer == Database::Answer::kFenced) {
    world_.Tell("pod {} is fenced", number_);
    OpenStream();
    for (Waiting& wait : done.waiting) {
      const bool is_begin = wait.plan.kind == BatchPlan::Kind::kBegin;
      is_begin ? wait.told(false, 0) : queue_.push_back(std::move(wait));
    }
  } else {
    guard_->Acknowledge(done.first_sent);
    ++head_;
    for (std::size_t i = 0; i < done.waiting.size(); ++i) {
      done.waiting[i].told(batch.plans[i].has_won, batch.plans[i].attempt);
    }
  }
  Lane();
}

// Four new ones every five seconds, for all pods; what had no effect is called again.
int Pod::NextKey() {
  if (world_.dice.Percent(40)) {
    for (const auto& [key, op] : world_.database.operations) {
      if (op.phase == OpPhase::kAbsent || op.phase == OpPhase::kNotSent) return key;
    }
  }
  return static_cast<int>(world_.now / 5'000) * 10 + static_cast<int>(world_.dice.Below(4));
}

void Pod::Agent() {
  if (world_.now < world_.faults_end) {
    world_.After(100 + world_.dice.Below(500), life_, [this] { Agent(); });
  }
  const int key = NextKey();
  if (!running_.emplace(key, 0).second) return;
  Submit({.key = key}, [this, key](bool won, int attempt) {
    if (!won) return (void)running_.erase(key);
    running_[key] = attempt;
    Dispatch(key, attempt, guard_);
  });
}

// Connects, asks, and sends; it may be paused between any two of them.
void Pod::Dispatch(int key, int attempt, std::shared_ptr<SendGuard> guard) {
  const unsigned connects_within = world_.dice.Percent(5) ? 9'000 : 300;
  world_.After(world_.dice.Below(connects_within), life_, [this, key, attempt, guard] {
    if (!guard->Enter()) {
      ++world_.refused;
      return Record(key, attempt, OpPhase::kNotSent, true);
    }
    const bool is_calm = world_.now >= world_.faults_end;
    if (!is_calm && world_.dice.Percent(world_.faults.pauses)) {
      world_.Pause(*life_, world_.dice.Below(30'000));
    }
    world_.After(0, life_, [this, key, attempt, guard] {
      Sent(key, attempt);
      guard->Leave();
    });
  });
}

void Pod::Sent(int key, int attempt) {
  world_.Tell("pod {} sends attempt {} of {}", number_, attempt, key);
  const std::int64_t arrives = 1 + world_.dice.Below(kArrivesWithin);
  world_.After(arrives, nullptr, [this, key, attempt] { world_.Effect(key, attempt); });
  const bool is_lost = world_.dice.Percent(15);
  const std::int64_t answers = is_lost ? 10'000 : arrives + 1 + world_.dice.Below(3'000);
  world_.After(answers, life_, [this, key, attempt, is_lost] {
    Record(key, attempt, is_lost ? OpPhase::kUnknown : OpPhase::kDone, true);
  });
}

void Pod::Record(int key, int attempt, OpPhase to, bool is_own_dispatch) {
  const BatchPlan move{.kind = BatchPlan::Kind::kMove,
                       .key = key,
                       .to = to,
                       .attempt = attempt,
                       .is_own_dispatch = is_own_dispatch};
  Submit(move, [this, key, attempt](bool, int) {
    const auto running = running_.find(key);  // or a later one
    if (running != running_.end() && running->second == attempt) running_.erase(running);
    settling_.erase(key);
  });
}

void Pod::Settle() {
  world_.After(500, life_, [this] { Settle(); });
  if (!world_.database.is_up) return;
  for (const auto& [key, op] : world_.database.operations) {
    if (op.phase != OpPhase::kUnknown || op.owner != stream_ || settling_.contains(key)) continue;
    const bool has_effect = world_.effects[key] > 0;
    if (!has_effect && world_.now - op.unknown_at < kAbsentAfter) continue;
    settling_.insert(key);
    Record(key, op.attempt, has_effect ? OpPhase::kDone : OpPhase::kAbsent, false);
  }
}

}  // namespace recourse::fleet_sim
