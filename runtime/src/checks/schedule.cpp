#include "checks/schedule.h"

#include <utility>

namespace autofuse_twin {

uint32_t Scheduler::Random(uint32_t n) {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<uint32_t>((state_ >> 33) % n);
}

void Scheduler::Begin(uint64_t seed) {
    Drop();
    state_ = seed * 0x9e3779b97f4a7c15ull + 1;
    Random(2);
    // One pipe starves: it runs last whenever another one can run; another pipe runs first and far ahead.
    for (uint32_t i = 0; i < kPipes; ++i) {
        order_[i] = static_cast<uint8_t>(i);
    }
    for (uint32_t i = kPipes; i > 1; --i) {
        std::swap(order_[i - 1], order_[Random(i)]);
    }
    style_ = Random(3);
    limit_ = size_t{8} << (2 * Random(4));
}

void Scheduler::Push(PipeId pipe, const Task& task) {
    lists_[pipe].push_back(task);
    if (task.kind == Task::kRun && ++pending_ > limit_) {
        while (pending_ > limit_ / 2 && Step()) {
        }
    }
}

uint32_t Scheduler::Set(PipeId pipe) {
    set_.push_back(false);
    set_by_.push_back(pipe);
    Task task;
    task.kind = Task::kSet;
    task.flag = static_cast<uint32_t>(set_.size());
    Push(pipe, task);
    return task.flag;
}

void Scheduler::Wait(PipeId pipe, uint32_t flag) {
    if (flag == 0) {
        return;
    }
    if (pipe == kPipeS) {
        while (!set_[flag - 1]) {
            Advance(set_by_[flag - 1]);
        }
        return;
    }
    Task task;
    task.kind = Task::kWait;
    task.flag = flag;
    Push(pipe, task);
}

void Scheduler::Barrier(PipeId pipe) {
    Task task;
    task.kind = Task::kBarrier;
    Push(pipe, task);
}

bool Scheduler::Blocked(int pipe) const {
    const std::deque<Task>& list = lists_[pipe];
    return list.empty() || (list.front().kind == Task::kWait && !set_[list.front().flag - 1]);
}

// The next entry of a pipe that is not blocked; any of several independent instructions.
void Scheduler::RunOne(int pipe) {
    std::deque<Task>& list = lists_[pipe];
    Task& head = list.front();
    if (head.kind == Task::kSet) {
        set_[head.flag - 1] = true;
    }
    if (head.kind != Task::kRun) {
        list.pop_front();
        return;
    }
    size_t window = 1;
    while (window < 8 && window < list.size() && list[window].kind == Task::kRun) {
        ++window;
    }
    size_t pick = 0;
    if (pipe != kPipeS && window > 1) {
        pick = Random(3) == 0 ? Random(static_cast<uint32_t>(window)) : window - 1;
    }
    list[pick].run(list[pick].data);
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(pick));
    --pending_;
}

// Runs one entry of the pipe, after the entries it waits for.
void Scheduler::Advance(int pipe) {
    while (Blocked(pipe)) {
        Advance(set_by_[lists_[pipe].front().flag - 1]);
    }
    RunOne(pipe);
}

bool Scheduler::Step() {
    if (style_ == 0 && Random(8) == 0) {
        std::swap(order_[Random(kPipes)], order_[Random(kPipes)]);
    }
    for (const uint8_t pipe : order_) {
        if (!Blocked(pipe)) {
            RunOne(pipe);
            return true;
        }
    }
    return false;
}

void Scheduler::Finish(PipeId pipe) {
    while (!lists_[pipe].empty()) {
        Advance(pipe);
    }
}

void Scheduler::FinishAll() {
    while (Step()) {
    }
}

void Scheduler::Drop() {
    for (std::deque<Task>& list : lists_) {
        list.clear();
    }
    set_.clear();
    set_by_.clear();
    pending_ = 0;
}

}  // namespace autofuse_twin
