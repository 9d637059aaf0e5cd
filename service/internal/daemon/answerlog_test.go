package daemon

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A flood of connections that are refused does not fill the log.
func TestLogRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		d := &Daemon{log: slog.New(slog.NewTextHandler(&log, nil))}
		refused := d.logRefused("a leaf was refused")
		for range 2 {
			for range 1000 {
				refused(&net.TCPAddr{}, errors.New("no hello"))
			}
			time.Sleep(time.Second)
		}
		if n := strings.Count(log.String(), `msg="a leaf was refused"`); n != 2*maxRefused {
			t.Errorf("%d lines of 2,000 in two seconds, want %d a second", n, maxRefused)
		}
	})
}
