/// All of the C++ API.
#pragma once

#include <vmem/acquired.hpp>
#include <vmem/backend.hpp>
#include <vmem/backend_config.hpp>
#include <vmem/buffer.hpp>
#include <vmem/device_info.hpp>
#include <vmem/event.hpp>
#include <vmem/kernel.hpp>
#include <vmem/log_level.hpp>
#include <vmem/options.hpp>
#include <vmem/pool.hpp>
#include <vmem/runtime.hpp>
#include <vmem/stats.hpp>
#include <vmem/status.hpp>
#include <vmem/topology.hpp>
#include <vmem/types.hpp>
