//go:build system

package main

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// The service of the field tests, and the time-out of their clients.
const (
	fieldWorkers = 20
	fieldTakes   = 50 * time.Millisecond
	fieldTimeout = 5 * time.Second // the clients' time-out, unless a test is about it
)

// fieldCapacity is the throughput of the workers, per second.
const fieldCapacity = fieldWorkers * float64(time.Second/fieldTakes)

// Short requests are served beside streams, stalled bodies, slow readers, slow writers
// and a path that hangs.
func TestFieldLongLived(t *testing.T) {
	t.Parallel()
	d := fieldTime(t)
	c := newCrew(200, fieldTakes)
	large := make([]byte, 16<<20)
	s := newService(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/events":
			w.Header().Set("Content-Type", "text/event-stream")
			for i := 0; r.Context().Err() == nil; i++ {
				fmt.Fprintf(w, "data: %d\n\n", i)
				_ = http.NewResponseController(w).Flush()
				time.Sleep(100 * time.Millisecond)
			}
		case "/upgrade":
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			_, _ = io.Copy(conn, rw)
		case "/large":
			_, _ = w.Write(large)
		case "/upload":
			_, _ = io.Copy(io.Discard, r.Body)
			c.ServeHTTP(w, r)
		case "/hangs":
			<-r.Context().Done()
		default:
			c.ServeHTTP(w, r)
		}
	}))
	for _, limit := range []string{"20", "auto"} {
		t.Run("limit "+limit, func(t *testing.T) {
			proxy, admin := startProxy(t, binary(t), s.url(), "--limit", limit)
			fieldLoad(t.Context(), 100, 2*time.Second, fieldTimeout, nil, proxy) // so that the limit learns the service time
			for range 10 {
				fieldDial(t, proxy, "GET /events HTTP/1.1\r\nHost: a\r\n\r\n")
				fieldDial(t, proxy, "GET /upgrade HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
				fieldDial(t, proxy, "POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nstalled")
				fieldDial(t, proxy, "POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n"+strings.Repeat("x", 100_000))
				fieldDial(t, proxy, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n") // without reading the answer
			}
			go fieldLoad(t.Context(), 0.5, d, d, nil, proxy+"/hangs")
			time.Sleep(time.Second)
			if short := fieldLoad(t.Context(), 100, d, fieldTimeout, nil, proxy); short.share() < 0.99 {
				t.Errorf("short requests: %v: want 99 %%", short)
			}
			_, metrics, err := get(admin + "/metrics")
			fatal(t, err)
			for line := range strings.Lines(metrics) {
				if strings.HasPrefix(line, "weir_proxy_long_lived") || strings.HasPrefix(line, "weir_proxy_inflight") {
					t.Log(strings.TrimSpace(line))
				}
			}
		})
	}
}

// An origin that is down for a moment costs only the requests of that moment. With a
// fixed limit, nothing may delay the recovery: neither connections, nor held units, nor
// the queue.
func TestFieldOriginDownForAMoment(t *testing.T) { originDown(t, "10", 200*time.Millisecond) }
func TestFieldOriginDownForASecond(t *testing.T) { originDown(t, "10", time.Second) }

// originDown lets the origin be down for some time, at half load. The load is small, so
// that a busy machine keeps up with it.
func originDown(t *testing.T, limit string, down time.Duration) {
	t.Parallel()
	fieldTime(t)
	c := newCrew(fieldWorkers/2, fieldTakes)
	c.cv = true
	s := newService(t, c)
	proxy, admin := startProxy(t, binary(t), s.url(), "--limit", limit)
	var back atomic.Int64 // nanoseconds since the load began
	began := time.Now()
	time.AfterFunc(2*time.Second, func() {
		s.down()
		time.Sleep(down)
		s.up()
		back.Store(int64(time.Since(began)))
	})
	f := fieldLoad(t.Context(), fieldCapacity/4, 9*time.Second, fieldTimeout, nil, proxy)
	from := int((time.Duration(back.Load()) + 2*time.Second + time.Second - 1) / time.Second)
	for i, sec := range f.perSec[from:] {
		if sec.ok < sec.sent*99/100 {
			t.Errorf("in second %d, %d of %d served: want all, two seconds after the origin is back at %v", from+i, sec.ok, sec.sent, time.Duration(back.Load()))
		}
	}
	t.Log(f)
	if _, ready, err := get(admin + "/-/ready"); err != nil || !strings.Contains(ready, `"condition":"well"`) {
		t.Errorf("%s, %v: want the proxy to say that the origin is well again", ready, err)
	}
}

// weirlab origin is killed, and started again on the same port.
func TestFieldOriginKilled(t *testing.T) { originKilled(t, "20") }

// originKilled is for a proxy with this limit.
func originKilled(t *testing.T, limit string) {
	t.Parallel()
	fieldTime(t)
	lab, err := labBinary()
	fatal(t, err)
	run := func(listen string) (*exec.Cmd, string) {
		cmd, listen, _, log := start(t, lab, "origin", "--listen", listen, "--workers", "10", "--service-time", "50ms", "--distribution", "exponential", "--queue", "1000")
		go func() {
			for log.Scan() {
			}
		}()
		return cmd, listen
	}
	cmd, url := run("127.0.0.1:0")
	proxy, _ := startProxy(t, binary(t), url, "--limit", limit)
	var back atomic.Int64
	began := time.Now()
	go func() {
		time.Sleep(2 * time.Second)
		kill(cmd)
		time.Sleep(time.Second)
		run(strings.TrimPrefix(url, "http://"))
		back.Store(int64(time.Since(began)))
	}()
	f := fieldLoad(t.Context(), fieldCapacity/4, 9*time.Second, fieldTimeout, nil, proxy)
	from := int((time.Duration(back.Load()) + 2*time.Second + time.Second - 1) / time.Second)
	for i, sec := range f.perSec[from:] {
		if sec.ok < sec.sent*99/100 {
			t.Errorf("in second %d, %d of %d served: want all, two seconds after the origin is back", from+i, sec.ok, sec.sent)
		}
	}
	t.Log(f)
}
