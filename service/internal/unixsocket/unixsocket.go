// Package unixsocket opens listeners at Unix sockets.
//
// The socket appears at its path with its mode, and with a process that accepts connections, in one step: it is
// made in a directory that only its owner can enter, and moved. So a process can take over the path of another one
// without a gap, as HAProxy does, and no client ever finds a socket with another mode. A socket that a killed process has
// left is replaced, too. Close removes the socket, unless it is another process's by now.
package unixsocket

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// A Mode has the permissions of a socket. To connect, a process needs the permission to write.
type Mode fs.FileMode

// UnmarshalText reads an octal number, such as 0660.
func (m *Mode) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 8, 16)
	if err != nil || n > 0o777 {
		return fmt.Errorf("%q: want an octal number up to 0777, such as 0660", text)
	}
	*m = Mode(n)
	return nil
}

// String returns the text that UnmarshalText reads.
func (m Mode) String() string { return fmt.Sprintf("%04o", uint32(m)) }

// A listener accepts connections at a path.
type listener struct {
	*net.UnixListener
	addr *net.UnixAddr
	made fs.FileInfo // the socket
	once sync.Once
}

// maxPath is how long a path in the address of a socket may be.
const maxPath = len(syscall.RawSockaddrUnix{}.Path) - 1

// Listen listens at a path. If there is a socket, it replaces it.
func Listen(path string, mode Mode) (net.Listener, error) {
	if err := check(path); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".weir") // of mode 0700
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	begun := filepath.Join(dir, "s")
	if n := max(len(path), len(begun)); n > maxPath {
		return nil, fmt.Errorf("%s: is too long, by %d bytes, for the path of a socket", path, n-maxPath)
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: begun, Net: "unix"})
	if err != nil {
		return nil, err
	}
	ln.SetUnlinkOnClose(false)
	l := &listener{UnixListener: ln, addr: &net.UnixAddr{Name: path, Net: "unix"}}
	if err := l.place(begun, mode); err != nil {
		_ = ln.Close()
		return nil, err
	}
	return l, nil
}

// check reports why there cannot be a socket at a path.
func check(path string) error {
	switch {
	case path == "":
		return errors.New("the path of the socket is empty")
	case path[0] == '@':
		return fmt.Errorf("%s: abstract sockets have no permissions: give a path", path)
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is a file, and not a socket", path)
	}
	return nil
}

// place gives the socket its mode, and moves it to its path.
func (l *listener) place(begun string, mode Mode) (err error) {
	if err = os.Chmod(begun, fs.FileMode(mode)); err != nil {
		return err
	}
	if l.made, err = os.Lstat(begun); err != nil {
		return err
	}
	return os.Rename(begun, l.addr.Name)
}

// Addr returns the address with the path.
func (l *listener) Addr() net.Addr { return l.addr }

// Accept waits for the next connection.
func (l *listener) Accept() (net.Conn, error) {
	nc, err := l.AcceptUnix()
	if err != nil {
		return nil, err
	}
	return &conn{nc, l.addr}, nil
}

// Close ends Accept, and removes the socket.
func (l *listener) Close() error {
	l.once.Do(func() { // the path may belong to another process later
		if is, err := os.Lstat(l.addr.Name); err == nil && os.SameFile(is, l.made) {
			_ = os.Remove(l.addr.Name)
		}
	})
	return l.UnixListener.Close()
}

// A conn is a connection with the path as its local address.
type conn struct {
	*net.UnixConn
	local *net.UnixAddr
}

// LocalAddr returns the address of the listener.
func (c *conn) LocalAddr() net.Addr { return c.local }

// InUse reports whether a process accepts connections at a path.
func InUse(path string) bool {
	nc, err := net.Dial("unix", path)
	if err != nil {
		return false
	}
	_ = nc.Close()
	return true
}
