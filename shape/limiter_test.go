package shape_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/shape"
)

var errNone = errors.New("the limiter's own")

// A limiter that lets nothing pass says why.
func TestBurstOfNothing(t *testing.T) {
	for _, burst := range []int{0, -1, math.MinInt} {
		b := newBucket(100, burst)
		src := bytes.NewReader(content(10))
		if n, err := shape.NewReader(t.Context(), src, b).Read(make([]byte, 5)); n != 0 || err != errBurst || src.Len() != 10 {
			t.Errorf("burst %d: read %d, %v: want nothing, and the limiter's error", burst, n, err)
		}
		var got bytes.Buffer
		if n, err := shape.NewWriter(t.Context(), &got, b).Write(content(5)); n != 0 || err != errBurst || got.Len() != 0 {
			t.Errorf("burst %d: wrote %d, %v: want nothing, and the limiter's error", burst, n, err)
		}
	}
}

// A burst of nothing may mean that there is no limit, as rate.Inf has it.
func TestBurstOfNothingAndNoLimit(t *testing.T) {
	inf := limiter{func() int { return 0 }, func(context.Context, int) error { return nil }}
	log := newLog()
	if _, err := shape.NewWriter(t.Context(), log, inf).Write(content(1e6)); err != nil {
		t.Error(err)
	}
	if _, err := log.reading(shape.NewReader(t.Context(), endless{}, inf)).Read(make([]byte, 1e6)); err != nil {
		t.Error(err)
	}
	if len(log.n) != 2 || log.n[0] != 1e6 || log.n[1] != 1e6 {
		t.Errorf("%v: want all at once", log.n)
	}
}

// The burst may change at any time.
func TestSetBurst(t *testing.T) {
	for _, tt := range []struct {
		rule   string
		first  int
		then   int // at 250 ms
		want   string
		failed error
	}{
		{"more", 10, 20, "10@0s 3×10@100ms 2×20@200ms", nil},
		{"less, and the wait in progress goes on", 20, 5, "20@0s 2×20@200ms 4×5@50ms", nil},
		{"none, and the limiter says so", 10, 0, "10@0s 3×10@100ms", errBurst},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			for name, run := range map[string]func(context.Context, *log, shape.Limiter) error{
				"reader": func(ctx context.Context, log *log, lim shape.Limiter) error {
					_, err := io.Copy(io.Discard, log.reading(shape.NewReader(ctx, bytes.NewReader(content(80)), lim)))
					return err
				},
				"writer": func(ctx context.Context, log *log, lim shape.Limiter) error {
					_, err := shape.NewWriter(ctx, log, lim).Write(content(80))
					return err
				},
			} {
				t.Run(name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						b := newBucket(100, tt.first)
						time.AfterFunc(250*time.Millisecond, func() { b.SetBurst(tt.then) })
						log := newLog()
						if err := run(t.Context(), log, mute{b}); err != tt.failed {
							t.Errorf("%v: want %v", err, tt.failed)
						}
						if log.String() != tt.want {
							t.Errorf("%v: want %v", log, tt.want)
						}
					})
				})
			}
		})
	}
}

// The interleaving of SetBurst with WaitN: the burst shrinks after it was
// asked for.
func TestBurstShrinksMeanwhile(t *testing.T) {
	for _, tt := range []struct {
		to   int
		want string
		err  error
	}{
		{3, "10@70ms 3×3@30ms 1@10ms", nil}, // ten, paid for in four parts
		{0, "", errBurst},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBucket(100, 10)
			sly := limiter{b.Burst, func(ctx context.Context, n int) error {
				b.SetBurst(tt.to)
				return b.WaitN(ctx, n)
			}}
			log := newLog()
			if _, err := shape.NewWriter(t.Context(), log, sly).Write(content(20)); err != tt.err {
				t.Errorf("%v: want %v", err, tt.err)
			}
			if log.String() != tt.want {
				t.Errorf("%v: want %v", log, tt.want)
			}
		})
	}
}

