//go:build !race

package cache_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/cache"
)

// always is the end of what is kept for ever.
const always = time.Duration(1) << 62

// A kept is the model's entry of a key: a value or an error, and its end; the
// error of a later fill, and its end.
type kept struct {
	value        int
	err, fault   error
	until, retry time.Duration
}

// A model is a cache without a bound, for one caller at a time.
type model struct {
	cfg  config
	kept map[string]*kept
}

// ttl returns the TTL of a value; a negative one is not kept.
func (m *model) ttl(value int) time.Duration {
	ttl := m.cfg.TTL
	if m.cfg.TTLOf != nil {
		if own := m.cfg.TTLOf("", value, nil); own != 0 {
			ttl = own
		}
	}
	return ttl
}

func (m *model) set(now time.Duration, key string, value int) {
	switch ttl := m.ttl(value); {
	case ttl < 0:
		delete(m.kept, key)
	case ttl == 0:
		m.kept[key] = &kept{value: value, until: always}
	default:
		m.kept[key] = &kept{value: value, until: now + ttl}
	}
}

// replaces says whether an old value may be returned in place of err.
func (m *model) replaces(k *kept, now time.Duration, err error) bool {
	beyond := m.cfg.StaleIfError
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		beyond = max(beyond, m.cfg.StaleIfRejected)
	case errors.Is(err, weir.ErrRejected):
		beyond = m.cfg.StaleIfRejected
	}
	return k != nil && k.err == nil && now < k.until+max(beyond, m.cfg.Stale)
}

// useful says whether an old value may yet be returned.
func (m *model) useful(k *kept, now time.Duration) bool {
	return k != nil && k.err == nil && now < k.until+max(m.cfg.Stale, m.cfg.StaleIfError, m.cfg.StaleIfRejected)
}

// alive counts what may yet be returned.
func (m *model) alive(now time.Duration) (n int) {
	for _, k := range m.kept {
		if now < k.until || m.useful(k, now) || now < k.retry {
			n++
		}
	}
	return n
}

// keeps says whether an error is kept.
func (m *model) keeps(err error) bool {
	return m.cfg.ErrorTTL > 0 && !errors.Is(err, weir.ErrRejected) && !errors.Is(err, context.Canceled)
}

// look is a lookup without a fill: it says whether there is none to come.
func (m *model) look(now time.Duration, key string) (want string, done bool) {
	k := m.kept[key]
	switch {
	case k == nil:
	case now < k.until:
		return answer(k.value, cache.Hit, k.err), true
	case now < k.retry && m.replaces(k, now, k.fault):
		return answer(k.value, cache.Stale, nil), true
	case now < k.retry:
		return answer(0, cache.Hit, k.fault), true
	}
	return "", false
}

// filled returns the answer of a lookup after its fill. gone means that the caller
// has left first, with err; had, that the old value was still kept.
func (m *model) filled(now time.Duration, key string, value int, err error, gone, had bool) (want string) {
	k := m.kept[key]
	switch {
	case err == nil:
		m.set(now, key, value)
		return answer(value, cache.Filled, nil)
	case had && m.replaces(k, now, err):
		if !gone && m.keeps(err) {
			k.retry, k.fault = now+m.cfg.ErrorTTL, err
		}
		return answer(k.value, cache.Stale, nil)
	case !gone && m.keeps(err) && m.useful(k, now) && !m.replaces(k, now, err): // if it is not evicted
		k.retry, k.fault = now+m.cfg.ErrorTTL, err
	case !gone && m.keeps(err):
		m.kept[key] = &kept{err: err, until: now + m.cfg.ErrorTTL}
	}
	return answer(0, cache.Failed, err)
}

// bytes are read one after the other, and are 0 after the last.
type bytes []byte

func (b *bytes) next(below int) int {
	if len(*b) == 0 {
		return 0
	}
	n := int((*b)[0])
	*b = (*b)[1:]
	return n % below
}

