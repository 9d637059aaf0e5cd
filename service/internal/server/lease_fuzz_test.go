package server_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A modelLease is a lease in the model.
type modelLease struct {
	id, key string
	n       int
	until   time.Duration
}

// ledger is that book: a list, looked through for every question.
type ledger struct {
	leases []modelLease
	each   int // limit of a key
	all    int // limit of all keys
}

func (m *ledger) units(now time.Duration, key string) (n int) {
	m.leases = slices.DeleteFunc(m.leases, func(l modelLease) bool { return l.until <= now })
	for _, l := range m.leases {
		if key == "" || l.key == key {
			n += l.n
		}
	}
	return n
}

func (m *ledger) fits(now time.Duration, key string, n int) bool {
	return m.units(now, key)+n <= m.each && m.units(now, "")+n <= m.all && len(m.leases) < modelMost
}

// modelMost is Config.MaxLeases.
const modelMost = 8

// FuzzLeases runs the operations of the input, and compares the Server with the model
// after each step.
func FuzzLeases(f *testing.F) {
	f.Add([]byte{0x00, 0x05, 0x0a, 0x43, 0x81, 0xc1, 0x00, 0x40, 0xc3})
	f.Add([]byte{0x00, 0x01, 0x02, 0x03, 0xe1, 0x00, 0x01, 0xc7, 0x80, 0x81, 0xff, 0x00, 0x04})
	f.Add([]byte{0x1f, 0x1f, 0x5f, 0x9f, 0xdf, 0xff, 0x3f})
	f.Fuzz(func(t *testing.T, ops []byte) {
		ops = ops[:min(len(ops), 100)]
		bubble(t, func(t *testing.T) {
			m := &ledger{each: 4, all: 7}
			cfg := underAll(m.rules()...)
			cfg.MaxLeases = modelMost
			d := newDesk(t, cfg)
			start := time.Now()
			for _, op := range ops {
				m.step(d, op&0x3f, int(op>>6), start)
				synctest.Wait()
				m.compare(d, time.Since(start))
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			m.compare(d, time.Since(start))
			check(t, "limits in use", d.Stats().Rules[0].Leases.Keys, 0)
		})
	})
}

func (m *ledger) rules() []config.Rule {
	all := leased("all", config.Concurrency{Limit: config.Limit(m.all), TTL: 4 * time.Second})
	all.Per = config.PerRule
	return []config.Rule{leased("each", config.Concurrency{Limit: config.Limit(m.each), TTL: 10 * time.Second}), all}
}

func (m *ledger) step(d desk, arg byte, what int, start time.Time) {
	now := time.Since(start)
	ttl := time.Duration(arg>>3) * time.Second // up to 7 s; 0 is 4 s
	lasts := ttl
	if ttl == 0 {
		lasts = 4 * time.Second
	}
	switch what {
	case 0:
		key, n := fmt.Sprint(arg&1), 1+int(arg>>1)&3
		l, err := d.Acquire(d.t.Context(), decider.LeaseRequest{Key: key, N: n, TTL: ttl})
		check(d.t, fmt.Sprintf("%d units of %q: granted", n, key), err == nil, m.fits(now, key, n))
		if err == nil {
			m.leases = append(m.leases, modelLease{l.ID, key, n, now + lasts})
		} else if !errors.Is(err, weir.ErrRejected) {
			d.t.Error(err)
		}
	case 1:
		m.units(now, "")
		l, i := m.pick(arg & 7)
		_, err := d.Renew(l.key, l.id, ttl)
		check(d.t, "renewed", err == nil, i >= 0)
		if i >= 0 {
			m.leases[i].until = now + lasts
		}
	case 2:
		m.units(now, "")
		l, i := m.pick(arg & 7)
		check(d.t, "returned", d.Return(l.key, l.id, weir.Success) == nil, i >= 0)
		if i >= 0 {
			m.leases = slices.Delete(m.leases, i, i+1)
		}
	case 3:
		if arg&1 == 0 {
			time.Sleep(time.Duration(arg>>1) * time.Second / 4)
			return
		}
		m.each, m.all = 1+int(arg>>1)&3, 1+int(arg>>3)
		must(d.t, d.Reload(&config.Rules{Apply: config.All, Rules: m.rules()}))
	}
}

// pick returns a lease, or one that there is not.
func (m *ledger) pick(at byte) (modelLease, int) {
	if int(at) < len(m.leases) {
		return m.leases[at], int(at)
	}
	return modelLease{key: "0", id: "0123456789abcdef0123456789abcdef"}, -1
}

func (m *ledger) compare(d desk, now time.Duration) {
	d.t.Helper()
	for _, key := range []string{"0", "1"} {
		check(d.t, "of key "+key, d.inflight(key, 0), decider.LeaseState{Limit: m.each, Inflight: m.units(now, key)})
	}
	units := m.units(now, "")
	check(d.t, "of all keys", d.inflight("0", 1), decider.LeaseState{Limit: m.all, Inflight: units})
	st := d.Stats()
	check(d.t, "leases", st.Leases, len(m.leases))
	for i, r := range st.Rules {
		l := r.Leases
		check(d.t, "units held", l.Held, units)
		check(d.t, "granted, and not ended", int(l.Granted-l.Returned-l.Expired), len(m.leases))
		if wide := []int{m.each, m.all}[i]; l.Limit != wide*l.Keys {
			d.t.Errorf("%d keys of %d have a limit of %d together", l.Keys, wide, l.Limit)
		}
	}
}
