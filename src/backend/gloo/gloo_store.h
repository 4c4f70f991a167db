// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/store/prefix_store.h"
#include "lockstep/store/rendezvous.h"

namespace lockstep::detail {

// A store of ours, as Gloo wants to see one. It has one deadline for all that
// waits, whatever Gloo would like, and looks around meanwhile.
//
// Newer versions of Gloo have calls for several keys at once; the functions are
// there for them, whether the base class knows them or not.
class GlooStore : public gloo::rendezvous::Store {
 public:
  GlooStore(std::string prefix, std::shared_ptr<lockstep::Store> store,
            Deadline deadline, std::function<void()> look)
      : store_(std::move(prefix), std::move(store)),
        deadline_(deadline),
        look_(std::move(look)) {}

  using Value = std::vector<char>;

  void set(const std::string& key, const Value& data) override {
    store_.set(key, ConstBytes(data.data(), data.size()));
  }
  Value get(const std::string& key) override {
    return value_of(get_looking(store_, key, deadline_, look_));
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const auto& key : keys) get_looking(store_, key, deadline_, look_);
  }
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& /*timeout*/) override {
    wait(keys);
  }

  // NOLINTBEGIN(modernize-use-override): of the base class or not
  virtual bool has_v2_support() { return true; }
  virtual std::vector<Value> multi_get(const std::vector<std::string>& keys) {
    std::vector<Value> values;
    values.reserve(keys.size());
    for (const auto& key : keys) values.push_back(get(key));
    return values;
  }
  virtual void multi_set(const std::vector<std::string>& keys,
                         const std::vector<Value>& values) {
    std::vector<ByteVector> bytes;
    bytes.reserve(values.size());
    for (const auto& value : values) {
      bytes.push_back(to_vector(ConstBytes(value.data(), value.size())));
    }
    store_.multi_set(keys, bytes);
  }
  virtual void append(const std::string& key, const Value& data) {
    store_.append(key, ConstBytes(data.data(), data.size()));
  }
  virtual int64_t add(const std::string& key, int64_t delta) {
    return store_.add(key, delta);
  }
  // NOLINTEND(modernize-use-override)

 private:
  static Value value_of(const ByteVector& bytes) {
    const auto* const data = reinterpret_cast<const char*>(bytes.data());
    return {data, data + bytes.size()};
  }

  PrefixStore store_;
  const Deadline deadline_;
  const std::function<void()> look_;
};

// Older versions of Gloo take the store by reference, newer ones by pointer.
template <class Context, class Device>
auto connect_full_mesh(Context& context,
                       const std::shared_ptr<GlooStore>& store, Device& device,
                       int /*preferred*/)
    -> decltype(context.connectFullMesh(*store, device)) {
  return context.connectFullMesh(*store, device);
}
template <class Context, class Device>
auto connect_full_mesh(Context& context,
                       const std::shared_ptr<GlooStore>& store, Device& device,
                       int64_t /*otherwise*/)
    -> decltype(context.connectFullMesh(store, device)) {
  return context.connectFullMesh(store, device);
}

}  // namespace lockstep::detail
