// The edge of the API: what libraries throw below it becomes a status.
#pragma once

#include <vmem/status.hpp>

#include <exception>
#include <new>

namespace vmem {

// kOutOfHostMemory, made when there was memory for it.
const Status& process_is_out_of_memory() noexcept;

// The call's own answer, or its exception as one.
template <typename Call>
auto without_exceptions(Call call) -> decltype(call()) {
  try {
    try {
      return call();
    } catch (const std::bad_alloc&) {
      return process_is_out_of_memory();
    } catch (const std::exception& error) {
      return Status(StatusCode::kInternal, error.what());
    } catch (...) {
      return Status(StatusCode::kInternal, "a library threw something that is no std::exception");
    }
  } catch (...) {  // no memory to say so
    return process_is_out_of_memory();
  }
}

}  // namespace vmem
