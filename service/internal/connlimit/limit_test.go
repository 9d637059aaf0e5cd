package connlimit

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
)

// One client gets half of all places, two get a third each, and so on; a client that
// holds none gets one.
func TestLimitIsFair(t *testing.T) {
	for clients, each := range map[int]int64{1: 60, 2: 40, 3: 30, 5: 20, 11: 10} {
		l := NewLimit(Waiting, 120)
		all := make([]Client, clients)
		for more := true; more; {
			more = false
			for i := range all {
				more = l.Enter(&all[i], 1) || more
			}
		}
		for i := range all {
			if n := all[i].held[Waiting].Load(); n != each {
				t.Errorf("client %d of %d: %d places: want %d", i, clients, n, each)
			}
		}
		var late Client
		if !l.Enter(&late, 1) {
			t.Errorf("one more than %d clients gets no place", clients)
		}
		if places, used, refused := l.Count(); places != 120 || used != int64(clients)*each+1 || refused == 0 {
			t.Errorf("%d of %d places, %d refused", used, places, refused)
		}
	}
}

// There are never more places taken than there are, and all come back.
func TestLimitHolds(t *testing.T) {
	l := NewLimit(Bodies, 1000)
	clients := make([]*Client, 4)
	for i := range clients[1:] { // the first is unknown
		clients[i+1] = new(Client)
	}
	var wg sync.WaitGroup
	for seed := range uint64(8) {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(seed, 0))
			for range 10_000 {
				c, n := clients[random.IntN(len(clients))], 1+random.Int64N(200)
				if !l.Enter(c, n) {
					continue
				}
				held := int64(0)
				for _, c := range clients[1:] {
					held += c.held[Bodies].Load()
				}
				if held-8*200 > 1000 { // the others may be about to leave
					t.Errorf("%d places taken", held)
				}
				l.Leave(c, n)
			}
		})
	}
	wg.Wait()
	if _, used, _ := l.Count(); used != 0 {
		t.Errorf("%d places taken in the end", used)
	}
	if NewLimit(Waiting, 0).Enter(nil, 1) != true || ClientOf(context.Background()) != nil {
		t.Error("the least Limit, or a request without a Client")
	}
}

// Clients behind a trusted proxy share the places by their own addresses, and are forgotten
// when they hold none.
func TestClientsBehindAProxy(t *testing.T) {
	l := NewLimit(LongLived, 12)
	one, two := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	n := int64(0)
	for l.EnterFrom(one, 1) {
		n++
	}
	if n != 6 || !l.EnterFrom(two, 1) || !l.EnterFrom(netip.MustParseAddr("2001:db8::2"), 1) || len(l.behind) != 2 {
		t.Errorf("%d of 12 places for the first, %d clients", n, len(l.behind))
	}
	for range n {
		l.LeaveFrom(one, 1)
	}
	l.LeaveFrom(two, 1)
	l.LeaveFrom(two, 1)
	if _, used, _ := l.Count(); used != 0 || len(l.behind) != 0 {
		t.Errorf("%d places, %d clients in the end", used, len(l.behind))
	}
}
