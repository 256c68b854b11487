// The CAs of an injector that makes its own certificate, and when one follows another. Pure but for
// the keys that are drawn.
#pragma once

#include <expected>
#include <string>

#include "proxy/base/clock.h"
#include "proxy/base/random.h"

namespace recourse {

// What the Secret that all replicas share holds; each is PEM, and may be empty.
struct WebhookCas {
  std::string trusted;         // certificates that API servers are to trust
  std::string signing, key;    // the CA that signs now
  std::string next, next_key;  // the one that will, once it is known everywhere
  bool operator==(const WebhookCas&) const = default;
};

struct WebhookCaWish {
  std::string name;  // of the Service, for people
  WallTime now;
  Millis life{};
  // All that is trusted in the Secret is known to API servers.
  bool is_published = false;
};

// A CA is made when there is none that can sign; its successor when a third of its life is left;
// and the successor signs when it has been published for a day (or a sixth of its life). What it
// followed stays trusted to its end. Fails with a sentence.
std::expected<WebhookCas, std::string> NextCas(const WebhookCas& kept, const WebhookCaWish& wish,
                                               Random& random);

}  // namespace recourse
