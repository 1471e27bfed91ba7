// Every allocation of every call fails once: the call answers kOutOfHostMemory or does without, nothing is lost,
// nothing stays held. In a program of its own, as it replaces operator new.
#include <cstdlib>
#include <functional>
#include <new>

#include "tests/pool/pool_test.hpp"

namespace {

// How many allocations of this thread are still to succeed before one fails; negative: none fails.
thread_local long allocations_left = -1;
thread_local bool has_failed = false;

// Not a device's own: no call of theirs throws (backend.hpp).
bool fails_now() noexcept {
  if (allocations_left < 0 || vmem::is_in_device_call() || allocations_left-- != 0) return false;
  has_failed = true;
  return true;
}

void* allocate(std::size_t bytes, std::size_t alignment) noexcept {
  if (fails_now()) return nullptr;
  return alignment == 0 ? std::malloc(bytes == 0 ? 1 : bytes)
                        : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
  void* memory = allocate(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

#if defined(__GNUC__) && !defined(__clang__)
// Where g++ puts these in line it no longer sees that the two belong together.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif
void* operator new(std::size_t bytes) { return allocate_or_throw(bytes, 0); }
void* operator new[](std::size_t bytes) { return allocate_or_throw(bytes, 0); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes, 0); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes, 0); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

namespace vmem::test {
namespace {

struct MemoryCase {
  const char* name;
  std::uint32_t caps;
  bool two_vendors;
};

class PoolOutOfMemoryTest : public PoolTest, public ::testing::WithParamInterface<MemoryCase> {
 protected:
  struct Buffers {
    Buffer a;      // written on device 0, partly there no more
    Buffer b;      // in host memory
    Buffer small;  // in a shared block
    std::vector<AcquireRange> list;
  };
  using Call = std::function<Status(Buffers&)>;

  // The n-th allocation of the call fails, for every n that the call comes to.
  void fail_each(const Call& call) {
    PoolMachineSpec spec = spec_of(GetParam().caps, GetParam().two_vendors);
    spec.gpu_bytes = {4 * kBlock, 4 * kBlock};
    make(spec);
    make_routes();
    long most = 0;
    for (bool failed = true; failed; ++most) {
      SCOPED_TRACE(most);
      failed = fail_one(call, most);
      ASSERT_FALSE(HasFailure());
      ASSERT_LT(most, 5000);
    }
    machine_.reset();  // checks that all memory is back
  }

  static Status run(const Call& call, Buffers& buffers, long allocations) {
    has_failed = false;
    allocations_left = allocations;
    Status status = call(buffers);
    allocations_left = -1;
    return status;
  }

  bool fail_one(const Call& call, long allocations) {
    Buffers buffers{filled_on(0, 2 * kBlock + 3000, 1), filled(2 * kBlock + 3000, 2), filled(300, 3), {}};
    buffers.list.push_back(buffers.small.all(Access::kRead));
    for (std::size_t i = 0; i < 20; ++i) buffers.list.push_back(buffers.b.range(i * 3000, 1000, Access::kWrite));
    for (DeviceIndex i = 0; i < 2; ++i) streams_[i] = *machine().device(i).inner().create_stream();
    const Status status = run(call, buffers, allocations);
    const bool failed = has_failed;
    if (!status) {
      EXPECT_TRUE(failed) << status.to_string();
      EXPECT_EQ(status.code(), StatusCode::kOutOfHostMemory) << status.to_string();
    }
    for (DeviceIndex i = 0; i < 2; ++i) {
      auto end = machine().device(i).inner().record(streams_[i]);
      EXPECT_TRUE(end.has_value() && end->wait().is_ok());
      EXPECT_TRUE(machine().device(i).inner().destroy_stream(streams_[i]).is_ok());
    }
    check(buffers);
    return failed;
  }

  // The graphs of all routes are there before: what is made inside of oneTBB does not survive a failed allocation.
  void make_routes() {
    for (DeviceIndex from = 0; from < machine().num_devices(); ++from) {
      for (DeviceIndex to = 0; to < machine().num_devices(); ++to) {
        const Buffer source = filled_on(from, 2 * kBlock, 1);
        const Buffer destination = filled_on(to, 2 * kBlock, 1);
        ASSERT_TRUE(pool().copy(destination.address(), source.address(), 2 * kBlock).is_ok());
        ASSERT_TRUE(fetch(filled_on(from, 2 * kBlock, 1).all(Access::kRead), to).is_ok());
      }
    }
  }

  void check(const Buffers& buffers) {
    std::uint64_t seed = 1;
    for (const Buffer* buffer : {&buffers.a, &buffers.b, &buffers.small}) {
      EXPECT_EQ(references(*buffer), 0U);
      for (DeviceIndex device = 0; device < machine().num_devices(); ++device) {
        auto again = pool().prefetch(buffer->address(), buffer->bytes(), device);
        ASSERT_TRUE(again.has_value());
        const Status fetched = again->wait();
        EXPECT_TRUE(fetched.is_ok()) << fetched.to_string();
      }
      expect_pattern(*buffer, seed++);
    }
  }

  Status acquire_and_release(const AcquireRange& range, DeviceIndex device, Stream stream = {}) {
    AcquireOptions options;
    options.device = device;
    options.stream = stream;
    VMEM_ASSIGN_OR_RETURN(Acquired acquired, pool().acquire(range, options));
    return acquired.release();
  }

  Stream streams_[2];
};

TEST_P(PoolOutOfMemoryTest, AnAcquireOfResidentPages) {
  fail_each([&](Buffers& buffers) {
    VMEM_RETURN_IF_ERROR(acquire_and_release(buffers.a.all(Access::kRead), 0));
    VMEM_RETURN_IF_ERROR(acquire_and_release(buffers.a.range(100, 9000, Access::kWrite), 0, streams_[0]));
    return acquire_and_release(buffers.small.all(Access::kWrite), host());
  });
}

TEST_P(PoolOutOfMemoryTest, AnAcquireThatFetches) {
  fail_each([&](Buffers& buffers) { return acquire_and_release(buffers.a.all(Access::kWrite), 1); });
}

TEST_P(PoolOutOfMemoryTest, AnAcquireOnAStream) {
  fail_each([&](Buffers& buffers) {
    VMEM_RETURN_IF_ERROR(acquire_and_release(buffers.a.all(Access::kWrite), 1, streams_[1]));
    return acquire_and_release(buffers.b.all(Access::kWrite), 1, streams_[1]);
  });
}

TEST_P(PoolOutOfMemoryTest, AnAcquireThatEvicts) {
  fail_each([&](Buffers& buffers) {
    VMEM_RETURN_IF_ERROR(acquire_and_release(buffers.b.all(Access::kWrite), 0));
    return acquire_and_release(buffers.a.all(Access::kRead), 0);
  });
}

TEST_P(PoolOutOfMemoryTest, AnAcquireOfAList) {
  fail_each([&](Buffers& buffers) {
    AcquireOptions options;
    options.device = 1;
    VMEM_ASSIGN_OR_RETURN(Acquired acquired, pool().acquire(buffers.list, options));
    VMEM_RETURN_IF_ERROR(acquired.status());
    VMEM_RETURN_IF_ERROR(acquired.wait());
    return acquired.release();
  });
}

TEST_P(PoolOutOfMemoryTest, AnAcquireThatIsRefused) {
  fail_each([&](Buffers& buffers) {
    AcquireOptions options;
    options.deadline = Milliseconds(0);
    VMEM_ASSIGN_OR_RETURN(Acquired holder, pool().acquire(buffers.b.all(Access::kWrite), options));
    const Status busy = pool().acquire(buffers.b.all(Access::kRead), options).error();
    if (busy.code() != StatusCode::kBusy) return busy;
    const Status missing = pool().acquire({buffers.b.address() + (1_GiB << 3U), 1, Access::kRead}, options).error();
    if (missing.code() != StatusCode::kInvalidValue) return missing;
    return holder.release();
  });
}

TEST_P(PoolOutOfMemoryTest, APin) {
  fail_each([&](Buffers& buffers) {
    const PoolAddress address = buffers.b.address();
    VMEM_RETURN_IF_ERROR(pool().advise(address, buffers.b.bytes(), Advice::kPreferDevice, 1));
    VMEM_RETURN_IF_ERROR(pool().advise(address, buffers.b.bytes(), Advice::kPin, 0));
    const Status unpinned = pool().advise(address, buffers.b.bytes(), Advice::kUnpin, 0);
    return unpinned ? unpinned : pool().advise(address, buffers.b.bytes(), Advice::kUnpin, 0);
  });
}

TEST_P(PoolOutOfMemoryTest, APrefetch) {
  fail_each([&](Buffers& buffers) {
    VMEM_ASSIGN_OR_RETURN(const Prefetch prefetch, pool().prefetch(buffers.b.address(), buffers.b.bytes(), 1));
    prefetch.cancel();
    const Status status = prefetch.wait();
    return status.code() == StatusCode::kCancelled ? Status() : status;
  });
}

TEST_P(PoolOutOfMemoryTest, CopiesAndFills) {
  const Bytes pattern = test_pattern(2 * kBlock, 7);
  Bytes found(2 * kBlock);
  fail_each([&](Buffers& buffers) {
    VMEM_ASSIGN_OR_RETURN(const Buffer scratch, pool().allocate(2 * kBlock));
    VMEM_RETURN_IF_ERROR(pool().copy_in(scratch.address(), pattern.data(), pattern.size()));
    VMEM_RETURN_IF_ERROR(pool().copy_out(found.data(), scratch.address(), found.size()));
    VMEM_RETURN_IF_ERROR(pool().copy(scratch.address(), buffers.a.address(), 2 * kBlock));
    return pool().fill(scratch.address() + 5, 3, kBlock);
  });
}

TEST_P(PoolOutOfMemoryTest, AllocatesAndFrees) {
  fail_each([&](Buffers&) {
    for (const std::size_t bytes : {std::size_t{100}, std::size_t{30'000}, std::size_t{30'000}, 3 * kBlock}) {
      VMEM_ASSIGN_OR_RETURN(Buffer buffer, pool().allocate(bytes));
      VMEM_RETURN_IF_ERROR(acquire_and_release(buffer.all(Access::kWrite), 0, streams_[0]));
      const Status freed = buffer.free();
      if (freed) continue;
      EXPECT_TRUE(buffer.free().is_ok()) << "nothing was freed before";
      return freed;
    }
    return Status();
  });
}

TEST_P(PoolOutOfMemoryTest, AnAllocationThatNobodyFrees) {
  fail_each([&](Buffers&) {
    for (const std::size_t bytes : {std::size_t{30'000}, 3 * kBlock}) {
      VMEM_ASSIGN_OR_RETURN(Buffer buffer, pool().allocate(bytes));
      static_cast<void>(buffer.release());
    }
    return Status();
  });
}

TEST_P(PoolOutOfMemoryTest, Questions) {
  fail_each([&](Buffers& buffers) {
    static_cast<void>(pool().stats());
    VMEM_RETURN_IF_ERROR(pool().status());
    VMEM_RETURN_IF_ERROR(pool().translate(buffers.a.address()).error());
    return pool().residency(buffers.a.address(), buffers.a.bytes()).error();
  });
}

INSTANTIATE_TEST_SUITE_P(Devices, PoolOutOfMemoryTest,
                         ::testing::Values(MemoryCase{"Peers", kAllCaps, false},
                                           MemoryCase{"TwoVendors", kAllCaps, true},
                                           MemoryCase{"WithoutWindows", kNoWindows, true}),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace vmem::test
