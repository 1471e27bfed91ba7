// The edge of the API: what libraries throw below it becomes a status.
#pragma once

#include <vmem/status.hpp>

#include <exception>
#include <new>

namespace vmem {

// The call's own answer, or its exception as one.
template <typename Call>
auto without_exceptions(Call call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kOutOfHostMemory, "the process is out of memory");
  } catch (const std::exception& error) {
    return Status(StatusCode::kInternal, error.what());
  } catch (...) {
    return Status(StatusCode::kInternal, "a library threw something that is no std::exception");
  }
}

}  // namespace vmem
