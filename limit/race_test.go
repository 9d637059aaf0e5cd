//go:build race

package limit_test

// The race detector makes the tests ten times as slow, and Auto has no
// goroutines: one epoch is enough.
func init() { epochRuns = 1 }
