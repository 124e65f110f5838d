// Multi-layer perceptrons on one CPU, without a framework: forward, backward, Adam, target updates.
//
// `networks.py` is the same arithmetic in torch, with the equations, and calls this through ctypes. Matrices are
// row-major; a layer is y = act(xW + b) with W [in, out]. Products are made by the BLAS that comes with torch, or by
// product.h where that is faster. `bind` receives torch's sgemm and OpenMP, so nothing is linked and the library fits every
// version of torch and Python.

#include <cmath>
#include <cstdint>
#include <cstring>

#include "product.h"

#if defined(__x86_64__) && defined(__linux__) && !defined(CAIRN_PLAIN)
#define FAST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FAST
#endif
#define INLINE static inline __attribute__((always_inline))

namespace {

constexpr int MOST = 8;  // layers; networks.py has the same number

using Gemm = void (*)(const char*, const char*, const int*, const int*, const int*, const float*, const float*,
                      const int*, const float*, const int*, const float*, float*, const int*);
Gemm sgemm = nullptr;
#ifdef CAIRN_WIDE
wide::Threads threads = {};
const bool use_wide = wide::useful();
#endif

// C [m, n] = op(A) op(B), row-major. BLAS is column-major, where these matrices are their transposes: C' = B' A'.
void product(bool a_turned, bool b_turned, int m, int n, int k, const float* a, int a_row, const float* b, int b_row,
             float* c, int c_row) {
    const float one = 1.0f, zero = 0.0f;
    if (m <= 0) return;
#ifdef CAIRN_WIDE
    if (use_wide) return wide::product(a_turned, b_turned, m, n, k, a, a_row, b, b_row, c, c_row, threads);
#endif
    sgemm(b_turned ? "T" : "N", a_turned ? "T" : "N", &n, &m, &k, &one, b, &b_row, a, &a_row, &zero, c, &c_row);
}

// e^x for |x| <= 87: 2^n times a polynomial of the rest (Cephes, relative error 2e-7). It vectorises; std::exp does not.
INLINE float exponential(float x) {
    x = x < -87.0f ? -87.0f : x > 87.0f ? 87.0f : x;
    const float shift = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
    const float n = (x * 1.44269504f + shift) - shift;
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    const int32_t bits = (static_cast<int32_t>(n) + 127) << 23;
    float power;
    std::memcpy(&power, &bits, sizeof power);
    return p * power;
}

// tanh x: a polynomial near 0, where the difference below would lose digits, else 1 - 2 / (e^2x + 1).
INLINE float hyperbolic(float x) {
    const float z = x * x;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    const float near = p * z * x + x, far = 1.0f - 2.0f / (exponential(2.0f * x) + 1.0f);
    return z < 0.390625f ? near : far;
}

FAST void add_bias(float* y, const float* b, int rows, int n) {
    for (int i = 0; i < rows; i++, y += n)
        for (int j = 0; j < n; j++) y[j] += b[j];
}

FAST void add_bias_relu(float* y, const float* b, int rows, int n) {
    for (int i = 0; i < rows; i++, y += n)
        for (int j = 0; j < n; j++) {
            const float v = y[j] + b[j];
            y[j] = v > 0.0f || v != v ? v : 0.0f;  // NaN stays NaN, as in torch
        }
}

FAST void add_bias_tanh(float* y, const float* b, int rows, int n) {
    for (int i = 0; i < rows; i++, y += n)
        for (int j = 0; j < n; j++) y[j] = hyperbolic(y[j] + b[j]);
}

// d = g * act'(y); the derivative by the output y: 1 where y > 0, or 1 - y^2. Row i has the output of row pick[i].
FAST void relu_slope(float* d, const float* g, const float* y, const int64_t* pick, int rows, int n) {
    for (int i = 0; i < rows; i++, d += n, g += n) {
        const float* of = y + (pick ? pick[i] : i) * n;
        for (int j = 0; j < n; j++) d[j] = of[j] > 0.0f ? g[j] : 0.0f;
    }
}

FAST void tanh_slope(float* d, const float* g, const float* y, const int64_t* pick, int rows, int n) {
    for (int i = 0; i < rows; i++, d += n, g += n) {
        const float* of = y + (pick ? pick[i] : i) * n;
        for (int j = 0; j < n; j++) d[j] = g[j] * (1.0f - of[j] * of[j]);
    }
}

FAST void column_sums(float* out, const float* d, int rows, int n) {
    std::memset(out, 0, sizeof(float) * n);
    for (int i = 0; i < rows; i++, d += n)
        for (int j = 0; j < n; j++) out[j] += d[j];
}

FAST float squared_norm(const float* x, int64_t n) {
    double total = 0.0;
    for (int64_t i = 0; i < n; i += 1024) {  // float sums of few terms, so that nothing is lost in large vectors
        float lanes[16] = {0};
        const int64_t stop = i + 1024 < n ? i + 1024 : n;
        int64_t k = i;
        for (; k + 16 <= stop; k += 16)
            for (int j = 0; j < 16; j++) lanes[j] += x[k + j] * x[k + j];
        for (; k < stop; k++) lanes[0] += x[k] * x[k];
        for (float lane : lanes) total += lane;
    }
    return static_cast<float>(total);
}

FAST void adam_step(float* p, const float* g, float* m, float* v, int64_t n, float scale, float rate, float root,
                    float eps) {
    for (int64_t i = 0; i < n; i++) {
        const float d = g[i] * scale;
        m[i] += 0.1f * (d - m[i]);
        v[i] = v[i] * 0.999f + 0.001f * d * d;
        p[i] -= rate * m[i] / (std::sqrt(v[i]) / root + eps);
    }
}

FAST void toward(float* target, const float* source, int64_t n, float tau) {
    for (int64_t i = 0; i < n; i++) target[i] += tau * (source[i] - target[i]);
}

int best_of(const float* row, int n) {
    int best = 0;
    for (int a = 1; a < n; a++)
        if (row[a] > row[best]) best = a;
    return best;
}

}  // namespace

