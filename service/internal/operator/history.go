package operator

import (
	"context"
	"slices"
	"sort"
	"sync"
	"time"
)

const (
	samples = 300             // that a History keeps: five minutes
	pace    = time.Second     // between samples
	busy    = 20              // ratio of the pause after a sample to its duration, within bounds: 5 % of a CPU
	longest = 5 * time.Second // pause
)

// A History keeps the last 300 samples. The zero History is empty. It is not safe for
// concurrent use.
type History[T any] struct {
	at      []int64
	samples []T
}

// Add appends a sample of an instant, in milliseconds since 1970.
func (h *History[T]) Add(at int64, v T) {
	if len(h.samples) == samples {
		h.at, h.samples = slices.Delete(h.at, 0, 1), slices.Delete(h.samples, 0, 1)
	}
	h.at, h.samples = append(h.at, at), append(h.samples, v)
}

// Since returns the samples that are newer than an instant, the oldest first.
func (h *History[T]) Since(at int64) []T {
	first := sort.Search(len(h.at), func(i int) bool { return h.at[i] > at })
	return slices.Clone(h.samples[first:])
}

// Sampling calls take at once, and then like Sample until end is called.
func Sampling(take func()) (end func()) {
	take()
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { Sample(ctx, take) })
	return func() { stop(); running.Wait() }
}

// Sample calls take every second until ctx ends, with pauses that keep its own
// load low.
func Sample(ctx context.Context, take func()) {
	next := time.NewTimer(pace)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
			begin := time.Now()
			take()
			took := time.Since(begin)
			next.Reset(max(pace-took, Rest(took)))
		}
	}
}

// Rest returns the pause after a reading that took some time.
func Rest(took time.Duration) time.Duration { return min(busy*took, longest) }
