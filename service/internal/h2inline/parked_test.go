package h2inline_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// Requests that wait are answered when their handlers return, whatever comes meanwhile for them or
// for others.
func TestParked(t *testing.T) {
	both(t, func(t *testing.T, srv service) {
		c, end := dial(t, srv)
		defer end()
		c.start(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 3})
		c.ask(c.get("/soon/slow"), c.get("/soon/slow"), c.get("/soon/slow"), c.get("/soon/slow"), c.get("/soon/slow"))
		time.Sleep(time.Second / 2)
		r := c.ask(c.get("/now/empty"), widen(3, 1), reset(5), data(7, "x", true, 0), widen(9, 1<<31-1))
		for id, want := range map[uint32]string{1: "", 3: "", 5: "", 7: "RST STREAM_CLOSED", 9: "RST FLOW_CONTROL_ERROR"} {
			if r.streams[id] != want {
				t.Errorf("stream %d got %q early, want %q", id, r.streams[id], want)
			}
		}
		if !strings.HasSuffix(r.streams[11], "END") {
			t.Errorf("stream 11 got %q", r.streams[11])
		}
		c.start(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 4})
		time.Sleep(time.Second)
		r = c.ask(c.get("/now/empty"))
		for id, want := range map[uint32]string{1: "\n\nxxxx", 3: "\n\nxxxxx", 5: "", 13: "\n\nEND"} {
			if !strings.HasSuffix(r.streams[id], want) || (want == "") != (r.streams[id] == "") {
				t.Errorf("stream %d got %q, want %q", id, r.streams[id], want)
			}
		}
		r = c.ask(widen(1, 9), widen(3, 9))
		for _, id := range []uint32{1, 3} {
			if !strings.HasSuffix(r.streams[id], "\n\nxxxxxxxxxEND") {
				t.Errorf("stream %d got %q", id, r.streams[id])
			}
		}
		if r.failed() {
			t.Errorf("the connection failed: %v", r.goAway)
		}
	})
}

// Shutdown waits for a request that waits.
func TestShutdownParked(t *testing.T) {
	both(t, func(t *testing.T, srv service) {
		c, end := dial(t, srv)
		defer end()
		c.start()
		c.ask(c.get("/soon/slow"))
		done := make(chan error, 1)
		go func() { done <- srv.Shutdown(t.Context()) }()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if r := c.ask(); !strings.HasSuffix(r.streams[1], "\n\nxxxxxxxxxEND") {
			t.Errorf("got %q", r.streams[1])
		}
	})
}

// A reset ends the context of the handler.
func TestParkedReset(t *testing.T) {
	both(t, func(t *testing.T, srv service) {
		c, end := dial(t, srv)
		defer end()
		c.start()
		for range 300 { // more than may run at the same time
			c.ask(c.get("/soon/wait"))
			c.ask(reset(c.last))
		}
		if r := c.ask(c.get("/soon/empty")); !strings.HasSuffix(r.streams[601], "END") || len(r.streams) != 1 {
			t.Errorf("%q, %d streams were answered; %v", r.streams[601], len(r.streams), r.goAway)
		}
	})
}

// The handlers of a connection are bounded, also if the client resets their streams and they go on.
func TestParkedAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, end := dial(t, newServer(false))
		defer end()
		c.start()
		for range 260 {
			b := c.get("/soon/stuck")
			c.write(append(b, reset(c.last)...))
		}
		r := c.ask()
		if len(r.streams) != 10 || r.streams[519] != "RST REFUSED_STREAM" || r.failed() {
			t.Errorf("%d streams got a frame, the last one %q; %v", len(r.streams), r.streams[519], r.goAway)
		}
		time.Sleep(61 * time.Second)
		if r := c.ask(c.get("/soon/empty")); !strings.HasSuffix(r.streams[521], "END") {
			t.Errorf("afterwards: %v, %v", r.streams[521], r.goAway)
		}
	})
}
