// Steps many MuJoCo simulations in threads, and copies what tasks need of them into arrays [simulations, numbers].
//
// `physics.py` is the same in Python, and calls this through ctypes. MuJoCo's functions are those of the library that its
// Python package has loaded; the caller passes their addresses, so nothing is linked.

#include <atomic>
#include <condition_variable>
#include <cstdint>
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
            next_ = 0;
            batch_++;
        }
        if (count > 0) wake_.notify_all();
    }

    void finish() {
        take();
        std::unique_lock<std::mutex> lock(mutex_);
        idle_.wait(lock, [this] { return active_ == 0; });
    }

    void look(int i) { read(program_, i); }

   private:
    void take() {
        const int count = static_cast<int>(which_.size());
        for (int k; (k = next_.fetch_add(1)) < count;) run(program_, which_[k]);
    }

    void work() {
        int64_t seen = 0;
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
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
    int active_ = 0;
    int64_t batch_ = 0;
    bool stop_ = false;
};

}  // namespace

extern "C" {

void* physics_new(const Program* program, int threads) { return new Pool(program, threads); }
void physics_free(void* pool) { delete static_cast<Pool*>(pool); }
void physics_start(void* pool, const int32_t* which, int count) { static_cast<Pool*>(pool)->start(which, count); }
void physics_finish(void* pool) { static_cast<Pool*>(pool)->finish(); }
void physics_read(void* pool, int i) { static_cast<Pool*>(pool)->look(i); }

}  // extern "C"
