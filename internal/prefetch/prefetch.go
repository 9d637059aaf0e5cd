// Package prefetch has the processor fetch memory before it is read.
package prefetch

import "unsafe"

// Line fetches the cache line of the beginning of a value. It reads nothing and waits for
// nothing.
func Line[T any](p *T) { line(unsafe.Pointer(p)) }
