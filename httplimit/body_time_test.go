package httplimit

import (
	"context"
	"fmt"
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

	"github.com/weir-go/weir"
)

// The deadline of a body is none of the handler's: when the body is there, or is
// not asked for, the handler has all the time that it wants, and the connection
// serves the next request.
func TestTheTimeOfABodyIsNotTheHandlers(t *testing.T) {
	const longer = time.Hour // than BodyTimeout
	for _, tt := range []struct {
		rule string
		run  func(r *http.Request) error
	}{
		{"it works when it has read", func(r *http.Request) error {
			_, err := io.Copy(io.Discard, r.Body)
			time.Sleep(longer)
			return err
		}},
		{"it works before it reads", func(r *http.Request) error {
			time.Sleep(longer)
			_, err := io.Copy(io.Discard, r.Body)
			return err
		}},
		{"it works while it reads", func(r *http.Request) error {
			if _, err := r.Body.Read(make([]byte, 1)); err != nil {
				return err
			}
			time.Sleep(longer)
			_, err := io.Copy(io.Discard, r.Body)
			time.Sleep(longer)
			return err
		}},
		{"it reads once more", func(r *http.Request) error {
			_, err := io.Copy(io.Discard, r.Body)
			time.Sleep(longer)
			if _, again := io.Copy(io.Discard, r.Body); err == nil {
				err = again
			}
			synctest.Wait()
			return err
		}},
		{"it closes what it has not read", func(r *http.Request) error {
			_, err := r.Body.Read(make([]byte, 1))
			r.Body.Close()
			time.Sleep(longer)
			synctest.Wait()
			return err
		}},
		{"it answers before it has read all", func(r *http.Request) error {
			_, err := r.Body.Read(make([]byte, 1))
			w := r.Context().Value(writerKey{}).(http.ResponseWriter)
			w.(http.Flusher).Flush() // over HTTP/1, net/http reads the rest
			time.Sleep(longer)
			synctest.Wait()
			return err
		}},
		{"it does not read", func(*http.Request) error {
			time.Sleep(longer)
			return nil
		}},
	} {
		for _, version := range []int{1, 2} {
			bubble(t, fmt.Sprint(tt.rule, ", HTTP/", version), func(t *testing.T) {
				v := new(valve)
				s := newSite(t, Config{Limiter: v, BodyTimeout: time.Second}, func(w http.ResponseWriter, r *http.Request) {
					r = r.WithContext(context.WithValue(r.Context(), writerKey{}, w))
					if err := tt.run(r); err != nil {
						t.Error("body:", err)
					}
					if err := r.Context().Err(); err != nil {
						t.Error("context:", err)
					}
				})
				client := serve(t, s.handler).client(version)
				for n := range 2 {
					reused := false
					ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
						GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused },
					})
					r, err := http.NewRequestWithContext(ctx, "POST", "http://a/", io.MultiReader(strings.NewReader(strings.Repeat("x", 20000))))
					if err != nil {
						t.Fatal(err)
					}
					resp, err := client.Do(r)
					if err != nil {
						t.Fatal(err)
					}
					read(t, resp)
					resp.Body.Close()
					if resp.StatusCode != 200 || reused != (n > 0) {
						t.Errorf("request %d: %d, on a connection that was used before: %v", n, resp.StatusCode, reused)
					}
				}
				v.ended(t, weir.Success, weir.Success)
			})
		}
	}
}

// writerKey is that of a request's ResponseWriter.
type writerKey struct{}

// A handler that reads nothing of the body, or not all, waits for the client all
// the same: net/http reads what is left before it answers, and in Close.
func TestABodyThatNobodyReadsGivesItsUnitBack(t *testing.T) {
	answer := func(w http.ResponseWriter) { io.WriteString(w, strings.Repeat("x", 10000)) }
	for _, tt := range []struct {
		rule string
		run  http.HandlerFunc
	}{
		{"a long answer", func(w http.ResponseWriter, r *http.Request) { answer(w) }},
		{"an answer that is flushed", func(w http.ResponseWriter, r *http.Request) { w.(http.Flusher).Flush() }},
		{"a long answer after a part of the body", func(w http.ResponseWriter, r *http.Request) {
			r.Body.Read(make([]byte, 1))
			answer(w)
		}},
		{"a long answer, while a part of the body is read", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(200)
			r.Body.Read(make([]byte, 1))
			answer(w)
		}},
		{"the body is closed", func(_ http.ResponseWriter, r *http.Request) { r.Body.Close() }},
	} {
		bubble(t, tt.rule, func(t *testing.T) {
			v := new(valve)
			s := newSite(t, Config{Limiter: v, BodyTimeout: time.Second}, tt.run)
			l := serve(t, s.handler).line()
			l.say(chunked + "5\r\nhel")
			v.holds(t, 1, "while it may come")
			time.Sleep(time.Hour)
			synctest.Wait()
			v.holds(t, 0, "after an hour in which nothing has come")
			if status, _, _ := l.hear(); status != 200 {
				t.Errorf("%d", status)
			}
			l.say("lo\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
			if status, _, _ := l.hear(); status != 0 {
				t.Errorf("%d: what comes late was taken for a request", status)
			}
		})
	}
}

// A slow body of one stream is nothing to the others of its connection.
func TestASlowBodyEndsItsStreamOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, Config{Limiter: new(valve), BodyTimeout: time.Second}, echoLength)
		client := serve(t, s.handler).client(2)
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
		s := newSite(t, Config{Limiter: new(valve)}, echoLength)
		l := serve(t, s.handler, func(srv *http.Server) { srv.ReadTimeout = time.Second }).line()
		l.say(post(5, "12"))
		if status, h, _ := l.hear(); status != 408 || h.Get(ReasonHeader) != "client_timeout" {
			t.Errorf("%d %v", status, h)
		}
	})
}

// Whoever bounds bodies in front is heard: it is not the client who broke off.
func TestASmallBodyThatIsTooLargeForWhoIsInFront(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, Config{Limiter: new(valve)}, echoLength)
		l := serve(t, http.MaxBytesHandler(s.handler, 3)).line()
		l.say(post(5, "12345"))
		if status, _, _ := l.hear(); status != http.StatusRequestEntityTooLarge {
			t.Errorf("%d: want 413", status)
		}
	})
}

// A shadow lets a request in at once, however its body comes.
func TestShadowWaitsForNoBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, Config{Limiter: new(valve), Shadow: true, BodyTimeout: time.Second}, echoLength)
		l := serve(t, s.handler).line()
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
		Limiter: &valve{err: refusedByValve},
		Refuse:  func(http.ResponseWriter, *http.Request, Refusal) { panic(http.ErrAbortHandler) },
	}, nil)
	func() {
		defer func() { _ = recover() }()
		s.do(httptest.NewRequest("POST", "/", strings.NewReader("hello")))
	}()
	if n := s.bodies.Load(); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}

// The files of a form go when the request has ended, as without a Middleware.
func TestFilesOfAFormAreRemoved(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	for _, cfg := range []Config{{Limiter: new(valve)}, {Limiter: new(valve), BodyFirst: -1}, {Deadline: "D"}} {
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
