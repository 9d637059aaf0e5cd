package redistest

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

//go:embed testdata/clock.c
var clockSource []byte

// A Clock is the clock of servers.
type Clock struct {
	t       testing.TB
	library string
	file    string // has the seconds by which the clock is ahead
}

// NewClock returns a clock that is right. It needs a C compiler.
func NewClock(t testing.TB) *Clock {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "clock.c")
	c := &Clock{t: t, library: filepath.Join(dir, "clock.so"), file: filepath.Join(dir, "ahead")}
	if err := os.WriteFile(source, clockSource, 0o600); err != nil {
		t.Fatal(err)
	}
	if output, err := exec.Command("cc", "-O1", "-shared", "-fPIC", "-o", c.library, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	c.Set(0)
	return c
}

// Set sets the clock ahead by a number of seconds, or behind.
func (c *Clock) Set(seconds int) {
	c.t.Helper()
	next := c.file + ".next"
	if err := os.WriteFile(next, []byte(strconv.Itoa(seconds)), 0o600); err != nil {
		c.t.Fatal(err)
	}
	if err := os.Rename(next, c.file); err != nil {
		c.t.Fatal(err)
	}
}

// Start is the function Start for a server that has the clock.
func (c *Clock) Start(engine string, args ...string) *Server {
	c.t.Helper()
	s := prepare(c.t, engine, "127.0.0.1", args)
	s.env = []string{"LD_PRELOAD=" + c.library, "REDISTEST_CLOCK=" + c.file}
	s.Run()
	return s
}
