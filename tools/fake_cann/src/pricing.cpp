// What a launch takes: the twin records some cores, and a process beside says what the chip's figures make of them.
#include "state.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <sstream>
#include <thread>

namespace autofuse_fake {
namespace {

constexpr uint64_t kRecorded = 20000;  // events of a core

bool SendAll(int fd, const void* data, size_t bytes) {
    const auto* p = static_cast<const char*>(data);
    while (bytes != 0) {
        const ssize_t n = send(fd, p, bytes, MSG_NOSIGNAL);
        if (n <= 0) {
            return false;
        }
        p += n;
        bytes -= static_cast<size_t>(n);
    }
    return true;
}

bool ReadAll(int fd, void* data, size_t bytes) {
    auto* p = static_cast<char*>(data);
    while (bytes != 0) {
        const ssize_t n = recv(fd, p, bytes, 0);
        if (n <= 0) {
            return false;
        }
        p += n;
        bytes -= static_cast<size_t>(n);
    }
    return true;
}

int Connect(const std::string& name) {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), std::min(name.size(), sizeof(address.sun_path) - 1));
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    if (connect(fd, reinterpret_cast<sockaddr*>(&address), length) == 0) {
        ucred peer{};
        socklen_t size = sizeof(peer);
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == getuid()) {
            return fd;
        }
    }
    close(fd);
    return -1;
}

void StartPricing(const Config& c) {
    const pid_t child = fork();
    if (child == 0) {
        // Twice, so that the process is not ours to wait for; it ends by itself when nobody asks any more.
        if (fork() == 0) {
            setsid();
            const int null = open("/dev/null", O_RDWR);
            const int log = open((c.root + "/pricing.log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
            dup2(null, 0);
            dup2(null, 1);
            dup2(log >= 0 ? log : null, 2);
            for (int fd = 3; fd < 256; ++fd) {
                close(fd);
            }
            execl(c.python.c_str(), c.python.c_str(), "-I", c.script.c_str(), c.root.c_str(), nullptr);
        }
        _exit(0);
    }
}

std::string Ask(State& s, const std::string& head, const std::string& blob) {
    for (int attempt = 0; attempt < 2; ++attempt) {
        if (s.connection < 0) {
            s.connection = Connect(s.config.socket);
            for (int i = 0; s.connection < 0 && i < 1200; ++i) {
                if (i % 200 == 0) {
                    StartPricing(s.config);
                }
                std::this_thread::sleep_for(std::chrono::milliseconds(50));
                s.connection = Connect(s.config.socket);
            }
        }
        const uint64_t sizes[2] = {head.size(), blob.size()};
        uint64_t size = 0;
        if (s.connection >= 0 && SendAll(s.connection, sizes, sizeof(sizes)) &&
            SendAll(s.connection, head.data(), head.size()) && SendAll(s.connection, blob.data(), blob.size()) &&
            ReadAll(s.connection, &size, sizeof(size)) && size < (1u << 24)) {
            std::string text(size, '\0');
            if (ReadAll(s.connection, &text[0], size)) {
                return text;
            }
        }
        close(s.connection);
        s.connection = -1;
    }
    return "";
}

std::vector<uint32_t> Numbers(const std::string& text) {
    std::istringstream words(text);
    std::vector<uint32_t> out;
    for (uint32_t n; words >> n;) {
        out.push_back(n);
    }
    return out;
}

}  // namespace

void Leave() {
    autofuse_twin_gm_clear();
    autofuse_twin_set_ub_size(0);
    autofuse_twin_set_architecture(nullptr);
}

void Prepare(Device& device, const Launched& l, Chip& chip) {
    autofuse_twin_gm_clear();
    for (const uintptr_t begin : l.used) {
        autofuse_twin_gm_add(reinterpret_cast<const void*>(begin), device.blocks[begin].bytes, "memory of the chip",
                             AUTOFUSE_TWIN_GM_WRITABLE);
    }
    autofuse_twin_set_ub_size(chip.ub);
    thread_local std::vector<const char*> lacks, flushes;
    lacks.clear();
    for (const std::string& name : chip.lacks) {
        lacks.push_back(name.c_str());
    }
    flushes.clear();
    for (const std::string& name : chip.flushes) {
        flushes.push_back(name.c_str());
    }
    chip.calls.name = chip.arch.c_str();
    chip.calls.lacks = lacks.data();
    chip.calls.lacks_count = lacks.size();
    chip.calls.flushes = flushes.data();
    chip.calls.flushes_count = flushes.size();
    autofuse_twin_set_architecture(&chip.calls);
    autofuse_twin_set_threads(0);
    autofuse_twin_set_check(0, 0);
    autofuse_twin_findings_clear();
}

bool PriceOf(State& s, Device& device, const Launched& l, const Chip& chip, Price* out) {
    std::ostringstream moved;
    for (uint32_t i = 0; i < l.cores; ++i) {
        uint64_t loaded = 0, stored = 0;
        autofuse_twin_core_bytes(i, &loaded, &stored);
        moved << (i == 0 ? "[" : ",[") << loaded << "," << stored << "]";
    }
    const std::vector<uint32_t> cores = Numbers(Ask(s, "{\"choose\":[" + moved.str() + "]}", ""));
    if (cores.empty()) {
        return false;
    }
    // Cores that are recorded write once more what they have written.
    std::vector<std::string> kept;
    for (const uintptr_t begin : l.used) {
        kept.emplace_back(reinterpret_cast<const char*>(begin), device.blocks[begin].bytes);
    }
    autofuse_twin_set_record(cores.data(), static_cast<uint32_t>(cores.size()), kRecorded);
    autofuse_twin_launch(l.cores, l.body, l.context);
    autofuse_twin_set_record(nullptr, 0, 0);
    autofuse_twin_findings_clear();
    for (size_t i = 0; i < l.used.size(); ++i) {
        std::memcpy(reinterpret_cast<void*>(l.used[i]), kept[i].data(), kept[i].size());
    }
    std::ostringstream head;
    std::string blob;
    head << "{\"soc\":\"" << chip.soc << "\",\"block_dim\":" << l.cores << ",\"moved\":[" << moved.str() << "],\"regions\":[";
    for (size_t i = 0; i < l.used.size(); ++i) {
        head << (i == 0 ? "[" : ",[") << l.used[i] << "," << device.blocks[l.used[i]].bytes << "]";
    }
    head << "],\"records\":[";
    autofuse_twin_record r{};
    for (uint32_t i = 0; autofuse_twin_get_record(i, &r) != 0; ++i) {
        head << (i == 0 ? "{" : ",{") << "\"core\":" << r.core << ",\"cut\":" << r.cut << ",\"events\":" << r.events_count
             << ",\"apis\":[";
        for (uint64_t k = 0; k < r.apis_count; ++k) {
            head << (k == 0 ? "\"" : ",\"") << r.apis[k] << "\"";
        }
        head << "]}";
        blob.append(reinterpret_cast<const char*>(r.events), r.events_count * sizeof(autofuse_twin_event));
    }
    head << "]}";
    std::istringstream answer(Ask(s, head.str(), blob));
    answer >> out->cold >> out->warm;
    for (double& pipe : out->pipes) {
        answer >> pipe;
    }
    return !answer.fail();
}

}  // namespace autofuse_fake
