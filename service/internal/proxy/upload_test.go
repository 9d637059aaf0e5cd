package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/proxy"
)

const post = "POST / HTTP/1.1\r\nHost: proxy.test\r\nContent-Length: %d\r\n\r\n"
const get = "GET / HTTP/1.1\r\nHost: proxy.test\r\n\r\n"

func TestSlowUploads(t *testing.T) {
	for _, tt := range []struct {
		name     string
		body     int
		burst    int // sent at once, before the chunks
		chunk    int
		pause    time.Duration
		status   int
		admitted uint64
		ignored  uint64
	}{
		{"a client that keeps up", 20_000, 0, 4000, 3 * s, 200, 1, 0},
		{"a client that stalls", 100, 0, 10, 11 * s, 408, 0, 0},
		{"a client that trickles", 1000, 0, 1, 9 * s, 408, 0, 0},
		{"a large body at a fair rate", 100_000, 0, 10_000, 9 * s, 200, 1, 1},
		{"a client that stalls after a good start", 200_000, 100_000, 100_000, 11 * s, 408, 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := proxy.Config{Transport: answers(200, s), Timeout: 5 * s, ClientTimeout: 10 * s}
			overWire(t, cfg, func(t *testing.T, p *proxy.Proxy, w wire) {
				go func() {
					chunk := strings.Repeat("x", tt.chunk)
					fmt.Fprintf(w.conn, post, tt.body)
					fmt.Fprint(w.conn, strings.Repeat("x", tt.burst))
					for sent := tt.burst; sent < tt.body; sent += tt.chunk {
						time.Sleep(tt.pause)
						if _, err := io.WriteString(w.conn, chunk); err != nil {
							return // the proxy has lost its patience
						}
					}
				}()
				resp := w.receive()
				if resp == nil || resp.StatusCode != tt.status {
					t.Errorf("%+v: want %d", resp, tt.status)
				}
				synctest.Wait()
				if st := p.Stats(); st.Outcomes[weir.Dropped] != 0 || st.Outcomes[weir.Ignored] != tt.ignored || st.Admitted != tt.admitted {
					t.Errorf("%+v: a slow client says nothing about the origin", st)
				}
			})
		})
	}
}

// The origin has the whole Timeout after it has got a body that takes longer than that, and no more.
func TestTimeoutAfterUpload(t *testing.T) {
	cfg := proxy.Config{Timeout: 5 * s, AbandonedHold: -1, Transport: origin(func(r *http.Request) (*http.Response, error) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		return nil, r.Context().Err()
	})}
	overWire(t, cfg, func(t *testing.T, _ *proxy.Proxy, w wire) {
		const part = 50_000
		w.send(fmt.Sprintf(post, 4*part))
		for range 4 {
			time.Sleep(6 * s)
			w.send(strings.Repeat("x", part))
		}
		began := time.Now()
		resp := w.receive()
		if d := time.Since(began); resp == nil || resp.StatusCode != 504 || d != 5*s {
			t.Errorf("%+v after %v: want 504 after 5s", resp, d)
		}
	})
}

// The deadline of an upload does not outlive it: neither the origin's time nor
// the next request on the connection is cut short.
func TestNoStaleDeadline(t *testing.T) {
	cfg := proxy.Config{Transport: answers(200, 30*s), Timeout: 60 * s, ClientTimeout: 10 * s}
	overWire(t, cfg, func(t *testing.T, _ *proxy.Proxy, w wire) {
		for range 2 {
			w.send(fmt.Sprintf(post, 3) + "abc")
			if resp := w.receive(); resp == nil || resp.StatusCode != 200 {
				t.Fatalf("%+v: want 200", resp)
			}
			time.Sleep(time.Minute)
			w.send(get)
			if resp := w.receive(); resp == nil || resp.StatusCode != 200 {
				t.Fatalf("%+v: want 200 on the same connection, later", resp)
			}
			time.Sleep(time.Minute)
		}
	})
}

// An origin that does not take the body is late, as one that does not answer.
func TestOriginThatDoesNotTakeTheBody(t *testing.T) {
	stuck := origin(func(r *http.Request) (*http.Response, error) {
		buf := make([]byte, 1)
		if _, err := io.ReadFull(r.Body, buf); err != nil {
			return nil, err
		}
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	cfg := proxy.Config{Transport: stuck, Timeout: 5 * s, ClientTimeout: 10 * s, AbandonedHold: 2 * s}
	overWire(t, cfg, func(t *testing.T, p *proxy.Proxy, w wire) {
		began := time.Now()
		w.send(fmt.Sprintf(post, 2) + "ab")
		resp := w.receive()
		if resp == nil || resp.StatusCode != 504 || time.Since(began) != 5*s {
			t.Errorf("%+v after %v: want 504 after 5s", resp, time.Since(began))
		}
		time.Sleep(3 * s)
		if st := p.Stats(); st.Outcomes[weir.Dropped] != 1 {
			t.Errorf("%+v: want it dropped", st)
		}
	})
}

// A client that does not take its answer keeps the unit for as long as ordinary
// work takes. Later it loses its connection.
func TestClientThatDoesNotRead(t *testing.T) {
	flood := origin(func(*http.Request) (*http.Response, error) {
		resp := answer(200)
		resp.Body, resp.ContentLength = io.NopCloser(endless{}), 1<<40
		return resp, nil
	})
	overWire(t, proxy.Config{Transport: flood, ClientTimeout: 10 * s}, func(t *testing.T, p *proxy.Proxy, w wire) {
		w.send(get)
		time.Sleep(s / 2)
		want(t, p, 1, 0)
		time.Sleep(8 * s)
		long(t, p, 1)
		time.Sleep(2 * s)
		long(t, p, 0)
	})
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// A transport that reads on after its request was answered does not touch the
// connection, on which the next request is being served.
func TestUploadThatOutlivesItsRequest(t *testing.T) {
	readOn := make(chan bool)
	first := true
	early := origin(func(r *http.Request) (*http.Response, error) {
		if !first {
			close(readOn) // while the second request is served
			return answers(200, 30*s)(r)
		}
		first = false
		body := r.Body
		go func() {
			<-readOn
			_, _ = body.Read(make([]byte, 10))
		}()
		return answer(200), nil
	})
	cfg := proxy.Config{Transport: early, Timeout: 60 * s, ClientTimeout: 10 * s}
	overWire(t, cfg, func(t *testing.T, _ *proxy.Proxy, w wire) {
		w.send(fmt.Sprintf(post, 3) + "abc")
		if resp := w.receive(); resp == nil || resp.StatusCode != 200 {
			t.Fatalf("%+v: want 200", resp)
		}
		w.send(get)
		if resp := w.receive(); resp == nil || resp.StatusCode != 200 {
			t.Fatalf("%+v: want 200", resp)
		}
	})
}
