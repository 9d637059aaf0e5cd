package httpserve

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Errors that clients cause are logged at most ten times a second.
func TestErrorLogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := New(http.NotFoundHandler(), slog.New(slog.NewTextHandler(&out, nil))).ErrorLog
		for range 100 {
			for range 10 {
				log.Print("http: TLS handshake error")
			}
			time.Sleep(10 * time.Millisecond)
		}
		if n := strings.Count(out.String(), "\n"); n != 19 { // ten at once, and nine in 990 ms
			t.Errorf("%d lines of 1000", n)
		}
	})
}
