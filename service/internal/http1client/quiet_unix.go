//go:build unix && !aix

package http1client

import (
	"net"
	"syscall"
)

// Supported says whether this system lets a Client look at idle connections.
const Supported = true

// quiet reports whether nothing has come on an idle connection, neither bytes nor its end, and
// returns the first bytes. Of a connection in memory, it is assumed.
func quiet(nc net.Conn) (is bool, first []byte) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return true, nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false, nil
	}
	err = raw.Read(func(fd uintptr) bool {
		var b [64]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if is = err == syscall.EAGAIN; n > 0 {
			first = append(first, b[:n]...)
		}
		return true
	})
	return err == nil && is, first
}
