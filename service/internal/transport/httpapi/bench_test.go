package httpapi_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/pipenet"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/transport/httpapi"
)

// A blank is a ResponseWriter that costs nothing.
type blank struct{ h http.Header }

func (b *blank) Header() http.Header         { return b.h }
func (b *blank) Write(p []byte) (int, error) { return len(p), nil }
func (b *blank) WriteHeader(int)             {}

func newAPI(tb testing.TB, cfg httpapi.Config, rules ...config.Rule) *httpapi.API {
	return newSite(tb, cfg, rules...).API
}

var twoBytes = []byte("OK")

func floorHandler(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(twoBytes) }

func BenchmarkHandler(b *testing.B) {
	plenty := newAPI(b, httpapi.Config{}, allKeys(1e9, time.Second, ""))
	for _, bb := range []struct {
		name, method, url string
		h                 http.Handler
	}{
		{"two bytes", "GET", "/rate/x", http.HandlerFunc(floorHandler)},
		{"rate", "GET", "/rate/x", plenty},
		{"rate by POST", "POST", "/rate/x", plenty},
		{"rate without fields", "GET", "/rate/x", newAPI(b, httpapi.Config{Fields: httpapi.FieldsNone}, allKeys(1e9, time.Second, ""))},
		{"rate with a query", "GET", "/rate/x?canWait=true&n=2", plenty},
		{"rate of an escaped key", "GET", "/rate/a%2Fb", plenty},
		{"denied", "GET", "/rate/x", newAPI(b, httpapi.Config{}, allKeys(0, time.Hour, ""))},
		{"check of a key and an address", "GET", "/check/a/b?c", plenty},
		{"no such path", "GET", "/nowhere", plenty},
	} {
		b.Run(bb.name, func(b *testing.B) {
			r := httptest.NewRequest(bb.method, bb.url, nil)
			r.Header["Weir-Address"], r.Header["Weir-Key"] = []string{"192.0.2.1"}, []string{"key:x"}
			w := &blank{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.h)
				bb.h.ServeHTTP(w, r)
			}
		})
	}
}

// A tape is a connection of a client that has sent all its requests at once, and
// does not look at the answers.
type tape struct {
	net.Conn
	request []byte
	at      int // in it
	left    int // requests
	done    chan struct{}
}

func (c *tape) Read(p []byte) (n int, err error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	n = copy(p, c.request[c.at:])
	if c.at += n; c.at == len(c.request) {
		c.at = 0
		c.left--
	}
	return n, nil
}

func (c *tape) Write(p []byte) (int, error)      { return len(p), nil }
func (c *tape) Close() error                     { close(c.done); return nil }
func (c *tape) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *tape) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *tape) SetDeadline(time.Time) error      { return nil }
func (c *tape) SetReadDeadline(time.Time) error  { return nil }
func (c *tape) SetWriteDeadline(time.Time) error { return nil }

// With all that net/http does for a request, but without the system's part.
func BenchmarkServed(b *testing.B) {
	plenty := newAPI(b, httpapi.Config{}, allKeys(1e9, time.Second, ""))
	for _, bb := range []struct {
		name string
		h    http.Handler
	}{
		{"two bytes", http.HandlerFunc(floorHandler)},
		{"rate", plenty},
		{"rate without fields", newAPI(b, httpapi.Config{Fields: httpapi.FieldsNone}, allKeys(1e9, time.Second, ""))},
		{"denied", newAPI(b, httpapi.Config{}, allKeys(0, time.Hour, ""))},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			c := &tape{request: []byte("GET /rate/x HTTP/1.1\r\nHost: weir\r\nUser-Agent: bench\r\n\r\n"), left: b.N, done: make(chan struct{})}
			listener := pipenet.Listen()
			srv := &http.Server{Handler: bb.h}
			go srv.Serve(listener)
			if err := listener.Connect(b.Context(), c); err != nil {
				b.Fatal(err)
			}
			<-c.done
			srv.Close()
		})
	}
}

// body is a batch of requests, each for another key.
func body(n int) string {
	var b strings.Builder
	b.WriteString(`{"requests":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"key":"user:%d","n":%d}`, i, i%3+1)
	}
	b.WriteString("]}")
	return b.String()
}

func BenchmarkBatch(b *testing.B) {
	plenty := newAPI(b, httpapi.Config{}, allKeys(1e9, time.Second, ""))
	for _, n := range []int{1, 100, 10000} {
		for _, query := range []string{"", "?ids=true"} {
			b.Run(fmt.Sprint(n, query), func(b *testing.B) {
				text := []byte(body(n))
				r := httptest.NewRequest("POST", "/rate"+query, nil)
				w := &blank{http.Header{}}
				b.ReportAllocs()
				for b.Loop() {
					clear(w.h)
					r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
					plenty.ServeHTTP(w, r)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/decision")
			})
		}
	}
}
