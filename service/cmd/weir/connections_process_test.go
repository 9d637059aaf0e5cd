//go:build system

package main

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

// Ten thousand idle connections take a bounded memory, and keep no request out.
func TestServeManyConnections(t *testing.T) {
	const most, more = 9_000, 1_000
	cmd, public, admin, _ := start(t, binary(t), "serve", "--drain-delay", "0s", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
		"--max-connections", strconv.Itoa(most), "--client-timeout", "10m")
	metric := func(name string) float64 {
		_, body, err := get(admin + "/metrics")
		fatal(t, err)
		for line := range strings.Lines(body) {
			if value, ok := strings.CutPrefix(line, name+" "); ok {
				v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
				fatal(t, err)
				return v
			}
		}
		t.Fatalf("no %s", name)
		return 0
	}
	before := metric("process_resident_memory_bytes")
	for i := range most + more {
		from := net.IPv4(127, 0, 1, byte(i%50))
		if i%2 == 0 {
			dialFrom(t, from, public, halfHeader)
		} else if got := readAnswer(t, dialFrom(t, from, public, wholeRequest)); got != 200 && got != 429 {
			t.Fatalf("connection %d: %d", i, got)
		}
	}
	if status, body, err := get(public + "/rate/another"); status != 200 {
		t.Errorf("%d, %s, %v: want an answer", status, body, err)
	}
	if open, shed := metric("weir_serve_connections"), metric("weir_serve_connections_shed_total"); open > most || shed < more-1 {
		t.Errorf("%v connections, %v made room: want at most %d, and at least %d", open, shed, most, more-1)
	}
	each := (metric("process_resident_memory_bytes") - before) / most
	if each > 64<<10 {
		t.Errorf("%.0f bytes for each connection", each)
	}
	t.Logf("%.0f bytes for each of %d connections", each, most)
	fatal(t, cmd.Process.Kill())
}

// Idle connections to the proxy, and busy ones, keep no other client out.
func TestProxyConnections(t *testing.T) {
	t.Parallel()
	arrived, finish := make(chan bool, 2), make(chan bool)
	origin := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			arrived <- true
			<-finish
		}
	}))
	defer origin.Close()
	cmd, url, _, _ := start(t, binary(t), "proxy", "--origin", origin.URL, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--max-connections", "3")
	request := func(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n" }
	// The server learns after the answer that a connection is idle, and refuses another until then.
	for range 10 {
		for readAnswer(t, dial(t, url, request("/"))) == 503 {
		}
	}
	slow := func() (status chan int) {
		for {
			c := dial(t, url, request("/slow"))
			status = make(chan int, 1)
			go func() {
				if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
					status <- resp.StatusCode
				} else {
					status <- 0
				}
			}()
			select {
			case <-arrived:
				return status
			case got := <-status:
				if got != 503 {
					t.Fatalf("a slow request: %d before its end", got)
				}
			}
		}
	}
	first, second := slow(), slow()
	if got := readAnswer(t, dial(t, url, request("/"))); got != 503 {
		t.Errorf("one connection more: %d: want 503", got)
	}
	if got := readAnswer(t, dialFrom(t, net.IPv4(127, 0, 0, 2), url, request("/"))); got != 200 {
		t.Errorf("another address: %d: want 200", got)
	}
	close(finish)
	for _, status := range []chan int{first, second} {
		if got := <-status; got != 200 {
			t.Errorf("the requests in progress: %d: want 200", got)
		}
	}
	fatal(t, cmd.Process.Kill())
}
