//go:build unix

package connlimit

import (
	"math"
	"syscall"
)

// maxFiles returns how many files, and so connections, the process may open.
func maxFiles() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return math.MaxInt
	}
	return int(min(uint64(l.Cur), math.MaxInt)) // the runtime has raised it to the hard limit
}
