#include "tests/sim/fleet_pod.h"

#include <algorithm>
#include <cmath>

#include "proxy/base/lease_limits.h"

namespace recourse::fleet_sim {
namespace {

constexpr unsigned kArrivesWithin = 1'500;    // bytes that were sent
constexpr std::int64_t kAbsentAfter = 5'000;  // since the outcome became unknown
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
    if (world_.faults.without == Mutant::kNoWatchdog) return;
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
  end_ = world_.database.streams.at(stream_).end;
  birth_ = end_.chain;
  const auto kernel = std::make_shared<Kernel>(world_, life_);
  kernel_ = kernel;
  guard_ = std::shared_ptr<SendGuard>(new SendGuard(*kernel),
                                      [kernel](const SendGuard* guard) { delete guard; });
  clock_ = std::make_unique<PodClock>(world_, life_);
  said_taking_ = false;
  table_ =
      std::make_unique<PodTable>(PodTable::Parts{.world = world_,
                                                 .life = life_,
                                                 .stream = stream_,
                                                 .birth = birth_,
                                                 .acknowledged = [this] { return end_; },
                                                 .behind = [this] { BeatAtOnce(); },
                                                 .has_said_taking = [this] { return said_taking_; },
                                                 .in_call = clock_->in_call});
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
    BeatAtOnce();
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

void Pod::BeatAtOnce() {
  has_to_beat_ = true;
  Lane();
}

void Pod::Beat() {
  Lane();
  world_.After(100, life_, [this] { Beat(); });
}

bool Pod::HasLost() const {
  const auto found = world_.database.EndOf(stream_, end_);
  return JudgeEnd(end_, in_flight_ ? &in_flight_->batch.after : nullptr, found) ==
         EndFound::kWentBack;
}

void Pod::Submit(BatchPlan plan, std::function<void(const BatchPlan&)> told) {
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
  next.batch.before = end_;
  next.batch.after = {end_.number + 1, world_.database.NewChain()};
  said_open_ = next.batch.has_open = HasOpen();
  next.takes = keeper_->is_taking();
  if (!next.takes) said_taking_ = false;
  next.first_sent = last_sent_ = kernel_->Now();
  Transmit();
}

// Once more, with the same rows, whenever no answer has come.
void Pod::Transmit() {
  if (world_.faults.without == Mutant::kLeaseFromLastSending)
    in_flight_->first_sent = kernel_->Now();
  const int tried = ++tries_;
  const std::int64_t delay = 1 + world_.dice.Below(world_.LosesAnswer() ? 5'000 : 20);
  world_.After(delay, nullptr, [this, tried, batch = in_flight_->batch, life = life_] {
    Arrive(tried, batch, life);
  });
  const Millis pause = ReconnectPause(++failures_, Jitter(random_));
  world_.After(3'000 + pause.count(), life_, [this, tried] {
    if (in_flight_ && tried == tries_) Transmit();
  });
}

// The database writes it whatever has become of whoever sent it: once what others write to the same
// rows is committed, and as slowly as its standbys are.
void Pod::Arrive(int tried, const Batch& batch, const std::shared_ptr<Life>& life) {
  Database& db = world_.database;
  if (!db.is_up || life->cut_until > world_.now) return;
  // Its first statement waits for its stream's row alone, and may end it.
  const bool is_first = db.LockedUntil(batch.stream) <= world_.now;
  if (is_first && !db.Fits(batch)) return Answer(tried, life, std::nullopt);
  if (const auto until = db.LockedUntil(batch); until > world_.now) {
    db.LockStream(batch, until);
    return world_.After(until - world_.now, nullptr,
                        [this, tried, batch, life] { Arrive(tried, batch, life); });
  }
  if (!db.Fits(batch)) return Answer(tried, life, std::nullopt);
  const bool is_slow =
      world_.now < world_.faults_end && world_.dice.Percent(world_.faults.slow_commits);
  const std::int64_t takes = is_slow ? 1 + world_.dice.Below(9'000) : 0;
  if (is_slow) db.Lock(batch, world_.now + takes);
  const auto commit = [this, tried, batch, life, &db, epoch = db.epoch()] {
    if (!db.is_up || db.epoch() != epoch) return;
    Batch written = batch;
    db.Write(written, world_.now);
    Answer(tried, life, std::move(written));
  };
  if (!is_slow) return commit();
  world_.After(takes, nullptr, commit);
}

void Pod::Answer(int tried, const std::shared_ptr<Life>& life, std::optional<Batch> written) {
  if (world_.LosesAnswer()) return;
  const std::int64_t delay = 1 + world_.dice.Below(world_.LosesAnswer() ? 5'000 : 20);
  world_.After(delay, life, [this, tried, written = std::move(written)] {
    if (!in_flight_ || tried != tries_) return;
    written ? Written(*written) : LookForEnd();
  });
}

// The batch was refused: another one was first, or it is written, or its stream is not what it was.
void Pod::LookForEnd() {
  Database& db = world_.database;
  if (!Reaches()) return;
  const Batch& batch = in_flight_->batch;
  switch (JudgeEnd(end_, &batch.after, db.EndOf(stream_, end_))) {
    case EndFound::kInDoubt:
      return Written(Batch(db.written.at(stream_)));
    case EndFound::kAcknowledged:
      return db.streams.at(stream_).state == 1 ? void() : Fenced();
    case EndFound::kWentBack:
      if (world_.faults.without != Mutant::kEndIgnored) world_.NoticeLoss(stream_);
      return Fenced();
  }
}

void Pod::Fenced() {
  world_.Tell("pod {} is fenced", number_);
  InFlight lost = std::move(*in_flight_);
  in_flight_.reset();
  failures_ = 0;
  OpenStream();
  for (Waiting& wait : lost.waiting) {
    const bool is_begin = wait.plan.kind == BatchPlan::Kind::kBegin;
    is_begin ? wait.told(wait.plan) : queue_.push_back(std::move(wait));
  }
  Lane();
}

void Pod::Written(const Batch& batch) {
  InFlight done = std::move(*in_flight_);
  in_flight_.reset();
  failures_ = 0;
  guard_->Acknowledge(done.first_sent);
  end_ = batch.after;
  said_taking_ = done.takes;
  for (std::size_t i = 0; i < done.waiting.size(); ++i) done.waiting[i].told(batch.plans[i]);
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
  Submit({.key = key}, [this, key](const BatchPlan& begun) {
    if (!begun.has_won) return (void)running_.erase(key);
    running_[key] = begun.attempt;
    Dispatch({key, begun.attempt, begun.name}, guard_);
  });
}

// Connects, asks, and sends; it may be paused between any two of them.
void Pod::Dispatch(Call call, std::shared_ptr<SendGuard> guard) {
  const unsigned connects_within = world_.dice.Percent(5) ? 9'000 : 300;
  world_.After(world_.dice.Below(connects_within), life_, [this, call, guard] {
    if (!ReachesBackend()) return Record(call, OpPhase::kNotSent, true);
    if (!guard->Enter()) {
      ++world_.refused;
      return Record(call, OpPhase::kNotSent, true);
    }
    const bool is_calm = world_.now >= world_.faults_end;
    if (!is_calm && world_.dice.Percent(world_.faults.pauses)) {
      world_.Pause(*life_, world_.dice.Below(30'000));
    }
    world_.After(0, life_, [this, call, guard] {
      Sent(call, guard->Left());
      guard->Leave();
    });
  });
}

// An answer comes, or its connection is lost, or nothing comes.
void Pod::Sent(Call call, Millis left) {
  world_.Tell("pod {} sends attempt {} of {}", number_, call.attempt, call.key);
  const std::int64_t arrives = 1 + world_.dice.Below(kArrivesWithin);
  const auto held = static_cast<double>(left.count()) / life_->rate;
  const std::int64_t until = world_.now + std::llround(held) + limits::kSentAgainMax.count();
  auto bytes = std::make_shared<Bytes>(Bytes{call, life_, until});
  world_.After(arrives, nullptr, [this, bytes] { Deliver(bytes); });
  const bool is_lost = world_.dice.Percent(15);
  const std::int64_t answers = is_lost ? 10'000 : arrives + 1 + world_.dice.Below(3'000);
  world_.After(answers, life_, [this, call, is_lost, bytes, arrived = world_.now + arrives] {
    const bool is_cut = life_->backend_cut_until > arrived;
    // Who gives a connection up has the kernel drop what the backend does not have yet.
    bytes->is_dropped = world_.faults.without != Mutant::kKernelKeepsBytes;
    if (is_cut && world_.faults.without == Mutant::kCutIsNotSent) {
      return Record(call, OpPhase::kNotSent, true);
    }
    Record(call, is_lost || is_cut ? OpPhase::kUnknown : OpPhase::kDone, true);
  });
}

// The kernel goes on sending when the process is paused or has died, and gives up in the end.
void Pod::Deliver(std::shared_ptr<Bytes> bytes) {
  if (bytes->is_dropped) return;
  if (bytes->life->backend_cut_until <= world_.now) {
    return world_.Effect(bytes->call.key, bytes->call.attempt);
  }
  const std::int64_t next = world_.now + 200;
  if (next > bytes->held_until && world_.faults.without != Mutant::kKernelKeepsBytes) return;
  world_.After(200, nullptr, [this, bytes] { Deliver(bytes); });
}

void Pod::Record(Call call, OpPhase to, bool is_own_dispatch) {
  const BatchPlan move{.kind = BatchPlan::Kind::kMove,
                       .key = call.key,
                       .to = to,
                       .attempt = call.attempt,
                       .name = call.name,
                       .is_own_dispatch = is_own_dispatch};
  Submit(move, [this, call](const BatchPlan&) {
    const auto running = running_.find(call.key);  // or a later one
    if (running != running_.end() && running->second == call.attempt) running_.erase(running);
    settling_.erase(call.key);
  });
}

void Pod::Settle() {
  world_.After(500, life_, [this] { Settle(); });
  if (!Reaches() || !ReachesBackend()) return;
  for (const auto& [key, op] : world_.database.operations) {
    if (op.phase != OpPhase::kUnknown || op.owner != stream_ || settling_.contains(key)) continue;
    const bool has_effect = world_.effects[key] > 0;
    if (!has_effect && world_.now - op.unknown_at < kAbsentAfter) continue;
    settling_.insert(key);
    Record({key, op.attempt, op.name}, has_effect ? OpPhase::kDone : OpPhase::kAbsent, false);
  }
}

}  // namespace recourse::fleet_sim
