#include "runtime/topology/device_draft.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "runtime/support/bytes.hpp"
#include "runtime/topology/file_notes.hpp"
#include "runtime/topology/pci_address.hpp"

namespace vmem {
namespace {

// What a card that drives a display keeps for it.
constexpr std::uint64_t kDisplayReserve = 1_GiB;

// A place in the topology's order; devices of one place keep the order of the backends.
std::size_t order_of(const DeviceInfo& info) {
  switch (info.tier) {
    case Tier::kDevice:
      return info.simulated ? 1 : 0;
    case Tier::kHost:
      return 2;
    case Tier::kStorage:
      return 3;
    case Tier::kRemote:
      return 4;
  }
  return 5;
}

std::string card_of(const DeviceInfo& info) {
  if (info.pci) return to_string(*info.pci);
  return info.uuid.empty() ? info.name : info.backend + ':' + info.uuid;
}

std::uint64_t default_limit(const DeviceInfo& info) {
  if (!info.drives_display) return info.total_bytes;
  return info.total_bytes - std::min(info.total_bytes / 2, kDisplayReserve);
}

class DeviceDrafter {
 public:
  DeviceDrafter(const AssembleInput& input, std::vector<TopologyNote>& notes) : input_(input), notes_(notes) {}

  Result<std::vector<DeviceDraft>> run();

 private:
  Status check_names() const;
  Status resolve_corrections();
  Status add(std::size_t index);
  Status correct(DeviceDraft& draft, const DeviceCorrection& correction);
  Status split(const DeviceDraft& whole, const DeviceCorrection& correction);
  void complete_from_machine(DeviceDraft& draft);
  bool is_node(unsigned numa_node) const { return nodes_.empty() || nodes_.count(numa_node) != 0; }

