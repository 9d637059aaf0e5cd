//go:build system

package redislimit_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/internal/redistest"
)

var leaseScript = redis.NewScript(redisscript.Leases)

// runLease runs the script of leases for some keys.
func runLease(t testing.TB, rdb redis.Scripter, op string, l *redisscript.Lease, keys ...string) redisscript.LeaseReply {
	t.Helper()
	numbers, err := leaseScript.Run(context.Background(), rdb, keys, l.Args(op)...).Int64Slice()
	testrig.Must(t, err)
	reply, err := redisscript.ReadLeaseReply(numbers, len(keys))
	testrig.Must(t, err)
	return reply
}

// A leaseModel has the state of leases in memory.
type leaseModel struct {
	expires map[unit]time.Duration // of what is held
	waiting map[unit]*waiter
	token   map[string]uint64 // the last one of each key
}

type unit struct{ key, id string }

type waiter struct {
	n              int
	arrived, until time.Duration
}

func (m *leaseModel) held(key string, n map[string]int) (held int) {
	for u := range m.expires {
		if u.key == key {
			held += n[u.id]
		}
	}
	return held
}

// queue returns the callers that wait for a key, in the order of arrival.
func (m *leaseModel) queue(key string) (ids []string) {
	for u := range m.waiting {
		if u.key == key {
			ids = append(ids, u.id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(cmp.Compare(m.waiting[unit{key, a}].arrived, m.waiting[unit{key, b}].arrived), cmp.Compare(a, b))
	})
	return ids
}

// forget drops what has ended by now.
func (m *leaseModel) forget(now time.Duration) {
	for u, at := range m.expires {
		if at <= now {
			delete(m.expires, u)
		}
	}
	for u, w := range m.waiting {
		if w.until <= now {
			delete(m.waiting, u)
		}
	}
}

// run returns the reply that an operation must have.
func (m *leaseModel) run(now time.Duration, op string, l *redisscript.Lease, keys []string, n map[string]int) redisscript.LeaseReply {
	m.forget(now)
	want := redisscript.LeaseReply{Time: now, Granted: true}
	denied, arrived := map[string]bool{}, cmp.Or(l.Arrived, now)
	for i, key := range keys {
		me := unit{key, l.ID}
		if op == redisscript.GiveLease {
			ended := 0
			if _, mine := m.expires[me]; mine {
				ended = l.N
			}
			delete(m.expires, me)
			delete(m.waiting, me)
			want.Held = append(want.Held, int64(ended))
			continue
		}
		want.Held = append(want.Held, int64(m.held(key, n)))
		if _, mine := m.expires[me]; mine || l.Limits[i] == redisscript.NoLimit {
			continue
		}
		before := m.earlier(key, l.ID, arrived)
		denied[key] = op == redisscript.KeepLease || op == redisscript.TakeLease && int(want.Held[i])+before+l.N > l.Limits[i]
		if denied[key] {
			want.Granted, want.Wait = false, max(want.Wait, m.first(key, now))
		}
	}
	switch {
	case op == redisscript.GiveLease || op == redisscript.LookLease:
	case !want.Granted && op == redisscript.TakeLease && l.Patience > 0:
		m.wait(&want, l, keys, denied)
	case want.Granted:
		m.grant(now, op, l, keys, &want)
	}
	return want
}

// earlier returns the units for which callers wait that came before.
func (m *leaseModel) earlier(key, id string, arrived time.Duration) (units int) {
	for _, other := range m.queue(key) {
		w := m.waiting[unit{key, other}]
		if other == id || w.arrived > arrived {
			break
		}
		units += w.n
	}
	return units
}

// first returns the time until the first lease expires.
func (m *leaseModel) first(key string, now time.Duration) (wait time.Duration) {
	for u, at := range m.expires {
		if u.key == key && (wait == 0 || at-now < wait) {
			wait = at - now
		}
	}
	return wait
}

// wait has a caller wait for the keys that deny it.
func (m *leaseModel) wait(want *redisscript.LeaseReply, l *redisscript.Lease, keys []string, denied map[string]bool) {
	for _, key := range keys {
		me := unit{key, l.ID}
		switch w, waits := m.waiting[me]; {
		case !waits && !denied[key]:
			continue
		case waits:
			w.until = want.Time + l.Patience
			w.arrived = cmp.Or(l.Arrived, want.Time)
		case len(m.queue(key)) >= l.MaxWaiting:
			want.QueueFull = true
			continue
		default:
			m.waiting[me] = &waiter{l.N, cmp.Or(l.Arrived, want.Time), want.Time + l.Patience}
		}
		want.Place = max(want.Place, slices.Index(m.queue(key), l.ID))
	}
}

// grant counts a lease, and sets its token.
func (m *leaseModel) grant(now time.Duration, op string, l *redisscript.Lease, keys []string, want *redisscript.LeaseReply) {
	fresh, token := op == redisscript.TakeLease, uint64(now/time.Microsecond)
	for i, key := range keys {
		me := unit{key, l.ID}
		if _, mine := m.expires[me]; !mine {
			want.Held[i] += int64(l.N)
			fresh = true
		}
		m.expires[me] = now + l.TTL
		token = max(token, m.token[key]+1)
		if l.Arrived > 0 {
			delete(m.waiting, me)
		}
	}
	if fresh {
		want.Token = token
		for _, key := range keys {
			m.token[key] = token
		}
	}
}

// Random operations on leases of several keys have the replies of a model: all or nothing,
// with limits of their own, in the order of arrival.
func TestLeaseConformance(t *testing.T) {
	for _, engine := range redistest.Engines {
		server := redistest.Start(t, engine)
		for trace := range 6 {
			t.Run(fmt.Sprintf("%s/%d", engine, trace), func(t *testing.T) {
				t.Parallel()
				leaseTrace(t, client(t, server), fmt.Sprint(trace))
			})
		}
	}
}

func leaseTrace(t *testing.T, rdb redis.Scripter, name string) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 1))
	m := leaseModel{expires: map[unit]time.Duration{}, waiting: map[unit]*waiter{}, token: map[string]uint64{}}
	n, arrived := map[string]int{}, map[string]time.Duration{}
	for id := range 10 {
		n[fmt.Sprint(id)] = 1 + chance.IntN(3)
	}
	all, limits := []string{name + "a", name + "b", name + "c"}, []int{2, 4, 6}
	const long = time.Hour
	for step := range 500 {
		if chance.IntN(8) == 0 {
			time.Sleep(time.Duration(chance.IntN(3000)) * time.Microsecond)
		}
		id := fmt.Sprint(chance.IntN(10))
		l := redisscript.Lease{ID: id, N: n[id], TTL: long, MaxWaiting: 4, Arrived: arrived[id]}
		if chance.IntN(4) == 0 {
			l.TTL = 5 * time.Millisecond
		}
		if chance.IntN(4) > 0 {
			l.Patience = []time.Duration{time.Millisecond, long}[chance.IntN(2)]
		}
		var keys []string
		for i, at := range chance.Perm(3)[:1+chance.IntN(3)] {
			keys, l.Limits = append(keys, all[at]), append(l.Limits, limits[at])
			if chance.IntN(8) == 0 {
				l.Limits[i] = redisscript.NoLimit
			}
		}
		ops := []string{redisscript.TakeLease, redisscript.TakeLease, redisscript.TakeLease, redisscript.GiveLease, redisscript.GiveLease, redisscript.KeepLease, redisscript.ForceLease, redisscript.LookLease}
		op := ops[chance.IntN(len(ops))]
		if op == redisscript.GiveLease {
			keys, l.Limits, arrived[id] = all, limits, 0
		}
		got := runLease(t, rdb, op, &l, keys...)
		if want := m.run(got.Time, op, &l, keys, n); !reflect.DeepEqual(got, want) {
			t.Fatalf("step %d: %s %+v of %v:\n%+v, want\n%+v", step, op, l, keys, got, want)
		}
		switch {
		case got.Granted:
			arrived[id] = 0
		case op == redisscript.TakeLease && l.Patience > 0 && l.Arrived == 0:
			arrived[id] = got.Time
		}
	}
}

