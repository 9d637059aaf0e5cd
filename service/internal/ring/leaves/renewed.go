package leaves

import (
	"strings"
	"sync"
	"time"
)

const (
	// leastTTL is the least time to live of an answer to a leaf.
	leastTTL = 100 * time.Millisecond
	// maxRenewed bounds the leaves of which a node remembers their exchanges. The assignments of
	// others are not renewed while a member cannot be asked.
	maxRenewed = 20_000
)

// Renewals remember when members have last renewed the assignments of leaves. The zero value is
// usable.
type Renewals struct {
	mu     sync.Mutex // guards what follows
	byLeaf map[string]*renewal
}

// A renewal has the instants of one leaf by the names of members, and the last of all.
type renewal struct {
	at   map[string]time.Duration
	last time.Duration
}

// note notes the answers to an exchange. It returns for how long the assignments of all owners are
// valid, and whether all of them have answered. ttl is the time to live of an assignment.
func (n *Renewals) note(e *Exchange, owners []string, ttl time.Duration) (left time.Duration, whole bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.enter(e.x.Leaf, e.Began, ttl)
	left, whole = ttl, true
	for _, name := range owners {
		_, answered := e.answers[name]
		if answered || e.x.Held == 0 { // without assignments, there is nothing that may end
			l.at[name] = e.Began
		}
		whole = whole && answered
		at, known := l.at[name]
		if !known {
			at = e.Began - ttl
		}
		left = min(left, at+ttl-e.Began)
	}
	return left, whole
}

// enter returns the renewal of a leaf. If there is no room, it is one that is not kept.
func (n *Renewals) enter(name string, now, ttl time.Duration) *renewal {
	l := n.byLeaf[name]
	if l == nil {
		l = &renewal{at: map[string]time.Duration{}}
		if n.byLeaf == nil {
			n.byLeaf = map[string]*renewal{}
		}
		if len(n.byLeaf) >= maxRenewed {
			n.sweep(now, ttl)
		}
		if len(n.byLeaf) < maxRenewed {
			n.byLeaf[strings.Clone(name)] = l
		}
	}
	for member, at := range l.at {
		if at+ttl < now {
			delete(l.at, member)
		}
	}
	l.last = now
	return l
}

// sweep forgets leaves without an assignment that lasts.
func (n *Renewals) sweep(now, ttl time.Duration) {
	for name, l := range n.byLeaf {
		if l.last+ttl < now {
			delete(n.byLeaf, name)
		}
	}
}
