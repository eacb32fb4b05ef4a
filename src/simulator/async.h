// Asynchronous operations: commit groups of a warp, and operations that complete on their own.
//
// The model is adversarial. An operation poisons its destination when it is issued; the data lands as late as the
// program allows: when a thread waits for its group, or when a waiting warp could not go on otherwise.
#ifndef TILELANG_SIMULATOR_ASYNC_H_
#define TILELANG_SIMULATOR_ASYNC_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "random.h"
#include "types.h"

namespace tilelang {
namespace simulator {

/// Who made an access, as the race checker sees it: a component of the vector clocks and a time on it.
struct Agent {
  uint32_t id = 0;
  uint32_t stamp = 0;
};

/// An operation in flight. Pointers it captured stay valid until the cluster has finished.
class AsyncOperation {
 public:
  virtual ~AsyncOperation() = default;
  /// Reads the sources of these lanes (bulk stores: called by wait_group.read, or by land before it writes).
  /// Must be idempotent per lane.
  virtual void read(LaneMask lanes) {}
  /// Makes the results of these lanes visible: data, initialised bits, checker events, mbarrier completion.
  virtual void land(LaneMask lanes) = 0;
};

/// The commit groups of one warp for one kind of operation (cp.async, bulk, wgmma), counted per lane.
class GroupQueue {
 public:
  /// Adds an operation issued by `lanes` to their open group.
  void add(std::unique_ptr<AsyncOperation> operation, LaneMask lanes);
  /// Closes the open group of these lanes (an empty group counts).
  void commit(LaneMask lanes);
  /// Lands everything of these lanes but their `allowed` youngest committed groups, in an order drawn from
  /// `random`. Operations not committed stay in flight.
  void wait(LaneMask lanes, uint32_t allowed, Random& random);
  /// The same, but only sources are read.
  void wait_read(LaneMask lanes, uint32_t allowed, Random& random);
  /// How many groups a lane has committed.
  uint32_t committed(int lane) const { return committed_[lane]; }
  /// True when an operation of one of these lanes is in flight (committed or not).
  bool in_flight(LaneMask lanes) const;
  /// True when one of these lanes has operations it has not committed.
  bool has_open(LaneMask lanes) const;
  void clear();

 private:
  struct Entry {
    std::unique_ptr<AsyncOperation> operation;
    LaneMask lanes;          // lanes that have not landed
    LaneMask open;           // lanes that have not committed it
    uint32_t group[kLanes];  // group number of each other lane
  };
  LaneMask due(const Entry& entry, LaneMask lanes, uint32_t allowed) const;
  std::vector<Entry> entries_;
  std::vector<uint32_t> order_;
  uint32_t committed_[kLanes] = {};
};

/// Operations that complete on their own (bulk copies with mbarrier completion, cp.async.mbarrier.arrive).
/// Owned by a cluster; the scheduler lands one when no warp can run, and now and then at random.
class PendingQueue {
 public:
  void post(std::unique_ptr<AsyncOperation> operation);
  bool empty() const { return operations_.empty(); }
  size_t size() const { return operations_.size(); }
  /// Lands one operation drawn from `random`. False when there was none.
  bool land_one(Random& random);
  void land_all(Random& random);

 private:
  std::vector<std::unique_ptr<AsyncOperation>> operations_;
};

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_ASYNC_H_
