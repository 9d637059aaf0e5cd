package codel_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weir-go/weir/internal/codel"
)

// rfc is the pseudo-code of RFC 8289, section 5, transcribed line by line. Its
// queue holds the instants of arrival, in milliseconds; a packet has one byte
// and so has the largest.
type rfc struct {
	queue      []float64
	firstAbove float64
	dropNext   float64
	count      uint32
	lastCount  uint32
	dropping   bool
	dropped    []float64
}

const (
	target   = 5
	interval = 100
)

func (q *rfc) doDequeue(now float64) (p float64, ok, empty bool) {
	if len(q.queue) == 0 {
		q.firstAbove = 0
		return 0, false, true
	}
	p, q.queue = q.queue[0], q.queue[1:]
	sojourn := now - p
	if sojourn < target || len(q.queue) <= 1 {
		q.firstAbove = 0
	} else if q.firstAbove == 0 {
		q.firstAbove = now + interval
	} else if now >= q.firstAbove {
		ok = true
	}
	return p, ok, false
}

func controlLaw(t float64, count uint32) float64 { return t + interval/math.Sqrt(float64(count)) }

func (q *rfc) dequeue(now float64) (p float64, empty bool) {
	p, ok, empty := q.doDequeue(now)
	if q.dropping {
		if !ok {
			q.dropping = false
		}
		for now >= q.dropNext && q.dropping {
			q.dropped = append(q.dropped, p)
			q.count++
			p, ok, empty = q.doDequeue(now)
			if !ok {
				q.dropping = false
			} else {
				q.dropNext = controlLaw(q.dropNext, q.count)
			}
		}
	} else if ok {
		q.dropped = append(q.dropped, p)
		p, _, empty = q.doDequeue(now)
		q.dropping = true
		delta := q.count - q.lastCount
		q.count = 1
		if delta > 1 && now-q.dropNext < 16*interval {
			q.count = delta
		}
		q.dropNext = controlLaw(now, q.count)
		q.lastCount = q.count
	}
	return p, empty
}

// consulted is a queue that asks the law.
type consulted struct {
	law     codel.Law
	queue   []float64
	dropped []float64
}

func (q *consulted) dequeue(t *testing.T, now float64) (p float64, empty bool) {
	for len(q.queue) > 0 {
		p, q.queue = q.queue[0], q.queue[1:]
		if !q.law.Drop(ms(now), ms(now-p), len(q.queue)) {
			return p, false
		}
		if len(q.queue) == 0 {
			t.Fatal("the last waiter is dropped")
		}
		q.dropped = append(q.dropped, p)
	}
	q.law.Empty()
	return 0, true
}

// Whatever comes and goes, the law drops the packets that the RFC drops.
func FuzzLaw(f *testing.F) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		events := make([]byte, 600)
		for i := range events {
			events[i] = byte(rng.Uint32())
		}
		f.Add(events, uint8(seed))
	}
	drops, reused := 0, 0
	f.Fuzz(func(t *testing.T, events []byte, load uint8) {
		var model rfc
		q := consulted{law: codel.New(codel.Config{})}
		now := 1000.0 // the pseudo-code's zero is no instant
		for _, e := range events {
			now += float64(e>>3) / 4 // 0 to 8 ms
			if e&7 < 1+load%7 {
				model.queue = append(model.queue, now)
				q.queue = append(q.queue, now)
			}
			if e&1 == 0 {
				continue
			}
			want, wantEmpty := model.dequeue(now)
			got, gotEmpty := q.dequeue(t, now)
			if got != want || gotEmpty != wantEmpty || len(q.dropped) != len(model.dropped) {
				t.Fatalf("at %v: %v, %v, and %v dropped: want %v, %v, %v", now, got, gotEmpty, q.dropped, want, wantEmpty, model.dropped)
			}
		}
		drops += len(model.dropped)
		if model.lastCount > 1 {
			reused++
		}
	})
	if drops < 100 || reused == 0 {
		f.Errorf("%d drops, %d times from a count that was reused: too tame", drops, reused)
	}
}
