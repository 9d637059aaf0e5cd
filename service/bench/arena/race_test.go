//go:build race

package arena

// The race detector makes all of it ten times as slow.
func init() { excerpt = excerpt[:2] }
