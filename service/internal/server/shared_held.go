package server

import (
	"sync"
	"time"
)

// sharedLeases are the leases that this node has granted.
type sharedLeases struct {
	mu      sync.Mutex // guards what follows
	held    map[string]*sharedLease
	units   map[string]int // of them, by keys of the store
	waiting map[string]int // requests of this node, by keys of the store
}

func newSharedLeases() sharedLeases {
	return sharedLeases{held: map[string]*sharedLease{}, units: map[string]int{}, waiting: map[string]int{}}
}

// add remembers a lease until an instant, unless there are most.
func (h *sharedLeases) add(l *sharedLease, until time.Time, most int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.addLocked(l, until, most)
}

func (h *sharedLeases) addLocked(l *sharedLease, until time.Time, most int) bool {
	if len(h.held) >= most {
		h.expireLocked(time.Now())
	}
	if len(h.held) >= most {
		return false
	}
	l.until = until
	h.held[l.id] = l
	for i := range l.asks {
		h.units[l.asks[i].key] += l.n
		l.asks[i].counts.Hold(l.n)
	}
	return true
}

// find returns a lease of a key that this node remembers; nil if there is none.
func (h *sharedLeases) find(key, id string, now time.Time) *sharedLease {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.held[id]; l != nil && l.key == key && l.until.After(now) {
		return l
	}
	return nil
}

// count returns the number of leases.
func (h *sharedLeases) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.held)
}

// extend lets a lease last until an instant.
func (h *sharedLeases) extend(l *sharedLease, until time.Time, untold bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.until, l.untold = until, untold
}

// isUntold reports whether the store may not know a lease that is held.
func (h *sharedLeases) isUntold(l *sharedLease) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return l.untold
}

// drop forgets a lease.
func (h *sharedLeases) drop(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropLocked(id)
}

func (h *sharedLeases) dropLocked(id string) {
	l := h.held[id]
	if l == nil {
		return
	}
	delete(h.held, id)
	for i := range l.asks {
		key := l.asks[i].key
		l.asks[i].counts.Hold(-l.n)
		if h.units[key] -= l.n; h.units[key] <= 0 {
			delete(h.units, key)
		}
	}
}

// expire forgets the leases that have expired.
func (h *sharedLeases) expire(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expireLocked(now)
}

func (h *sharedLeases) expireLocked(now time.Time) {
	for id, l := range h.held {
		if !l.until.After(now) {
			h.dropLocked(id)
		}
	}
}

// enter counts a request that waits.
func (h *sharedLeases) enter(asks []leaseAsk) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range asks {
		h.waiting[asks[i].key]++
	}
}

func (h *sharedLeases) leave(asks []leaseAsk) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range asks {
		if h.waiting[asks[i].key]--; h.waiting[asks[i].key] <= 0 {
			delete(h.waiting, asks[i].key)
		}
	}
}

func (h *sharedLeases) waitingFor(key string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting[key]
}
