package httpclient

import (
	"container/list"
	"net/http"
	"strings"
	"sync"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/adaptive"
	"github.com/weir-go/weir/internal/outgoing"
	"github.com/weir-go/weir/throttle"
)

// A hostKey is what a host is known by.
type hostKey struct{ scheme, host, key string }

func (k hostKey) String() string { return k.scheme + "://" + k.host }

// A host is what a Transport remembers of one; what is turned off is nil.
type host struct {
	key      hostKey
	name     string
	queue    *outgoing.Queue
	throttle *throttle.Limiter
	limit    weir.Limiter // once made
	budget   budget
	notes    notes
	once     sync.Once // makes limit

	users int // requests in flight; guarded by the Transport's lock
}

// key returns the key of the host that a request goes to. A port that is the
// scheme's own makes no difference.
func (t *Transport) key(r *http.Request) (k hostKey) {
	k.scheme, k.host = r.URL.Scheme, strings.ToLower(r.URL.Host)
	switch k.scheme {
	case "http":
		k.host = strings.TrimSuffix(k.host, ":80")
	case "https":
		k.host = strings.TrimSuffix(k.host, ":443")
	}
	if t.cfg.Key != nil {
		k.key = t.cfg.Key(r)
	}
	return k
}

// newHost returns the state of a host of which nothing is known. For the one
// that all share that have no state of their own, k is zero.
func (t *Transport) newHost(k hostKey) *host {
	h := &host{key: hostKey{strings.Clone(k.scheme), strings.Clone(k.host), strings.Clone(k.key)}}
	var err error
	if h.budget.core, err = adaptive.RetryConfig(t.cfg.Retry).NewBudget(); err != nil {
		panic(err) // New has validated it
	}
	h.budget.epoch = t.epoch
	if k != (hostKey{}) {
		h.name = k.String()
		if t.cfg.MaxHold >= 0 {
			h.queue = outgoing.NewQueue(t.pacing, t.chance)
		}
		if t.cfg.Throttle.MaxP >= 0 {
			if h.throttle, err = throttle.New(t.cfg.Throttle); err != nil {
				panic(err) // likewise
			}
		}
	}
	return h
}

// makeLimit makes the limit of a host, if nobody has, or waits until it is made.
func (t *Transport) makeLimit(h *host) {
	if t.cfg.PerHost != nil {
		h.once.Do(func() { h.limit = t.cfg.PerHost(h.name) })
	}
}

// enter returns the state of the host that a request goes to, which stays until
// as many leave as have entered.
func (t *Transport) enter(r *http.Request) *host {
	k := t.key(r)
	h, place := t.find(k)
	if h == nil && place {
		h = t.add(t.newHost(k))
	}
	if h == nil {
		t.counts.shared.Add(1)
		h = t.shared()
		t.stay(h)
	}
	return h
}

// find enters the host of a key if there is one; if not, it makes place for it.
func (t *Transport) find(k hostKey) (h *host, place bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h = t.hosts.find(k); h != nil {
		h.users++
		return h, false
	}
	return nil, t.hosts.place()
}

// add enters a fresh host, unless somebody else was faster; nil if there is no
// place any more.
func (t *Transport) add(fresh *host) *host {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.hosts.find(fresh.key)
	if h == nil && t.hosts.place() {
		h = fresh
		t.hosts.byKey[h.key] = t.hosts.order.PushFront(h)
	}
	if h != nil {
		h.users++
	}
	return h
}

// stay is to enter once more, by who has entered.
func (t *Transport) stay(h *host) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h.users++
}

func (t *Transport) leave(h *host) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h.users--
}

// hosts are the states of hosts, at most so many.
type hosts struct {
	most    int
	byKey   map[hostKey]*list.Element
	order   list.List // of *host: the last used first
	evicted uint64
}

func (hs *hosts) init(most int) {
	hs.most, hs.byKey = most, map[hostKey]*list.Element{}
}

// find returns the host of a key, or nil.
func (hs *hosts) find(k hostKey) *host {
	e := hs.byKey[k]
	if e == nil {
		return nil
	}
	hs.order.MoveToFront(e)
	return e.Value.(*host)
}

// tries is of how many hosts place asks whether they can go.
const tries = 8

// place makes place for one more, if it can.
func (hs *hosts) place() bool {
	if hs.order.Len() < hs.most {
		return true
	}
	for range tries {
		e := hs.order.Back()
		if h := e.Value.(*host); h.users == 0 && (h.queue == nil || h.queue.Idle()) {
			hs.order.Remove(e)
			delete(hs.byKey, h.key)
			hs.evicted++
			return true
		}
		hs.order.MoveToFront(e) // so that the next newcomer asks others
	}
	return false
}