  const AssembleInput& input_;
  std::vector<TopologyNote>& notes_;
  std::set<unsigned> nodes_;
  std::size_t num_hosts_ = 0;
  std::vector<const DeviceCorrection*> corrections_;  // by input device; null: none
  std::vector<DeviceDraft> drafts_;
};

Status DeviceDrafter::check_names() const {
  std::set<std::string_view> names;
  for (const DeviceInfo& info : input_.devices) {
    if (names.insert(info.name).second) continue;
    return Status(StatusCode::kConfigError,
                  "two devices are named '" + info.name + "'; expected each name once: rename the simulated one");
  }
  return Status::ok();
}

Status DeviceDrafter::resolve_corrections() {
  corrections_.assign(input_.devices.size(), nullptr);
  if (input_.file == nullptr) return Status::ok();
  const TopologyFile& file = *input_.file;
  for (const DeviceCorrection& correction : file.devices) {
    const auto found = find_devices(correction.device, input_.devices.size(),
                                    [&](std::size_t i) -> const DeviceInfo& { return input_.devices[i]; });
    if (found.empty()) {
      VMEM_RETURN_IF_ERROR(
          note_or_error(file, correction.line, "no device '" + correction.device + "' in this machine", notes_));
    }
    // By UUID and by PCI address an entry may mean the same device as another's name.
    for (const std::size_t index : found) {
      if (corrections_[index] != nullptr) {
        return file_error(file, correction.line,
                          "a second entry for device '" + input_.devices[index].name + "'; the first is in line " +
                              std::to_string(corrections_[index]->line));
      }
      corrections_[index] = &correction;
    }
  }
  return Status::ok();
}

void DeviceDrafter::complete_from_machine(DeviceDraft& draft) {
  DeviceInfo& info = draft.device.info;
  if (info.numa_node && !is_node(*info.numa_node)) {
    notes_.push_back({info.name, "its driver names NUMA node " + std::to_string(*info.numa_node) +
                                     ", which this machine does not have; its locality is unknown: name the node in a "
                                     "topology file"});
    info.numa_node.reset();
  }
  // A simulated device's address is made up: what lies at it in this machine says nothing.
  if (info.simulated || !info.pci || input_.machine == nullptr) return;
  draft.pci = input_.machine->pci_device(*info.pci);
  draft.device.link_width = draft.pci->link.width;
  draft.device.link_width_max = draft.pci->link.width_max;
  draft.device.link_gts = draft.pci->link.gts;
  if (!info.numa_node && draft.pci->numa_node && is_node(*draft.pci->numa_node)) info.numa_node = draft.pci->numa_node;
  const auto width = draft.device.link_width;
  const auto width_max = draft.device.link_width_max;
  if (width && width_max && *width < *width_max) {
    notes_.push_back({info.name, "narrow slot: its PCIe link has " + std::to_string(*width) + " lanes, expected " +
                                     std::to_string(*width_max) + "; reseat the card or move it to a wider slot"});
  }
}

Status DeviceDrafter::correct(DeviceDraft& draft, const DeviceCorrection& correction) {
  const TopologyFile& file = *input_.file;
  DeviceInfo& info = draft.device.info;
  if (correction.capacity_bytes) {
    if (*correction.capacity_bytes < info.granularity) {
      return file_error(file, correction.line,
                        "capacity " + format_bytes(*correction.capacity_bytes) + " of device '" + info.name +
                            "'; expected at least its granularity, " + format_bytes(info.granularity));
    }
    if (*correction.capacity_bytes > info.total_bytes) {
      notes_.push_back({info.name, "the topology file gives it " + format_bytes(*correction.capacity_bytes) +
                                       ", its driver " + format_bytes(info.total_bytes)});
    }
    info.total_bytes = *correction.capacity_bytes;
  }
  if (correction.numa_node) {
    if (is_node(*correction.numa_node)) {
      info.numa_node = correction.numa_node;
    } else {
      VMEM_RETURN_IF_ERROR(note_or_error(
          file, correction.line, "no NUMA node " + std::to_string(*correction.numa_node) + " in this machine", notes_));
    }
  }
  draft.device.limit_bytes = default_limit(info);
  if (correction.limit_bytes) {
    draft.device.limit_bytes = std::min(*correction.limit_bytes, info.total_bytes);
    if (*correction.limit_bytes > info.total_bytes) {
      notes_.push_back({info.name, "the topology file limits it to " + format_bytes(*correction.limit_bytes) +
                                       ", more than it has; the limit is its capacity, " +
                                       format_bytes(info.total_bytes)});
    }
  }
  return Status::ok();
}

Status DeviceDrafter::split(const DeviceDraft& whole, const DeviceCorrection& correction) {
  const TopologyFile& file = *input_.file;
  const DeviceInfo& card = whole.device.info;
  if (card.tier != Tier::kDevice) {
    return file_error(file, correction.line, "device '" + card.name + "' is split; expected a GPU");
  }
  std::uint64_t rest = card.total_bytes;  // counted down: a sum of the parts could overflow
  for (const DevicePart& part : correction.split) {
    if (part.capacity_bytes < card.granularity) {
      return file_error(file, correction.line,
                        "part '" + part.name + "' of device '" + card.name + "' has " +
                            format_bytes(part.capacity_bytes) + "; expected at least the device's granularity, " +
                            format_bytes(card.granularity));
    }
    if (part.capacity_bytes > rest) {
      return file_error(file, correction.line,
                        "the parts of device '" + card.name + "' are larger together than its capacity, " +
                            format_bytes(card.total_bytes));
    }
    rest -= part.capacity_bytes;
    DeviceDraft draft = whole;
    DeviceInfo& info = draft.device.info;
    info.name = card.name + '/' + part.name;
    // Part of the identity: measurements and pools tell the parts apart by it.
    info.partition = card.partition.empty() ? part.name : card.partition + '/' + part.name;
    // Parts stand for cards that can't see each other; the runtime gives them no peer access to others either.
    info.caps = card.caps.without(DeviceCap::kPeerCopy);
    info.total_bytes = part.capacity_bytes;
    draft.device.limit_bytes = part.capacity_bytes;
    drafts_.push_back(std::move(draft));
  }
  return Status::ok();
}

Status DeviceDrafter::add(std::size_t index) {
  const DeviceCorrection* correction = corrections_[index];
  if (correction != nullptr && correction->hide) return Status::ok();
  DeviceDraft draft;
  draft.backing = index;
  draft.device.info = input_.devices[index];
  draft.device.card = card_of(draft.device.info);
  for (const SimulatedDevice& simulated : input_.simulated) {
    if (draft.device.info.simulated && simulated.name == draft.device.info.name) draft.simulated = &simulated;
  }
  complete_from_machine(draft);
  draft.device.limit_bytes = default_limit(draft.device.info);
  if (correction != nullptr) VMEM_RETURN_IF_ERROR(correct(draft, *correction));
  const DeviceInfo& info = draft.device.info;
  if (info.tier == Tier::kDevice && !info.simulated && !info.numa_node && num_hosts_ > 1) {
    notes_.push_back({info.name,
                      "which NUMA node it is near to is unknown; all are taken to be equally far: name the "
                      "node in a topology file"});
  }
  if (correction != nullptr && !correction->split.empty()) return split(draft, *correction);
  drafts_.push_back(std::move(draft));
  return Status::ok();
}

Result<std::vector<DeviceDraft>> DeviceDrafter::run() {
  VMEM_RETURN_IF_ERROR(check_names());
  if (input_.machine != nullptr) {
    for (const NumaNode& node : input_.machine->numa_nodes) nodes_.insert(node.os_index);
  }
  bool real_gpu = false;
  for (const DeviceInfo& info : input_.devices) {
    if (info.tier == Tier::kHost) ++num_hosts_;
    if (info.tier == Tier::kHost && info.numa_node) nodes_.insert(*info.numa_node);
    real_gpu = real_gpu || (info.tier == Tier::kDevice && !info.simulated);
  }
  if (real_gpu && input_.machine != nullptr) {
    for (const std::string& warning : input_.machine->warnings) notes_.push_back({"", warning});
  }
  VMEM_RETURN_IF_ERROR(resolve_corrections());
  std::vector<std::size_t> order(input_.devices.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return order_of(input_.devices[a]) < order_of(input_.devices[b]);
  });
  // Notes come out in the order of the devices, too.
  for (const std::size_t index : order) VMEM_RETURN_IF_ERROR(add(index));
  return std::move(drafts_);
}

}  // namespace

std::vector<std::size_t> find_devices(std::string_view text, std::size_t count,
                                      const std::function<const DeviceInfo&(std::size_t)>& info_of) {
  for (std::size_t i = 0; i < count; ++i) {
    if (info_of(i).name == text) return {i};
  }
  const auto address = parse_pci_address(text);
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < count; ++i) {
    const DeviceInfo& info = info_of(i);
    if ((!info.uuid.empty() && info.uuid == text) || (address && info.pci == address)) found.push_back(i);
  }
  return found;
}

Result<std::vector<DeviceDraft>> draft_devices(const AssembleInput& input, std::vector<TopologyNote>& notes) {
  return DeviceDrafter(input, notes).run();
}

}  // namespace vmem
