// A program whose functions are inlined in each other in all the ways that matter.
extern "C" int probe_other(int);
volatile int sink;

template <typename T> static inline __attribute__((always_inline)) T probe_inner(T value) {
    for (T i = 0; i < value; i++) {
        sink += i;
    }
    return value * 3;
}

namespace probe_space {
struct Box {
    int side;
    __attribute__((noinline)) int probe_area() const { return probe_inner(side) * side; }
    inline __attribute__((always_inline)) int probe_edge() const { return side + probe_inner(side + 1); }
};
}

static __attribute__((noinline)) int probe_static(int value) {
    // A declaration among the blocks: its subtree ends before the next block begins.
    extern int probe_declared(int);
    int sum = probe_declared(value);
    if (value > 2) {
        int block = probe_inner(value);
        sum += block;
    }
    {
        auto lambda = [&](int add) __attribute__((noinline)) { return sum + probe_inner(add); };
        sum += lambda(value);
    }
    return sum;
}

__attribute__((noinline)) int probe_declared(int value) { return probe_inner(value) + probe_inner(value + 2); }

extern "C" __attribute__((noinline)) int probe_entry(int value) {
    probe_space::Box box = {value};
    return probe_static(value) + box.probe_area() + box.probe_edge() + probe_other(value);
}

#ifndef PROBE_SHARED
int main(int count, char **) { return probe_entry(count) & 1; }
#endif
