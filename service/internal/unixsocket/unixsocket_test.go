//go:build unix

package unixsocket_test

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/internal/unixsocket"
)

// A site is a directory for a socket.
type site struct {
	*testing.T
	path string
}

func newSite(t *testing.T) site {
	dir, err := os.MkdirTemp("", "weir") // shorter than TempDir: the path of a socket is bounded
	testrig.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return site{t, filepath.Join(dir, "s")}
}

// listen opens a listener that answers each connection with a name.
func (s site) listen(name string) net.Listener {
	s.Helper()
	ln, err := unixsocket.Listen(s.path, 0o660)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(nc, name)
			_ = nc.Close()
		}
	}()
	return ln
}

// answers expects that the one with a name answers; empty: that there is none.
func (s site) answers(want string) {
	s.Helper()
	got := ""
	if nc, err := net.Dial("unix", s.path); err == nil {
		defer nc.Close()
		b, _ := io.ReadAll(nc)
		got = string(b)
	}
	if got != want {
		s.Errorf("%q answers: want %q", got, want)
	}
}

// has expects the files in the directory.
func (s site) has(want ...string) {
	s.Helper()
	entries, err := os.ReadDir(filepath.Dir(s.path))
	if err != nil {
		s.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		s.Errorf("the directory has %q: want %q", got, want)
	}
}

// The socket is there from Listen to Close, and nothing else.
func TestListen(t *testing.T) {
	s := newSite(t)
	ln := s.listen("a")
	s.answers("a")
	s.has("s")
	if a, ok := ln.Addr().(*net.UnixAddr); !ok || a.Name != s.path || a.Net != "unix" {
		t.Errorf("the address is %v", ln.Addr())
	}
	for range 2 {
		if err := ln.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}
	s.has()
}

// A connection has the address of the socket, and can be closed by half.
func TestConn(t *testing.T) {
	s := newSite(t)
	ln, err := unixsocket.Listen(s.path, 0o600)
	testrig.Must(t, err)
	defer ln.Close()
	client, err := net.Dial("unix", s.path)
	testrig.Must(t, err)
	defer client.Close()
	nc, err := ln.Accept()
	testrig.Must(t, err)
	defer nc.Close()
	if a, ok := nc.LocalAddr().(*net.UnixAddr); !ok || a.Name != s.path {
		t.Errorf("the local address is %v", nc.LocalAddr())
	}
	if err := nc.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Error(err)
	}
	if b, err := io.ReadAll(client); len(b) > 0 || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

// The mode does not depend on the umask.
func TestMode(t *testing.T) {
	for _, mode := range []unixsocket.Mode{0o600, 0o660, 0o666, 0o777} {
		s := newSite(t)
		ln, err := unixsocket.Listen(s.path, mode)
		testrig.Must(t, err)
		info, err := os.Stat(s.path)
		if err != nil || info.Mode().Perm() != fs.FileMode(mode) {
			t.Errorf("mode %v, %v: want %v", info.Mode(), err, mode)
		}
		_ = ln.Close()
	}
}

// A process that was killed leaves its socket. The next one replaces it.
func TestStale(t *testing.T) {
	s := newSite(t)
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.path, Net: "unix"})
	testrig.Must(t, err)
	dead.SetUnlinkOnClose(false)
	_ = dead.Close()
	s.has("s")
	s.listen("a")
	s.answers("a")
	s.has("s")
}

// The next process takes over without a gap, and the end of the one before does not
// remove its socket.
func TestTakeover(t *testing.T) {
	s := newSite(t)
	old := s.listen("old")
	s.answers("old")
	next := s.listen("new")
	s.answers("new")
	_ = old.Close()
	s.answers("new")
	_ = next.Close()
	s.answers("")
	s.has()
}

// In use tells a socket with a process behind it from others.
func TestInUse(t *testing.T) {
	s := newSite(t)
	if unixsocket.InUse(s.path) {
		t.Error("without a file")
	}
	ln := s.listen("a")
	if !unixsocket.InUse(s.path) {
		t.Error("not with a listener")
	}
	_ = ln.Close()
	if unixsocket.InUse(s.path) {
		t.Error("after the listener")
	}
}

// What is not a socket stays as it is.
func TestMistakes(t *testing.T) {
	s := newSite(t)
	testrig.Must(t, os.WriteFile(s.path, []byte("precious"), 0o600))
	for path, want := range map[string]string{
		s.path:                     "is a file, and not a socket",
		filepath.Dir(s.path):       "is a file, and not a socket",
		s.path + "/x":              "not a directory",
		filepath.Join("none", "s"): "no such file or directory",
		"":                         "the path of the socket is empty",
		"@weir":                    "abstract sockets have no permissions",
		filepath.Dir(s.path) + "/" + strings.Repeat("x", 108): "is too long, by ",
	} {
		ln, err := unixsocket.Listen(path, 0o660)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", path, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v: want %s", path, err, want)
		}
		if ln != nil {
			_ = ln.Close()
		}
	}
	if b, _ := os.ReadFile(s.path); string(b) != "precious" {
		t.Errorf("the file has %q", b)
	}
	s.has("s")
}

func TestModeText(t *testing.T) {
	for text, want := range map[string]string{"0660": "0660", "660": "0660", "0o600": "", "777": "0777", "1777": "", "8": "", "": "", "-1": "", "rw": ""} {
		var m unixsocket.Mode
		err := m.UnmarshalText([]byte(text))
		if (err == nil) != (want != "") || err == nil && m.String() != want {
			t.Errorf("%q: %v, %v: want %q", text, m, err, want)
		}
	}
}
