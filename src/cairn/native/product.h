// Products of matrices with AVX-512 on processors that are not Intel's: there MKL, the BLAS inside torch, does not use it,
// and takes two to three times as long. Matrices are row-major. C is made in tiles of at most 12 x 32 numbers, whose sums
// stay in registers; B is copied in panels of 32 columns, which stay in the cache nearest to the processor.
//
// Each number of C is summed in the same order, however many threads share the work.

#pragma once
#include <cstdint>

#if defined(__x86_64__) && defined(__linux__) && !defined(CAIRN_PLAIN)
#define CAIRN_WIDE 1
#include <immintrin.h>
#define WIDE __attribute__((target("avx512f")))

namespace wide {

constexpr int ROWS = 12, COLUMNS = 32;  // of a tile
constexpr int DEPTH = 256;              // rows of a panel
constexpr int FEW = 8;                  // columns of C: below this, C is made turned, so that its rows fill the tiles
constexpr double WORTH_SHARING = 1e6;   // multiplications; fewer are done before other threads have begun

inline __mmask16 first(int n) { return n >= 16 ? 0xffff : n <= 0 ? 0 : (1u << n) - 1; }

// C [R, columns] = A B, or += with `add`. Number (i, k) of A is at a[i * a_row + k * a_column].
template <int R>
WIDE void tile(int depth, int columns, const float* a, int64_t a_row, int64_t a_column, const float* b, int64_t b_row,
               float* c, int64_t c_row, bool add) {
    const __mmask16 left = first(columns), right = first(columns - 16);
    __m512 sum[R][2];
#pragma GCC unroll 12
    for (int i = 0; i < R; i++) {
        sum[i][0] = add ? _mm512_maskz_loadu_ps(left, c + i * c_row) : _mm512_setzero_ps();
        sum[i][1] = add ? _mm512_maskz_loadu_ps(right, c + i * c_row + 16) : _mm512_setzero_ps();
    }
    for (int k = 0; k < depth; k++, a += a_column, b += b_row) {
        const __m512 b0 = _mm512_maskz_loadu_ps(left, b), b1 = _mm512_maskz_loadu_ps(right, b + 16);
#pragma GCC unroll 12
        for (int i = 0; i < R; i++) {
            const __m512 x = _mm512_set1_ps(a[i * a_row]);
            sum[i][0] = _mm512_fmadd_ps(x, b0, sum[i][0]);
            sum[i][1] = _mm512_fmadd_ps(x, b1, sum[i][1]);
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < R; i++) {
        _mm512_mask_storeu_ps(c + i * c_row, left, sum[i][0]);
        _mm512_mask_storeu_ps(c + i * c_row + 16, right, sum[i][1]);
    }
}

using Tile = void (*)(int, int, const float*, int64_t, int64_t, const float*, int64_t, float*, int64_t, bool);
constexpr Tile TILES[ROWS + 1] = {nullptr, tile<1>, tile<2>, tile<3>, tile<4>,  tile<5>, tile<6>,
                                  tile<7>, tile<8>, tile<9>, tile<10>, tile<11>, tile<12>};

// x [16, 16] turned, by exchanging blocks of 1, 2, 4 and 8 numbers across the diagonal.
WIDE inline void transpose(__m512* x) {
    const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
#pragma GCC unroll 4
    for (int s = 1; s < 16; s *= 2) {
        const __m512i block = _mm512_set1_epi32(s);
        const __mmask16 odd = _mm512_test_epi32_mask(lane, block);
        const __m512i evens = _mm512_mask_add_epi32(lane, odd, lane, _mm512_set1_epi32(16 - s));  // 16: of the second
        const __m512i odds = _mm512_mask_add_epi32(_mm512_add_epi32(lane, block), odd, lane, _mm512_set1_epi32(16));
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            if (i & s) continue;
            const __m512 a = x[i], b = x[i + s];
            x[i] = _mm512_permutex2var_ps(a, evens, b);
            x[i + s] = _mm512_permutex2var_ps(a, odds, b);
        }
    }
}

// panel [depth, 32] = B [depth, columns], whose rows are columns in memory if it is turned.
WIDE inline void pack(bool turned, const float* b, int64_t b_row, int depth, int columns, float* panel) {
    if (!turned) {
        for (int k = 0; k < depth; k++, b += b_row, panel += COLUMNS) {
            _mm512_storeu_ps(panel, _mm512_maskz_loadu_ps(first(columns), b));
            _mm512_storeu_ps(panel + 16, _mm512_maskz_loadu_ps(first(columns - 16), b + 16));
        }
        return;
    }
    for (int j = 0; j < columns; j += 16)
        for (int k = 0; k < depth; k += 16) {
            __m512 x[16];
            for (int i = 0; i < 16; i++) {
                const __mmask16 inside = j + i < columns ? first(depth - k) : 0;
                x[i] = _mm512_maskz_loadu_ps(inside, b + (j + i) * b_row + k);
            }
            transpose(x);
            for (int i = 0; i < 16 && k + i < depth; i++) _mm512_storeu_ps(panel + (k + i) * COLUMNS + j, x[i]);
        }
}

struct Product {
    bool a_turned, b_turned;
    int m, n, depth;
    const float *a, *b;
    int64_t a_row, b_row;
    float* c;
    int64_t c_row, c_column;  // c_column is 1, except where C is turned and has few rows

