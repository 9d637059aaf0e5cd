//go:build !race

package http2serve_test

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/pipenet"
)

// A million requests over 100 connections leave neither memory nor goroutines behind.
func TestMillionRequests(t *testing.T) {
	const (
		conns   = 100
		batches = 1_000_000 / conns / tapeBatch
	)
	ln := pipenet.Listen()
	srv := decisions(t)
	go func() { _ = srv.Serve(ln) }()
	play := func(conns int) {
		var all sync.WaitGroup
		for range conns {
			all.Go(func() {
				tape := newTape(false, batches)
				if err := ln.Connect(t.Context(), tape); err != nil {
					t.Error(err)
					return
				}
				<-tape.done
			})
		}
		all.Wait()
	}
	used := func() (heap uint64, goroutines int) {
		for range 3 { // of pools, too
			runtime.GC()
		}
		for same := 0; same < 20; same++ { // a connection's goroutine ends after it has closed the tape
			if n := runtime.NumGoroutine(); n != goroutines {
				goroutines, same = n, 0
			}
			time.Sleep(5 * time.Millisecond)
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc, goroutines
	}
	play(1) // makes what stays: the keys
	heap, goroutines := used()
	play(conns)
	heapAfter, goroutinesAfter := used()
	if heapAfter > heap+1<<20 {
		t.Errorf("%d KiB of heap before, %d after", heap>>10, heapAfter>>10)
	}
	if goroutinesAfter > goroutines {
		t.Errorf("%d goroutines before, %d after", goroutines, goroutinesAfter)
	}
	_ = ln.Close()
	_ = srv.Close()
}
