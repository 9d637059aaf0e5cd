package shape_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/shape"
)

// A pace describes a transfer of size bytes by calls with at most buf bytes.
type pace struct {
	rule        string
	rate, burst int
	mute        bool
	size, buf   int
	want        string
}

func paces() []pace {
	return []pace{
		{rule: "a burst, and then evenly", rate: 100, burst: 10, size: 1000, buf: 4096,
			want: "10@0s 198×5@50ms"},
		{rule: "a burst after the other, if the limiter does not tell", rate: 100, burst: 10, mute: true, size: 1000, buf: 4096,
			want: "10@0s 99×10@100ms"},
		{rule: "byte for byte", rate: 10, burst: 1, size: 5, buf: 1,
			want: "1@0s 4×1@100ms"},
		{rule: "byte for byte, if that is what is asked for", rate: 10, burst: 3, size: 6, buf: 1,
			want: "3×1@0s 3×1@100ms"},
		{rule: "never less than a byte", rate: 2, burst: 2, size: 5, buf: 4096,
			want: "2@0s 3×1@500ms"},
		{rule: "a large burst is not waited for", rate: 10, burst: 4096, size: 4100, buf: 4100,
			want: "4096@0s 4×1@100ms"},
		{rule: "nor one of minutes", rate: 1000, burst: 100000, size: 100120, buf: 1 << 20,
			want: "100000@0s 2×50@50ms 20@20ms"},
		{rule: "a last piece costs what it is", rate: 100, burst: 10, size: 13, buf: 4096,
			want: "10@0s 3@30ms"},
		{rule: "nothing takes no time", rate: 100, burst: 10, size: 0, buf: 4096, want: ""},
		{rule: "fast", rate: 1e9, burst: 1e5, size: 101e5, buf: 1e7,
			want: "100000@0s 100×100000@100µs"},
	}
}

func (p pace) limiter() (shape.Limiter, *bucket) {
	b := newBucket(p.rate, p.burst)
	if p.mute {
		return mute{b}, b
	}
	return b, b
}

func TestReader(t *testing.T) {
	for _, tt := range paces() {
		t.Run(tt.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lim, b := tt.limiter()
				sent := content(tt.size)
				log := newLog()
				r := log.reading(shape.NewReader(t.Context(), bytes.NewReader(sent), lim))
				var got bytes.Buffer
				copyBy(t, &got, r, tt.buf)
				same(t, got.Bytes(), sent)
				if log.String() != tt.want {
					t.Errorf("%v: want %v", log, tt.want)
				}
				if b.Taken() != tt.size {
					t.Errorf("paid for %d of %d", b.Taken(), tt.size)
				}
			})
		})
	}
}

// What the source does not give costs nothing, and what it gives with an error
// costs as much.
func TestReaderPaysForWhatItReads(t *testing.T) {
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"half of it":  iotest.HalfReader,
		"one byte":    iotest.OneByteReader,
		"with EOF":    iotest.DataErrReader,
		"all of it":   func(r io.Reader) io.Reader { return plain{r} },
		"then an err": func(r io.Reader) io.Reader { return io.MultiReader(r, iotest.ErrReader(errSource)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBucket(100, 10)
				began := time.Now()
				got, err := io.ReadAll(shape.NewReader(t.Context(), wrap(bytes.NewReader(content(110))), b))
				same(t, got, content(110))
				if err != nil && err != errSource {
					t.Error(err)
				}
				if d := time.Since(began); d != time.Second || b.Taken() != 110 {
					t.Errorf("%v, paid for %d: want 1s, 110", d, b.Taken())
				}
			})
		})
	}
}

var errSource = errors.New("the source's own")

