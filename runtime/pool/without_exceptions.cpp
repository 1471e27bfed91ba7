#include "runtime/pool/without_exceptions.hpp"

namespace vmem {
namespace {

// Made when the library is loaded, and never destroyed: calls may still be made while the process ends.
const Status* const kOutOfMemory = new Status(StatusCode::kOutOfHostMemory, "the process is out of memory");

}  // namespace

const Status& process_is_out_of_memory() noexcept { return *kOutOfMemory; }

}  // namespace vmem
