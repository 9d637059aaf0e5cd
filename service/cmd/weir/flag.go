package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/weir-go/weir/service/internal/unixsocket"
)

// listen opens a TCP listener at the address of a flag.
func listen(flag, addr string) (net.Listener, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, usagef("%s=%s: want host:port, such as 127.0.0.1:8000", flag, addr)
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

// listeners opens listeners at TCP addresses and at Unix sockets.
type listeners struct {
	SocketMode unixsocket.Mode `default:"0660" placeholder:"MODE" group:"bounds" help:"Permissions of Unix sockets: a process that may write to one may connect (${default})."`
}

// listen opens a listener at the address of a flag.
func (l *listeners) listen(flag, addr string, log *slog.Logger) (net.Listener, error) {
	path, ok := strings.CutPrefix(addr, "unix:")
	if !ok {
		return listen(flag, addr)
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

// listenBoth opens the listeners for clients and for operators.
func (l *listeners) listenBoth(public, admin string, log *slog.Logger) (forClients, forOperators net.Listener, err error) {
	if forClients, err = l.listen("--listen", public, log); err != nil {
		return nil, nil, err
	}
	if forOperators, err = l.listen("--admin", admin, log); err != nil {
		forClients.Close()
	}
	return forClients, forOperators, err
}

// listenMore opens a further listener, if there is an address for it.
func (l *listeners) listenMore(flag, address string, log *slog.Logger) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	return l.listen(flag, address, log)
}

// checkBounds checks the flags with a bound in a tag least or most.
func checkBounds(flags []*kong.Flag) error {
	for _, f := range flags {
		v := reflect.Indirect(f.Target)
		least, most := f.Tag.Get("least"), f.Tag.Get("most")
		switch {
		case least == "" || !v.IsValid():
		case most == "" && !(number(v) >= bound(least)):
			return usagef("--%s=%v: must be >= %s", f.Name, v, least)
		case most != "" && !(number(v) >= bound(least) && number(v) <= bound(most)):
			return usagef("--%s=%v: must be in [%s, %s]", f.Name, v, least, most)
		}
	}
	return nil
}

func number(v reflect.Value) float64 {
	if v.CanInt() {
		return float64(v.Int())
	}
	return v.Float()
}

// bound reads a tag: a duration or a number.
func bound(text string) float64 {
	if d, err := time.ParseDuration(text); err == nil {
		return float64(d)
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err) // the tag itself is wrong
	}
	return n
}

// A share is a flag with a part of a whole: 0.01 or 1%.
type share float64

// UnmarshalText reads a number in [0, 1], or one in [0, 100] with a per cent sign.
func (s *share) UnmarshalText(text []byte) error {
	number, percent := strings.CutSuffix(string(text), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v <= 1) {
		return fmt.Errorf("%q: want a share such as 1%% or 0.01", text)
	}
	*s = share(v)
	return nil
}

// writeFile creates a file in the directory of --out, which it makes, and reports that
// on stderr.
func writeFile(stderr io.Writer, dir, name string, write func(io.Writer) error) error {
	name = filepath.Join(dir, name)
	err := os.MkdirAll(dir, 0o777)
	if err == nil {
		var file *os.File
		if file, err = os.Create(name); err == nil {
			err = errors.Join(write(file), file.Close())
		}
	}
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	fmt.Fprintln(stderr, "wrote", name)
	return nil
}

// named returns the items with a name that contains one of the texts; all, if there are no
// texts.
func named[T any](items []T, texts []string, name func(T) string) (found []T) {
	for _, item := range items {
		has := func(text string) bool { return strings.Contains(name(item), text) }
		if len(texts) == 0 || slices.ContainsFunc(texts, has) {
			found = append(found, item)
		}
	}
	return found
}

// names lists the names of items.
func names[T any](items []T, name func(T) string) string {
	var all []string
	for _, item := range items {
		all = append(all, name(item))
	}
	return strings.Join(all, ", ")
}

// printJSON prints the result of --json.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