// A slow source fills the bucket, and a slow program, too.
func TestReaderCatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(100, 10)
		log := newLog()
		r := log.reading(shape.NewReader(t.Context(), bytes.NewReader(content(40)), b))
		p := make([]byte, 20)
		for _, pause := range []time.Duration{0, 0, 50 * time.Millisecond, time.Hour, 0} {
			time.Sleep(pause)
			if _, err := r.Read(p); err != nil {
				t.Error(err)
			}
		}
		// After a pause of 50 ms five are there, and five more are waited for.
		if want := "10@0s 5@50ms 10@100ms 10@1h0m0s 5@50ms"; log.String() != want {
			t.Errorf("%v: want %v", log, want)
		}
	})
}

// All readers of a limiter get their shares, and none starves.
func TestReadersShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const readers = 7
		b := newBucket(1000, 100)
		all := newLog()
		ctx, cancel := context.WithTimeout(t.Context(), 70*time.Second)
		defer cancel()
		var counts [readers]int
		var wg sync.WaitGroup
		for i := range counts {
			wg.Go(func() {
				r := all.reading(shape.NewReader(withoutDeadline{ctx}, plain{endless{}}, b))
				p := make([]byte, 1000)
				for {
					n, err := r.Read(p)
					counts[i] += n
					if err != nil {
						return
					}
				}
			})
		}
		wg.Wait()
		for i, n := range counts {
			if n < 9800 || n > 10200 {
				t.Errorf("reader %d got %d of 70100: want a seventh", i, n)
			}
		}
		// The last chunks were cut short: they were handed over unpaid.
		all.at, all.n = all.at[:len(all.at)-readers], all.n[:len(all.n)-readers]
		all.bounded(t, b)
	})
}

// withoutDeadline hides a context's deadline from a limiter, which would fail
// before it has passed.
type withoutDeadline struct{ context.Context }

func (withoutDeadline) Deadline() (at time.Time, ok bool) { return }

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestReaderIsNeverAhead(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			b := newBucket(1+rng.IntN(2000), 1+rng.IntN(300))
			var lim shape.Limiter = b
			if rng.IntN(3) == 0 {
				lim = mute{b}
			}
			log := newLog()
			r := log.reading(shape.NewReader(t.Context(), endless{}, lim))
			for range 200 {
				if _, err := r.Read(make([]byte, rng.IntN(400))); err != nil {
					t.Error(err)
				}
				if rng.IntN(3) == 0 {
					time.Sleep(time.Duration(rng.ExpFloat64() * float64(time.Second)))
				}
			}
			log.bounded(t, b)
		})
	}
}

func TestReaderContext(t *testing.T) {
	type call struct {
		n   int
		err error
		at  time.Duration
	}
	for _, tt := range []struct {
		rule string
		ctx  func(context.Context) (context.Context, context.CancelFunc)
		want []call
	}{
		{"one that has ended reads nothing", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx, cancel
		}, []call{{0, context.Canceled, 0}}},
		{"one that ends in a wait takes no byte with it", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(30*time.Millisecond, func() { cancel(errors.New("the caller's own business")) })
			return ctx, func() { cancel(nil) }
		}, []call{{10, nil, 0}, {5, nil, 30 * time.Millisecond}, {0, context.Canceled, 30 * time.Millisecond}}},
		{"one that ends in the next wait leaves its chunk unpaid", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(50*time.Millisecond+1, cancel)
			return ctx, cancel
		}, []call{{10, nil, 0}, {5, nil, 50 * time.Millisecond}, {5, nil, 50*time.Millisecond + 1}, {0, context.Canceled, 50*time.Millisecond + 1}}},
		{"a deadline that the limiter foresees is the limiter's business", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 70*time.Millisecond)
		}, []call{{10, nil, 0}, {5, nil, 50 * time.Millisecond}, {5, nil, 50 * time.Millisecond}, {0, errLate, 50 * time.Millisecond}}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := tt.ctx(t.Context())
				defer cancel()
				b := newBucket(100, 10)
				src := bytes.NewReader(content(100))
				r := shape.NewReader(ctx, src, b)
				began, p, total := time.Now(), make([]byte, 100), 0
				for _, want := range tt.want {
					n, err := r.Read(p)
					if got := (call{n, err, time.Since(began)}); got != want {
						t.Errorf("%+v: want %+v", got, want)
					}
					same(t, p[:n], content(100)[total:total+n])
					total += n
				}
				if src.Len() != 100-total {
					t.Errorf("read %d: handed over %d", 100-src.Len(), total)
				}
				time.Sleep(2 * time.Second)
			})
		})
	}
}

