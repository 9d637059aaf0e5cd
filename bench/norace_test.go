//go:build !race

package bench

// traceLen is how many operations a rate is tried with.
const traceLen = 1_000_000
