// Kernels by name: the built-in ones against plain loops, and one that the test adds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "backends/kernels/kernels.hpp"
#include "tests/conformance/conformance.hpp"

namespace vmem {
namespace {

template <typename T>
std::vector<std::uint8_t> bytes_of(const std::vector<T>& values) {
  std::vector<std::uint8_t> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T>
std::vector<T> values_of(const std::vector<std::uint8_t>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

// Small integers: exact in float, whatever the order of sums.
std::vector<float> small_numbers(std::size_t count, std::uint64_t seed) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(hash_of(seed + i) % 16);
  return values;
}

template <typename... T>
KernelLaunch make_launch(const char* name, std::uint32_t grid, std::uint32_t block, const T&... values) {
  KernelLaunch launch;
  launch.name = name;
  launch.grid = {grid, 1, 1};
  launch.block = {block, 1, 1};
  (launch.arguments.push_back(KernelArgument{&values, sizeof values}), ...);
  return launch;
}

struct Shape {
  std::uint32_t grid;
  std::uint32_t block;
};
constexpr Shape kShapes[] = {{1, 1}, {1, 32}, {3, 64}, {7, 96}, {64, 256}};

using u64 = std::uint64_t;

TEST_P(DeviceConformance, GathersScattersAndCopiesPages) {
  if (!has(DeviceCap::kKernels)) return;
  const u64 page = 512, count = 40;
  const auto content = pattern(page * 100, 3);
  std::vector<u64> offsets(count);
  for (u64 i = 0; i < count; ++i) offsets[i] = (i * 37 % 100) * page;
  std::vector<std::uint8_t> packed;
  for (const u64 at : offsets) {
    packed.insert(packed.end(), content.begin() + static_cast<std::ptrdiff_t>(at),
                  content.begin() + static_cast<std::ptrdiff_t>(at + page));
  }
  void* const source = allocate(content.size());
  void* const list = allocate(count * sizeof(u64));
  void* const gathered = allocate(packed.size());
  void* const scattered = allocate(content.size());
  upload(source, content);
  upload(list, bytes_of(offsets));
  for (const Shape shape : kShapes) {
    ASSERT_TRUE(finished(device().fill(gathered, 0, packed.size(), Stream())));
    ASSERT_TRUE(finished(device().launch(
        make_launch("vmem_gather_pages", shape.grid, shape.block, gathered, source, list, count, page), Stream())));
    EXPECT_EQ(download(gathered, packed.size()), packed);
    ASSERT_TRUE(finished(device().fill(scattered, 0, content.size(), Stream())));
    ASSERT_TRUE(finished(device().launch(
        make_launch("vmem_scatter_pages", shape.grid, shape.block, scattered, gathered, list, count, page), Stream())));
    std::vector<std::uint8_t> expected(content.size(), 0);
    for (const u64 at : offsets) {
      std::copy_n(content.begin() + static_cast<std::ptrdiff_t>(at), page,
                  expected.begin() + static_cast<std::ptrdiff_t>(at));
    }
    EXPECT_EQ(download(scattered, content.size()), expected);
    ASSERT_TRUE(finished(device().fill(scattered, 0, content.size(), Stream())));
    ASSERT_TRUE(finished(device().launch(
        make_launch("vmem_copy_pages", shape.grid, shape.block, scattered, source, list, count, page), Stream())));
    EXPECT_EQ(download(scattered, content.size()), expected);
  }
  for (void* const address : {source, list, gathered, scattered}) deallocate(address);
}

TEST_P(DeviceConformance, FillsComparesAndChecksumsByKernel) {
  if (!has(DeviceCap::kKernels)) return;
  const u64 bytes = 10000;
  void* const a = allocate(bytes);
  void* const b = allocate(bytes);
  void* const answer = allocate(64);
  for (const Shape shape : kShapes) {
    const std::uint32_t value = 0x5C;
    ASSERT_TRUE(
        finished(device().launch(make_launch("vmem_fill_bytes", shape.grid, shape.block, a, bytes, value), Stream())));
    EXPECT_EQ(download(a, bytes), std::vector<std::uint8_t>(bytes, 0x5C));
    const auto content = pattern(bytes, 8);
    upload(a, content);
    upload(b, content);
    const auto compare = [&] {
      upload(answer, bytes_of(std::vector<u64>{~u64{0}}));
      EXPECT_TRUE(finished(
          device().launch(make_launch("vmem_compare_bytes", shape.grid, shape.block, a, b, bytes, answer), Stream())));
      return values_of<u64>(download(answer, sizeof(u64)))[0];
    };
    EXPECT_EQ(compare(), ~u64{0});
    for (const std::size_t at : {std::size_t{9999}, std::size_t{4321}}) {
      upload(offset(b, at), {static_cast<std::uint8_t>(~content[at])});
      EXPECT_EQ(compare(), at);
    }
    const u64 block = 3000;
    ASSERT_TRUE(finished(device().launch(
        make_launch("vmem_checksum_blocks", shape.grid, shape.block, a, bytes, block, answer), Stream())));
    const auto sums = values_of<std::uint32_t>(download(answer, 4 * sizeof(std::uint32_t)));
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(sums[i], crc32_of(content.data() + i * block, std::min<u64>(block, bytes - i * block))) << i;
    }
  }
  for (void* const address : {a, b, answer}) deallocate(address);
}

TEST_P(DeviceConformance, ComputesTriadAndMatrixProduct) {
  if (!has(DeviceCap::kKernels)) return;
  const u64 n = 24, count = n * n;
  const auto a_values = small_numbers(count, 1);
  const auto b_values = small_numbers(count, 2);
  void* const a = allocate(count * sizeof(float));
  void* const b = allocate(count * sizeof(float));
  void* const c = allocate(count * sizeof(float));
  upload(a, bytes_of(a_values));
  upload(b, bytes_of(b_values));
  for (const Shape shape : kShapes) {
    const float scalar = 3;
    ASSERT_TRUE(finished(
        device().launch(make_launch("vmem_triad", shape.grid, shape.block, c, a, b, scalar, count), Stream())));
    std::vector<float> expected(count);
    for (std::size_t i = 0; i < count; ++i) expected[i] = a_values[i] + scalar * b_values[i];
    EXPECT_EQ(values_of<float>(download(c, count * sizeof(float))), expected);

    // A product in blocks of 8: the first block of the depth sets, the others add.
    const u64 tile = 8;
    for (u64 row = 0; row < n; row += tile) {
      for (u64 column = 0; column < n; column += tile) {
        for (u64 k = 0; k < n; k += tile) {
          void* const c_tile = offset(c, (row * n + column) * sizeof(float));
          void* const a_tile = offset(a, (row * n + k) * sizeof(float));
          void* const b_tile = offset(b, (k * n + column) * sizeof(float));
          const std::uint32_t accumulate = k == 0 ? 0 : 1;
          ASSERT_TRUE(finished(device().launch(make_launch("vmem_matrix_product", shape.grid, shape.block, c_tile,
                                                           a_tile, b_tile, tile, tile, tile, n, n, n, accumulate),
                                               Stream())));
        }
      }
    }
    for (u64 row = 0; row < n; ++row) {
      for (u64 column = 0; column < n; ++column) {
        float sum = 0;
        for (u64 k = 0; k < n; ++k) sum += a_values[row * n + k] * b_values[k * n + column];
        expected[row * n + column] = sum;
      }
    }
    EXPECT_EQ(values_of<float>(download(c, count * sizeof(float))), expected);
  }
  for (void* const address : {a, b, c}) deallocate(address);
}

TEST_P(DeviceConformance, ComputesAStencilByStrips) {
  if (!has(DeviceCap::kKernels)) return;
  const u64 width = 17, height = 12;
  const auto grid = small_numbers(width * height, 5);
  std::vector<float> expected = grid;
  const float centre = 2, neighbour = 1;
  for (u64 y = 1; y + 1 < height; ++y) {
    for (u64 x = 1; x + 1 < width; ++x) {
      const u64 i = y * width + x;
      expected[i] = centre * grid[i] + neighbour * (grid[i - width] + grid[i + width] + grid[i - 1] + grid[i + 1]);
    }
  }
  void* const in = allocate(grid.size() * sizeof(float));
  void* const out = allocate(grid.size() * sizeof(float));
  upload(in, bytes_of(grid));
  for (const Shape shape : kShapes) {
    for (const u64 strip : {u64{12}, u64{5}, u64{1}}) {
      ASSERT_TRUE(finished(device().fill(out, 0, grid.size() * sizeof(float), Stream())));
      for (u64 first = 0; first < height; first += strip) {
        const u64 rows = std::min(strip, height - first);
        const std::uint32_t has_above = first == 0 ? 0 : 1;
        const std::uint32_t has_below = first + rows == height ? 0 : 1;
        void* const strip_in = offset(in, (first - has_above) * width * sizeof(float));
        void* const strip_out = offset(out, first * width * sizeof(float));
        ASSERT_TRUE(finished(device().launch(make_launch("vmem_stencil", shape.grid, shape.block, strip_out, strip_in,
                                                         width, rows, has_above, has_below, centre, neighbour),
                                             Stream())));
      }
      EXPECT_EQ(values_of<float>(download(out, grid.size() * sizeof(float))), expected) << strip;
    }
  }
  deallocate(in);
  deallocate(out);
}

TEST_P(DeviceConformance, UpdatesStridedAndHashedElements) {
  if (!has(DeviceCap::kKernels)) return;
  const u64 count = 1000;
  void* const data = allocate(count * sizeof(u64));
  for (const Shape shape : kShapes) {
    std::vector<u64> expected(count);
    for (u64 i = 0; i < count; ++i) expected[i] = i;
    upload(data, bytes_of(expected));
    const u64 first = 3, stride = 7, value = 100;
    ASSERT_TRUE(finished(device().launch(
        make_launch("vmem_add_strided", shape.grid, shape.block, data, count, first, stride, value), Stream())));
    for (u64 i = first; i < count; i += stride) expected[i] += value;
    const u64 updates = 3000, seed = 42;
    ASSERT_TRUE(finished(device().launch(
        make_launch("vmem_update_hashed", shape.grid, shape.block, data, count, updates, seed), Stream())));
    for (u64 u = 0; u < updates; ++u) expected[hash_of(seed + u) % count] += hash_of(seed + u);
    EXPECT_EQ(values_of<u64>(download(data, count * sizeof(u64))), expected);
  }
  deallocate(data);
}

// Writes each thread's place in the grid, so that a wrong grid, block or parameter shows.
void place_reference(const KernelContext& context) {
  std::uint32_t* out = nullptr;
  std::uint32_t base = 0;
  std::memcpy(&out, context.arguments[0], sizeof out);
  std::memcpy(&base, context.arguments[1], sizeof base);
  for (std::uint32_t block = 0; block < context.grid[0]; ++block) {
    for (std::uint32_t thread = 0; thread < context.block[0]; ++thread) {
      out[block * context.block[0] + thread] = base + block * 1000 + thread;
    }
  }
}

constexpr const char* kPlaceSource = R"(
extern "C" __global__ void conformance_place(unsigned int* out, unsigned int base) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = base + blockIdx.x * 1000 + threadIdx.x;
}
)";

