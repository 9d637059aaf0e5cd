package shape_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/shape"
)

var (
	errBurst = errors.New("bucket: more than the burst")
	errLate  = errors.New("bucket: later than the deadline")
)

// A bucket is a token bucket in whole nanoseconds, so that instants are exact.
// A token comes every per.
type bucket struct {
	per time.Duration

	mu    sync.Mutex
	burst int
	empty time.Time // when it was empty, had it only been filled since
	taken int
}

func newBucket(rate, burst int) *bucket {
	return &bucket{per: time.Second / time.Duration(rate), burst: burst}
}

func (b *bucket) Burst() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.burst
}

func (b *bucket) SetBurst(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.burst = n
}

func (b *bucket) Taken() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken
}

func (b *bucket) emptyLocked(t time.Time) time.Time {
	if full := t.Add(-time.Duration(b.burst) * b.per); b.empty.Before(full) {
		return full
	}
	return b.empty
}

func (b *bucket) TokensAt(t time.Time) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return float64(t.Sub(b.emptyLocked(t))) / float64(b.per)
}

func (b *bucket) WaitN(ctx context.Context, n int) error {
	d, err := b.take(ctx, n)
	if err != nil || d <= 0 {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		b.mu.Lock()
		defer b.mu.Unlock()
		b.empty = b.empty.Add(-time.Duration(n) * b.per)
		b.taken -= n
		return ctx.Err()
	}
}

func (b *bucket) take(ctx context.Context, n int) (time.Duration, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.burst {
		return 0, errBurst
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	now := time.Now()
	empty := b.emptyLocked(now).Add(time.Duration(n) * b.per)
	if at, ok := ctx.Deadline(); ok && at.Before(empty) {
		return 0, errLate
	}
	b.empty = empty
	b.taken += n
	return empty.Sub(now), nil
}

// bubbleBegan is when every bubble begins.
var bubbleBegan = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// mute hides that a bucket can tell its tokens.
type mute struct{ shape.Limiter }

// A limiter is whatever a test makes of it.
type limiter struct {
	burst func() int
	wait  func(ctx context.Context, n int) error
}

func (l limiter) Burst() int                             { return l.burst() }
func (l limiter) WaitN(ctx context.Context, n int) error { return l.wait(ctx, n) }

// A log records the bytes that have passed, and when.
type log struct {
	began time.Time
	mu    sync.Mutex
	at    []time.Duration
	n     []int
}

func newLog() *log { return &log{began: time.Now()} }

func (l *log) add(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = append(l.at, time.Since(l.began))
	l.n = append(l.n, n)
}

// String is "10@0s 3×5@50ms": ten bytes at once, then three times five, every
// 50 ms.
func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var s []string
	for i := 0; i < len(l.n); {
		var before time.Duration
		if i > 0 {
			before = l.at[i-1]
		}
		gap, j := l.at[i]-before, i
		for before := before; j < len(l.n) && l.n[j] == l.n[i] && l.at[j]-before == gap; j++ {
			before = l.at[j]
		}
		times := ""
		if j-i > 1 {
			times = fmt.Sprint(j-i, "×")
		}
		s = append(s, fmt.Sprintf("%s%d@%v", times, l.n[i], gap))
		i = j
	}
	return strings.Join(s, " ")
}

// bounded fails if in any time more has passed than burst + rate·time.
func (l *log) bounded(t *testing.T, b *bucket) {
	t.Helper()
	for i := range l.n {
		sum := 0
		for j := i; j < len(l.n); j++ {
			sum += l.n[j]
			most := time.Duration(b.burst)*b.per + l.at[j] - l.at[i]
			if time.Duration(sum)*b.per > most {
				t.Fatalf("%v: %d bytes from %v to %v", l, sum, l.at[i], l.at[j])
			}
		}
	}
}

// Write logs.
func (l *log) Write(p []byte) (int, error) {
	l.add(len(p))
	return len(p), nil
}

// Reading logs what r gives.
func (l *log) reading(r io.Reader) io.Reader { return logged{l, r} }

type logged struct {
	log *log
	r   io.Reader
}

func (l logged) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if n > 0 {
		l.log.add(n)
	}
	return n, err
}

// content is n bytes, no two neighbourhoods of which are alike.
func content(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*i>>3 + i)
	}
	return b
}

// plain hides what a reader can do besides Read.
type plain struct{ io.Reader }

// copyBy copies by at most buf bytes, without any shortcut.
func copyBy(t *testing.T, dst io.Writer, src io.Reader, buf int) {
	t.Helper()
	if _, err := io.CopyBuffer(struct{ io.Writer }{dst}, plain{src}, make([]byte, buf)); err != nil {
		t.Error(err)
	}
}

func same(t *testing.T, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes: want the %d that were sent", len(got), len(want))
	}
}

// waitForever tells that it was asked, and waits for its context.
func waitForever(asked *sync.WaitGroup) func(context.Context, int) error {
	return func(ctx context.Context, _ int) error {
		asked.Done()
		<-ctx.Done()
		return ctx.Err()
	}
}
