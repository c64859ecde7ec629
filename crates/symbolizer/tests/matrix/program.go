// Inlined calls three deep, a method, a closure; nothing imported, so that little is compiled.
package main

type point struct{ x, y int }

func (p point) dot(q point) int { return p.x*q.x + p.y*q.y }

func square(x int) int { return x * x }
func quad(x int) int   { return square(square(x)) + 1 }

//go:noinline
func work(n int, each func(int) int) int {
	total := 0
	for i := 0; i < n; i++ {
		total += quad(i) % 7
		total += point{i, total}.dot(point{total, i})
		total += each(i)
	}
	return total
}

func main() {
	offset := 3
	println(work(1000, func(i int) int { return quad(i) + offset }))
}