// A key on which only callers wait expires too.
func TestLeaseWaitExpires(t *testing.T) {
	rdb, ctx := client(t, redistest.Start(t, "redis-server")), context.Background()
	l := redisscript.Lease{Limits: []int{1}, TTL: time.Second, ID: "a", N: 2, Patience: time.Hour, MaxWaiting: 1}
	if r := runLease(t, rdb, redisscript.TakeLease, &l, "key"); r.Granted {
		t.Error("two units of one")
	}
	if ttl := rdb.PTTL(ctx, "key").Val(); ttl < time.Hour/2 || ttl > time.Hour+time.Second {
		t.Errorf("the key lasts for %v, want an hour", ttl)
	}
}

// Fencing tokens grow over all keys of a lease, also if the clock was ahead.
func TestLeaseTokens(t *testing.T) {
	rdb, ctx := client(t, redistest.Start(t, "redis-server")), context.Background()
	ahead := time.Now().Add(time.Hour).UnixMicro()
	rdb.ZAdd(ctx, "b", redis.Z{Score: float64(1<<52 + ahead), Member: ""})
	l := redisscript.Lease{Limits: []int{9, 9}, TTL: time.Second, ID: "x", N: 1}
	for i := range 3 {
		l.ID = fmt.Sprint(i)
		keys := [][]string{{"a", "b"}, {"b", "c"}, {"c", "a"}}[i]
		if r := runLease(t, rdb, redisscript.TakeLease, &l, keys...); r.Token != uint64(ahead)+1+uint64(i) {
			t.Errorf("lease %d has the token %d more than the last, want 1 more", i, int64(r.Token)-ahead-int64(i))
		}
	}
}
