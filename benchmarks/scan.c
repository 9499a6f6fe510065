/* The 2-D band scan by hand: AVX2, four probes per block of the window, pairs emitted. A yardstick for the generated code. */
#include <immintrin.h>
#include <stdint.h>

enum { BLOCK = 2048, LANES = 8 };

static inline int near(__m256 a, __m256 b, __m256 x, __m256 y, __m256 half, __m256 sign)
{
    __m256 u = _mm256_andnot_ps(sign, _mm256_sub_ps(a, x)), v = _mm256_andnot_ps(sign, _mm256_sub_ps(b, y));
    return _mm256_movemask_ps(_mm256_and_ps(_mm256_cmp_ps(u, half, _CMP_LE_OQ), _mm256_cmp_ps(v, half, _CMP_LE_OQ)));
}

static int64_t emit(int mask, int64_t i, int64_t j, int64_t found, int64_t room, int64_t *out)
{
    for (; mask; mask &= mask - 1, found++)
        if (found < room) {
            out[found] = i;
            out[room + found] = j + __builtin_ctz(mask);
        }
    return found;
}

/* Window (a, b) of n tuples, a multiple of 8 of them looked at; probes (x, y), a multiple of 4. Returns the pairs found. */
int64_t band_scan(const float *x, const float *y, const float *a, const float *b, float half_width,
                  int64_t probes, int64_t n, int64_t room, int64_t *out)
{
    __m256 half = _mm256_set1_ps(half_width), sign = _mm256_set1_ps(-0.0f);
    int64_t found = 0;
    for (int64_t start = 0; start < n; start += BLOCK) {
        int64_t stop = start + BLOCK < n ? start + BLOCK : n / LANES * LANES;
        for (int64_t i = 0; i + 3 < probes; i += 4) {
            __m256 x0 = _mm256_set1_ps(x[i]), x1 = _mm256_set1_ps(x[i + 1]);
            __m256 x2 = _mm256_set1_ps(x[i + 2]), x3 = _mm256_set1_ps(x[i + 3]);
            __m256 y0 = _mm256_set1_ps(y[i]), y1 = _mm256_set1_ps(y[i + 1]);
            __m256 y2 = _mm256_set1_ps(y[i + 2]), y3 = _mm256_set1_ps(y[i + 3]);
            for (int64_t j = start; j < stop; j += LANES) {
                __m256 va = _mm256_loadu_ps(a + j), vb = _mm256_loadu_ps(b + j);
                int m0 = near(va, vb, x0, y0, half, sign), m1 = near(va, vb, x1, y1, half, sign);
                int m2 = near(va, vb, x2, y2, half, sign), m3 = near(va, vb, x3, y3, half, sign);
                if (m0 | m1 | m2 | m3) {
                    found = emit(m0, i, j, found, room, out);
                    found = emit(m1, i + 1, j, found, room, out);
                    found = emit(m2, i + 2, j, found, room, out);
                    found = emit(m3, i + 3, j, found, room, out);
                }
            }
        }
    }
    return found;
}
