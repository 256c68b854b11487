// GraphQL over HTTP, as those who send mutations and keep their answers need it.
#pragma once

#include "filters/codec.h"

namespace recourse {

const Codec& GraphqlCodec();

}  // namespace recourse
