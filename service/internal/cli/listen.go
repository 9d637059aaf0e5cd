package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"syscall"

	"github.com/weir-go/weir/service/internal/unixsocket"
)

// Listen opens a TCP listener at the address of a flag.
func Listen(flag, addr string) (net.Listener, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, Usagef("%s=%s: want host:port, such as 127.0.0.1:8000", flag, addr)
	}
	ln, err := net.Listen("tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s=%s: another process has this address: end it, or give another address", flag, addr)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return ln, nil
}

// Listeners opens listeners at TCP addresses and at Unix sockets.
type Listeners struct {
	SocketMode unixsocket.Mode `default:"0660" placeholder:"MODE" group:"bounds" help:"Permissions of Unix sockets: a process that may write to one may connect (${default})."`
}

// Open opens a listener at the address of a flag.
func (l *Listeners) Open(flag, addr string, log *slog.Logger) (net.Listener, error) {
	path, ok := strings.CutPrefix(addr, "unix:")
	if !ok {
		return Listen(flag, addr)
	}
	if unixsocket.InUse(path) {
		log.Warn("the listener takes over the socket of another process, which gets no further connections", "socket", path)
	}
	ln, err := unixsocket.Listen(path, l.SocketMode)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return ln, nil
}

// OpenBoth opens the listeners for clients and for operators.
func (l *Listeners) OpenBoth(public, admin string, log *slog.Logger) (forClients, forOperators net.Listener, err error) {
	if forClients, err = l.Open("--listen", public, log); err != nil {
		return nil, nil, err
	}
	if forOperators, err = l.Open("--admin", admin, log); err != nil {
		forClients.Close()
	}
	return forClients, forOperators, err
}

// OpenMore opens a further listener, if there is an address for it.
func (l *Listeners) OpenMore(flag, address string, log *slog.Logger) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	return l.Open(flag, address, log)
}
