// What a call sets, by name or by a POST, where its policy tells that it sets something. Pure.
#pragma once

#include "filters/key/key.h"
#include "proxy/base/crypto/sha256.h"

namespace recourse {

// Where the call sets a state: what it writes to, which is then said in `stands` as of a PUT or a
// PATCH of that. Zeros: it makes something, or nobody knows.
Digest AddNamedState(const KeyInputs& inputs, Standing& stands);

// The same of a POST to `path`, the resource that its request names, whose undo is a POST there
// too. `path`: it sets nothing that is known.
Digest AddPostedState(const KeyInputs& inputs, const Digest& path, Standing& stands);

}  // namespace recourse
