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
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Top is a list of keys, in order.
type Top struct {
	By string `json:"by"` // denied, requests or waiting
	// WindowMS is the time that the rates are over; 0 if nobody asked for such a
	// list of late, and there are none.
	WindowMS int64 `json:"window_ms"`
	Keys     []Key `json:"keys"`
}

// Key is a key that was asked for of late.
type Key struct {
	Key   string   `json:"key"`
	Rules []string `json:"rules"` // that count for it
	// Requests since the key is remembered, and per second. A request that waits is
	// counted when its wait is over.
	Allowed          uint64  `json:"allowed"`
	Denied           uint64  `json:"denied"`
	AllowedPerSecond float64 `json:"allowed_per_second"`
	DeniedPerSecond  float64 `json:"denied_per_second"`
	Waiting          int     `json:"waiting"`

	line int // those of Waiting that stand in a line of the key's own, about
}

const (
	defaultKeys = 20
	maxKeys     = 1000
	// tracked is how many keys of each order rates are known of.
	tracked = 4096
	// still is how long, at least, what was seen is not looked for again.
	still = 500 * time.Millisecond
)

// A tracker knows the keys there are, and how often they had been asked for
// when somebody wanted to know before. It holds no rules: those that are gone
// have to go.
type tracker struct {
	server *server.Server

	mu     sync.Mutex    // guards what follows
	until  time.Time     // nobody looks again
	window time.Duration // that the rates are over; 0 if there are none
	keys   []Key         // asked for most first; not changed
	recent recent[tally]
}

// A tally is how often each key had been asked for at an instant.
type tally struct {
	at time.Time
	of map[string]tallied
}

type tallied struct{ allowed, denied uint64 }

// look returns the keys that are asked for, and denied, most, and the time that
// their rates are over.
func (t *tracker) look() ([]Key, time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if now.Before(t.until) {
		return t.keys, t.window
	}
	all, _ := t.server.Top(context.Background(), math.MaxInt, false) // no error: the server is in this process
	seen := most(all)
	past, ok := t.recent.base(now)
	if t.window = 0; ok {
		t.window = now.Sub(past.at)
	}
	t.keys = make([]Key, len(seen))
	tally := tally{now, make(map[string]tallied, len(seen))}
	for i := range seen {
		t.keys[i] = keyOf(&seen[i], past.of[seen[i].Key], t.window)
		tally.of[seen[i].Key] = tallied{seen[i].Allowed, seen[i].Denied}
	}
	t.recent.add(now, tally)
	t.until = now.Add(max(still, rest(time.Since(now))))
	return t.keys, t.window
}

// most returns the keys that were asked for most, and those that were denied
// most, of those that are in the first order.
func most(seen []decider.Seen) []decider.Seen {
	if len(seen) <= tracked {
		return seen
	}
	rest := seen[tracked:]
	slices.SortStableFunc(rest, func(x, y decider.Seen) int { return cmp.Compare(y.Denied, x.Denied) })
	return slices.Clip(seen[:min(len(seen), 2*tracked)])
}

func (a *API) serveTop(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	n, ok := number(w, q.Get("n"), defaultKeys)
	if !ok {
		return
	}
	by := cmp.Or(q.Get("by"), "denied")
	order, ok := orders[by]
	if !ok {
		fail(w, http.StatusBadRequest, fmt.Sprintf("by = %q: must be denied, requests or waiting", by))
		return
	}
	top := a.top(order)
	top.By, top.Keys = by, top.Keys[:min(n, maxKeys, len(top.Keys))]
	answer(w, http.StatusOK, top)
}

// orders say which keys come first. Who has nothing of it is not listed.
var orders = map[string]func(*Key) (now float64, ever uint64){
	"denied":   func(k *Key) (float64, uint64) { return k.DeniedPerSecond, k.Denied },
	"requests": func(k *Key) (float64, uint64) { return k.AllowedPerSecond + k.DeniedPerSecond, k.Allowed + k.Denied },
	"waiting":  func(k *Key) (float64, uint64) { return 0, uint64(k.line) },
}

// top returns the keys in an order: by what is so of late and, among equals,
// since they are remembered.
func (a *API) top(order func(*Key) (float64, uint64)) Top {
	seen, window := a.keys.look()
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

func keyOf(s *decider.Seen, was tallied, window time.Duration) Key {
	k := Key{Key: s.Key, Rules: make([]string, len(s.Rules)), Allowed: s.Allowed, Denied: s.Denied, Waiting: s.Waiting}
	k.AllowedPerSecond = rate(since(k.Allowed, was.allowed), window)
	k.DeniedPerSecond = rate(since(k.Denied, was.denied), window)
	for i, r := range s.Rules {
		k.Rules[i] = r.Name
		if r.Per != config.PerRule {
			k.line = s.Waiting
		}
	}
	return k
}
