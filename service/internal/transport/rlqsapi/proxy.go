package rlqsapi

import (
	"context"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc/peer"

	"github.com/weir-go/weir/internal/leaf"
)

// A host is an address with proxies.
type host struct {
	leaves  []*proxy
	buckets int // of the leaves
}

// A proxy is a leaf, as far as its address tells it from others.
type proxy struct {
	host    *host
	name    string
	domain  string             // of the stream
	tenant  string             // decider.LeafExchange.Tenant
	look    time.Duration      // how long until changes of its shares are looked for again
	taken   bool               // by a stream; guarded by API.mu
	buckets map[string]*bucket // by key; guarded by API.mu
}

// enter returns the leaf of a stream: a leaf of its address and tenant without a stream, or a new one.
func (a *API) enter(ctx context.Context, tenant string) *proxy {
	address := ""
	if p, ok := peer.FromContext(ctx); ok {
		address = p.Addr.String()
		if h, _, err := net.SplitHostPort(address); err == nil {
			address = h
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.clean(time.Now())
	h := a.hosts[address]
	if h == nil {
		h = &host{}
		a.hosts[address] = h
	}
	for _, l := range h.leaves {
		if !l.taken && l.tenant == tenant {
			l.taken, l.domain = true, ""
			return l
		}
	}
	a.leaves++
	l := &proxy{host: h, name: address + "#" + a.id + "-" + strconv.FormatUint(a.leaves, 10), tenant: tenant, taken: true, buckets: map[string]*bucket{}}
	h.leaves = append(h.leaves, l)
	return l
}

func (a *API) leave(l *proxy) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l.taken = false
}

// bucket returns the bucket of a key, of which there is a report. It is nil if there is no
// room.
func (a *API) bucket(l *proxy, key string, now time.Time) *bucket {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := l.buckets[key]
	if b == nil {
		if a.full(l.host) {
			a.clean(now)
		}
		if a.full(l.host) {
			return nil
		}
		b = &bucket{until: now.Add(cleanEvery)}
		l.buckets[key] = b
		l.host.buckets++
		a.buckets++
	}
	if now.After(b.until) {
		b.forget()
	}
	return b
}

// live returns the bucket of a key that the proxy has reported since an instant, and of which it
// has something that is known; else nil.
func (a *API) live(l *proxy, key string, now, since time.Time) *bucket {
	a.mu.Lock()
	defer a.mu.Unlock()
	if b := l.buckets[key]; b != nil && !b.unsure && !now.After(b.until) && !b.reported.Before(since) {
		return b
	}
	return nil
}

// renew sets the end of what a proxy has of buckets.
func (a *API) renew(buckets []*bucket, got []leaf.Assignment, until time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, b := range buckets {
		if got[i].Error == "" {
			b.until = until
		}
	}
}

// full reports whether a host has no room for another bucket.
func (a *API) full(h *host) bool {
	return a.buckets >= a.cfg.MaxBuckets || h.buckets >= (a.cfg.MaxBuckets+1)/2
}

// clean removes the buckets and leaves without an assignment, once in cleanEvery.
func (a *API) clean(now time.Time) {
	if now.Sub(a.cleaned) < cleanEvery {
		return
	}
	a.cleaned = now
	for address, h := range a.hosts {
		for _, l := range h.leaves {
			n := len(l.buckets)
			maps.DeleteFunc(l.buckets, func(_ string, b *bucket) bool { return now.After(b.until) })
			h.buckets -= n - len(l.buckets)
			a.buckets -= n - len(l.buckets)
		}
		h.leaves = slices.DeleteFunc(h.leaves, func(l *proxy) bool { return !l.taken && len(l.buckets) == 0 })
		if len(h.leaves) == 0 {
			delete(a.hosts, address)
		}
	}
}

// cleanEvery bounds what clean costs: it goes through all buckets.
const cleanEvery = time.Second
