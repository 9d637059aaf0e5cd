package client

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/heap"
)

// ErrLost is the cause of the context of a Held that has lost its lease: the lease
// expired before the server could renew it, or the server no longer knew it. Another
// caller may hold it now.
var ErrLost = errors.New("client: the lease is lost")

// maxRenewals bounds the renewals under way at once; one if the server is away.
const maxRenewals = 32

// A keeper renews leases, and tells their holders when they are lost. It has one
// goroutine while there are leases.
type keeper struct {
	wake chan struct{} // of capacity 1: look again

	mu       sync.Mutex         // guards what follows, and the leases in it
	leases   *heap.Heap[*lease] // by when something is to be done
	shares   map[string]*share
	due      []*lease // for a renewal, as soon as there is room; some are gone
	renewing int
	running  bool
}

// A lease is units of a key that the server has granted. It owns their Permit.
type lease struct {
	owner  weir.Owner // itself
	c      *Client
	key    string
	id     string
	n      int
	token  uint64
	ttl    time.Duration
	cancel context.CancelCauseFunc // ends the context of its holder

	// Guarded by the keeper's mu.
	renewAt, expires time.Time
	due              bool // for a renewal, which may be under way
	place            int  // in the schedule; -1 if it is not held any more
}

// at is when something is to be done about the lease.
func (l *lease) at() time.Time {
	if l.due || l.expires.Before(l.renewAt) {
		return l.expires
	}
	return l.renewAt
}

func (k *keeper) init() {
	k.wake = make(chan struct{}, 1)
	k.shares = map[string]*share{}
	k.leases = heap.New(func(a, b *lease) bool { return a.at().Before(b.at()) }).Track(func(l *lease, at int) { l.place = at })
}

func (k *keeper) held() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.leases.Len()
}

// add keeps a lease, of a key with that limit.
func (k *keeper) add(l *lease, limit int) {
	k.mu.Lock()
	s := k.share(l.key)
	s.limit = limit
	s.held += l.n
	k.leases.Push(l)
	first := !k.running
	k.running = true
	k.mu.Unlock()
	if first {
		l.c.start(func() { k.run(l.c) }) // or the Client is closed, and Close returns the lease
	} else {
		k.nudge()
	}
}

func (k *keeper) nudge() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// remove reports whether the lease was held until now.
func (k *keeper) remove(l *lease) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.place < 0 {
		return false
	}
	k.leases.Remove(l.place)
	k.leave(l.key, l.n)
	return true
}

// run is the goroutine. What is added before idle keeps it; what is added after
// that starts another one, because both write running under the lock.
func (k *keeper) run(c *Client) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-k.wake:
		case <-c.ctx.Done():
			return
		}
		now := time.Now()
		lost, next := k.expire(now)
		for _, l := range lost {
			l.lose()
		}
		most := maxRenewals
		if c.circuit.open.Load() {
			most = 1
		}
		for _, l := range k.renewals(most) {
			c.start(l.renew)
		}
		if k.idle() {
			return
		}
		timer.Reset(next.Sub(now))
	}
}

// expire removes the leases that are lost, marks those due for a renewal, and returns when
// to call it again.
func (k *keeper) expire(now time.Time) (lost []*lease, next time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.leases.Len() > 0 {
		l := k.leases.Min()
		switch next = l.at(); {
		case next.After(now):
			return lost, next
		case !now.Before(l.expires):
			k.leases.Pop()
			k.leave(l.key, l.n)
			lost = append(lost, l)
		default:
			l.due = true
			k.leases.Fix(0)
			k.due = append(k.due, l)
		}
	}
	return lost, now.Add(longest)
}

// renewals removes and returns the due leases that may be renewed now.
func (k *keeper) renewals(most int) (renew []*lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.due) > 0 && k.renewing < most {
		if l := k.due[0]; l.place >= 0 {
			k.renewing++
			renew = append(renew, l)
		}
		k.due[0] = nil
		k.due = k.due[1:]
	}
	return renew
}

// idle reports whether there is nothing to do any more: then the goroutine ends.
func (k *keeper) idle() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.running = k.leases.Len() > 0
	return !k.running
}

// lose tells the holder.
func (l *lease) lose() {
	l.c.counts.lost.Add(1)
	l.cancel(ErrLost)
}

// renew asks the server to let the lease last, and tells the keeper what came of
// it. The lease lasts from when it was asked, at least.
func (l *lease) renew() {
	c, k := l.c, &l.c.keeper
	ctx, cancel := context.WithTimeout(c.ctx, c.cfg.Timeout)
	defer cancel()
	asked := time.Now()
	var got leased
	err := c.exchange(ctx, &call{
		method: http.MethodPost, path: []string{"lease", segment(l.key), segment(l.id)}, query: ttl(l.ttl),
		read: func(body []byte) (err error) {
			got, err = decodeLease(body)
			return err
		},
	})
	refused, _ := err.(*StatusError)
	gone := refused != nil && refused.Status == http.StatusNotFound

	k.mu.Lock()
	defer k.nudge()
	defer k.mu.Unlock()
	k.renewing--
	l.due = false
	if l.place < 0 {
		return
	}
	switch {
	case err == nil:
		l.last(asked, got.TTLMS.duration())
	case gone:
		l.expires = asked // the keeper will see
	default:
		l.renewAt = time.Now().Add(l.ttl / 10)
	}
	k.leases.Fix(l.place)
}

// last says that the lease lasts for a time.
func (l *lease) last(from time.Time, ttl time.Duration) {
	l.ttl = min(ttl, longest)
	l.renewAt, l.expires = from.Add(l.ttl/3), from.Add(l.ttl)
}

// releaseAll gives all leases back, of a Client that is closed.
func (k *keeper) releaseAll(c *Client) {
	k.mu.Lock()
	var all []*lease
	for k.leases.Len() > 0 {
		all = append(all, k.leases.Pop())
	}
	k.mu.Unlock()
	for _, l := range all {
		l.cancel(errClosed)
		c.unlease(l.key, l.id, weir.Ignored)
	}
}

// ttl is the query for how long a lease is to last; the server's own if zero.
func ttl(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return "ttl=" + strconv.FormatInt(max(d.Milliseconds(), 1), 10) + "ms"
}
