//go:build !unix

package main

import "math"

// maxFiles returns how many files, and so connections, the process may have open:
// no bound is known.
func maxFiles() int { return math.MaxInt }
