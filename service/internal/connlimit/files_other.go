//go:build !unix

package connlimit

import "math"

// maxFiles returns how many files, and so connections, the process may open. Here, no
// bound is known.
func maxFiles() int { return math.MaxInt }
