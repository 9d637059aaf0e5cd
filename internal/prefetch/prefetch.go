// Package prefetch has the processor fetch memory before it is read.
package prefetch

// Line fetches the cache line of a word. It reads nothing and waits for nothing.
func Line(p *uint64) { line(p) }
