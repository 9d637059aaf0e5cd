//go:build unix

package http1client

import (
	"net"
	"syscall"
)

// Supported says whether this system lets a Client look at idle connections.
const Supported = true

// quiet reports whether nothing has come on an idle connection, neither bytes nor its end. Of
// a connection in memory, it is assumed.
func quiet(nc net.Conn) (is bool) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		is = err == syscall.EAGAIN
		return true
	})
	return err == nil && is
}
