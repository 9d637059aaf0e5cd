//go:build system && race

package contender

// The race detector makes all of it ten times as slow.
func init() { excerpt = excerpt[:2] }
