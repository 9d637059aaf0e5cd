package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/client"
)

// sizes records how many asks each batch has, and lets each take a while.
func (s *site) sizes(each time.Duration) *[]int {
	var sizes []int
	s.answer(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/rate" {
			body, _ := io.ReadAll(r.Body)
			var batch struct{ Requests []struct{} }
			must(s.t, json.Unmarshal(body, &batch))
			sizes = append(sizes, len(batch.Requests))
			r.Body = io.NopCloser(bytes.NewReader(body))
			time.Sleep(each)
		}
		s.api.ServeHTTP(w, r)
	})
	return &sizes
}

// What comes while a request is under way goes in one; what comes alone goes at
// once.
func TestBatchesAreWhatComesMeanwhile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, every(1000, time.Hour))
		sizes := s.sizes(time.Millisecond)
		c := s.client(client.Config{})
		start := time.Now()
		takes(t, c, "a", 1, 1)
		check(t, "alone, it takes", time.Since(start), time.Millisecond)
		var callers sync.WaitGroup
		first := func() { callers.Go(func() { takes(t, c, "a", 1, 1) }); synctest.Wait() }
		first()
		for i := range 64 {
			callers.Go(func() { takes(t, c, fmt.Sprint("key ", i), 1, 1) })
		}
		callers.Wait()
		check(t, "sizes", fmt.Sprint(*sizes), "[1 1 64]")
	})
}

// Each caller has the answer to its own ask, also if some have left meanwhile.
func TestEachHasItsOwnAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, every(100, time.Hour))
		sizes := s.sizes(5 * time.Millisecond)
		c := s.client(client.Config{})
		var callers sync.WaitGroup
		callers.Go(func() { takes(t, c, "first", 1, 1) })
		synctest.Wait() // it is under way, and all others queue
		for i := range 100 {
			callers.Go(func() {
				if i%3 == 0 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
					defer cancel()
					_, err := c.Take(ctx, fmt.Sprint(i), 1)
					check(t, "error", err, context.DeadlineExceeded)
					return
				}
				d, err := c.Take(t.Context(), fmt.Sprint(i), i)
				must(t, err)
				check(t, fmt.Sprint("caller ", i), d, weir.Decision{OK: true, Remaining: 100 - i})
			})
		}
		callers.Wait()
		sent := 0
		for _, n := range *sizes {
			sent += n
		}
		check(t, "sent, of those that had not left by then", sent, 1+66)
	})
}

func TestBatchesAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, every(10_000, time.Hour))
		sizes := s.sizes(time.Millisecond)
		c := s.client(client.Config{Queue: 1500})
		var callers sync.WaitGroup
		callers.Go(func() { takes(t, c, "a", 1, 1) })
		synctest.Wait()
		for range 1600 {
			callers.Go(func() { takes(t, c, "a", 1, 1) })
		}
		callers.Wait()
		check(t, "sizes", fmt.Sprint(*sizes), "[1 1000 500]")
		check(t, "decided here", c.Stats().Local, 100)
	})
}
