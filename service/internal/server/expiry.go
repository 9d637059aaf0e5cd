package server

import (
	"crypto/rand"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/heap"
)

// A leaseID is 128 bits at random.
type leaseID [16]byte

func (id leaseID) String() string { return hex.EncodeToString(id[:]) }

// leases are all that are held. One timer, that of the lease that runs out next,
// ends them all.
type leases struct {
	server *Server
	full   atomic.Uint64 // refused because of Config.MaxLeases
	gates  atomic.Uint64 // made so far

	mu    sync.Mutex // guards what follows
	of    map[leaseID]*lease
	due   *heap.Heap[*lease] // by when they run out
	token uint64
	timer *time.Timer // nil until there is a lease
}

// tokenBits is how many leases a second there may be for ever until tokens are
// ahead of the clock that they begin with.
const tokenBits = 20

// expireAtOnce bounds the leases that are ended without letting others in
// between.
const expireAtOnce = 256

func (ls *leases) init(s *Server) {
	ls.server, ls.of = s, map[leaseID]*lease{}
	ls.due = heap.New(func(a, b *lease) bool { return a.until < b.until }).Track(func(l *lease, at int) { l.at = at })
	ls.token = uint64(time.Now().Unix()) << tokenBits
}

// add makes a lease one that is held, unless there are too many.
func (ls *leases) add(l *lease, now, ttl time.Duration) bool {
	rand.Read(l.id[:]) // never fails
	l.since = now
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if len(ls.of) >= ls.server.cfg.MaxLeases {
		ls.full.Add(1)
		return false
	}
	ls.token++
	l.token = ls.token
	for i := range l.held {
		l.held[i].door.gates.granted.Add(1)
	}
	ls.keepLocked(l, now+ttl)
	return true
}

func (ls *leases) keepLocked(l *lease, until time.Duration) {
	l.until = until
	ls.of[l.id] = l
	ls.due.Push(l)
	if l.at == 0 {
		ls.setLocked()
	}
}

// renew makes a lease last for longer, or less long, and returns for how long.
func (ls *leases) renew(key, id string, ttl time.Duration) (*lease, time.Duration, bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.server.now()
	l := ls.findLocked(key, id, now)
	if l == nil {
		return nil, 0, false
	}
	ttl = l.lasts(ttl)
	l.until = now + ttl
	ls.due.Fix(l.at)
	if l.at == 0 { // a timer that fires too early is set again
		ls.setLocked()
	}
	return l, ttl, true
}

// remove takes a lease out that is held; nil if there is none.
func (ls *leases) remove(key, id string) *lease {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.findLocked(key, id, ls.server.now())
	if l != nil {
		ls.due.Remove(l.at)
		delete(ls.of, l.id)
	}
	return l
}

// findLocked finds a lease of the key that has not run out.
func (ls *leases) findLocked(key, id string, now time.Duration) *lease {
	var of leaseID
	if n, err := hex.Decode(of[:], []byte(id[:min(len(id), 2*len(of))])); err != nil || n != len(of) || len(id) != 2*n {
		return nil
	}
	if l := ls.of[of]; l != nil && l.key == key && l.until > now {
		return l
	}
	return nil
}

// expire ends the leases that have run out. Each is taken out under the lock, as
// remove does it, and so its units come back once.
func (ls *leases) expire() {
	for {
		ended, more := ls.overdue()
		now := ls.server.now()
		for _, l := range ended {
			for i := range l.held {
				l.held[i].door.gates.expired.Add(1)
			}
			l.giveBack(weir.Ignored, now-l.since)
		}
		if !more {
			return
		}
	}
}

// overdue takes out leases that have run out, of which there may be more.
// Otherwise it sets the timer.
func (ls *leases) overdue() (ended []*lease, more bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.server.now()
	for ls.due.Len() > 0 && ls.due.Min().until <= now {
		if len(ended) == expireAtOnce {
			return ended, true
		}
		l := ls.due.Pop()
		delete(ls.of, l.id)
		ended = append(ended, l)
	}
	ls.setLocked()
	return ended, false
}

// setLocked sets the timer to the next expiry.
func (ls *leases) setLocked() {
	if ls.due.Len() == 0 {
		return
	}
	in := max(ls.due.Min().until-ls.server.now(), 0)
	if ls.timer == nil {
		ls.timer = time.AfterFunc(in, ls.expire)
	} else {
		ls.timer.Reset(in)
	}
}

// count returns how many are held, and how many were refused because of
// Config.MaxLeases.
func (ls *leases) count() (held int, refused uint64) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return len(ls.of), ls.full.Load()
}
