//go:build !race

package h2inline_test

import (
	"bytes"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/pipenet"
)

// heap returns the bytes in use, without what is in pools.
func heap() int {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// A million requests over 100 connections leave neither memory nor goroutines behind.
func TestMillionRequests(t *testing.T) {
	for _, kind := range []tapeKind{tapeREST, tapeHTTP1} {
		t.Run(string(kind), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { playMillion(t, kind) }) })
	}
}

// playMillion plays a million requests of a kind.
func playMillion(t *testing.T, kind tapeKind) {
	const (
		conns   = 100
		batches = 1_000_000 / conns / tapeBatch
	)
	ln := pipenet.Listen()
	srv := decisions(t, false)
	go func() { _ = srv.Serve(ln) }()
	play := func(conns int) (used, goroutines int) {
		var all sync.WaitGroup
		for range conns {
			all.Go(func() {
				tape := newTape(kind, batches)
				if err := ln.Connect(t.Context(), tape); err != nil {
					t.Error(err)
					return
				}
				<-tape.done
			})
		}
		all.Wait()
		synctest.Wait()
		return heap(), runtime.NumGoroutine()
	}
	used, goroutines := play(1) // makes what stays: the keys
	usedAfter, goroutinesAfter := play(conns)
	if usedAfter > used+1<<20 {
		t.Errorf("%d KiB of heap before, %d after", used>>10, usedAfter>>10)
	}
	if goroutinesAfter > goroutines {
		t.Errorf("%d goroutines before, %d after", goroutines, goroutinesAfter)
	}
	_ = ln.Close()
	_ = srv.Close()
}

// A connection does not keep a large header: its memory after an answer is that after a small one.
func TestLargeHeadersAreDropped(t *testing.T) {
	const conns = 200
	for name, ask := range map[string]func(t *testing.T, value string) (c *client, end func()){
		"HTTP/2": func(t *testing.T, value string) (c *client, end func()) {
			c, end = dial(t, newServer(false))
			c.start()
			c.ask(c.get("/now/3", "x-large", value))
			c.block, c.encoder = bytes.Buffer{}, nil // the client forgets, too
			return c, end
		},
		"HTTP/1.1": func(t *testing.T, value string) (c *client, end func()) {
			c, end = connect(t, newServer(false))
			c.write([]byte("GET /now/3 HTTP/1.1\r\nHost: weir\r\nX-Large: " + value + "\r\n\r\n"))
			return c, end
		},
	} {
		t.Run(name, func(t *testing.T) {
			idle := func(value string) (each int) {
				synctest.Test(t, func(t *testing.T) {
					before := heap()
					for range conns {
						_, end := ask(t, value)
						defer end()
					}
					time.Sleep(time.Second) // large buffers go back
					each = (heap() - before) / conns
				})
				return each
			}
			idle("v")
			small, large := idle("v"), idle(strings.Repeat("v", 7000))
			if large > small+2000 {
				t.Errorf("an idle connection has %d bytes, %d after a header of 7,000", small, large)
			}
		})
	}
}
