package httplimit

import (
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"
)

// A slow body of one stream is nothing to the others of its connection.
func TestASlowBodyEndsItsStreamOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, Config{Limiter: new(testrig.Limiter), BodyTimeout: time.Second}, echoLength)
		client := serve(t, s.handler).Client(t, 2)
		for n := range 2 {
			reused := false
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
				GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused },
			})
			body, stop := io.Pipe()
			r, _ := http.NewRequestWithContext(ctx, "POST", "http://a/", body)
			r.ContentLength = 5
			resp, err := client.Do(r)
			stop.Close()
			if err != nil || resp.StatusCode != 408 || reused != (n > 0) {
				t.Errorf("request %d: %v, %v, on a connection that was used before: %v", n, resp, err, reused)
			}
		}
	})
}

// A body that is slow, as the server's own time-out says, was slow.
func TestASlowBodyUnderTheServersTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, Config{Limiter: new(testrig.Limiter)}, echoLength)
		l := newLine(t, testrig.Serve(t, &http.Server{Handler: s.handler, ReadTimeout: time.Second}))
		l.say(post(5, "12"))
		if status, h, _ := l.hear(); status != 408 || h.Get(ReasonHeader) != "client_timeout" {
			t.Errorf("%d %v", status, h)
		}
	})
}

// A body beyond the bound of a handler in front gets 413, not 400.
func TestASmallBodyBeyondMaxBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, Config{Limiter: new(testrig.Limiter)}, echoLength)
		l := newLine(t, serve(t, http.MaxBytesHandler(s.handler, 3)))
		l.say(post(5, "12345"))
		if status, _, _ := l.hear(); status != http.StatusRequestEntityTooLarge {
			t.Errorf("%d: want 413", status)
		}
	})
}

// A shadow lets a request in at once, however its body comes.
func TestShadowWaitsForNoBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, Config{Limiter: new(testrig.Limiter), Shadow: true, BodyTimeout: time.Second}, echoLength)
		l := newLine(t, serve(t, s.handler))
		l.say(post(5, "12"))
		s.ran(1)
		time.Sleep(time.Hour)
		l.say("345")
		if status, _, body := l.hear(); status != 200 || body != "5 false" {
			t.Errorf("%d %q", status, body)
		}
	})
}

// What a refusal does, even a panic, does not use up the room for bodies.
func TestARefusalThatPanicsLeavesNoBodyBehind(t *testing.T) {
	s := newSite(t, Config{
		Limiter: testrig.Rejecting(refusedByLimiter, 0),
		Refuse:  func(http.ResponseWriter, *http.Request, int, string, error) { panic(http.ErrAbortHandler) },
	}, nil)
	func() {
		defer func() { _ = recover() }()
		s.do(httptest.NewRequest("POST", "/", strings.NewReader("hello")))
	}()
	if n := s.buffered.Load(); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}

// The files of a form go when the request has ended, as without a Middleware.
func TestFilesOfAFormAreRemoved(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	for _, cfg := range []Config{{Limiter: new(testrig.Limiter)}, {Deadline: "D", PerClass: Auto}} {
		files := 0
		s := newSite(t, cfg, func(_ http.ResponseWriter, r *http.Request) {
			if err := r.ParseMultipartForm(1); err != nil {
				t.Error(err)
			}
			list, _ := os.ReadDir(dir)
			files = len(list)
		})
		srv := httptest.NewServer(s.handler)
		var form strings.Builder
		m := multipart.NewWriter(&form)
		part, _ := m.CreateFormFile("file", "name")
		io.WriteString(part, strings.Repeat("x", 20000))
		m.Close()
		r := httptest.NewRequest("POST", "/", strings.NewReader(form.String()))
		r.Header.Set("Content-Type", m.FormDataContentType())
		r.Header.Set("D", "1m")
		read(t, fetchFrom(t, srv, r))
		srv.Close()
		if list, _ := os.ReadDir(dir); len(list) != 0 || files == 0 {
			t.Errorf("%d files, then %d: want some, then none", files, len(list))
		}
	}
}
