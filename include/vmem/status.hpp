/// What a call answers: `Status`, and `Result<T>` where it also has a value. No function of vmem's public API throws.
///
/// Thread contract: values; const members may be called from any thread, copies share one immutable detail.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace vmem {

/// Why a call failed. Out of memory names the tier. The C API's `vmemStatus` has the same values (vmem.h).
enum class StatusCode : std::int32_t {
  kOk = 0,
  kInvalidValue = 1,  ///< an argument is wrong; the message says which, and what was expected
  kNotFound = 2,      ///< no such device, file or name
  kUnsupported = 3,   ///< the device, the driver or the build can't do this
  kBusy = 4,          ///< held by others beyond the deadline
  kCancelled = 5,     ///< a plan was cancelled between two moves
  kTimeout = 6,       ///< a copy did not complete in time; its device has failed
  kDeviceFailed = 7,  ///< the device is lost or its context is unusable
  kOutOfDeviceMemory = 8,
  kOutOfHostMemory = 9,
  kOutOfStorage = 10,
  kOutOfAddresses = 11,  ///< the reserved range of pool addresses is used up
  kDataLost = 12,        ///< the bytes asked for did not arrive or failed their check
  kIoError = 13,         ///< a file could not be read or written
  kConfigError = 14,     ///< a topology file, an environment variable or an option has a wrong value
  kInternal = 15,        ///< a library that vmem uses failed in an unexpected way
};

/// The name of a code without its `k`, such as "OutOfDeviceMemory"; "Unknown" for a value that is none.
constexpr std::string_view to_string(StatusCode code) noexcept {
  constexpr std::string_view kNames[] = {
      "Ok",       "InvalidValue", "NotFound",          "Unsupported",     "Busy",         "Cancelled",
      "Timeout",  "DeviceFailed", "OutOfDeviceMemory", "OutOfHostMemory", "OutOfStorage", "OutOfAddresses",
      "DataLost", "IoError",      "ConfigError",       "Internal"};
  const auto index = static_cast<std::uint32_t>(code);
  return index < sizeof(kNames) / sizeof(kNames[0]) ? kNames[index] : std::string_view("Unknown");
}

/// Success, or an error: a code, a message for people, the device it concerns and the driver's own code and name.
class [[nodiscard]] Status {
 public:
  /// Success.
  Status() noexcept = default;

  /// An error. REQUIRES: code != kOk.
  Status(StatusCode code, std::string message)
      : detail_(std::make_shared<Detail>(Detail{code, std::move(message), {}, 0, {}})) {}

  static Status ok() noexcept { return {}; }

  bool is_ok() const noexcept { return detail_ == nullptr; }
  explicit operator bool() const noexcept { return is_ok(); }
  StatusCode code() const noexcept { return detail_ ? detail_->code : StatusCode::kOk; }
  /// What was asked, what was found, what to do. Empty on success.
  std::string_view message() const noexcept {
    return detail_ ? std::string_view(detail_->message) : std::string_view();
  }
  /// The device's name such as "cuda:0"; empty where no device is concerned.
  std::string_view device() const noexcept { return detail_ ? std::string_view(detail_->device) : std::string_view(); }
  /// The driver's own error code; 0 where no driver call failed.
  std::int64_t driver_code() const noexcept { return detail_ ? detail_->driver_code : 0; }
  /// The driver's own name for that code, such as "CUDA_ERROR_ILLEGAL_ADDRESS"; empty where there is none.
  std::string_view driver_name() const noexcept {
    return detail_ ? std::string_view(detail_->driver_name) : std::string_view();
  }

  /// A copy that names the device. Success stays success.
  Status with_device(std::string device) const {
    if (is_ok()) return *this;
    Detail detail = *detail_;
    detail.device = std::move(device);
    return Status(std::move(detail));
  }

  /// A copy that carries the driver's error. Success stays success.
  Status with_driver(std::int64_t code, std::string name) const {
    if (is_ok()) return *this;
    Detail detail = *detail_;
    detail.driver_code = code;
    detail.driver_name = std::move(name);
    return Status(std::move(detail));
  }

  /// One line: "OutOfDeviceMemory: device 'cuda:0': 3.0 GiB asked, ... [CUDA_ERROR_OUT_OF_MEMORY (2)]".
  std::string to_string() const {
    if (is_ok()) return "Ok";
    std::string text(vmem::to_string(detail_->code));
    text += ": ";
    if (!detail_->device.empty()) text += "device '" + detail_->device + "': ";
    text += detail_->message;
    if (!detail_->driver_name.empty())
      text += " [" + detail_->driver_name + " (" + std::to_string(detail_->driver_code) + ")]";
    return text;
  }

  /// Equal codes; messages are for people and don't count.
  friend bool operator==(const Status& a, const Status& b) noexcept { return a.code() == b.code(); }
  friend bool operator!=(const Status& a, const Status& b) noexcept { return !(a == b); }

 private:
  struct Detail {
    StatusCode code;
    std::string message;
    std::string device;
    std::int64_t driver_code;
    std::string driver_name;
  };

  explicit Status(Detail detail) : detail_(std::make_shared<Detail>(std::move(detail))) {}

  std::shared_ptr<const Detail> detail_;  // shared: immutable, so that a status copies cheaply between threads
};

/// A value, or the error that stood in its way. Member names as in std::expected.
template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  using error_type = Status;

  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  /// REQUIRES: !error.is_ok().
  Result(Status error) : state_(std::in_place_index<1>, std::move(error)) {  // NOLINT(google-explicit-constructor)
    if (std::get<1>(state_).is_ok()) std::abort();
  }

  bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  /// The value. REQUIRES: has_value(); aborts otherwise.
  T& value() & { return check(), std::get<0>(state_); }
  const T& value() const& { return check(), std::get<0>(state_); }
  T&& value() && { return check(), std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  /// The error, or success where there is a value.
  Status error() const { return has_value() ? Status() : std::get<1>(state_); }

  template <typename U>
  T value_or(U&& fallback) const& {
    return has_value() ? std::get<0>(state_) : static_cast<T>(std::forward<U>(fallback));
  }

 private:
  void check() const {
    if (!has_value()) std::abort();
  }

  std::variant<T, Status> state_;
};

}  // namespace vmem

/// Returns the status from the enclosing function when it is an error.
#define VMEM_RETURN_IF_ERROR(expression)                                                \
  do {                                                                                  \
    if (::vmem::Status vmem_status_ = (expression); !vmem_status_) return vmem_status_; \
  } while (false)

#define VMEM_CONCAT_INNER(a, b) a##b
#define VMEM_CONCAT(a, b) VMEM_CONCAT_INNER(a, b)

/// Declares `variable` from a Result, or returns its error from the enclosing function.
#define VMEM_ASSIGN_OR_RETURN(variable, expression) \
  VMEM_ASSIGN_OR_RETURN_INNER(VMEM_CONCAT(vmem_result_, __LINE__), variable, expression)
#define VMEM_ASSIGN_OR_RETURN_INNER(result, variable, expression) \
  auto result = (expression);                                     \
  if (!result) return result.error();                             \
  variable = std::move(result).value()
