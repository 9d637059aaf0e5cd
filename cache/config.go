package cache

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/weir-go/weir"
)

const (
	// DefaultEntries is the bound if Config has none.
	DefaultEntries = 10_000
	// MaxEntries is the largest Config.Entries.
	MaxEntries = 1<<31 - 1
	// MaxBytes is the largest Config.Bytes.
	MaxBytes = 1 << 48
)

// Config configures a Cache. With the zero value it holds DefaultEntries
// entries that never expire, and fills are neither limited nor are their errors
// kept.
//
// The functions are called by several goroutines at once. All but OnEvict must
// not call the Cache.
type Config[K comparable, V any] struct {
	// Entries is the largest number of entries, up to MaxEntries. If zero, and
	// Bytes is zero too, DefaultEntries.
	Entries int
	// Bytes, in place of Entries, is the largest memory in bytes, up to MaxBytes: the
	// Cost of each entry, and what the Cache itself needs for it. It needs Cost. A
	// value that is larger than Bytes by itself is returned, but not kept. If zero,
	// Entries is the bound.
	Bytes int64
	// Cost returns the size of what a key and a value refer to, in bytes: of a
	// string its length, of a slice its capacity, both as the allocator rounds
	// them up. It is needed for Bytes, and must be nil without. A negative cost is
	// zero; a value that costs math.MaxInt64 is not kept. The content of a kept error
	// (see ErrorTTL) is not counted.
	Cost func(key K, value V) int64

	// TTL is how long a value is fresh, from the end of its fill. If zero, it
	// does not expire.
	TTL time.Duration
	// TTLOf returns the TTL of one value or, if ErrorTTL is set and err is not nil,
	// of the error of a fill. If it is nil or returns zero, TTL or ErrorTTL counts;
	// if it returns a negative duration, the value or the error is not kept.
	TTLOf func(key K, value V, err error) time.Duration
	// NoStale reports values that must not be returned after their TTL, whatever
	// Refresh allows for others. If nil, none.
	NoStale func(key K, value V) bool
	// Sweep is how often the Cache removes the values that have expired and
	// may not be returned any more, not even in place of an error. It costs a
	// timer and, each time, a pass over the entries: 14 ns each if there are ten
	// thousand, 90 ns if there are a million (BenchmarkSweep). If zero, expired
	// values stay while no new ones come: each new value looks at about four
	// entries, and removes those.
	Sweep time.Duration
	// OnEvict receives each value that leaves the Cache, and why. It is called
	// after the change, outside the lock, by the goroutine that caused it. If nil,
	// nothing is called.
	OnEvict func(key K, value V, why Cause)

	// PerKey returns a limiter of the fills of a key, for example
	// func(key K) weir.Limiter { return lim.For(key) } of a keyed.Limiter. It is
	// asked before Limiter. If it is nil or returns nil, only Limiter counts.
	PerKey func(key K) weir.Limiter

	Refresh
}

// Refresh configures how values are filled and refreshed, and which old values
// are returned meanwhile. Config and httpcache.Config embed it.
type Refresh struct {
	// Jitter takes up to this share off each TTL, at random, so that values
	// filled together do not expire together; in [0, 1). If zero, none.
	Jitter float64
	// Early is the β of probabilistic early refresh: a fresh value is fetched
	// again before it expires, with a probability that grows towards the end,
	// and sooner if a fill takes long. Without Background, one caller waits for
	// it. The usual value is 1; more is earlier. If zero, never.
	Early float64

	// ErrorTTL is how long the error of a fill is kept. Meanwhile there is no
	// other fill, and callers get the error, or an old value in its place. If
	// zero, errors are not kept. Rejections and cancellations never are, nor is
	// a deadline that passed before the fill began.
	ErrorTTL time.Duration

	// Stale is how long beyond its TTL a value is returned while one caller
	// fetches a new one. If zero, all callers wait for the new value. If the
	// caller that fetches it leaves before the fill has ended, the fill ends
	// too: set Background if callers are less patient than fills take.
	Stale time.Duration
	// StaleIfError is how long beyond its TTL a value is returned in place of
	// an error of its fill that is not a rejection. If zero, only Stale counts.
	StaleIfError time.Duration
	// StaleIfRejected is how long beyond its TTL a value is returned when its
	// fill is rejected, by a limiter of the Cache or of the fill itself. After
	// a missed deadline, the longer of this and StaleIfError counts, because
	// the fill may have waited for a limiter until then. If zero, only Stale counts.
	StaleIfRejected time.Duration

	// Background is how many refreshes of Early and Stale may run at a time in
	// the background, with up to two goroutines each, so that no caller waits
	// for them; 16 is enough for most. Beyond it, the old value is returned, and
	// a later caller tries. A refresh that no caller waits for is cancelled a
	// minute after its old value may not be returned any more. A Cache with
	// Background must be closed. If zero, the caller that finds a refresh due
	// waits for it, and others get the old value.
	Background int
	// Timeout bounds each fill, including its wait for limiters. If zero, a
	// fill's context ends when all callers that wait for it have left. A fill
	// that ignores its context is waited for.
	Timeout time.Duration
	// Limiter is asked before each fill. If it has a queue, the callers wait with
	// their fill; a rate.Limiter with a negative rate.Config.Queue rejects at
	// once. It sees the class of the caller that began the fill, and all callers
	// that wait share its rejection. If nil, fills are not limited.
	Limiter weir.Limiter
}

// validate returns an error that names the first field with a bad value.
func (c *Config[K, V]) validate() error {
	for _, d := range []struct {
		name string
		d    time.Duration
	}{
		{"TTL", c.TTL}, {"Sweep", c.Sweep}, {"ErrorTTL", c.ErrorTTL}, {"Stale", c.Stale}, {"StaleIfError", c.StaleIfError},
		{"StaleIfRejected", c.StaleIfRejected}, {"Timeout", c.Timeout},
	} {
		if d.d < 0 {
			return fmt.Errorf("cache: %s = %v: must be >= 0", d.name, d.d)
		}
	}
	switch {
	case c.Entries < 0 || c.Entries > MaxEntries:
		return fmt.Errorf("cache: Entries = %d: must be from 0 to %d", c.Entries, MaxEntries)
	case c.Bytes < 0 || c.Bytes > MaxBytes:
		return fmt.Errorf("cache: Bytes = %d: must be from 0 to %d", c.Bytes, int64(MaxBytes))
	case c.Bytes > 0 && c.Entries > 0:
		return errors.New("cache: Entries and Bytes: only one may be set")
	case c.Bytes > 0 && c.Cost == nil:
		return errors.New("cache: Bytes is set: needs Cost")
	case c.Bytes == 0 && c.Cost != nil:
		return errors.New("cache: Cost is set: needs Bytes")
	case !(c.Jitter >= 0 && c.Jitter < 1):
		return fmt.Errorf("cache: Jitter = %v: must be in [0, 1)", c.Jitter)
	case !(c.Early >= 0) || math.IsInf(c.Early, 0):
		return fmt.Errorf("cache: Early = %v: must be finite and >= 0", c.Early)
	case c.Background < 0:
		return fmt.Errorf("cache: Background = %d: must be >= 0", c.Background)
	case c.TTL == 0 && c.TTLOf == nil && (c.Stale > 0 || c.StaleIfError > 0 || c.StaleIfRejected > 0 || c.Jitter > 0 || c.Early > 0):
		return errors.New("cache: Stale, StaleIfError, StaleIfRejected, Jitter or Early is set: needs TTL or TTLOf")
	}
	return nil
}
