package adminapi

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/config"
	"github.com/weir-go/weir/server"
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
}

const (
	defaultKeys = 20
	maxKeys     = 1000
	// tracked is how many keys rates are known of.
	tracked = 4096
)

// A tracker remembers how often keys were asked for when somebody last wanted
// to know.
type tracker struct {
	mu     sync.Mutex
	recent recent[tally]
}

// A tally is how often each key was asked for at an instant.
type tally struct {
	at time.Time
	of map[string]tallied
}

type tallied struct{ allowed, denied uint64 }

func (a *API) serveTop(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	n, ok := number(w, q.Get("n"), defaultKeys)
	if !ok {
		return
	}
	n = min(n, maxKeys)
	switch by := cmp.Or(q.Get("by"), "denied"); by {
	case "denied":
		answer(w, http.StatusOK, a.top(n, true))
	case "requests":
		answer(w, http.StatusOK, a.top(n, false))
	case "waiting":
		answer(w, http.StatusOK, a.waiting(n))
	default:
		fail(w, http.StatusBadRequest, fmt.Sprintf("by = %q: must be denied, requests or waiting", by))
	}
}

// top returns the n keys that are denied, or asked for, most of late, and of
// equals those that were most since they are remembered.
func (a *API) top(n int, denied bool) Top {
	t, top := &a.keys[0], Top{By: "requests"}
	if denied {
		t, top.By = &a.keys[1], "denied"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	seen := a.cfg.Server.Top(tracked, denied)
	now := tally{time.Now(), make(map[string]tallied, len(seen))}
	then, ok := t.recent.base(now.at)
	if ok {
		top.WindowMS = now.at.Sub(then.at).Milliseconds()
	}
	top.Keys = make([]Key, len(seen))
	for i := range seen {
		k := keyOf(&seen[i])
		now.of[k.Key] = tallied{k.Allowed, k.Denied}
		if ok {
			was := then.of[k.Key]
			k.AllowedPerSecond = rate(k.Allowed, was.allowed, now.at.Sub(then.at))
			k.DeniedPerSecond = rate(k.Denied, was.denied, now.at.Sub(then.at))
		}
		top.Keys[i] = k
	}
	t.recent.add(now.at, now)
	perSecond := func(k *Key) float64 {
		if denied {
			return k.DeniedPerSecond
		}
		return k.AllowedPerSecond + k.DeniedPerSecond
	}
	slices.SortStableFunc(top.Keys, func(x, y Key) int { return cmp.Compare(perSecond(&y), perSecond(&x)) })
	top.Keys = top.Keys[:min(n, len(top.Keys))]
	return top
}

// waiting returns the n keys with the longest lines of their own.
func (a *API) waiting(n int) Top {
	top := Top{By: "waiting", Keys: []Key{}}
	if a.cfg.Server.Waiting() == 0 {
		return top
	}
	for _, s := range a.cfg.Server.Top(1<<30, false) {
		if s.Waiting > 0 && slices.ContainsFunc(s.Rules, func(r *server.Rule) bool { return r.Per != config.PerRule }) {
			top.Keys = append(top.Keys, keyOf(&s))
		}
	}
	slices.SortStableFunc(top.Keys, func(x, y Key) int { return cmp.Compare(y.Waiting, x.Waiting) })
	top.Keys = top.Keys[:min(n, len(top.Keys))]
	return top
}

func keyOf(s *server.Seen) Key {
	k := Key{Key: s.Key, Rules: []string{}, Allowed: s.Allowed, Denied: s.Denied, Waiting: s.Waiting}
	for _, r := range s.Rules {
		k.Rules = append(k.Rules, r.Name)
	}
	return k
}
