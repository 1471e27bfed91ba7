#include <sys/wait.h>
#include <unistd.h>

#include "tests/api/c_machine.hpp"

namespace {

// A thread of the parent's may hold any lock while it forks, which TSan can't model.
#if !defined(__SANITIZE_THREAD__)

class CForkTest : public CMachine {};

TEST_F(CForkTest, AChildGetsAnErrorAndMayTakeEverythingDown) {
  const vmemAddress_t address = allocate(kMiB);
  ASSERT_OK(vmemMemset(pool_, address, 1, kMiB));
  const vmemRange_t range = {address, kMiB, vmemAccessRead};
  vmemAcquired_t acquired = nullptr;
  void* pointer = nullptr;
  ASSERT_OK(vmemAcquire(pool_, gpu_, VMEM_NO_STREAM, &range, 1, &acquired, &pointer));
  vmemEvent_t event = nullptr;
  vmemPrefetch_t prefetch = nullptr;
  ASSERT_OK(vmemMemcpyAsync(pool_, 0, 0, 0, nullptr, VMEM_NO_STREAM, &event));
  ASSERT_OK(vmemPrefetchAsync(pool_, address, kMiB, other_gpu_, &prefetch));
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    int failures = 0;
    const auto expect = [&](bool holds) { failures += holds ? 0 : 1; };
    vmemAddress_t other = 1;
    int count = 7;
    vmemStats_t stats = VMEM_STATS_INIT;
    expect(vmemMalloc(pool_, &other, 4096) == vmemErrorDeviceFailed && other == 0);
    expect(vmemMemset(pool_, address, 2, kMiB) == vmemErrorDeviceFailed);
    expect(vmemFree(pool_, address) == vmemErrorDeviceFailed);
    expect(vmemGetStats(pool_, &stats) == vmemErrorDeviceFailed);
    expect(vmemGetDeviceCount(runtime_, &count) == vmemErrorDeviceFailed && count == 0);
    expect(std::string(vmemGetLastErrorMessage()).find("fork") != std::string::npos);
    expect(vmemEventSynchronize(event) == vmemErrorDeviceFailed);
    expect(vmemPrefetchWait(prefetch) == vmemErrorDeviceFailed);
    expect(vmemRelease(acquired) == vmemSuccess);
    expect(vmemPoolDestroy(pool_) == vmemSuccess);
    expect(vmemRuntimeDestroy(runtime_) == vmemSuccess);
    ::_exit(failures);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "checks that failed in the child";
  // The parent's pool has not noticed.
  EXPECT_OK(vmemEventDestroy(event));
  EXPECT_OK(vmemPrefetchWait(prefetch));
  EXPECT_OK(vmemPrefetchDestroy(prefetch));
  EXPECT_OK(vmemRelease(acquired));
  EXPECT_EQ(read(address, kMiB), std::vector<unsigned char>(kMiB, 1));
}

#endif

}  // namespace
