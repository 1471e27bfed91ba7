// vmem-probe-peers DRIVER_LIBRARY FROM TO [FROM TO]...
//
// Tries peer access with real bytes, for pairs of devices by UUID: FROM writes into TO's memory and reads from it, and
// the owner checks what is there. Prints "begin" before each pair, then "works", "wrong", or "unknown" where it could
// not try. The caller (backends/cuda/peer_probe.cpp) takes an end without an answer for a crash, and silence for a
// hang.
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "backends/cuda/driver.hpp"
#include "backends/cuda/uuid.hpp"

namespace {

using namespace vmem;

constexpr std::size_t kBytes = std::size_t{1} << 20U;
constexpr unsigned kRounds = 3;

struct Side {
  const CudaDriver& driver;
  CuDevice device = 0;
  CuContext context = nullptr;
  CuStream stream = nullptr;
  CuDevicePtr memory = 0;

  bool make_current() const { return driver.cuCtxPushCurrent_v2(context) == kCuSuccess; }
  void end_current() const {
    CuContext popped = nullptr;
    static_cast<void>(driver.cuCtxPopCurrent_v2(&popped));
  }

  // For the rest of the process, which is short.
  bool open() {
    if (driver.cuDevicePrimaryCtxRetain(&context, device) != kCuSuccess || !make_current()) return false;
    const bool opened = driver.cuStreamCreate(&stream, kCuStreamNonBlocking) == kCuSuccess &&
                        driver.cuMemAlloc_v2(&memory, kBytes) == kCuSuccess;
    end_current();
    return opened;
  }
  CuResult finish() const {
    CuResult result = kCuNotReady;
    while (result == kCuNotReady) result = driver.cuStreamQuery(stream);
    return result;
  }
  bool write(const std::vector<unsigned char>& bytes) const {
    if (!make_current()) return false;
    const bool written =
        driver.cuMemcpyHtoDAsync_v2(memory, bytes.data(), kBytes, stream) == kCuSuccess && finish() == kCuSuccess;
    end_current();
    return written;
  }
  bool holds(const std::vector<unsigned char>& bytes) const {
    std::vector<unsigned char> read(kBytes);
    if (!make_current()) return false;
    const bool done =
        driver.cuMemcpyDtoHAsync_v2(read.data(), memory, kBytes, stream) == kCuSuccess && finish() == kCuSuccess;
    end_current();
    return done && read == bytes;
  }
};

std::vector<unsigned char> pattern(unsigned seed) {
  std::vector<unsigned char> bytes(kBytes);
  unsigned state = seed * 2654435761U + 1;
  for (auto& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<unsigned char>(state >> 24U);
  }
  return bytes;
}

// The copy is made on the stream of the device that has the access.
bool copy(const Side& by, const Side& destination, const Side& source) {
  if (!by.make_current()) return false;
  const bool done = by.driver.cuMemcpyPeerAsync(destination.memory, destination.context, source.memory, source.context,
                                                kBytes, by.stream) == kCuSuccess &&
                    by.finish() == kCuSuccess;
  by.end_current();
  return done;
}

const char* try_pair(const Side& from, const Side& to) {
  if (!from.make_current()) return "unknown";
  const CuResult enabled = from.driver.cuCtxEnablePeerAccess(to.context, 0);
  from.end_current();
  if (enabled != kCuSuccess && enabled != kCuPeerAccessAlreadyEnabled) return "unknown";
  for (unsigned round = 0; round < kRounds; ++round) {
    const auto there = pattern(2 * round + 1);
    const auto back = pattern(2 * round + 2);
    const auto nothing = std::vector<unsigned char>(kBytes, 0);
    if (!from.write(there) || !to.write(nothing)) return "unknown";
    if (!copy(from, to, from) || !to.holds(there)) return "wrong";
    if (!to.write(back) || !from.write(nothing)) return "unknown";
    if (!copy(from, from, to) || !from.holds(back)) return "wrong";
  }
  return "works";
}

void say(const char* line) {
  std::puts(line);
  std::fflush(stdout);
}

std::map<std::string, Side> find_devices(const CudaDriver& driver) {
  std::map<std::string, Side> devices;
  int count = 0;
  if (driver.cuDeviceGetCount(&count) != kCuSuccess) return devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    Side side{driver};
    CuUuid uuid{};
    if (driver.cuDeviceGet(&side.device, ordinal) != kCuSuccess ||
        driver.cuDeviceGetUuid_v2(&uuid, side.device) != kCuSuccess) {
      continue;
    }
    devices.emplace(uuid_text(uuid), side);
  }
  return devices;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 4 || count % 2 != 0) {
    std::fprintf(stderr, "usage: vmem-probe-peers DRIVER_LIBRARY FROM TO [FROM TO]...\n");
    return 2;
  }
  const auto driver = CudaDriver::open(arguments[1]);
  if (!driver) {
    std::fprintf(stderr, "%s\n", driver.error().to_string().c_str());
    return 1;
  }
  std::map<std::string, Side> devices = find_devices(**driver);
  for (int i = 2; i < count; i += 2) {
    const auto from = devices.find(arguments[i]);
    const auto to = devices.find(arguments[i + 1]);
    const auto opened = [](Side& side) { return side.context != nullptr || side.open(); };
    const bool ready = from != devices.end() && to != devices.end() && opened(from->second) && opened(to->second);
    // What goes wrong up to here is no fault of the link.
    say("begin");
    say(ready ? try_pair(from->second, to->second) : "unknown");
  }
  std::fflush(stdout);
  // Without the driver's exit handlers, which may hang on a link that is broken.
  std::_Exit(0);
}