// play applies the operations in data to a cache and to a model. With room for
// all, every answer equals the model's. With little room it may be a fill instead.
func play(t *testing.T, data bytes, room int) {
	durations := []time.Duration{0, time.Second, 5 * time.Second, 30 * time.Second}
	pick := func() time.Duration { return durations[data.next(4)] }
	cfg := config{Entries: room, TTL: pick(), Refresh: cache.Refresh{ErrorTTL: pick(), Stale: pick(), StaleIfError: pick(), StaleIfRejected: pick()}}
	if data.next(2) == 1 {
		cfg.TTLOf = func(_ string, v int, _ error) time.Duration {
			return []time.Duration{0, -1, time.Second, 10 * time.Second}[v%4]
		}
	}
	c, err := cache.New(cfg)
	if err != nil { // nothing is stale that does not expire
		cfg.Stale, cfg.StaleIfError, cfg.StaleIfRejected = 0, 0, 0
		c, err = cache.New(cfg)
	}
	if err != nil {
		t.Fatal(err)
	}
	m := &model{cfg: cfg, kept: map[string]*kept{}}
	epoch := time.Now()
	value := 0
	var told []string
	tell := func(format string, args ...any) {
		told = append(told, fmt.Sprintf("%v: ", time.Since(epoch))+fmt.Sprintf(format, args...))
	}
	fail := func(format string, args ...any) {
		t.Helper()
		for _, line := range told[max(len(told)-20, 0):] {
			t.Log(line)
		}
		cfg.TTLOf = nil
		t.Fatalf("%+v: "+format, append([]any{cfg}, args...)...)
	}
	for len(data) > 0 {
		op, key := data.next(10), string(rune('a'+data.next(8)))
		value++
		now := time.Since(epoch)
		switch op {
		case 0:
			tell("Set %s %d", key, value)
			c.Set(key, value)
			m.set(now, key, value)
		case 1:
			tell("Delete %s", key)
			c.Delete(key)
			delete(m.kept, key)
		case 2:
			if data.next(4) == 0 {
				tell("Purge")
				c.Purge()
				clear(m.kept)
			}
		case 3:
			v, ok := c.Peek(key)
			k := m.kept[key]
			fresh := k != nil && k.err == nil && now < k.until
			if ok && (!fresh || v != k.value) || !ok && (v != 0 || fresh && room > 8) {
				fail("Peek(%s) = %d, %v: model: %+v", key, v, ok, k)
			}
		case 4:
			time.Sleep(time.Duration(data.next(256)) * 100 * time.Millisecond)
		default:
			took := time.Duration(data.next(20)) * 50 * time.Millisecond
			outcome := []error{nil, nil, nil, errDown, weir.Reject(weir.OverRate, 0), fmt.Errorf("all: %w", context.Canceled)}[data.next(6)]
			patience := 2 * time.Second
			if data.next(4) == 0 {
				patience = 499 * time.Millisecond
			}
			ran := false
			fill := func(ctx context.Context, _ string) (int, error) {
				ran = true
				select {
				case <-time.After(took):
				case <-ctx.Done():
					return 0, errDown
				}
				if outcome != nil {
					return 0, outcome
				}
				return value, nil
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			got := answer(c.Lookup(ctx, key, fill))
			synctest.Wait() // a fill that was left ends
			cancel()
			tell("Get %s: %s (fill: %v; %d, %v, after %v of %v)", key, got, ran, value, outcome, took, patience)
			want, done := m.look(now, key)
			if done && ran && room <= 8 {
				done = false // it was evicted
				m.kept[key].until = min(m.kept[key].until, now)
			}
			if !done {
				now += min(took, patience)
				gone := took > patience
				if gone {
					outcome = context.DeadlineExceeded
				}
				had := room > 8 || got[:5] == "stale"
				want = m.filled(now, key, value, outcome, gone, had)
			}
			if got != want || done == ran {
				fail("%s: got %s (fill: %v), want %s (fill: %v)", key, got, ran, want, !done)
			}
			if time.Since(epoch) != now {
				fail("it is %v: want %v", time.Since(epoch), now)
			}
		}
		if n, least := c.Stats().Entries, m.alive(time.Since(epoch)); n > room || room > 8 && (n < least || n > len(m.kept)) {
			fail("%d entries: model: from %d to %d, bound %d", n, least, len(m.kept), room)
		}
	}
	for key, v := range c.All() {
		if k := m.kept[key]; k == nil || k.err != nil || k.value != v || time.Since(epoch) >= k.until {
			fail("All: %s: %d: model: %+v", key, v, k)
		}
	}
}

// The answers of a cache follow its rules after any history.
func TestModel(t *testing.T) {
	for seed := range uint64(100) {
		chance := rand.New(rand.NewPCG(seed, 1))
		data := make(bytes, 1000)
		for i := range data {
			data[i] = byte(chance.Uint32())
		}
		for _, room := range []int{1000, 1, 3} {
			if !t.Run(fmt.Sprint(seed, room), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { play(t, data, room) })
			}) {
				return
			}
		}
	}
}

func FuzzCache(f *testing.F) {
	chance := rand.New(rand.NewPCG(1, 1))
	for range 10 {
		data := make([]byte, 100)
		for i := range data {
			data[i] = byte(chance.Uint32())
		}
		f.Add(data, uint8(0))
		f.Add(data, uint8(3))
	}
	f.Fuzz(func(t *testing.T, data []byte, small uint8) {
		room := int(small % 8)
		if room == 0 {
			room = 1000
		}
		synctest.Test(t, func(t *testing.T) { play(t, data, room) })
	})
}
