// Executes the instructions of a core after their issue, in an order that a chip may choose. Internal.
//
// Every pipe has a list of instructions, flags and barriers. The pipes run in any order that the flags allow, and
// instructions of one pipe without a barrier, set or wait between them run in any order: a chip starts them in order,
// but need not complete them in order. A kernel with all its flags and barriers gives the same numbers for every seed.
#ifndef AUTOFUSE_TWIN_SRC_SCHEDULE_H
#define AUTOFUSE_TWIN_SRC_SCHEDULE_H

#include <cstring>
#include <deque>
#include <type_traits>
#include <vector>

#include "checks/checked.h"

namespace autofuse_twin {

class Scheduler {
public:
    void Begin(uint64_t seed);

    template <typename F> void Add(PipeId pipe, const F& f) {
        static_assert(std::is_trivially_copyable<F>::value, "an instruction is plain data");
        static_assert(sizeof(F) <= sizeof(Task::data), "an instruction is small");
        Task task;
        task.kind = Task::kRun;
        task.run = [](void* data) { (*static_cast<F*>(data))(); };
        std::memcpy(task.data, &f, sizeof(F));
        Push(pipe, task);
    }
    // A flag set when the pipe gets here. 0 means no flag.
    uint32_t Set(PipeId pipe);
    // The pipe waits for the flag; the scalar unit itself waits immediately.
    void Wait(PipeId pipe, uint32_t flag);
    void Barrier(PipeId pipe);
    // Runs everything issued to this pipe, and everything that it waits for.
    void Finish(PipeId pipe);
    void FinishAll();
    void Drop();

private:
    struct Task {
        enum Kind : uint8_t { kRun, kSet, kWait, kBarrier } kind = kRun;
        uint32_t flag = 0;
        void (*run)(void*) = nullptr;
        alignas(16) unsigned char data[320];
    };

    uint32_t Random(uint32_t n);
    void Push(PipeId pipe, const Task& task);
    bool Blocked(int pipe) const;
    void RunOne(int pipe);
    void Advance(int pipe);
    bool Step();

    std::deque<Task> lists_[kPipes];
    std::vector<bool> set_;
    std::vector<uint8_t> set_by_;
    size_t pending_ = 0;
    size_t limit_ = 64;
    uint64_t state_ = 1;
    uint8_t order_[kPipes] = {0, 1, 2, 3};
    uint32_t style_ = 0;
};

}  // namespace autofuse_twin

#endif
