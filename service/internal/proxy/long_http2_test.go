package proxy_test

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/service/internal/httpserve"
	"github.com/weir-go/weir/service/internal/proxy"
)

// overHTTP2 runs f in virtual time with a client of the proxy, with requests as streams of
// one connection.
func overHTTP2(t *testing.T, cfg proxy.Config, f func(*proxy.Proxy, *http.Client)) {
	synctest.Test(t, func(t *testing.T) {
		p, ln := newProxy(t, cfg), testrig.Listen()
		srv := httpserve.New(p, slog.New(slog.DiscardHandler))
		httpserve.SpeakHTTP2(srv, time.Hour)
		go func() { _ = srv.Serve(p.Listener(ln)) }()
		client := ln.Client(t, 2)
		f(p, client)
		client.CloseIdleConnections()
		srv.Close()
		time.Sleep(time.Hour)
		want(t, p, 0, 0)
		long(t, p, 0)
	})
}

// Event streams over one connection of HTTP/2 leave the limit, and teach it nothing but their
// headers; other requests over the connection are served.
func TestStreamsOfOneConnection(t *testing.T) {
	overHTTP2(t, proxy.Config{Transport: origin(routes), Limit: proxy.FixedLimit(2), LongLived: 40}, func(p *proxy.Proxy, c *http.Client) {
		var bodies []io.Closer
		for range 20 {
			resp, err := c.Get("http://proxy.test/events")
			testrig.Must(t, err)
			bodies = append(bodies, resp.Body)
		}
		long(t, p, 20)
		if resp, err := c.Get("http://proxy.test/"); err != nil || resp.StatusCode != 200 {
			t.Errorf("%v, %v", resp, err)
		} else {
			resp.Body.Close()
		}
		for _, b := range bodies[:10] { // clients that leave
			b.Close()
		}
		synctest.Wait()
		time.Sleep(s)
		long(t, p, 10)
		time.Sleep(60 * s) // the end of the streams
		long(t, p, 0)
		for _, b := range bodies[10:] {
			b.Close()
		}
	})
}

// A client that does not read a stream holds nothing for longer than its time-out, although it
// reads the other streams of its connection.
func TestUnreadStream(t *testing.T) {
	ample := origin(func(*http.Request) (*http.Response, error) {
		resp := answer(200)
		resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(strings.Repeat("x", 10<<20))), 10<<20
		return resp, nil
	})
	overHTTP2(t, proxy.Config{Transport: ample, Limit: proxy.FixedLimit(5), LongLived: -1, ClientTimeout: 10 * s}, func(p *proxy.Proxy, c *http.Client) {
		resp, err := c.Get("http://proxy.test/")
		testrig.Must(t, err)
		defer resp.Body.Close()
		time.Sleep(9 * s)
		want(t, p, 1, 0)
		other, err := c.Get("http://proxy.test/")
		testrig.Must(t, err)
		if n, err := io.Copy(io.Discard, other.Body); n != 10<<20 || err != nil {
			t.Errorf("%d bytes of another stream, %v", n, err)
		}
		time.Sleep(2 * s)
		want(t, p, 0, 0)
		if _, err := io.Copy(io.Discard, resp.Body); err == nil {
			t.Error("the stream was not reset")
		}
	})
}

// A client that sends its body slowly over a stream leaves the limit; a client that stops is
// told so.
func TestSlowStream(t *testing.T) {
	overHTTP2(t, proxy.Config{Transport: origin(routes), Limit: proxy.FixedLimit(1), LongLived: 40, ClientTimeout: 10 * s}, func(p *proxy.Proxy, c *http.Client) {
		body, in := io.Pipe()
		got := make(chan int, 1)
		go func() {
			resp, err := c.Post("http://proxy.test/", "text/plain", body)
			if err != nil {
				got <- 0
				return
			}
			resp.Body.Close()
			got <- resp.StatusCode
		}()
		for range 5 {
			if _, err := in.Write([]byte(strings.Repeat("x", 5000))); err != nil {
				t.Fatal(err)
			}
			time.Sleep(4 * s)
		}
		long(t, p, 1)
		if resp, err := c.Get("http://proxy.test/"); err != nil || resp.StatusCode != 200 {
			t.Errorf("%v, %v", resp, err)
		} else {
			resp.Body.Close()
		}
		time.Sleep(7 * s)
		if code := <-got; code != http.StatusRequestTimeout {
			t.Errorf("%d: want 408", code)
		}
		in.Close()
	})
}
