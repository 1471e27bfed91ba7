// Handles of a double's objects. None is ever used again, and none is a pointer, so stale and foreign ones are found
// out. Guarded by the driver's mutex.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>

namespace vmem::sim {

using Handle = std::uintptr_t;

// Unique across kinds and across starts of the driver.
Handle next_handle();

template <typename T>
class HandleTable {
 public:
  Handle add(std::shared_ptr<T> object) {
    const Handle handle = next_handle();
    objects_.emplace(handle, std::move(object));
    return handle;
  }
  // Null for a handle that is none of these.
  std::shared_ptr<T> find(Handle handle) const {
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }
  std::shared_ptr<T> take(Handle handle) {
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    auto object = std::move(found->second);
    objects_.erase(found);
    return object;
  }
  template <typename Predicate>
  void erase_if(Predicate predicate) {
    std::erase_if(objects_, [&](const auto& item) { return predicate(*item.second); });
  }
  // 0 for an object that is not in the table.
  Handle handle_of(const T* object) const {
    for (const auto& [handle, each] : objects_) {
      if (each.get() == object) return handle;
    }
    return 0;
  }
  std::size_t size() const { return objects_.size(); }
  auto begin() const { return objects_.begin(); }
  auto end() const { return objects_.end(); }

 private:
  std::unordered_map<Handle, std::shared_ptr<T>> objects_;
};

}  // namespace vmem::sim
