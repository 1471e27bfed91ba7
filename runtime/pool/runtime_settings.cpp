#include "runtime/pool/runtime_settings.hpp"

#include <filesystem>
#include <string_view>
#include <system_error>

#include "runtime/support/bytes.hpp"
#include "runtime/support/environment.hpp"
#include "runtime/support/format.hpp"

namespace vmem {
namespace {

constexpr unsigned kMaxSimulatedGpus = 64;
constexpr unsigned kDefaultSimulatedGpus = 2;
constexpr std::size_t kDefaultSimulatedBytes = 256_MiB;
constexpr std::size_t kDefaultStagingBytes = 256_MiB;
constexpr std::size_t kMinStagingBytes = 256_KiB;
constexpr std::chrono::milliseconds kDefaultCopyTimeout{30'000};
constexpr std::chrono::milliseconds kMaxCopyTimeout{24 * 3600 * 1000};

Status config_error(std::string message) { return Status(StatusCode::kConfigError, std::move(message)); }

Status resolve_files(const RuntimeOptions& options, RuntimeSettings& settings) {
  settings.topology_file = options.topology_file;
  settings.topology_file_origin = "option topology_file";
  if (settings.topology_file.empty()) {
    settings.topology_file = read_environment("VMEM_TOPOLOGY").value_or("");
    settings.topology_file_origin = "environment variable VMEM_TOPOLOGY";
  }
  settings.backend_dir = options.backend_dir;
  std::string_view origin = "option backend_dir";
  if (settings.backend_dir.empty()) {
    settings.backend_dir = read_environment("VMEM_BACKEND_DIR").value_or("");
    origin = "environment variable VMEM_BACKEND_DIR";
  }
  std::error_code ignored;
  if (!settings.backend_dir.empty() && !std::filesystem::is_directory(settings.backend_dir, ignored)) {
    return config_error(format("{}='{}': expected a folder with backends, there is none; correct it or unset it",
                               origin, settings.backend_dir));
  }
  return Status();
}

Status resolve_simulated_gpus(const RuntimeOptions& options, RuntimeSettings& settings) {
  if (options.simulated_gpus) {
    settings.simulated_gpus = *options.simulated_gpus;
    if (settings.simulated_gpus > kMaxSimulatedGpus) {
      return config_error(
          format("option simulated_gpus={}: expected at most {}", settings.simulated_gpus, kMaxSimulatedGpus));
    }
    return Status();
  }
  VMEM_ASSIGN_OR_RETURN(const auto count, read_environment_count("VMEM_SIMULATED_GPUS", 0, kMaxSimulatedGpus));
  settings.simulated_gpus = static_cast<unsigned>(count.value_or(kDefaultSimulatedGpus));
  return Status();
}

Status resolve_limits(const RuntimeOptions& options, RuntimeSettings& settings) {
  settings.host_limit_bytes = options.host_limit_bytes;
  if (settings.host_limit_bytes == 0) {
    VMEM_ASSIGN_OR_RETURN(const auto bytes, read_environment_bytes("VMEM_HOST_LIMIT"));
    settings.host_limit_bytes = bytes.value_or(0);
  }
  settings.staging_bytes = options.staging_bytes;
  std::string_view origin = "option staging_bytes";
  if (settings.staging_bytes == 0) {
    VMEM_ASSIGN_OR_RETURN(const auto bytes, read_environment_bytes("VMEM_STAGING_LIMIT"));
    settings.staging_bytes = bytes.value_or(kDefaultStagingBytes);
    origin = "environment variable VMEM_STAGING_LIMIT";
  }
  if (settings.staging_bytes < kMinStagingBytes) {
    return config_error(format("{}={}: expected at least {}", origin, format_bytes(settings.staging_bytes),
                               format_bytes(kMinStagingBytes)));
  }
  return Status();
}

Status resolve_timeout(const RuntimeOptions& options, RuntimeSettings& settings) {
  settings.copy_timeout = options.copy_timeout;
  if (settings.copy_timeout.count() == 0) {
    VMEM_ASSIGN_OR_RETURN(const auto count,
                          read_environment_count("VMEM_COPY_TIMEOUT_MS", 1, std::uint64_t(kMaxCopyTimeout.count())));
    settings.copy_timeout = count ? std::chrono::milliseconds(*count) : kDefaultCopyTimeout;
    return Status();
  }
  if (settings.copy_timeout.count() < 0 || settings.copy_timeout > kMaxCopyTimeout) {
    return config_error(format("option copy_timeout={} ms: expected 1 to {}, or 0 for the default",
                               settings.copy_timeout.count(), kMaxCopyTimeout.count()));
  }
  return Status();
}

Status resolve_log_level(const RuntimeOptions& options, RuntimeSettings& settings) {
  if (options.log_level) {
    if (*options.log_level > LogLevel::kDebug) {
      return config_error(format("option log_level={}: expected 0 (off) to 4 (debug)", int(*options.log_level)));
    }
    settings.log_level = *options.log_level;
    return Status();
  }
  VMEM_ASSIGN_OR_RETURN(const auto level, read_environment_log_level());
  settings.log_level = level.value_or(LogLevel::kWarn);
  return Status();
}

}  // namespace

Result<RuntimeSettings> resolve_settings(const RuntimeOptions& options) {
  RuntimeSettings settings;
  VMEM_RETURN_IF_ERROR(resolve_files(options, settings));
  VMEM_RETURN_IF_ERROR(resolve_simulated_gpus(options, settings));
  VMEM_RETURN_IF_ERROR(resolve_limits(options, settings));
  VMEM_RETURN_IF_ERROR(resolve_timeout(options, settings));
  VMEM_RETURN_IF_ERROR(resolve_log_level(options, settings));
  return settings;
}

std::vector<SimulatedDevice> default_simulated_gpus(unsigned count) {
  std::vector<SimulatedDevice> devices(count);
  for (unsigned i = 0; i < count; ++i) {
    devices[i].name = format("sim:{}", i);
    // Labels for people alone; nothing in the core knows what they mean.
    devices[i].vendor = i % 2 == 0 ? "one" : "another";
    devices[i].wave_width = i % 2 == 0 ? 32 : 64;
    devices[i].total_bytes = kDefaultSimulatedBytes;
  }
  return devices;
}

}  // namespace vmem