// Without a limiter only the context counts.
func TestReaderWithoutLimiter(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := shape.NewReader(ctx, plain{endless{}}, nil)
	if n, err := r.Read(make([]byte, 1e6)); n != 1e6 || err != nil {
		t.Error(n, err)
	}
	cancel()
	if n, err := r.Read(make([]byte, 1e6)); n != 0 || err != context.Canceled {
		t.Error(n, err)
	}
}

func TestReaderContract(t *testing.T) {
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"all":  func(r io.Reader) io.Reader { return r },
		"half": iotest.HalfReader,
		"one":  iotest.OneByteReader,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := shape.NewReader(t.Context(), wrap(bytes.NewReader(content(5000))), newBucket(1000, 100))
				if err := iotest.TestReader(r, content(5000)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A source's error that passes is passed on, and the next Read goes on.
func TestReaderAfterError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(100, 10)
		r := shape.NewReader(t.Context(), iotest.TimeoutReader(bytes.NewReader(content(25))), b)
		p := make([]byte, 100)
		for i, want := range []struct {
			n   int
			err error
		}{{10, nil}, {0, iotest.ErrTimeout}, {5, nil}, {5, nil}, {5, nil}, {0, io.EOF}} {
			if n, err := r.Read(p); n != want.n || err != want.err {
				t.Errorf("read %d: %d, %v: want %+v", i, n, err, want)
			}
		}
	})
}

// A reader that breaks its contract does not affect others.
func TestReaderOfNonsense(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(100, 10)
		src := nonsense(-5)
		r := shape.NewReader(t.Context(), &src, b)
		if n, err := r.Read(make([]byte, 20)); n != -5 || err != nil || b.Taken() != 0 {
			t.Errorf("%d, %v, paid for %d: want what it said, and to pay nothing", n, err, b.Taken())
		}
		src = 10
		if n, err := r.Read(make([]byte, 20)); n != 10 || err != nil || b.Taken() != 10 {
			t.Errorf("%d, %v, paid for %d: want to pay for what came", n, err, b.Taken())
		}
	})
}

// An empty Read is the source's business.
func TestReaderOfNothing(t *testing.T) {
	r := shape.NewReader(t.Context(), bytes.NewReader(content(5)), newBucket(100, 0))
	if n, err := r.Read(nil); n != 0 || err != nil {
		t.Errorf("%d, %v: want no error", n, err)
	}
}

type nonsense int

func (n nonsense) Read([]byte) (int, error)  { return int(n), nil }
func (n nonsense) Write([]byte) (int, error) { return int(n), nil }

// No shortcut of package io bypasses the pace.
func TestNoShortcuts(t *testing.T) {
	for _, v := range []any{shape.NewReader(context.Background(), nil, nil), shape.NewWriter(context.Background(), nil, nil), shape.NewConn(nil, nil, nil)} {
		if _, ok := v.(io.ReaderFrom); ok {
			t.Errorf("%T is an io.ReaderFrom", v)
		}
		if _, ok := v.(io.WriterTo); ok {
			t.Errorf("%T is an io.WriterTo", v)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var got bytes.Buffer // an io.ReaderFrom
		if n, err := got.ReadFrom(shape.NewReader(t.Context(), bytes.NewReader(content(110)), newBucket(100, 10))); n != 110 || err != nil {
			t.Error(n, err)
		}
		if n, err := bytes.NewReader(content(110)).WriteTo(shape.NewWriter(t.Context(), &got, newBucket(100, 10))); n != 110 || err != nil {
			t.Error(n, err)
		}
		if d := time.Since(began); d != 2*time.Second {
			t.Errorf("%v: want 2s", d)
		}
		same(t, got.Bytes(), append(content(110), content(110)...))
	})
}
