// C functions beside Go's: the C compiler's linker lays the program out.
package main

/*
static int __attribute__((noinline)) probe_inner(int x) { return x * 3 + (x >> 1); }
static int __attribute__((noinline)) probe_outer(int x) { return probe_inner(x) + probe_inner(x + 1); }
*/
import "C"

//go:noinline
func work(n int) int { return int(C.probe_outer(C.int(n))) }

func main() { println(work(7)) }
