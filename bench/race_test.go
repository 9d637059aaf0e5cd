//go:build race

package bench

// traceLen is how many operations a rate is tried with: fewer under the race
// detector, which looks for something else.
const traceLen = 100_000
