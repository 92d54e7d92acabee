// What the parts of the fake runtime share: chips, memory, streams and the launches that were priced.
#ifndef AUTOFUSE_FAKE_STATE_H
#define AUTOFUSE_FAKE_STATE_H

#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "acl/acl.h"
#include "autofuse_twin/launch.h"

// No other library has this name: it says that all times are made up.
extern "C" const char autofuse_fake_cann[];

namespace autofuse_fake {

struct Chip {
    std::string soc;
    int64_t cores = 0, l2 = 0;
    size_t memory = 0;
    uint64_t ub = 0;
    std::string arch;
    autofuse_twin_architecture calls{};  // what the calls of its architecture are
    std::vector<std::string> lacks, flushes;
};

struct Failure {
    std::string kind, pattern;  // "*": every kernel
};

struct Config {
    std::vector<Chip> chips;
    std::vector<Failure> failures;
    double noise = 0.0;
    uint64_t seed = 0;
    std::string socket, python, script, root;
};

// Memory of a chip. Both times of its bytes are counted in versions, so that a digest is made once.
struct Block {
    size_t bytes = 0;
    bool zero = true;  // as mapped: all bytes are 0
    uint64_t version = 0, digested = ~uint64_t{0}, digest = 0;
};

struct Price {
    double cold = 0.0, warm = 0.0;
    double pipes[4] = {};  // scalar, V, MTE2, MTE3
};

struct Kind {
    bool priced = false, fixed = false;
    Price price;
    uint64_t fixed_state = 0;
    uint64_t wrong_at = 0;
};

struct Device {
    bool lost = false;
    size_t used = 0;
    std::map<uintptr_t, Block> blocks;
    std::vector<std::pair<uintptr_t, uint64_t>> recent;  // what went through L2, oldest first
};

struct Stream {
    int device = 0;
    double us = 0.0;
    bool hung = false;
    aclError error = ACL_SUCCESS;
};

struct Event {
    Stream* stream = nullptr;
    double us = 0.0;
};

struct State {
    std::mutex mutex;
    bool ready = false;
    Config config;
    std::vector<Device> devices;
    std::map<std::string, Kind> kinds;
    std::map<std::string, uint64_t> launches;
    std::string read;  // the text of ascendcl.conf that all this follows
    int connection = -1;
    int64_t events = 0;  // that there are: without one nobody asks for a time
    FILE* profile = nullptr;
};

struct Launched {
    std::string name;
    uint32_t cores;
    void (*body)(void*);
    void* context;
    std::vector<uintptr_t> used;
};

State& The();

// What aclGetRecentErrMsg says, and the chip that this thread uses; -1: none.
extern thread_local std::string t_said;
extern thread_local int t_device;

aclError Fail(aclError code, const std::string& said);
// Whether a chip can be used: an error where it is lost, or none was chosen.
aclError Usable(State& s, int device);
// Chips and failures as ascendcl.conf has them now: a folder that was written again is another machine.
bool Follow(State& s);
bool Fails(const Config& c, const char* kind, const std::string& name);

uint64_t Mix(uint64_t x);
// A time with noise: most within some percent, a few far too long.
double Noisy(State& s, const std::string& name, uint32_t cores, double us);

// The memory that an address lies in, and where it begins; null for none.
Block* BlockAt(Device& device, uintptr_t address, uintptr_t* begin);
uint64_t DigestOfBlock(uintptr_t begin, Block& b);
void Touch(Device& device, uintptr_t begin, uint64_t bytes);
// Whether all of a launch's memory is still in L2: what went through it since leaves room.
bool IsWarm(const Device& device, const std::vector<uintptr_t>& used, int64_t l2);

// Tells the twin about the memory and the chip of a launch.
void Prepare(Device& device, const Launched& l, Chip& chip);
// Leaves the twin as who else uses it in this thread expects it.
void Leave();
// What a launch takes; it was run just before, so that the twin knows what its cores moved.
bool PriceOf(State& s, Device& device, const Launched& l, const Chip& chip, Price* out);

}  // namespace autofuse_fake

#endif
