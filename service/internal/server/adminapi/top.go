package adminapi

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/operator"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Top is a list of keys, in order.
type Top struct {
	By string `json:"by"` // denied, requests or waiting
	// WindowMS is the time over which the rates are measured; 0 if there are no rates,
	// because no such list was requested recently.
	WindowMS int64 `json:"window_ms"`
	Keys     []Key `json:"keys"`
}

// Key is a key with recent requests.
type Key struct {
	Key   string   `json:"key"`
	Rules []string `json:"rules"` // that count for it
	// Requests since the key is remembered, and per second. A request that waits is
	// counted when its wait is over.
	Allowed          uint64  `json:"allowed"`
	Denied           uint64  `json:"denied"`
	AllowedPerSecond float64 `json:"allowed_per_second"`
	DeniedPerSecond  float64 `json:"denied_per_second"`
	// Refused leases: a lower bound, counted for keys that are refused often.
	LeaseRefused          uint64  `json:"lease_refused"`
	LeaseRefusedPerSecond float64 `json:"lease_refused_per_second"`
	Waiting               int     `json:"waiting"`

	ownWaiting int // Waiting, if a rule queues the key apart from other keys
}

const (
	defaultKeys = 20
	maxKeys     = 1000
	// tracked is the number of keys in each order that have rates.
	tracked = 4096
	// minPause is the least time between two scans of the keys.
	minPause = 500 * time.Millisecond
)

// A tracker scans the remembered keys and computes rates from earlier scans. It
// holds no rules, so that rules that are gone can be collected.
type tracker struct {
	server *server.Server

	mu     sync.Mutex    // guards what follows
	until  time.Time     // no scan before
	window time.Duration // of the rates; 0 if there are none
	keys   []Key         // most requests first; immutable
	recent recent[scan]
}

// A scan has the counters of keys at an instant.
type scan struct {
	at   time.Time
	keys map[string]keyCount
}

type keyCount struct{ allowed, denied, refused uint64 }

// scan returns the keys with the most requests and the most denials, and the time
// over which their rates are measured.
func (t *tracker) scan() ([]Key, time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if now.Before(t.until) {
		return t.keys, t.window
	}
	all, _ := t.server.Top(context.Background(), math.MaxInt) // no error: the server is in this process
	seen := most(all)
	past, ok := t.recent.base(now)
	if t.window = 0; ok {
		t.window = now.Sub(past.at)
	}
	t.keys = make([]Key, len(seen))
	this := scan{now, make(map[string]keyCount, len(seen))}
	for i := range seen {
		t.keys[i] = keyOf(&seen[i], past.keys[seen[i].Key], t.window)
		this.keys[seen[i].Key] = keyCount{seen[i].Allowed, seen[i].Denied, seen[i].LeasesRefused}
	}
	t.recent.add(now, this)
	t.until = now.Add(max(minPause, operator.Rest(time.Since(now))))
	return t.keys, t.window
}

// most returns the keys with the most requests, and of the others the keys with the
// most rejections. seen is ordered by requests.
func most(seen []decider.Seen) []decider.Seen {
	if len(seen) <= tracked {
		return seen
	}
	rest := seen[tracked:]
	slices.SortStableFunc(rest, func(x, y decider.Seen) int { return cmp.Compare(y.Denied+y.LeasesRefused, x.Denied+x.LeasesRefused) })
	return slices.Clip(seen[:min(len(seen), 2*tracked)])
}

func (a *API) serveTop(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	n, ok := operator.Number(w, q.Get("n"), defaultKeys)
	if !ok {
		return
	}
	by := cmp.Or(q.Get("by"), "denied")
	order, ok := orders[by]
	if !ok {
		operator.Fail(w, http.StatusBadRequest, fmt.Sprintf("by = %q: must be denied, requests or waiting", by))
		return
	}
	top := a.top(order)
	top.By, top.Keys = by, top.Keys[:min(n, maxKeys, len(top.Keys))]
	operator.Answer(w, http.StatusOK, top)
}

// orders are the values to sort keys by. Keys with zero are left out. Refused leases count
// as denied.
var orders = map[string]func(*Key) (now float64, ever uint64){
	"denied": func(k *Key) (float64, uint64) {
		return k.DeniedPerSecond + k.LeaseRefusedPerSecond, k.Denied + k.LeaseRefused
	},
	"requests": func(k *Key) (float64, uint64) {
		return k.AllowedPerSecond + k.DeniedPerSecond + k.LeaseRefusedPerSecond, k.Allowed + k.Denied + k.LeaseRefused
	},
	"waiting": func(k *Key) (float64, uint64) { return 0, uint64(k.ownWaiting) },
}

// top returns the keys in an order: by their recent rate, then by their count.
func (a *API) top(order func(*Key) (float64, uint64)) Top {
	seen, window := a.keys.scan()
	top := Top{WindowMS: window.Milliseconds(), Keys: []Key{}}
	for _, k := range seen {
		if _, ever := order(&k); ever > 0 {
			top.Keys = append(top.Keys, k)
		}
	}
	slices.SortStableFunc(top.Keys, func(x, y Key) int {
		xNow, xEver := order(&x)
		yNow, yEver := order(&y)
		return cmp.Or(cmp.Compare(yNow, xNow), cmp.Compare(yEver, xEver))
	})
	return top
}

func keyOf(s *decider.Seen, was keyCount, window time.Duration) Key {
	k := Key{Key: s.Key, Rules: make([]string, len(s.Rules)), Allowed: s.Allowed, Denied: s.Denied, LeaseRefused: s.LeasesRefused, Waiting: s.Waiting}
	k.AllowedPerSecond = operator.Rate(operator.Increase(k.Allowed, was.allowed), window)
	k.DeniedPerSecond = operator.Rate(operator.Increase(k.Denied, was.denied), window)
	k.LeaseRefusedPerSecond = operator.Rate(operator.Increase(k.LeaseRefused, was.refused), window)
	for i, r := range s.Rules {
		k.Rules[i] = r.Name
		if r.Per != string(config.PerRule) {
			k.ownWaiting = s.Waiting
		}
	}
	return k
}
