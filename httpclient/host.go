package httpclient

import (
	"container/list"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/internal/adaptive"
	"github.com/weir-go/weir/internal/outgoing"
	"github.com/weir-go/weir/throttle"
)

// A hostKey identifies a host, and the key of the requests to it.
type hostKey struct{ scheme, host, key string }

func (k hostKey) String() string { return k.scheme + "://" + k.host }

// A host is the state of a host and key. The parts that are turned off are nil.
type host struct {
	key    hostKey
	name   string
	queue  *outgoing.Queue
	path   outgoing.Path
	budget budget
	notes  notes

	makeLimit func()       // makes the limiter of path, once; if PerHost panics, each call does
	users     atomic.Int64 // requests in flight; from zero on, it grows under the Transport's lock only
}

// key returns the hostKey of a request, without the default port of the scheme.
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

// newHost returns a fresh state. The zero hostKey is for the hosts beyond MaxHosts,
// which share one state.
func (t *Transport) newHost(k hostKey) *host {
	h := &host{key: hostKey{strings.Clone(k.scheme), strings.Clone(k.host), strings.Clone(k.key)}}
	var err error
	if h.budget.core, err = adaptive.RetryConfig(t.cfg.Retry).NewBudget(); err != nil {
		panic(err) // New has validated it
	}
	h.budget.epoch = t.epoch
	h.path.Queue = func(string) *outgoing.Queue { return h.queue }
	h.makeLimit = sync.OnceFunc(func() {
		if t.cfg.PerHost != nil {
			h.path.Limiter = t.cfg.PerHost(h.name)
		}
	})
	if k != (hostKey{}) {
		h.name = k.String()
		if t.cfg.MaxHold >= 0 {
			h.queue = outgoing.NewQueue(t.pacing, t.chance)
		}
		if t.cfg.Throttle.MaxP >= 0 {
			if h.path.Throttle, err = throttle.New(t.cfg.Throttle); err != nil {
				panic(err) // likewise
			}
		}
	}
	return h
}

// enter returns the state of the host of a request. It is kept as long as it has users.
func (t *Transport) enter(r *http.Request) *host {
	k := t.key(r)
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.hosts.find(k)
	switch {
	case h != nil:
	case t.hosts.place():
		h = t.newHost(k)
		t.hosts.byKey[h.key] = t.hosts.order.PushFront(h)
	default:
		t.counts.shared.Add(1)
		h = t.shared()
	}
	h.users.Add(1)
	return h
}

// hosts is a bounded set of hosts, ordered by use.
type hosts struct {
	most    int
	byKey   map[hostKey]*list.Element
	order   list.List // of *host, the last used first
	evicted uint64
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

// tries bounds the hosts that place examines.
const tries = 8

// place reports whether there is room for another host, and makes it if possible.
func (hs *hosts) place() bool {
	if hs.order.Len() < hs.most {
		return true
	}
	for range tries {
		e := hs.order.Back()
		if h := e.Value.(*host); h.users.Load() == 0 && (h.queue == nil || h.queue.Idle()) {
			hs.order.Remove(e)
			delete(hs.byKey, h.key)
			hs.evicted++
			return true
		}
		hs.order.MoveToFront(e) // so that the next call examines others
	}
	return false
}
