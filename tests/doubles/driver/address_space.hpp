// The virtual addresses of the driver, and who may touch what behind them.
//
// STRUCTURE: one arena of addresses per view, all of the same size, all without access at first. View 0 is the CPU's:
// its addresses are the device addresses that the driver hands out. View 1 + d is what device d sees, at a constant
// distance: its page tables are the kernel's. A mapping puts memory at an address; access to it is granted view by
// view, so what a device may not touch faults when its queue touches it, and what the CPU may not touch faults in the
// program.
//
// Not synchronised: the driver's mutex is held, but for `alias`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tests/doubles/driver/error.hpp"
#include "tests/doubles/driver/physical_memory.hpp"

namespace vmem::sim {

using Address = std::uint64_t;
using View = std::size_t;

inline constexpr View kCpuView = 0;
constexpr View view_of(int device) { return static_cast<View>(device) + 1; }

enum class Protection : std::uint8_t { kNone, kRead, kReadWrite };

struct Mapping {
  std::size_t bytes = 0;
  std::shared_ptr<Backing> backing;  // null: memory of the program (`host`)
  char* host = nullptr;
  std::vector<Protection> access;  // by view
  std::uint64_t stamp = 0;         // no other mapping ever has it
};

class AddressSpace {
 public:
  AddressSpace(int num_devices, std::size_t arena_bytes);
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  bool contains(Address address) const { return address - base() < arena_bytes_; }
  std::size_t arena_bytes() const { return arena_bytes_; }

  // Addresses with nothing behind them; 0 where there are none left. `hint` is taken where it is free.
  Address reserve(std::size_t bytes, std::size_t alignment, Address hint);
  // kInvalidValue unless exactly this was reserved and nothing is mapped in it.
  Error release(Address begin, std::size_t bytes);
  // 0 where no reservation begins here.
  std::size_t reserved_bytes(Address begin) const;
  // The reservation that holds the address, begin and bytes; zeros where there is none.
  std::pair<Address, std::size_t> reservation_of(Address address) const;
  std::size_t num_reservations() const { return reservations_.size(); }

  Error map(Address begin, std::shared_ptr<Backing> backing);
  // The program's own memory at a second address.
  Error map_host(Address begin, char* host, std::size_t bytes);
  // Whole mappings only.
  Error unmap(Address begin, std::size_t bytes);
  std::size_t num_mappings() const { return mappings_.size(); }

  // Every mapping in the range, which must be whole ones without a hole. With `decoy` the view gets memory of its own
  // there, so that what it writes arrives nowhere.
  Error set_access(Address begin, std::size_t bytes, View view, Protection protection, bool decoy);

  // The mapping that holds the address, with its begin; nothing where there is none.
  struct Found {
    Address begin = 0;
    const Mapping* mapping = nullptr;
    explicit operator bool() const { return mapping != nullptr; }
  };
  Found find(Address address) const;
  // The begins of the mappings of a device's memory, or of kHostLocation's.
  std::vector<Address> mappings_of(int location) const;
  // The whole range may be read, or written, in this view.
  bool accessible(View view, Address begin, std::size_t bytes, bool write) const;
  // Where code that runs for the view finds the address. `alias` is for addresses of the arena that are no host
  // mapping.
  char* pointer(View view, Address address) const;
  char* alias(View view, Address address) const { return bases_[view] + (address - base()); }

 private:
  Address base() const { return reinterpret_cast<Address>(bases_[kCpuView]); }
  void hide(Address begin, std::size_t bytes, View view);

  const std::size_t arena_bytes_;
  std::vector<char*> bases_;  // by view
  Address next_ = 0;          // where the search for free addresses goes on, so that they are not used again at once
  std::map<Address, std::size_t> reservations_;
  std::map<Address, Mapping> mappings_;
  std::uint64_t last_stamp_ = 0;
};

}  // namespace vmem::sim
