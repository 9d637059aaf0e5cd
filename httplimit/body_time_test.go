package httplimit

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/testrig"
)

// The deadline of a body is none of the handler's: when the body is there, or is
// not asked for, the handler has all the time that it wants, and the connection
// serves the next request.
func TestTheTimeOfABodyIsNotTheHandlers(t *testing.T) {
	const longer = time.Hour // than BodyTimeout
	answer := func(r *http.Request) {
		w := r.Context().Value(writerKey{}).(http.ResponseWriter)
		w.WriteHeader(200)
		w.(http.Flusher).Flush() // over HTTP/1, net/http reads the rest
	}
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
			answer(r)
			time.Sleep(longer)
			synctest.Wait()
			return err
		}},
		{"it answers when it has read all", func(r *http.Request) error {
			_, err := io.Copy(io.Discard, r.Body)
			answer(r)
			time.Sleep(longer)
			synctest.Wait()
			return err
		}},
		{"it answers when it has closed the body", func(r *http.Request) error {
			err := r.Body.Close()
			answer(r)
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
				v := new(testrig.Limiter)
				s := newSite(t, Config{Limiter: v, BodyTimeout: time.Second}, func(w http.ResponseWriter, r *http.Request) {
					r = r.WithContext(context.WithValue(r.Context(), writerKey{}, w))
					if err := tt.run(r); err != nil {
						t.Error("body:", err)
					}
					if err := r.Context().Err(); err != nil {
						t.Error("context:", err)
					}
				})
				client := serve(t, s.handler).Client(t, version)
				for n := range 2 {
					reused := false
					ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
						GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused },
					})
					r, err := http.NewRequestWithContext(ctx, "POST", "http://a/", io.MultiReader(strings.NewReader(strings.Repeat("x", 200000))))
					testrig.Must(t, err)
					resp, err := client.Do(r)
					testrig.Must(t, err)
					read(t, resp)
					resp.Body.Close()
					if resp.StatusCode != 200 || reused != (n > 0) {
						t.Errorf("request %d: %d, on a connection that was used before: %v", n, resp.StatusCode, reused)
					}
				}
				v.WantEnded(t, weir.Success, weir.Success)
			})
		}
	}
}

// A handler that reads while it responds has all the time.
func TestAStreamInBothDirections(t *testing.T) {
	for _, version := range []int{1, 2} {
		for _, flushes := range []bool{false, true} {
			if version == 2 && !flushes {
				continue // its first line is answered by a flush
			}
			bubble(t, fmt.Sprintf("HTTP/%d, flushed first: %v", version, flushes), func(t *testing.T) {
				v := new(testrig.Limiter)
				s := newSite(t, Config{Limiter: v, BodyTimeout: time.Second}, func(w http.ResponseWriter, r *http.Request) {
					rc := http.NewResponseController(w)
					if err := rc.EnableFullDuplex(); err != nil && version == 1 {
						t.Error(err)
					}
					if flushes {
						rc.Flush()
					}
					for lines := bufio.NewScanner(r.Body); lines.Scan() && lines.Text() != "end"; rc.Flush() {
						fmt.Fprintln(w, lines.Text(), r.Context().Err())
					}
				})
				body, client := io.Pipe()
				var sent sync.WaitGroup
				sent.Go(func() {
					for i := range 3 {
						if flushes || i > 0 {
							time.Sleep(time.Hour)
						}
						fmt.Fprintln(client, i)
					}
					fmt.Fprintln(client, "end")
					time.Sleep(time.Hour)
					client.Close()
				})
				resp, err := serve(t, s.handler).Client(t, version).Post("http://a/", "", body)
				testrig.Must(t, err)
				if got, want := read(t, resp), "0 <nil>\n1 <nil>\n2 <nil>\n"; got != want {
					t.Errorf("%q: want %q", got, want)
				}
				sent.Wait()
				v.WantHeld(t, 0, "at the end")
			})
		}
	}
}

// When the handler has returned, the server reads the rest within a bound again.
func TestTheRestOfAStreamIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, Config{Limiter: new(testrig.Limiter), BodyTimeout: time.Second}, func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush() // net/http reads 256 KiB
		})
		l := newLine(t, serve(t, s.handler))
		l.say(chunked + "90000\r\n" + strings.Repeat("x", 0x50000))
		if status, _, _ := l.hear(); status != 200 {
			t.Errorf("%d", status)
		}
		time.AfterFunc(time.Hour, func() { l.say(strings.Repeat("x", 0x40000) + "\r\n0\r\n\r\n") })
		began := time.Now()
		if status, _, _ := l.hear(); status != 0 || time.Since(began) > time.Minute {
			t.Errorf("%d after %v: want the connection closed soon", status, time.Since(began))
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
	})
}

// writerKey is the context key of a request's ResponseWriter.
type writerKey struct{}

// A handler that reads nothing of the body, or not all, waits for the client all
// the same: net/http reads what is left before it answers, and in Close.
func TestAnUnreadBodyGivesItsUnitBack(t *testing.T) {
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
			v := new(testrig.Limiter)
			s := newSite(t, Config{Limiter: v, BodyTimeout: time.Second}, tt.run)
			l := newLine(t, serve(t, s.handler))
			l.say(chunked + "5\r\nhel")
			v.WantHeld(t, 1, "while it may come")
			time.Sleep(time.Hour)
			synctest.Wait()
			v.WantHeld(t, 0, "after an hour in which nothing has come")
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

// Nor over HTTP/2, where the handler may read when it has answered, and a
// deadline ends what is read later.
func TestTheTimeOfAStreamIsNotTheHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const large = 10 << 20 // does not fit into a stream's window
		s := newSite(t, Config{Limiter: new(testrig.Limiter), BodyTimeout: time.Second}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/answer" {
				w.(http.Flusher).Flush()
			} else if _, err := io.ReadFull(r.Body, make([]byte, 1)); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Hour)
			n, err := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n > large-2, err)
		})
		client := serve(t, s.handler).Client(t, 2)
		for _, path := range []string{"/answer", "/read"} {
			resp, err := client.Post("http://a"+path, "", strings.NewReader(strings.Repeat("x", large)))
			testrig.Must(t, err)
			if body := read(t, resp); body != "true <nil>" {
				t.Errorf("%s: %s", path, body)
			}
			resp.Body.Close()
		}
	})
}

// A body that is slow is the client's fault, whatever the handler answers; and
// nothing of that is left for the next.
func TestASlowStreamIsTheClientsFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := new(testrig.Limiter)
		s := newSite(t, Config{Limiter: v, BodyTimeout: time.Second}, func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				w.WriteHeader(503)
			}
		})
		client := serve(t, s.handler).Client(t, 2)
		var want []weir.Outcome
		for range 5 {
			body, stop := io.Pipe()
			resp, err := client.Post("http://a/", "", body)
			stop.Close()
			if err != nil || resp.StatusCode != 503 {
				t.Errorf("%v, %v", resp, err)
			}
			s.get(200, "/")
			want = append(want, weir.Ignored, weir.Success)
		}
		v.WantEnded(t, want...)
	})
}
