// What an Acquired owns.
#pragma once

#include <vmem/acquired.hpp>
#include <vmem/pool.hpp>

#include "runtime/residency/claim.hpp"
#include "runtime/support/inline_vector.hpp"

namespace vmem {

struct Acquired::Grant {
  Pool::Impl* pool = nullptr;
  Claim claim;
  InlineVector<void*, 2> pointers;  // in the order of the request
};

}  // namespace vmem
