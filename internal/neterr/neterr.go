// Package neterr tells the errors of networks that are signs of load.
package neterr

import (
	"errors"
	"syscall"
)

// wsaeConnRefused is the error of Windows; no other system has this number.
const wsaeConnRefused syscall.Errno = 10061

// Refused reports whether err says that a connection was refused.
func Refused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, wsaeConnRefused)
}

// TimedOut reports whether err is a time-out of I/O, of a look-up or of a context.
func TimedOut(err error) bool {
	t, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && t.Timeout()
}
