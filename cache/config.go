package cache

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/weir-go/weir"
)

const (
	// DefaultEntries is the bound of a Config that has none.
	DefaultEntries = 10_000
	// MaxEntries is the most that Config.Entries may be.
	MaxEntries = 1<<31 - 1
	// MaxBytes is the most that Config.Bytes may be.
	MaxBytes = 1 << 48
	// DefaultRefreshes is how many refreshes run at once in the background.
	DefaultRefreshes = 16
)

// Config is what a Cache is made of. The zero value is usable: DefaultEntries
// entries that never expire, errors are not kept, nothing limits the fills.
//
// The functions are called by several goroutines at once, and must not call
// the Cache.
type Config[K comparable, V any] struct {
	// Entries bounds the number of entries, up to MaxEntries. If zero, and
	// Bytes is zero too, DefaultEntries.
	Entries int
	// Bytes bounds the memory, in bytes, up to MaxBytes: what Cost says of
	// each entry, and what the Cache needs for an entry itself. It stands in
	// the place of Entries, and needs Cost. A value that alone is beyond the
	// bound is returned, but not kept.
	Bytes int64
	// Cost is the size of what a key and a value refer to, in bytes: for a
	// string its length, for a slice its capacity, both as the allocator rounds
	// them up. Negative is zero; math.MaxInt64 keeps a value out. What an error
	// holds that is kept (see ErrorTTL) is not counted. With Bytes only.
	Cost func(key K, value V) int64

	// TTL is how long a value is fresh, from the end of its fill. If zero, for
	// ever.
	TTL time.Duration
	// TTLOf is the TTL of one value. If nil, or if it returns zero, TTL; if it
	// returns less than zero, the value is not kept.
	TTLOf func(key K, value V) time.Duration
	// Jitter takes up to this share off each TTL, at random, so that what was
	// filled together does not expire together; in [0, 1). If zero, none.
	Jitter float64
	// Early is the β of probabilistic early refresh: a fresh value is fetched
	// anew before it expires, with a probability that grows towards the end,
	// and the earlier the longer a fill, with its wait for the limiters, takes.
	// Without Background, one caller waits for it. If zero, never; 1 is the usual
	// value, more is earlier; >= 0.
	Early float64

	// ErrorTTL is how long the error of a fill is kept, and returned at once to
	// whoever asks, or an old value in its place; meanwhile no other fill is
	// tried. If zero, errors are not kept. Rejections and cancellations never
	// are, nor is a deadline that passed before the fill began.
	ErrorTTL time.Duration
	// KeepError says which other errors are kept. If nil, all.
	KeepError func(error) bool

	// Stale is how long beyond its TTL a value is returned while one caller
	// fetches it anew. If zero, everybody waits for the new value. A caller who
	// fetches it, and leaves before the fill has ended, ends it: where callers
	// are less patient than fills take, set Background.
	Stale time.Duration
	// StaleIfError is how long beyond its TTL a value is returned in place of
	// an error of its fill that is no rejection.
	StaleIfError time.Duration
	// StaleIfRejected is how long beyond its TTL a value is returned when its
	// fill is rejected: by a limiter below, or one that the fill itself asked.
	// If a deadline has passed, the caller's or Timeout, the longer of this and
	// StaleIfError counts: a limiter may have let the fill wait until then.
	StaleIfRejected time.Duration

	// Background makes refreshes (those of Early and Stale) run on goroutines
	// of the Cache, so that no caller waits for them. Such a Cache must be
	// closed. If false, the caller who finds that a refresh is due waits for
	// it, while the others get the old value.
	Background bool
	// Refreshes bounds the refreshes that run so, each with up to two
	// goroutines. If zero, DefaultRefreshes. Beyond it, the old value is
	// returned, and a later caller tries. One for which nobody else waits is
	// given up a minute after its old value has become too old.
	Refreshes int

	// Timeout ends the context of each fill, the wait for limiters included. If
	// zero, it ends when all who wait have left. A fill that does not heed its
	// context is waited for.
	Timeout time.Duration
	// PerKey, if not nil, returns a limiter of fills of a key: of a
	// keyed.Limiter, func(key K) weir.Limiter { return lim.For(key) }. It may
	// return nil, for no limit.
	PerKey func(key K) weir.Limiter
	// Limiter, if not nil, is asked before each fill, after PerKey. One with a
	// queue makes fills wait, and all who wait for them; a rate.Limiter made
	// with a negative rate.Config.Queue refuses at once. It sees the class of
	// the one caller whose context the fill has, and all who wait share its
	// rejection.
	Limiter weir.Limiter
}

// Validate returns an error that names the first field that makes no sense.
func (c Config[K, V]) Validate() error {
	for _, d := range []struct {
		name string
		d    time.Duration
	}{
		{"TTL", c.TTL}, {"ErrorTTL", c.ErrorTTL}, {"Stale", c.Stale}, {"StaleIfError", c.StaleIfError},
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
	case c.Refreshes < 0:
		return fmt.Errorf("cache: Refreshes = %d: must be >= 0", c.Refreshes)
	case c.TTL == 0 && c.TTLOf == nil && (c.Stale > 0 || c.StaleIfError > 0 || c.StaleIfRejected > 0 || c.Jitter > 0 || c.Early > 0):
		return errors.New("cache: Stale, StaleIfError, StaleIfRejected, Jitter or Early is set: needs TTL or TTLOf")
	}
	return nil
}

// keeps reports whether the error of a fill may be kept.
func (c *Config[K, V]) keeps(err error) bool {
	return c.ErrorTTL > 0 && !errors.Is(err, weir.ErrRejected) && !errors.Is(err, context.Canceled) &&
		(c.KeepError == nil || c.KeepError(err))
}