extern "C" {

struct Net {
    int32_t layers, hidden, tanh;  // `hidden`: how many layers have an activation
    int32_t width[MOST + 1];
    float *weight[MOST], *bias[MOST], *weight_grad[MOST], *bias_grad[MOST];
    float* y[MOST];      // outputs of each layer [rows, width]
    float* scratch[2];   // [rows, largest width]
};

const char* source_hash() { return CAIRN_SOURCE; }

// Functions of the libraries inside torch: its sgemm, and of its OpenMP three, or null for all of them.
void bind(void* of_blas, void* parallel, void* number, void* most) {
    sgemm = reinterpret_cast<Gemm>(of_blas);
#ifdef CAIRN_WIDE
    std::memcpy(&threads.parallel, &parallel, sizeof parallel);
    std::memcpy(&threads.number, &number, sizeof number);
    std::memcpy(&threads.most, &most, sizeof most);
#else
    (void)parallel, (void)number, (void)most;
#endif
}

// x [rows, width[0]] with `x_row` numbers from row to row -> net->y
void forward(const Net* net, const float* x, int x_row, int rows) {
    for (int l = 0; l < net->layers; l++) {
        const int in = net->width[l], out = net->width[l + 1];
        float* y = net->y[l];
        product(false, false, rows, out, in, x, x_row, net->weight[l], out, y, out);
        if (l >= net->hidden)
            add_bias(y, net->bias[l], rows, out);
        else if (net->tanh)
            add_bias_tanh(y, net->bias[l], rows, out);
        else
            add_bias_relu(y, net->bias[l], rows, out);
        x = y, x_row = out;
    }
}

// Gradients of what `forward` computed, given the gradient `grad` [rows, out] of the output. `learn`: those of weights
// and biases, overwritten. `x_grad` [rows, width[0] - from]: those of the inputs from column `from` on, or null.
// With `pick` [rows] only these rows of the forward pass count, and the weights get no gradient.
void backward(const Net* net, const float* x, int x_row, const float* grad, int rows, int learn, float* x_grad, int from,
              const int64_t* pick) {
    int turn = 0;
    for (int l = net->layers - 1; l >= 0; l--) {
        const int in = net->width[l], out = net->width[l + 1];
        if (l < net->hidden) {
            float* d = net->scratch[turn ^= 1];
            (net->tanh ? tanh_slope : relu_slope)(d, grad, net->y[l], pick, rows, out);
            grad = d;
        }
        if (learn) {
            column_sums(net->bias_grad[l], grad, rows, out);
            const float* input = l > 0 ? net->y[l - 1] : x;
            product(true, false, in, out, rows, input, l > 0 ? in : x_row, grad, out, net->weight_grad[l], out);
        }
        if (l > 0) {
            float* d = net->scratch[turn ^= 1];
            product(false, true, rows, in, out, grad, out, net->weight[l], out, d, in);
            grad = d;
        } else if (x_grad) {
            product(false, true, rows, in - from, out, grad, out, net->weight[0] + from * out, out, x_grad, in - from);
        }
    }
}

// Adam over a flat vector, after the gradient's norm was clipped to `max_norm` (0: not clipped).
void adam(float* param, const float* grad, float* first, float* second, float* count, int64_t n, double lr, double eps,
          double max_norm) {
    float scale = 1.0f;
    if (max_norm > 0.0) {
        const float norm = std::sqrt(squared_norm(grad, n));
        scale = static_cast<float>(max_norm) / (norm + 1e-6f);
        if (scale > 1.0f) scale = 1.0f;
    }
    const double t = *count += 1.0f;
    const double rate = lr / (1.0 - std::pow(0.9, t)), root = std::sqrt(1.0 - std::pow(0.999, t));
    adam_step(param, grad, first, second, n, scale, static_cast<float>(rate), static_cast<float>(root),
              static_cast<float>(eps));
}

void lerp(float* target, const float* source, int64_t n, double tau) {
    if (tau == 1.0)
        std::memcpy(target, source, sizeof(float) * n);
    else
        toward(target, source, n, static_cast<float>(tau));
}

// action [rows] = the best by the network's outputs, except where `random`
void toss(const Net* net, const float* x, int x_row, int rows, const uint8_t* random, int64_t* action) {
    forward(net, x, x_row, rows);
    const int actions = net->width[net->layers];
    for (int i = 0; i < rows; i++)
        if (!random[i]) action[i] = best_of(net->y[net->layers - 1] + i * actions, actions);
}

// The Huber loss of Q(s, a) against y = R + discount Q'(s', argmax chooser), all rows [rows, actions]. `q_grad` gets its
// gradient, `told` [2] the loss and the mean of Q(s, a), `error` [rows] |y - Q|. Strides count numbers; `weight` and
// `bounds` [2] may be null.
void td(const float* q, const float* judged, const float* chooser, const int64_t* action, int64_t action_row,
        const float* reward, int64_t reward_row, const float* discount, int64_t discount_row, const float* weight,
        int64_t weight_row, const float* bounds, int rows, int actions, float* q_grad, float* told, float* error) {
    double loss = 0.0, mean = 0.0;
    std::memset(q_grad, 0, sizeof(float) * rows * actions);
    for (int i = 0; i < rows; i++) {
        const int64_t a = action[i * action_row];
        float y = reward[i * reward_row]
                  + discount[i * discount_row] * judged[i * actions + best_of(chooser + i * actions, actions)];
        if (bounds) y = y < bounds[0] ? bounds[0] : y > bounds[1] ? bounds[1] : y;
        const float value = q[i * actions + a], d = value - y, far = std::fabs(d);
        const float w = (weight ? weight[i * weight_row] : 1.0f);
        loss += w * (far < 1.0f ? 0.5f * d * d : far - 0.5f);
        mean += value;
        error[i] = far;
        q_grad[i * actions + a] = w * (d < -1.0f ? -1.0f : d > 1.0f ? 1.0f : d) / rows;
    }
    told[0] = static_cast<float>(loss / rows), told[1] = static_cast<float>(mean / rows);
}

}  // extern "C"
