#include "backends/cuda/driver_call.hpp"

namespace vmem {

CurrentContext::CurrentContext(CudaContext& context) : context_(context), status_(context.failure()) {
  if (!status_) return;
  CuContext current = nullptr;
  if (context.driver().cuCtxGetCurrent(&current) == kCuSuccess && current == context.native()) return;
  status_ = context.check(context.driver().cuCtxPushCurrent_v2(context.native()), "cuCtxPushCurrent");
  pushed_ = status_.is_ok();
}

void CurrentContext::end() noexcept {
  if (!pushed_) return;
  pushed_ = false;
  if (process_is_exiting()) return;
  CuContext popped = nullptr;
  static_cast<void>(context_.driver().cuCtxPopCurrent_v2(&popped));
}

}  // namespace vmem
