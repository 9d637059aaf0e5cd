package limits

import (
	"sync"
	"time"
)

// A relief lets single forwards leave an adaptive limit that forwards without an answer hold as
// a whole. If the origin serves other requests then, these overtake all that are stuck. If it
// serves none, the whole origin hangs, and each further forward leaves after twice the time.
type relief struct {
	mu       sync.Mutex    // guards the fields below
	at       time.Duration // of the last one, or when the pool was last seen to serve
	wait     time.Duration // until the next one; 0 before the first call
	served   uint64        // by the pool until at
	rejected uint64        // by the pool until at
}

// relieve reports whether one forward that waits longer than ordinary work takes is to leave
// the limit, because the pool serves no request although others arrive.
func (l *pool) relieve(now time.Duration) bool {
	if l.fixed.Load() {
		return false
	}
	r, st, usual := &l.relief, l.State(), l.usualDuration()
	served, rejected := l.served.Load(), l.rejected.Load()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.wait == 0, served != r.served:
		r.at, r.wait, r.served, r.rejected = now, usual, served, rejected
		return false
	case st.Inflight < st.Limit, st.Waiting == 0 && rejected == r.rejected:
		return false
	case st.Inflight > st.Limit: // it makes room for no other
		return true
	case now-r.at < r.wait:
		return false
	}
	r.at, r.wait, r.rejected = now, 2*r.wait, rejected
	return true
}
