// Steps many MuJoCo simulations in threads, and copies what tasks need of them into arrays [simulations, numbers].
//
// `physics.py` is the same in Python, and calls this through ctypes. MuJoCo's functions are those of the library that its
// Python package has loaded; the caller passes their addresses, so nothing is linked.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

namespace {

using Simulate = void (*)(const void* model, void* data);
using Jacobian = void (*)(const void* model, const void* data, double* place, double* turn, int site);

// Numbers that are copied into or out of a simulation: `at[i]` is their place in simulation i, `rows` an array [n, width].
struct Field {
    double* const* at;
    double* rows;
    int32_t width;
};

}  // namespace

extern "C" {

// What one step is made of; `physics.py` has the same structure, and says what the parts mean.
struct Program {
    int32_t count, substeps, writes, zeros, reads, sites, speeds;
    void* const* models;
    void* const* datas;
    Simulate step, after;  // `after` may be null
    Jacobian jacobian;
    const Field* write;
    const Field* zero;  // without rows
    const Field* read;
    const int32_t* site;
    double* jacobians;  // [count, sites, 2, 3, speeds]
};

}  // extern "C"

namespace {

void read(const Program& p, int i) {
    for (int f = 0; f < p.reads; f++) {
        const Field& one = p.read[f];
        std::memcpy(one.rows + static_cast<int64_t>(i) * one.width, one.at[i], sizeof(double) * one.width);
    }
    const int64_t block = 3 * p.speeds;
    double* to = p.jacobians + i * p.sites * 2 * block;
    for (int s = 0; s < p.sites; s++, to += 2 * block) p.jacobian(p.models[i], p.datas[i], to, to + block, p.site[s]);
}

void run(const Program& p, int i) {
    for (int f = 0; f < p.writes; f++) {
        const Field& one = p.write[f];
        std::memcpy(one.at[i], one.rows + static_cast<int64_t>(i) * one.width, sizeof(double) * one.width);
    }
    for (int k = 0; k < p.substeps; k++) p.step(p.models[i], p.datas[i]);
    for (int f = 0; f < p.zeros; f++) std::memset(p.zero[f].at[i], 0, sizeof(double) * p.zero[f].width);
    if (p.after) p.after(p.models[i], p.datas[i]);
    read(p, i);
}

// MuJoCo calls this on an error and expects that it does not return; where nothing catches, it ends the process, as without.
thread_local std::jmp_buf* catches = nullptr;
thread_local char said[512];

void on_error(const char* text) {
    if (catches) {
        std::snprintf(said, sizeof said, "%s", text);
        std::longjmp(*catches, 1);
    }
    std::fprintf(stderr, "ERROR: %s\n", text);
    std::exit(EXIT_FAILURE);
}

// Run a step; false where MuJoCo found an error, which is `said` then.
bool tried(const Program& p, int i) {
    std::jmp_buf here;
    if (setjmp(here) != 0) {
        catches = nullptr;
        return false;
    }
    catches = &here;
    run(p, i);
    catches = nullptr;
    return true;
}

constexpr auto SPIN = std::chrono::microseconds(50);

void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

// The calling thread works too, in `finish`, so a pool of one thread has none of its own.
class Pool {
   public:
    Pool(const Program* program, int threads) : program_(*program) {
        for (int i = 1; i < threads; i++) threads_.emplace_back([this] { work(); });
    }

    ~Pool() {
        {
            std::unique_lock<std::mutex> lock(mutex_);
            idle_.wait(lock, [this] { return active_ == 0; });
            stop_ = true;
        }
        wake_.notify_all();
        for (std::thread& one : threads_) one.join();
    }

    // Begin a step of the simulations `which`; the arrays must stay as they are until `finish`.
    void start(const int32_t* which, int count) {
        {
            std::unique_lock<std::mutex> lock(mutex_);
            idle_.wait(lock, [this] { return active_ == 0; });  // one that woke late, and found nothing to do
            which_.assign(which, which + count);
            next_ = 0, failed_ = -1;
            batch_++;
        }
        if (count > 0) wake_.notify_all();
    }

    // The simulation in which MuJoCo found an error, or -1; `error` says which.
    int finish() {
        take();
        soon([this] { return active_ == 0; });
        std::unique_lock<std::mutex> lock(mutex_);
        idle_.wait(lock, [this] { return active_ == 0; });
        return failed_;
    }

    const char* error() const { return error_; }

    void look(int i) { read(program_, i); }

   private:
    // Look for a moment before sleeping: to be woken takes as long as a few steps, or much longer on a busy machine.
    template <class Done>
    static void soon(Done done) {
        const auto until = std::chrono::steady_clock::now() + SPIN;
        while (!done() && std::chrono::steady_clock::now() < until) pause();
    }

    void take() {
        const int count = static_cast<int>(which_.size());
        for (int k; (k = next_.fetch_add(1)) < count;)
            if (!tried(program_, which_[k])) {
                std::unique_lock<std::mutex> lock(mutex_);
                if (failed_ >= 0 && failed_ < which_[k]) continue;  // the first one is named, whichever thread was faster
                failed_ = which_[k];
                std::memcpy(error_, said, sizeof error_);
            }
    }

    void work() {
        int64_t seen = 0;
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            lock.unlock();
            soon([&] { return stop_ || batch_ != seen; });
            lock.lock();
            wake_.wait(lock, [&] { return stop_ || batch_ != seen; });
            if (stop_) return;
            seen = batch_;
            active_++;
            lock.unlock();
            take();
            lock.lock();
            if (--active_ == 0) idle_.notify_all();
        }
    }

    const Program program_;
    std::vector<std::thread> threads_;
    std::vector<int32_t> which_;
    std::mutex mutex_;
    std::condition_variable wake_, idle_;
    std::atomic<int> next_{0};
    std::atomic<int> active_{0};
    std::atomic<int64_t> batch_{0};
    std::atomic<bool> stop_{false};
    int failed_ = -1;
    char error_[sizeof said] = "";
};

}  // namespace

extern "C" {

// `handler` is MuJoCo's own variable for the function that gets errors; it may be null.
void* physics_new(const Program* program, int threads, void (**handler)(const char*)) {
    if (handler && !*handler) *handler = on_error;
    return new Pool(program, threads);
}
void physics_free(void* pool) { delete static_cast<Pool*>(pool); }
void physics_start(void* pool, const int32_t* which, int count) { static_cast<Pool*>(pool)->start(which, count); }
int physics_finish(void* pool) { return static_cast<Pool*>(pool)->finish(); }
const char* physics_error(void* pool) { return static_cast<Pool*>(pool)->error(); }
void physics_read(void* pool, int i) { static_cast<Pool*>(pool)->look(i); }

}  // extern "C"
