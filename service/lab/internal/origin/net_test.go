package origin_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/pipenet"
	"github.com/weir-go/weir/service/lab/internal/origin"
)

// online plays a story with an origin behind net/http.
func online(t *testing.T, cfg origin.Config, story func(t *testing.T, s *scene, network *pipenet.Listener)) {
	t.Helper()
	play(t, cfg, func(t *testing.T, s *scene) {
		network := pipenet.Listen()
		srv := &http.Server{Handler: s.Origin}
		go func() { _ = srv.Serve(network) }()
		defer srv.Close()
		story(t, s, network)
	})
}

func post(ctx context.Context, network *pipenet.Listener, body string) (status int, err error) {
	client := &http.Client{Transport: &http.Transport{DialContext: network.Dial, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://origin/", strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// The origin learns that a client has left, though the request had a body.
func TestClientHangsUp(t *testing.T) {
	for _, tt := range []struct {
		cancel bool
		want   origin.Done
	}{
		{false, origin.Done{End: 2 * second, Status: 200, Abandoned: true}},
		{true, origin.Done{End: 1 * second, Status: 499, Abandoned: true}},
	} {
		cfg := origin.Config{Workers: 1, ServiceTime: every(2 * second), CancelAbandoned: tt.cancel}
		online(t, cfg, func(t *testing.T, s *scene, network *pipenet.Listener) {
			ctx, cancel := context.WithTimeout(t.Context(), second)
			defer cancel()
			if status, err := post(ctx, network, "a body"); err == nil {
				t.Errorf("the client got %d: want no answer", status)
			}
			s.wantDone(t, tt.want)
		})
	}
}

func TestClientStays(t *testing.T) {
	cfg := origin.Config{Workers: 1, ServiceTime: every(40 * second), CancelAbandoned: true}
	online(t, cfg, func(t *testing.T, s *scene, network *pipenet.Listener) {
		if status, err := post(t.Context(), network, "a body"); status != 200 || err != nil {
			t.Errorf("%d, %v: want 200", status, err)
		}
		s.wantDone(t, origin.Done{End: 40 * second, Status: 200})
	})
}

// A client may take half a minute to send its body, and no worker waits for it
// meanwhile.
func TestSlowBody(t *testing.T) {
	for _, tt := range []struct {
		takes time.Duration
		want  origin.Done
	}{
		{29 * second, origin.Done{End: 34 * second, Status: 200}},
		{31 * second, origin.Done{End: 30 * second, Status: 400, Abandoned: true}},
	} {
		cfg := origin.Config{Workers: 1, ServiceTime: every(5 * second), CancelAbandoned: true}
		online(t, cfg, func(t *testing.T, s *scene, network *pipenet.Listener) {
			conn, _ := network.Dial(t.Context(), "", "")
			defer conn.Close()
			go func() { _, _ = io.Copy(io.Discard, conn) }() // takes the answer
			_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: origin\r\nContent-Length: 4\r\n\r\nab")
			s.wantPresent(t, 1, 0, 0)
			time.Sleep(tt.takes)
			_, _ = io.WriteString(conn, "cd") // too late, it fails
			s.wantDone(t, tt.want)
		})
	}
}