void other_reference(const KernelContext& context) {
  std::uint32_t* out = nullptr;
  std::memcpy(&out, context.arguments[0], sizeof out);
  out[0] = context.wave_width;
}

constexpr const char* kOtherSource = R"(
extern "C" __global__ void conformance_place(unsigned int* out, unsigned int base) {
  if (blockIdx.x == 0 && threadIdx.x == 0) out[0] = warpSize;
}
)";

TEST_P(DeviceConformance, RunsKernelsThatAreAdded) {
  if (!has(DeviceCap::kKernels)) return;
  void* const out = allocate(granularity());
  EXPECT_EQ(device().launch(make_launch("conformance_place", 1, 1), Stream()).error().code(), StatusCode::kNotFound);
  EXPECT_EQ(device().add_kernel(KernelImage{nullptr, place_reference, kPlaceSource}).code(), StatusCode::kInvalidValue);
  EXPECT_EQ(device().add_kernel(KernelImage{"", place_reference, kPlaceSource}).code(), StatusCode::kInvalidValue);
  ASSERT_TRUE(succeeded(device().add_kernel(KernelImage{"conformance_place", place_reference, kPlaceSource})));
  const Stream stream = create_stream();
  std::vector<std::uint32_t> expected;
  for (std::uint32_t block = 0; block < 5; ++block) {
    for (std::uint32_t thread = 0; thread < 33; ++thread) expected.push_back(7 + block * 1000 + thread);
  }
  Result<Event> event = Event();
  {
    std::uint32_t base = 7;
    event = device().launch(make_launch("conformance_place", 5, 33, out, base), stream);
    base = 0;  // parameters are read while the call runs
  }
  ASSERT_TRUE(finished(event));
  EXPECT_EQ(values_of<std::uint32_t>(download(out, expected.size() * 4)), expected);

  ASSERT_TRUE(succeeded(device().add_kernel(KernelImage{"conformance_place", other_reference, kOtherSource})));
  const std::uint32_t base = 7;
  ASSERT_TRUE(finished(device().launch(make_launch("conformance_place", 5, 33, out, base), stream)));
  EXPECT_EQ(values_of<std::uint32_t>(download(out, 4))[0], device().info().wave_width) << "a known name is replaced";
  EXPECT_TRUE(succeeded(device().destroy_stream(stream)));
  deallocate(out);
}

TEST_P(DeviceConformance, RefusesLaunchesThatCannotBe) {
  if (!has(DeviceCap::kKernels)) return;
  void* const out = allocate(granularity());
  const u64 bytes = 16;
  const std::uint32_t value = 1;
  KernelLaunch launch = make_launch("vmem_fill_bytes", 1, 32, out, bytes, value);
  const auto code = [&] { return outcome(device().launch(launch, Stream())).code(); };
  ASSERT_EQ(code(), StatusCode::kOk);
  launch.grid = {0, 1, 1};
  EXPECT_EQ(code(), StatusCode::kInvalidValue);
  launch.grid = {1, 1, 1};
  for (const auto& block : {std::array<std::uint32_t, 3>{0, 1, 1}, {1025, 1, 1}, {64, 64, 1}, {1, 1, 0}}) {
    launch.block = block;
    EXPECT_EQ(code(), StatusCode::kInvalidValue);
  }
  launch.block = {32, 1, 1};
  launch.arguments[0].data = nullptr;
  EXPECT_EQ(code(), StatusCode::kInvalidValue);
  deallocate(out);
}

}  // namespace
}  // namespace vmem
