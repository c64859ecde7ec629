// The second unit: static functions with the names of the first one's.
extern volatile int sink;

static inline __attribute__((always_inline)) int probe_inner(int value) {
    sink += value;
    return value + 1;
}

static __attribute__((noinline)) int probe_static(int value) { return probe_inner(value) * 2; }

extern "C" __attribute__((noinline)) int probe_other(int value) {
    int sum = 0;
    for (int i = 0; i < value; i++) {
        sum += probe_static(i) + probe_inner(i);
    }
    return sum;
}
