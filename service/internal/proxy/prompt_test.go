package proxy_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/proxy"
)

// The client gets the header of an answer of unknown length, and each part of an event stream,
// before the origin sends more.
func TestPromptAnswers(t *testing.T) {
	more := make(chan struct{})
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/events" {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Content-Length", "2")
			_, _ = io.WriteString(w, "1")
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-more:
			_, _ = io.WriteString(w, "2")
		case <-r.Context().Done():
		}
	}))
	defer origin.Close()
	front := httptest.NewServer(newProxy(t, proxy.Config{Origins: []string{origin.URL}}))
	defer front.Close()
	for path, first := range map[string]string{"/": "", "/events": "1"} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, "GET", front.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := front.Client().Do(req)
		if err != nil {
			t.Errorf("%s: the header does not come: %v", path, err)
			continue
		}
		defer resp.Body.Close()
		b := make([]byte, len(first))
		if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != first {
			t.Errorf("%s: %q, %v: want %q", path, b, err, first)
			continue
		}
		select {
		case more <- struct{}{}:
		case <-ctx.Done():
		}
		if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != "2" {
			t.Errorf("%s: %q, %v: want the rest", path, rest, err)
		}
	}
}