    int panels() const { return (n + COLUMNS - 1) / COLUMNS; }

    WIDE void one(int which) const {
        float panel[DEPTH * COLUMNS], corner[FEW * COLUMNS];
        const int j = which * COLUMNS, columns = n - j < COLUMNS ? n - j : COLUMNS, blocks = (m + ROWS - 1) / ROWS;
        const bool packed = b_turned || blocks > 1;
        float* to = c_column == 1 ? c + j : corner;
        const int64_t to_row = c_column == 1 ? c_row : COLUMNS;
        int k = 0;
        do {
            const int deep = depth - k < DEPTH ? depth - k : DEPTH;
            const float* from = b_turned ? b + j * b_row + k : b + k * b_row + j;
            if (packed) pack(b_turned, from, b_row, deep, columns, panel);
            for (int block = 0; block < blocks; block++) {
                const int start = m * block / blocks, rows = m * (block + 1) / blocks - start;
                const float* of = a_turned ? a + start + k * a_row : a + start * a_row + k;
                TILES[rows](deep, columns, of, a_turned ? 1 : a_row, a_turned ? a_row : 1, packed ? panel : from,
                            packed ? COLUMNS : b_row, to + start * to_row, to_row, k > 0);
            }
        } while ((k += DEPTH) < depth);
        if (c_column != 1)
            for (int i = 0; i < m; i++)
                for (int x = 0; x < columns; x++) c[i * c_row + (j + x) * c_column] = corner[i * COLUMNS + x];
    }
};

// What torch's threads are started with: its OpenMP. Null where it hides it, and then there is one thread.
struct Threads {
    void (*parallel)(void (*)(void*), void*, unsigned, unsigned);
    int (*number)();
    int (*most)();
};

inline void multiply(const Product& p, const Threads& threads) {
    const int panels = p.panels();
    const bool shared = threads.parallel && double(p.m) * p.n * p.depth >= WORTH_SHARING && threads.most() > 1;
    if (!shared) {
        for (int i = 0; i < panels; i++) p.one(i);
        return;
    }
    struct Work {
        const Product* product;
        const Threads* threads;
        int step;
    } work{&p, &threads, threads.most() < panels ? threads.most() : panels};
    auto part = [](void* given) {
        const Work& w = *static_cast<Work*>(given);
        for (int i = w.threads->number(); i < w.product->panels(); i += w.step) w.product->one(i);
    };
    threads.parallel(part, &work, work.step, 0);
}

// C [m, n] = op(A) op(B)
inline void product(bool a_turned, bool b_turned, int m, int n, int depth, const float* a, int a_row, const float* b,
                    int b_row, float* c, int c_row, const Threads& threads) {
    if (n < FEW && n < m)
        multiply({!b_turned, !a_turned, n, m, depth, b, a, b_row, a_row, c, 1, c_row}, threads);
    else
        multiply({a_turned, b_turned, m, n, depth, a, b, a_row, b_row, c, c_row, 1}, threads);
}

inline bool useful() { return __builtin_cpu_supports("avx512f") && !__builtin_cpu_is("intel"); }

}  // namespace wide
#endif
