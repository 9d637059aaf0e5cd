//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package statefile

// lock does nothing: these systems have no flock.
func lock(string) (unlock func(), err error) { return func() {}, nil }