// The other way round, too.
func TestBurstGrowsMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(100, 0)
		sly := limiter{b.Burst, func(ctx context.Context, n int) error {
			b.SetBurst(10)
			return b.WaitN(ctx, n)
		}}
		if n, err := shape.NewReader(t.Context(), endless{}, sly).Read(make([]byte, 100)); n != 10 || err != nil {
			t.Errorf("%d, %v: want a burst", n, err)
		}
	})
}

// A limiter that makes no sense brings Read and Write to an end all the same.
func TestLimiterOfNonsense(t *testing.T) {
	calls := 0
	for name, lim := range map[string]shape.Limiter{
		"a burst that comes and goes": limiter{func() int { calls++; return 1 + calls%2*9 }, func(context.Context, int) error { return errNone }},
		"a burst without end":         limiter{func() int { return math.MaxInt }, func(context.Context, int) error { return errNone }},
	} {
		t.Run(name, func(t *testing.T) {
			r := shape.NewReader(t.Context(), endless{}, lim)
			n, err := r.Read(make([]byte, 100))
			if n == 0 || err != nil {
				t.Errorf("%d, %v: want what was read", n, err)
			}
			if n, err = r.Read(make([]byte, 100)); n != 0 || err != errNone {
				t.Errorf("%d, %v: want the limiter's error", n, err)
			}
			if n, err := shape.NewWriter(t.Context(), newLog(), lim).Write(make([]byte, 100)); n != 0 || err != errNone {
				t.Errorf("%d, %v: want the limiter's error", n, err)
			}
		})
	}
}

// odd tells of tokens as no bucket has them.
type odd struct {
	limiter
	tokens float64
}

func (o odd) TokensAt(time.Time) float64 { return o.tokens }

func TestOddTokens(t *testing.T) {
	free := limiter{func() int { return 10 }, func(context.Context, int) error { return nil }}
	for _, tt := range []struct {
		tokens float64
		want   int
	}{
		{math.NaN(), 1}, {math.Inf(-1), 1}, {math.Inf(1), 10}, {math.MaxFloat64, 10}, {-math.MaxFloat64, 1},
		{0, 1}, {0.4, 1}, {1.6, 2}, {9.6, 10}, {10, 10}, {11, 10},
	} {
		n, err := shape.NewReader(t.Context(), endless{}, odd{free, tt.tokens}).Read(make([]byte, 100))
		if n != tt.want || err != nil {
			t.Errorf("%v tokens: %d, %v: want %d", tt.tokens, n, err, tt.want)
		}
	}
}

// A limiter that others have drained in advance is asked for a full chunk
// nevertheless: a smaller request would wait as long.
func TestDrainedInAdvance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(1000, 100)
		for range 5 {
			if _, err := b.take(t.Context(), 100); err != nil {
				t.Fatal(err)
			}
		}
		log := newLog()
		if _, err := shape.NewWriter(t.Context(), log, b).Write(content(100)); err != nil {
			t.Error(err)
		}
		if want := "50@450ms 50@50ms"; log.String() != want {
			t.Errorf("%v: want %v", log, want)
		}
	})
}

// Whatever the sizes and the limiter, the bytes are the bytes.
func FuzzContent(f *testing.F) {
	f.Add([]byte("a weir is a low dam"), uint8(3), uint16(100), uint8(7), uint8(2))
	f.Add(content(3000), uint8(255), uint16(1), uint8(1), uint8(0))
	f.Add(content(10), uint8(0), uint16(60000), uint8(0), uint8(1))
	f.Fuzz(func(t *testing.T, sent []byte, buf uint8, rate uint16, burst, kind uint8) {
		synctest.Test(t, func(t *testing.T) {
			b := newBucket(1+int(rate), 1+int(burst))
			var lim shape.Limiter = b
			if kind&1 != 0 {
				lim = mute{b}
			}
			var src io.Reader = bytes.NewReader(sent)
			if kind&2 == 0 {
				src = shape.NewReader(t.Context(), src, lim)
			}
			var got bytes.Buffer
			log := newLog()
			var dst io.Writer = io.MultiWriter(&got, log)
			if kind&4 == 0 {
				dst = shape.NewWriter(t.Context(), dst, lim)
			}
			copyBy(t, dst, src, 1+int(buf))
			same(t, got.Bytes(), sent)
			if kind&6 != 6 {
				log.bounded(t, b)
			}
		})
	})
}
